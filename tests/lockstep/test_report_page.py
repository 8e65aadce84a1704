"""`lockstep run --report`: figures of the page against the run, refusals, what a browser shows."""

import json
import re
from collections.abc import Iterator
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import lockstep
from accel.machine.config import BUFFERS, UNITS, preset
from accel.machine.machine import Machine
from accel.machine.status import ACTIVITIES
from accel.sim.timed import cycle
from lockstep.cli import main
from lockstep.report import write_page
from lockstep.report.series import Grid, _occupancy, activity_series, run_lengths
from tests.support import chromium
from tests.support.chromium import with_chromium
from tests.support.page_scripts import texts_drawn, with_node
from tests.support.report_pages import drawn, on_a_phone

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
TARGET = ("--target", "accel:pynq-1x16x16", "--technology", "45nm")
MACHINE = Machine(preset("pynq-1x16x16"))


def run(*args) -> int:
    return main(["run", *map(str, args)])


def figures_of(page: Path) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>',
                         page.read_text("utf-8"), re.DOTALL)
    return json.loads(text)


def expanded(runs: list[int]) -> np.ndarray:
    return np.repeat(runs[::2], runs[1::2])


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, dict]:
    """A page, and the report of the same run."""
    folder = tmp_path_factory.mktemp("page")
    page, report = folder / "page.html", folder / "r.json"
    assert run(DIGITS, *TARGET, "--report", page, "--json", report) == 0
    return page, json.loads(report.read_text())


@pytest.fixture(scope="module")
def recordings() -> list:
    """The same run twice, like a network that the host splits in two."""
    module = lockstep.compile(DIGITS, "accel:pynq-1x16x16", sim="cycle", timeline=True,
                              values=False)
    module.set_input("image", np.zeros((1, 1, 8, 8), np.float32))
    (run,) = module.run()
    return [(module.accelerated[0].program, run)] * 2


# ---- figures -----------------------------------------------------------------------------------

def test_energy_is_that_of_the_report(made) -> None:
    page, report = made
    _, _, section = page.read_text("utf-8").partition('<section id="energy">')
    rows = [re.findall(r">([^<]+)</t[hd]>", row)
            for row in section.partition("</section>")[0].split("<tr>")[1:]]
    units = rows[0][2:]
    assert "dram" in units and "tab" not in units           # nothing is looked up
    for (name, *cells), used in zip(rows[1:], [*report["layers"], {**report, "name": "all"}],
                                    strict=True):
        joules = [used["energy"]["joules"], *(used["energy"]["units"][unit] for unit in units)]
        assert name.replace("&#x27;", "'") == used["name"]
        assert [float(cell.replace(",", "")) for cell in cells] == pytest.approx(
            [one * 1e6 for one in joules], abs=0.0005)


def test_instructions_are_those_of_the_report(made) -> None:
    page, report = made
    _, _, section = page.read_text("utf-8").partition('<section id="instructions">')
    rows = [[*map(unescape, re.findall(r">([^<]+)</t[hd]>", row))]
            for row in section.partition("</section>")[0].split("<tr>")[2:]]
    told = report["instructions"]
    assert [row[:3] for row in rows] == [
        [one["name"], one["unit"], f"{one['executed']:,}"] for one in told]
    assert all(row[3] == one["reason"] for row, one in zip(rows, told)
               if one["reason"])
    (add,) = (row for row in rows if row[0] == "add_scaled")
    assert add[3].startswith("conv4 + add") and figures_of(page)["instructions"] == told


def test_counters_are_those_of_the_run(made) -> None:
    page, report = made
    figures = figures_of(page)
    (counters,) = report["counters"]
    assert figures["counters"] == counters
    for name in ("cycles", "macs", "seconds", "utilization"):
        assert figures[name] == report[name]


def test_layers_add_up_to_the_counters(made) -> None:
    page, report = made
    figures = figures_of(page)
    assert [(row["name"], row["cycles"]) for row in figures["layers"]] == [
        (row["name"], row["cycles"]) for row in report["layers"]]
    begin = 0
    for row in figures["layers"]:
        assert row["begin"] == begin
        assert all(sum(row["activity"][unit].values()) == row["cycles"] for unit in UNITS)
        begin += row["cycles"]
    assert begin == figures["cycles"]
    assert {unit: {name: sum(row["activity"][unit][name] for row in figures["layers"])
                   for name in ACTIVITIES} for unit in UNITS} == figures["counters"]["activity"]


def test_a_timeline_adds_up_to_the_counters(made) -> None:
    figures = figures_of(made[0])
    bucket = figures["timeline"]["bucket_cycles"]
    assert bucket in (1, 2)
    complete(figures["timeline"]["activity"], Grid(figures["cycles"], bucket),
             figures["counters"]["activity"])


