"""``lockstep explore``: tables, pages, refusals, on a tiny machine."""

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from accel.estimates.technology import load_technology
from compiler.tune.records import Records
from lockstep.cli import main
from lockstep.report.exploring import write_exploration_page
from runtime.exploring.answers import answer_of
from runtime.exploring.cores import BuiltCore
from runtime.exploring.point_trials import PointTrial, file_digest, run_point
from tests.support.exploring import MadeUp, exploration, point_of, space
from tests.lockstep.test_report_page import browser, figures_of
from tests.support import chromium
from tests.support.chromium import with_chromium
from tests.support.page_scripts import texts_drawn, with_node
from tests.support.report_pages import drawn, on_a_phone

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def explore(folder: Path, *options: str, networks: tuple[str, ...] = (str(DIGITS),)) -> int:
    return main(["explore", *networks, "--base", "tiny-1x4x4", "--db", str(folder / "r.sqlite"),
                 "--processes", "0", *options])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What a small exploration wrote."""
    path = tmp_path_factory.mktemp("explored")
    assert explore(path, "--vary", "block_out=4,8", "--vary", "wgt=same,5", "--json",
                   str(path / "a.json"), "--report", str(path / "a.html")) == 0
    return path


def named(value: Any, name: str) -> Any:
    """The same with this name in place of "block_out", also in keys and in longer texts."""
    if isinstance(value, str):
        return value.replace("block_out", name)
    if isinstance(value, dict):
        return {named(key, name): named(entry, name) for key, entry in value.items()}
    return [named(entry, name) for entry in value] if isinstance(value, list) else value


def elements_of(page: bytes) -> list[str]:
    found: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append(tag)     # type: ignore[assignment]
    parser.feed(page.decode())
    return found


def test_names_in_a_page_are_no_markup(folder: Path) -> None:
    answer, pages = json.loads((folder / "a.json").read_text()), []
    for name in ("a name", "</script><script>alert(1)</script><!--\"'><img src=x>{{TABLE}}"):
        every = named(answer, name) | {"networks": [name], "base": name}
        pages.append(io.BytesIO())
        write_exploration_page(pages[-1], every)
    plain, hostile = (elements_of(page.getvalue()) for page in pages)
    assert plain == hostile and len(plain) > 50


@with_node
def test_names_in_pictures_are_no_markup(folder: Path) -> None:
    answer = named(json.loads((folder / "a.json").read_text()), "<i>&amp;")
    texts = texts_drawn(answer, "exploring.js")
    assert not [text for text in texts if "<i>" in text]
    assert "&lt;i>&amp;amp; 8" in texts


# ---- the command ------------------------------------------------------------------------------

def test_points_are_those_that_lockstep_run_measures(folder: Path, tmp_path: Path) -> None:
    answer = json.loads((folder / "a.json").read_text())
    base, wide = answer["points"]
    assert main(["run", str(DIGITS), "--target", "accel:tiny-1x4x4", "--no-values", "--json",
                 str(tmp_path / "r.json")]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    figures = base["networks"]["digits-int8.onnx"]
    assert (figures["cycles"], figures["macs"]) == (report["cycles"], report["macs"])
    assert [(row["name"], row["cycles"], row["dram_bytes"]) for row in figures["layers"]] == [
        (row["name"], row["cycles"], row["dram_bytes"]) for row in report["layers"]]
    assert wide["changes"] == {"block_out": [4, 8]}
    assert wide["values"]["ms"][0] < base["values"]["ms"][0]
    assert [one["name"] for one in answer["objectives"] if one["asked"]] == ["ms", "area", "energy"]


def test_values_of_the_front_are_those_of_the_host(folder: Path) -> None:
    answer = json.loads((folder / "a.json").read_text())
    front = [answer["points"][number] for number in answer["front"]]
    assert front and all(point["checked"] == "" for point in front)
    assert {one["reason"] for one in answer["refused"]} == {
        f"wgt_bytes must be at least 4 entries of {size} bytes (of which half are in use while "
        f"half are filled), not 5" for size in (16, 32)}


@pytest.mark.slow
def test_a_shared_scratchpad_and_a_dataflow_are_varied(tmp_path: Path, capsys) -> None:
    """Area with its error, cycles and bytes of DRAM of each machine."""
    file = tmp_path / "a.json"
    assert explore(tmp_path, "--vary", "shared_bytes=0,4k", "--vary",
                   "dataflow=adder_tree,weight_stationary", "--objective", "cycles,area,dram",
                   "--json", str(file), "--report", str(tmp_path / "a.html")) == 0
    assert re.search(r"\*? *shared_bytes 4096 +[\d,]+ \(-\d%\) +0\.\d+ ±\d%",
                     capsys.readouterr().out)
    points = {(*point["changes"],): point["values"]
              for point in json.loads(file.read_text())["points"]}
    assert len(points) == 4
    base, kept = points[()], points["shared_bytes",]
    assert kept["dram"][0] < 0.8 * base["dram"][0] and kept["cycles"][0] < base["cycles"][0]
    assert kept["area"][0] > base["area"][0] and kept["area"][1] < kept["area"][0] < kept["area"][2]
    assert points["dataflow",]["dram"] == base["dram"]


def test_the_same_again_measures_nothing(folder: Path, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("lockstep.searching.explore.run_point", lambda trial: 1 / 0)
    again = tmp_path / "b.json"
    assert explore(folder, "--vary", "block_out=4,8", "--vary", "wgt=same,5", "--json", str(again)
                   ) == 0
    answers = [json.loads(file.read_text()) for file in (again, folder / "a.json")]
    made = [answer.pop("provenance") for answer in answers]
    assert answers[0] == answers[1] and made[0]["files"] == made[1]["files"] != {}
    assert made[0]["machines"] == made[1]["machines"] and "tiny-1x4x4" in made[0]["machines"]
    out = capsys.readouterr().out
    assert "2 machines like tiny-1x4x4, front of ms, area, energy first" in out
    assert re.search(r"machine +ms +area, mm2 +energy, uJ +on the host +bound by", out)
    assert ("technology 45nm: ms at the nominal clock, 100 MHz: 45nm has no estimate of clocks"
            in out)
    assert re.search(r"^\*? *block_out 8 .*gemm \d+%", out, re.MULTILINE)
    assert "machines on the front are those of the host, all programs are proved" in out
    assert "such as: wgt_bytes must be at least 4 entries of 16 bytes" in out


@pytest.mark.parametrize(("options", "message"), [
    ((), "Something must be varied: --vary FIELD=A,B, --space FILE or --add FILE.py"),
    (("--vary", "block_out=8", "--objective", "speed"), "Objective must be one of cycles, "),
    (("--vary", "block_out=8", "--budget", "luts<=9"), "Objective luts must come with a "),
    (("--vary", "block_out=8", "--objective", "energy", "--technology", "ecp5"),
     "Objective energy must come with a technology that has energies, such as 45nm or 7nm, not "),
    (("--vary", "block_out=8", "--technology", "3nm"), "Technology must be one of 45nm, 7nm, ecp5"),
    (("--vary", "block_out=8", "--synthesize"),
     "--synthesize must come with --technology ecp5, in whose cells cores are built, not '45nm'"),
    (("--vary", "block_out=8", "--budget", "luts"), "A budget must be OBJECTIVE<=NUMBER"),
    (("--vary", "block_out=8", "--vary", "block_out=4"), "block_out must be varied once"),
    (("--vary", "block_out=8", "--tls", "a,b,c"), "--tls must come with --pool tls://HOST:PORT"),
    (("--add", "tiny-1x4x4"), "--add must name a machine with instructions of its own")])
def test_refusals(tmp_path: Path, capsys, options, message: str) -> None:
    assert explore(tmp_path, *options) == 2
    assert capsys.readouterr().err.startswith(f"lockstep: error: {message}")


def test_a_machine_that_computes_other_values_is_told(tmp_path: Path, capsys, monkeypatch) -> None:
    from runtime.exploring import point_trials

    class Wrong:
        def __call__(self, inputs):
            return {"logits": 7.0}

    monkeypatch.setattr(point_trials, "_reference", lambda *request: Wrong())
    assert explore(tmp_path, "--vary", "queue_depth=same") == 1
    assert re.search(r"wrong: base: digits-int8.onnx: 10 of 1 elements of logits differ",
                     capsys.readouterr().out)


def test_another_machine_or_network_is_no_result() -> None:
    point = point_of(space("block_out=8"), {"block_out": "8"})
    trial = PointTrial(str(DIGITS), "0" * 64, point.toml, ("",), point.machine.hash)
    assert run_point(PointTrial.of(trial.text)).error.endswith("is another one now")
    other = PointTrial(str(DIGITS), file_digest(DIGITS), point.toml, ("",), "f" * 64)
    assert run_point(other).error.startswith("The machine is another one here: its hash is ")


@pytest.mark.slow
def test_processes_and_a_pool_find_the_same(folder: Path, tmp_path: Path) -> None:
    from runtime.tuning.children import Children
    from runtime.tuning.pool import WorkerPool

    point = point_of(space("block_out=8"), {"block_out": "8"})
    trials = [PointTrial(str(DIGITS), file_digest(DIGITS), point.toml, ("",), point.machine.hash,
                         values) for values in (False, True)]
    expected = {trial.id: run_point(trial) for trial in trials}
    with Children(2, 300) as children:
        assert {trial.id: result for trial, result in children.results(iter(trials))} == expected
    with WorkerPool(measurers=1, builders=0, limit_seconds=300) as pool:
        assert {trial.id: result for trial, result in pool.results(trials)} == expected


# ---- the page ---------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def shown(page: Path, tmp_path_factory) -> Iterator[chromium.Page]:
    with drawn(page, tmp_path_factory.mktemp("shown")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A page of many machines, whose time a formula gives."""
    path = tmp_path_factory.mktemp("page") / "p.html"
    with Records(path.with_name("r.sqlite")) as records:
        found = exploration(records, "block_out=4,8,16", "block_in=4,8,16",
                            objectives="ms,luts,bytes",
                            technology=load_technology("ecp5"))
        found.run(MadeUp(lambda config: config.block_out == config.block_in == 16))
        for identity in found.front():
            core = BuiltCore({"luts": 20_000}, ("yosys 1",))
            found.built[found.measured[identity][0].machine.hash] = core
        with path.open("wb") as file:
            write_exploration_page(file, answer_of(found))
    return path


