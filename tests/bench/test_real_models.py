"""Networks from wheels: the machinery on a small one, and one of the wheels' own."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest

from bench.networks import real_models
from bench.networks.real_models import BENCH, Figures, decibels, difference, measure, tables
from bench.inputs.real_networks import BY_NAME, Network, Sample, overlap, same_boxes, same_text
from bench.support.onnx_runtime import Peer, in_float, is_int8, quantized_by_onnx_runtime
from compiler.cpu_gpu_backends.llvm import host
from compiler.quantize import quantize
from lockstep.testing.models import DIGITS

SUMS_BYTES = host().has("avx512vnni") or host().has("avxvnni") or host().has("dotprod")
"""Else ONNX Runtime adds two products of bytes in 16 bits, which saturate."""

DIGITS_FLOAT = DIGITS.with_name("digits-float.onnx")


def images(run) -> Iterator[Sample]:
    rng = np.random.default_rng(5)
    while True:
        yield Sample({"image": rng.random((1, 1, 8, 8), np.float32)})


def digit(outputs) -> int:
    return int(outputs["logits"].argmax())


SMALL = Network("digits", "no_such_package", str(DIGITS_FLOAT), images, digit, judged=3)


@pytest.fixture(scope="module")
def figures() -> Figures:
    pytest.importorskip("onnxruntime")
    return measure(SMALL, "accel:tiny-1x4x4")


@pytest.mark.slow
def test_a_small_network_is_measured(figures: Figures) -> None:
    assert figures.failed == {}
    assert figures.float_is_right and not figures.refused and not figures.fails
    assert figures.decibels and figures.decibels > 20
    assert figures.their_decibels and figures.their_decibels > (20 if SUMS_BYTES else 10)
    assert figures.segments == 1 and figures.accel_percent == 100 and figures.cycles > 0
    assert figures.right["theirs"] == figures.right["ours"] == 1
    assert [len(answers) for answers in figures.answers.values()] == 5 * [3]


def test_tables_fit_eighty_columns(figures: Figures, capsys) -> None:
    longest = Figures("silero_16k_sequence", False, 1.5e-6, 25.25, 31.5, 123, 10 ** 9, 2 * 10 ** 9)
    longest.processor_seconds = dict.fromkeys(real_models.STAGES, 1234.5)
    longest.right = dict.fromkeys(real_models.SIDES, 1.0)
    longest.megabytes = 12345
    as_it_came = replace(longest, is_int8=True, error=None)
    real_models.report([figures, longest, as_it_came], every_answer=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("silero_16k_sequence") and "50.0 %" in line for line in lines)
    assert any(line.startswith("silero_16k_sequence") and "not judged" in line for line in lines)
    assert real_models.counts([figures, longest, as_it_came]) == {
        "real_float": 2, "real_float_judged": 2, "real_int8": 3, "real_refused": 0}
    assert not as_it_came.fails and replace(as_it_came, is_int8=False).fails
    assert len(list(tables([figures]))) == 3


def test_a_stage_that_fails_is_told_and_the_others_go_on(monkeypatch, capsys) -> None:
    pytest.importorskip("onnxruntime")

    def refuse(*given, **options):
        raise ValueError("no such operator")

    monkeypatch.setattr(real_models, "quantize", refuse)
    found = measure(SMALL, "accel:tiny-1x4x4")
    assert found.failed == {"quantize": "ValueError: no such operator"}
    assert found.fails and found.refused and found.float_is_right and found.their_decibels
    real_models.report([found], every_answer=False)
    assert capsys.readouterr().out.endswith("digits: quantize: ValueError: no such operator\n")
    assert [*real_models.counts([found]).values()] == [1, 1, 0, 1]


def test_noise_and_differences() -> None:
    real = [{"a": np.array([3.0, 4.0]), "b": np.array([1.0])}]
    assert difference(real, real) == 0 and decibels(real, real) is None
    noisy = [{"a": np.array([3.0, 4.5]), "b": np.array([1.0])}]
    assert difference(noisy, real) == 0.125
    assert decibels(noisy, real) == pytest.approx(20)
    wide = {"a": np.array([8.0, 8.0]), "b": np.array([1.0])}
    assert difference([*noisy, wide], [*real, wide]) == 0.5 / 8
    assert difference([{**real[0], "a": np.array([np.nan, 4.0])}], real) == np.inf
    assert difference([{**real[0], "b": np.array([[1.0]])}], real) == np.inf


def test_answers_are_compared() -> None:
    assert same_text("Hallo", "Hello") == pytest.approx(0.8) and same_text("", "ab") == 0
    assert overlap((0, 0, 2, 2), (1, 0, 3, 2)) == pytest.approx(1 / 3)
    boxes = np.array([[0, 0, 2, 2], [5, 5, 6, 6]], float)
    assert same_boxes((boxes, ["x", "y"]), (boxes, ["x", "y"])) == 1
    assert same_boxes((boxes[:1], ["x"]), (boxes, ["x", "y"])) == pytest.approx(2 / 3)
    assert same_boxes((boxes, ["y", "x"]), (boxes, ["x", "y"])) == 0


def test_an_unknown_name_is_refused(capsys) -> None:
    assert BENCH.main(["--only", "vgg"]) == 2
    said = capsys.readouterr().err
    assert "--only must be of " in said and all(name in said for name in BY_NAME)


def test_missing_packages_are_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr(real_models, "BY_NAME", dict.fromkeys(BY_NAME, SMALL))
    assert BENCH.main([]) == 2
    assert ("Package no_such_package must be installed: pip install -e '.[real]' "
            "-c constraints.txt") in capsys.readouterr().err


@pytest.mark.parametrize("name", ["silero_half", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("magika", "silero_vad", "ppocr_cls"))])
def test_a_network_of_the_wheels(name: str, tmp_path, capsys) -> None:
    """Equal in float, and it runs in int8, as ONNX Runtime's does; the others take minutes."""
    network = BY_NAME[name]
    if network.path is None:
        pytest.skip(f"needs {network.package}, of the extra `real`")
    file = tmp_path / "r.json"
    assert BENCH.main(["--only", name, "--json", str(file)]) == 0, capsys.readouterr().out
    (found,) = json.loads(file.read_text())["rows"]
    assert found["segments"] > 0 and found["decibels"] > 10
    assert found["failed"] == {} and found["their_decibels"]