def complete(series: dict, grid: Grid, counters: dict) -> None:
    """Every bucket is full, and the buckets together are what was counted."""
    for unit in UNITS:
        values = {name: expanded(runs) for name, runs in series[unit].items()}
        np.testing.assert_array_equal(sum(values.values()), grid.ends - grid.starts)
        assert {name: int(column.sum()) for name, column in values.items()} == {
            name: cycles for name, cycles in counters[unit].items() if cycles}


@pytest.mark.parametrize("most", [5000, 100, 1])
def test_a_timeline_thinned_out_loses_nothing(recordings, monkeypatch, most: int) -> None:
    monkeypatch.setattr("lockstep.report.series.MAX_BUCKETS", most)
    ((_, first), (_, second)) = recordings
    grid = Grid.of(first.cycles + second.cycles)
    assert most / 2 < grid.starts.size <= most
    counted = {unit: {name: 2 * cycles for name, cycles in row.items()}
               for unit, row in first.counters.activity.items()}
    complete(activity_series(recordings, grid), grid, counted)


def test_bytes_are_those_of_the_report(made) -> None:
    page, report = made
    figures = figures_of(page)
    for row, other in zip(figures["layers"][:-1], report["layers"][:-1], strict=True):
        assert row["bytes"]["load"] + row["bytes"]["store"] == other["dram_bytes"]
    fetched = sum(row["bytes"]["fetch"] for row in figures["layers"])
    assert fetched == report["layers"][-1]["dram_bytes"] == figures["counters"]["bytes"]["fetch"]


def test_buffers_are_filled_within_their_size(made) -> None:
    figures = figures_of(made[0])
    buffers, width = figures["occupancy"]["buffers"], figures["occupancy"]["bucket_cycles"]
    assert tuple(buffers) == BUFFERS
    for name, buffer in buffers.items():
        peak, total = expanded(buffer["peak"]), expanded(buffer["sum"])
        assert buffer["entries"] == MACHINE.config.buffers[name].depth
        used = name != "tab"            # no layer of the network looks anything up
        assert used <= peak.max() <= buffer["entries"] and (total <= peak * width).all()
        assert peak[-1] == 0            # nothing is live when everything is read


def test_buckets_of_changes_against_every_cycle(rng) -> None:
    cycles = np.array([0, 5, 6, 13, 64, 65, 99])
    counts = rng.integers(0, 9, cycles.size)
    every = np.repeat(counts, np.diff(cycles, append=103))
    for width in (1, 4, 16, 128):
        grid = Grid(103, width)
        found = _occupancy(cycles, counts, grid)
        parts = np.split(every, grid.starts[1:])
        assert expanded(found["peak"]).tolist() == [part.max() for part in parts]
        assert expanded(found["sum"]).tolist() == [part.sum() for part in parts]


@pytest.mark.parametrize("values", [[5], [5, 5, 0, 0, 0, 5], [0, 1, 2], [-1, -1]])
def test_run_lengths_expand_again(values: list[int]) -> None:
    runs = run_lengths(np.array(values))
    assert expanded(runs).tolist() == values
    assert all(a != b for a, b in zip(runs[::2], runs[2::2]))


def test_the_head_says_what_ran(tmp_path) -> None:
    page = tmp_path / "page.html"
    assert run(DIGITS, "--target", "accel:tiny-1x4x4", "--report", page, "--latency", 20,
               "--bytes-per-cycle", 1.5, "--row-buffer", "1024,30", "--refresh", "625,8",
               "--stall-seed", 7, "--threads", 1, "--no-values") == 0
    figures, machine = figures_of(page), Machine(preset("tiny-1x4x4"))
    head = figures["head"]
    assert head["Machine"]["machine hash"] == machine.hash
    assert head["Program"]["model"] == str(DIGITS) and head["Program"]["virtual threads"] == "1"
    assert head["Memory"] == {
        "latency": "20 cycles", "outstanding": "64 bursts", "rate": "1.5 bytes a cycle",
        "rows": "1,024 bytes in 8 banks, 30 cycles a miss", "refresh": "8 cycles, every 625",
        "order": "that of reads, that of writes", "stalls": "random, seed 7"}
    assert set(head["Versions"]) == {"lockstep", "simulator", "plotly", "numpy", "python"}
    assert figures["roofs"] == {"macs_per_cycle": 16, "memory_bytes": 1.5,
                                "bus_bytes": machine.config.bus_bytes}
    assert all(value in page.read_text("utf-8") for value in head["Memory"].values())


# ---- the file ----------------------------------------------------------------------------------

def test_the_same_inputs_give_the_same_bytes(made, tmp_path) -> None:
    again = tmp_path / "again.html"
    assert run(DIGITS, *TARGET, "--report", again) == 0
    assert all(one == other for one, other in zip(parts(again), parts(made[0]), strict=True))


