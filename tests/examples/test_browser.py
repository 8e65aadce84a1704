"""The page on which digits are drawn, in Chromium, with mouse and finger; and its pixels."""

import json
import math
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from examples.browser.build import HERE, build, server
from examples.digits.data import held_out
from runtime import compile
from runtime.exporting.export import export
from tests.support.chromium import Page, page_of, with_chromium

NODE = shutil.which("node")
with_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
with_linker = pytest.mark.skipif(shutil.which("wasm-ld") is None,
                                 reason="wasm-ld is not installed (Debian: apt install lld)")

Stroke = list[tuple[float, float]]


def arc(x: float, y: float, width: float, height: float, begin: float, end: float) -> Stroke:
    turns = np.linspace(begin * math.pi, end * math.pi, 24)
    return [(x + width * math.cos(turn), y + height * math.sin(turn)) for turn in turns]


DIGITS: dict[int, list[Stroke]] = {         # on paper of 100 x 100
    0: [arc(50, 50, 28, 42, -0.5, 1.5)],
    1: [[(38, 25), (55, 8), (55, 92)]],
    2: [[*arc(50, 30, 24, 22, -1, 0.25), (26, 92), (78, 92)]],
    3: [[*arc(48, 28, 24, 20, -0.9, 0.5), *arc(48, 70, 28, 22, -0.5, 0.85)]],
    4: [[(60, 8), (22, 62), (82, 62)], [(62, 35), (62, 95)]],
    5: [[(76, 10), (34, 10), (32, 44), *arc(48, 66, 26, 25, -0.7, 0.8)]],
    6: [[*arc(62, 55, 34, 48, -0.62, -1), *arc(50, 70, 22, 22, -1, 1)]],
    7: [[(22, 12), (78, 12), (44, 92)]],
    8: [[*arc(50, 29, 20, 20, 0.5, 2.5), *arc(50, 72, 25, 22, -0.5, 1.5)]],
    9: [[*arc(50, 32, 22, 22, 0, -2), (72, 32), (66, 94)]]}


def pixels_of(drawings: list[list[Stroke]]) -> np.ndarray:
    """What `pixels.js` makes of drawings, as images of the network."""
    script = (f"import {{ pixels }} from {json.dumps((HERE / 'pixels.js').as_uri())};"
              f"console.log(JSON.stringify({json.dumps(drawings)}.map(one => [...pixels(one)])));")
    assert NODE is not None
    said = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True,
                          text=True, check=True).stdout
    return np.array(json.loads(said), np.float32).reshape(-1, 1, 1, 8, 8)


@with_node
def test_pixels_are_like_those_of_the_data() -> None:
    """As dark, in the middle, and from the first row to the last, as images of the data are."""
    drawn, known = pixels_of(list(DIGITS.values()))[:, 0, 0], held_out()[0][:, 0]
    assert 0 <= drawn.min() and drawn.max() <= 1
    assert abs(drawn.mean() - known.mean()) < 0.06
    assert (drawn[:, 0].max(1) > 0).all() and (drawn[:, -1].max(1) > 0).all()


@with_node
def test_where_and_how_large_a_digit_is_drawn_does_not_matter() -> None:
    strokes = DIGITS[5]
    moved = [[(300 + 2 * x, 2 * y - 40) for x, y in stroke] for stroke in strokes]
    one, other = pixels_of([strokes, moved])
    assert np.abs(one - other).max() <= 1 / 16
    dot, line = pixels_of([[[(5, 5)]], [[(0, 5), (9, 5)]]])[:, 0, 0]
    assert dot[:3].sum() == 0 and dot[3:5, 3:5].sum() > 0.5 and line[3:5].min() > 0


@with_node
def test_drawn_digits_are_recognized() -> None:
    module = compile(HERE.parent / "digits" / "digits-int8.onnx", "cpu")
    images = pixels_of(list(DIGITS.values()))
    answers = [int(module({"image": image})["logits"].argmax()) for image in images]
    assert answers == list(DIGITS)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("page")
    files = build(folder / "site")
    served = [file for file in files if file.suffix in (".wasm", ".js", ".html")]
    assert sum(file.stat().st_size for file in served) <= 150_000
    with server(folder / "site") as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        try:
            with page_of(f"http://127.0.0.1:{serving.server_port}/", folder, (420, 900)) as opened:
                opened.wait_for("document.body.dataset.ready")
                yield opened
        finally:
            serving.shutdown()


@pytest.mark.browser
@with_chromium
@with_linker
@pytest.mark.parametrize(("digit", "finger"), [(3, False), (4, True), (8, False)])
def test_a_drawn_digit_is_answered(page: Page, digit: int, finger: bool) -> None:
    page.value("document.getElementById('clear').click()")
    assert page.value("document.getElementById('answer').textContent") == ""
    left, top, width = page.value(
        "(box => [box.left, box.top, box.width])(document.getElementById('paper')"
        ".getBoundingClientRect())")
    for stroke in DIGITS[digit]:
        page.draw([(left + width * x / 100, top + width * y / 100) for x, y in stroke], finger)
    assert page.value("document.getElementById('answer').textContent") == str(digit)


@pytest.mark.browser
@with_chromium
@with_linker
def test_the_page_fits_a_phone(page: Page) -> None:
    assert page.value("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
@with_chromium
@with_linker
def test_wrong_inputs_are_refused_in_the_page(page: Page) -> None:
    said = page.value("import('./digits.js').then(({ load }) => load()).then(network => network"
                      ".run({ image: new Float32Array(63) })).catch(error => error.message)")
    assert said == "Input image must be a Float32Array of 64 elements"


@with_node
@with_linker
def test_weights_that_are_apart_are_taken_and_no_others(tmp_path: Path) -> None:
    module = compile(HERE.parent / "digits" / "digits-int8.onnx", "cpu")
    export(module, tmp_path, "digits", machine="wasm32", apart=True)
    assert NODE is not None
    run = [NODE, str(tmp_path / "digits_test.mjs")]
    done = subprocess.run(run, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "logits: 0 of 10 elements differ\n")
    data = (tmp_path / "digits.bin").read_bytes()
    (tmp_path / "digits.bin").write_bytes(b"\0" + data[1:])
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 1 and "the weights are those of another network" in done.stderr


@with_node
@with_linker
def test_the_exported_module_passes_its_own_test_in_node(tmp_path: Path) -> None:
    build(tmp_path)
    assert NODE is not None
    done = subprocess.run([NODE, str(tmp_path / "digits_test.mjs")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "logits: 0 of 10 elements differ\n")
    text = (tmp_path / "digits_test.mjs").read_text()
    (tmp_path / "digits_test.mjs").write_text(text.replace('"logits": "', '"logits": "0000c842', 1))
    done = subprocess.run([NODE, str(tmp_path / "digits_test.mjs")], capture_output=True, text=True)
    assert done.returncode == 1