@pytest.mark.slow
def test_the_page_holds_the_answer_and_loads_nothing(page: Path) -> None:
    answer = figures_of(page)
    text = page.read_text("utf-8")
    assert len(answer["points"]) == 8 and len(answer["failed"]) == 1
    assert all(point["label"] in text for point in answer["points"])
    own = re.sub(r'<script type="application/gzip".*?</script>', "", text)
    assert not re.search(r"https?:|@import|url\(", own) and page.stat().st_size < 3 << 20


def test_names_are_shown_as_they_are(page: Path) -> None:
    answer: dict = figures_of(page) | {"base": "</script><b>&amp;{{TABLE}}"}
    answer["points"][0]["label"] = "<i>{{TABLE}}"
    file = io.BytesIO()
    write_exploration_page(file, answer)
    text = file.getvalue().decode()
    assert "<i>" not in text and text.count("</script>") == 3 and "<b>&" not in text


def front_of(answer: dict, names: list[str]) -> set[int]:
    rows = [[-point["values"][name][0] if name == "mhz" else point["values"][name][0]
             for name in names] for point in answer["points"]]
    return {place for place, row in enumerate(rows) if not any(
        all(a <= b for a, b in zip(other, row)) and (other != row or number < place)
        for number, other in enumerate(rows) if number != place)}