def parts(page: Path) -> tuple[dict, list[str]]:
    """The figures, and all else; without the provenance, which has the date."""
    figures = figures_of(page)
    del figures["provenance"]
    text = re.sub(r'<details class="provenance">.*?</details>', "", page.read_text("utf-8"),
                  flags=re.DOTALL)
    return figures, re.split(r'<script type="application/json" id="figures">.*?</script>', text,
                             flags=re.DOTALL)


class Page(HTMLParser):
    """What stands in a page: text, and the attributes of every element."""

    def __init__(self, path: Path):
        super().__init__()
        self.text, self.elements = "", []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data) -> None:
        self.text += data


def test_nothing_is_loaded_from_elsewhere(made) -> None:
    page = Page(made[0])
    assert not [element for element in page.elements
                if {"src", "href", "srcset", "data"} & set(element[1])]
    own = re.sub(r'<script type="application/gzip".*?</script>', "", made[0].read_text("utf-8"))
    assert not re.search(r"https?:|@import|url\(", own)
    assert made[0].stat().st_size < 3 << 20


def test_names_are_shown_as_they_are(made, tmp_path) -> None:
    name = "</script><b title='x'>&amp;{{TABLE}}"
    figures = figures_of(made[0])
    figures["title"] = figures["layers"][0]["name"] = name
    figures["host"] = {name: "<i>"}
    path = tmp_path / "page.html"
    with path.open("wb") as file:
        write_page(file, figures)
    page = Page(path)
    assert figures_of(path) == figures
    assert page.text.count(name) == 5           # title, heading, two tables, host
    assert [attrs for tag, attrs in page.elements if tag in ("b", "i")] == [{"id": "mean-ratio"}]


@with_node
def test_names_in_pictures_are_no_markup(made) -> None:
    figures = figures_of(made[0])
    for number, layer in enumerate(figures["layers"]):
        layer["name"] = f"<i>&amp;{number}"
    texts = texts_drawn(figures, "page.js")
    assert not [text for text in texts if "<i>" in text]
    assert len({*texts} & {f"&lt;i>&amp;amp;{number}" for number in range(9)}) > 5