def test_an_int8_file_stands_for_a_float_network() -> None:
    """Without its integers it computes what it was made from, but for the rounding of weights."""
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    real = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[1, 8] x) => (float[1, 4] y) {
            h = MatMul(x, a)
            t = Tanh(h)
            y = MatMul(t, b)
        }""")
    for name, shape in (("a", (8, 16)), ("b", (16, 4))):
        real.graph.initializer.append(onnx.numpy_helper.from_array(
            rng.standard_normal(shape, np.float32), name))
    int8 = quantize(real, rng.standard_normal((8, 8), np.float32)).model
    again = in_float(int8)
    assert is_int8(int8) and not is_int8(again) and not is_int8(real)
    given = {"x": rng.standard_normal((1, 8), np.float32)}
    assert difference([Peer(again)(given)], [Peer(real)(given)]) < 0.02


@pytest.mark.parametrize(("opset", "bias"), ((11, (4,)), (17, (1, 4))))
def test_the_peer_quantizes_old_opsets_and_biases_of_two_dimensions(
        opset: int, bias: tuple[int, ...], caplog) -> None:
    """Either makes an invalid model, or none, where ONNX Runtime's quantizer is left alone.

    It warns in the name of the root logger: that is hidden, and the logger stays as it was.
    """
    pytest.importorskip("onnxruntime")
    caplog.set_level("INFO")
    rng = np.random.default_rng(7)
    real = onnx.parser.parse_model(f"""
        <ir_version: 7, opset_import: ["" : {opset}]>
        net (float[2, 8] x) => (float[2, 4] y) {{
            h = MatMul(x, a)
            y = Add(h, b)
        }}""")
    for name, shape in (("a", (8, 4)), ("b", bias)):
        real.graph.initializer.append(onnx.numpy_helper.from_array(
            rng.standard_normal(shape, np.float32), name))
    samples = [{"x": rng.standard_normal((2, 8), np.float32)} for _ in range(8)]
    int8 = quantized_by_onnx_runtime(real, samples)
    assert logging.getLogger().level == logging.INFO
    assert not [record for record in caplog.records if record.name == "root"]
    scales = [one for one in int8.graph.initializer if list(one.dims) == [4]]
    assert is_int8(int8) and len(scales) > 1        # of channels
    noisy, wanted = ([peer(one) for one in samples] for peer in (Peer(int8), Peer(real)))
    ratio = decibels(noisy, wanted)
    assert ratio and ratio > (30 if SUMS_BYTES else 5)