def shown_front(document: str) -> set[int]:
    found, = re.findall(r'id="counted" data-front="([\d ]*)"', document)
    return {int(number) for number in found.split()}


@browser
@with_chromium
def test_the_page_shows_the_front_and_a_machine(page: Path, shown: chromium.Page) -> None:
    answer, document = figures_of(page), shown.document
    assert 'data-state="drawn"' in document
    assert shown_front(document) == front_of(answer, ["ms", "luts"])
    assert "8 of 8 machines, " in document and 'class="main-svg"' in document
    chosen = answer["points"][answer["front"][0]]
    for name, (here, there) in chosen["changes"].items():
        assert re.search(rf"<dt>{name}</dt><dd>{here} → {there}</dd>", document)
    low, high = (f"{round(value):,}" for value in chosen["values"]["luts"][1:3])
    assert f"({low} to {high})" in document
    sign, off = "+" if chosen["built"]["off"]["luts"] >= 0 else "−", abs(
        100 * chosen["built"]["off"]["luts"])
    assert f"; built: 20,000, the estimate is {sign}{off:.1f}% off" in document
    for _, layer, before, after in chosen["changed_bounds"]:
        assert re.search(rf">{layer}</th>.*?>{before}</td>.*?>{after}</td>", document)
    for axis in answer["sensitivity"]:
        for option in axis["options"]:
            assert f'>{axis["axis"]} {option["option"]}</th>' in document