def test_a_run_that_fails_leaves_no_page(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("accel.sim.timed.cycle.simulate", partial(cycle.simulate, max_cycles=500))
    assert run(DIGITS, *TARGET, "--report", tmp_path / "page.html") == 1
    assert capsys.readouterr().err.startswith("lockstep: watchdog: ")
    assert not list(tmp_path.iterdir())


# ---- refusals, before anything is simulated ----------------------------------------------------

@pytest.fixture
def nothing_runs(monkeypatch) -> None:
    def simulate(*args, **options):
        raise AssertionError("must not be simulated")

    for name in ("timed.cycle", "meaning.functional", "rtl.verilated"):
        monkeypatch.setattr(f"accel.sim.{name}.simulate", simulate)


def refused(capsys, message: str, *args) -> None:
    assert run(*args) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: {message}\n")


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("sim", ["functional", "verilator"])
def test_another_simulator(capsys, tmp_path, sim: str) -> None:
    refused(capsys, f"--report must come with --sim cycle or slice, not {sim}: only these say "
            "what every unit did when", DIGITS, "--sim", sim, "--report",
            tmp_path / "page.html")


@pytest.mark.usefixtures("nothing_runs")
def test_a_run_on_the_host(capsys, tmp_path) -> None:
    refused(capsys, "--report must be left out with --target cpu: the host has no cycles",
            DIGITS, "--target", "cpu", "--report", tmp_path / "page.html")


@pytest.mark.usefixtures("nothing_runs")
def test_a_network_of_which_nothing_is_accelerated(capsys, tmp_path) -> None:
    kind = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=[2, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "g",
                              [kind("x")], [kind("y")])
    model = tmp_path / "m.onnx"
    save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]),
         model)
    refused(capsys, f"--report must be left out for {str(model)!r}: all of it runs on the host, "
            "which has no cycles", model, "--report", tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == [model]


@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_that_is_not_there(capsys, tmp_path) -> None:
    path = tmp_path / "none" / "page.html"
    refused(capsys, f"{str(path)!r} must name a file in a folder that exists",
            DIGITS, "--report", path)


@pytest.mark.usefixtures("nothing_runs")
def test_a_path_that_cannot_be_written(capsys, tmp_path) -> None:
    path = tmp_path / f"{'x' * 300}.html"
    refused(capsys, f"{repr(str(path))[:300]}... cannot be written: File name too long",
            DIGITS, "--report", path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("nothing_runs")
def test_plotly_is_not_there(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly", None)
    refused(capsys, "--report needs plotly, which is not installed: pip install "
            "'lockstep-hw[report]'", DIGITS, "--report", tmp_path / "page.html")


# ---- in a browser ------------------------------------------------------------------------------

browser = pytest.mark.browser


@pytest.fixture(scope="module")
def shown(made, tmp_path_factory) -> Iterator[chromium.Page]:
    with drawn(made[0], tmp_path_factory.mktemp("shown")) as opened:
        yield opened


def attributes(document: str, element: str) -> list[dict[str, str]]:
    """The attributes of every element of a kind, as `element` finds its start."""
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
            for tag in re.findall(rf"<{element}\b[^>]*>", document)]


def plots(document: str) -> dict[str, str]:
    """What each picture holds, by its id."""
    parts = re.split(r'<div id="(\w+)" class="plot', document)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def in_sight(document: str) -> dict[str, dict[str, int]]:
    """The table under the timeline."""
    found: dict[str, dict[str, int]] = {unit: {} for unit in UNITS}
    for cell in attributes(document, "td"):
        if "data-cycles" in cell:
            found[cell["data-unit"]][cell["data-activity"]] = int(cell["data-cycles"])
    return found


def nonzero(table: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {unit: {name: count for name, count in row.items() if count}
            for unit, row in table.items()}


@browser
@with_chromium
def test_the_page_shows_the_figures(made, shown: chromium.Page) -> None:
    figures, document = figures_of(made[0]), shown.document
    assert 'data-state="drawn"' in document
    assert nonzero(in_sight(document)) == nonzero(figures["counters"]["activity"])
    assert f"cycles 0 to {figures['cycles']:,}, a step is" in document
    drawn = plots(document)
    assert list(drawn) == ["timeline", "occupancy", "roofline", "stalls", "traffic"]
    assert all('class="main-svg"' in part for part in drawn.values())
    for unit in UNITS:
        assert f">{unit}</text>" in drawn["timeline"]
    for row in figures["layers"]:
        assert f">{row['name']}</text>" in drawn["stalls"]
        assert f">{row['name']}</text>" in drawn["traffic"]
    for name, buffer in figures["occupancy"]["buffers"].items():
        peak = max(buffer["peak"][::2])
        assert re.search(rf">{name}<.*?peak {peak:,} of {buffer['entries']:,} entries",
                         drawn["occupancy"])
    assert "array, 256 products a cycle" in drawn["roofline"]
    products = [row for row in figures["layers"] if row["macs"]]
    assert len(re.findall(r'<path class="point\b', drawn["roofline"])) == len(products)
    loaded = sum(row["bytes"]["load"] for row in figures["layers"])
    assert f"read by load: {loaded:,} bytes" in document


@browser
@with_chromium
@pytest.mark.parametrize("place", [4, -1])      # between buckets; shorter than any window
def test_a_layer_in_sight_is_that_of_the_report(made, shown: chromium.Page, place: int) -> None:
    layers = figures_of(made[0])["layers"]
    layer, number = layers[place], range(len(layers))[place]
    shown.value(f"byId('zoom-layer').value = '{number}';"
                "byId('zoom-layer').dispatchEvent(new Event('change'));")
    document = shown.document
    assert f"cycles {layer['begin']:,} to {layer['begin'] + layer['cycles']:,}, a" in document
    assert nonzero(in_sight(document)) == nonzero(layer["activity"])


@browser
@with_chromium
def test_nothing_is_wider_than_a_phone(made, shown: chromium.Page) -> None:
    wide, there = on_a_phone(made[0], shown, 340, "(e => [e.scrollWidth, e.clientWidth])"
                             "(document.documentElement)")
    assert wide == there and 320 <= there <= 340


@browser
@with_chromium
def test_a_phone_shows_the_largest_stall(made, shown: chromium.Page) -> None:
    """Without scrolling sideways: the cells end within the page."""
    stalls = {layer["largest_stall"] for layer in figures_of(made[0])["layers"]}
    told = on_a_phone(made[0], shown, 380, "[...document.querySelectorAll('.scroll tbody td')]"
                      ".filter(cell => cell.getBoundingClientRect().right <= 372)"
                      ".map(cell => cell.textContent)")
    assert stalls <= set(told) and len(stalls) > 5


def test_many_reasons_are_counted(made, tmp_path) -> None:
    figures = figures_of(made[0]) | {"host": {f"relu{n}": "why" for n in range(9)},
                                     "host_reasons": ["on the host: relu: 9 layers (why)"]}
    path = tmp_path / "page.html"
    with path.open("wb") as file:
        write_page(file, figures)
    text = Page(path).text
    assert "on the host: relu: 9 layers (why)" in text and "each of the 9" in text
    assert all(name in text for name in figures["host"])