CHANGES = (("y", "mhz", "z", "bytes"), ("y", "luts", "z", ""), ("filter-0", "8"),
           ("filter-0", ""), ("limit", "{most}"))
"""Elements of the page and their new values, step by step."""


@browser
@with_chromium
def test_filters_limits_and_a_third_objective_change_the_front(page: Path, shown: chromium.Page
                                                               ) -> None:
    answer = figures_of(page)
    most = sorted(point["values"]["ms"][0] for point in answer["points"])[3]
    log = []
    for step in CHANGES:
        for element, value in zip(step[::2], step[1::2]):
            shown.value(f"byId('{element}').value = '{value.format(most=most)}';"
                        f"byId('{element}').dispatchEvent(new Event('input'));"
                        f"byId('{element}').dispatchEvent(new Event('change'));")
        log.append(shown.value("[byId('counted').textContent, byId('counted').dataset.front]"))
    counted, fronts = zip(*log, strict=True)
    assert [text.split(",")[0] for text in counted] == [
        f"{number} of 8 machines" for number in (8, 8, 3, 8, 4)]
    assert [set(map(int, text.split())) for text in fronts[:2]] == [
        front_of(answer, names) for names in (["ms", "mhz", "bytes"], ["ms", "luts"])]


@browser
@with_chromium
def test_nothing_is_wider_than_a_phone(page: Path, shown: chromium.Page) -> None:
    wide, there = on_a_phone(page, shown, 340, "(e => [e.scrollWidth, e.clientWidth])"
                             "(document.documentElement)")
    assert wide == there and 320 <= there <= 340




OWN = """
import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler import te

own = lockstep.vector_op("absdiff", lambda a, b: te.abs(a - b))
machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"), (*SHIPPED, own))
"""


def test_an_instruction_that_no_network_executes_has_a_reason(tmp_path: Path, capsys) -> None:
    (tmp_path / "own.py").write_text(OWN)
    assert explore(tmp_path, "--add", str(tmp_path / "own.py"), "--no-check", "--json",
                   str(tmp_path / "a.json"), "--report", str(tmp_path / "a.html")) == 0
    section = (tmp_path / "a.html").read_text().partition('<section id="instructions">')[2]
    cells = re.findall(r">([^<]+)</t[hd]>", section.partition("</section>")[0])
    assert cells[4:7] == ["absdiff", "1", "0"] and cells[7].startswith("no layer computes abs(a - ")
    assert re.search(r" \(\d+ LUTs for nothing, estimated\) \(\+absdiff\)$", cells[7])
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"never executed: absdiff \(\d+ LUTs for nothing, estimated\): no layer "
                     r"computes abs\(a - b\); nearest is add \(qadd\), which computes .* "
                     r"\(machine \+absdiff\)", said)
    base, other = json.loads((tmp_path / "a.json").read_text())["points"]
    (idle,) = other["networks"]["digits-int8.onnx"]["instructions"]
    assert base["networks"]["digits-int8.onnx"]["instructions"] == [] and idle["luts"] > 0
    assert idle["executed"] == 0
    assert idle["name"] == "absdiff" and idle["reason"].startswith("no layer computes abs(a - b); ")
