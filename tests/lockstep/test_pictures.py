"""Pictures for papers: SVG and PDF, the same bytes for the same figures, names literally."""

from argparse import Namespace
from xml.etree import ElementTree

import pytest

from accel.machine.config import UNITS
from accel.machine.status import ACTIVITIES
from lockstep.cli import main
from lockstep.options.paths import PictureFolder
from lockstep.report.pictures import put_pictures
from lockstep.report.pictures.explored import exploration_pictures, front_of
from lockstep.report.pictures.files import drawn
from lockstep.report.pictures.others import comparison_pictures, quantization_pictures
from lockstep.report.pictures.run import _steps, run_pictures
from tests.support.extras import needs

pytestmark = needs("matplotlib", "the extra pictures")

NAME = "$a_{b}$ <i>&amp; %s {x}"
PROVENANCE = {"command": ["run", NAME]}


def run() -> dict:
    table = dict.fromkeys(ACTIVITIES, 0) | {"busy": 6, "memory": 4}
    layer = {"name": NAME, "cycles": 10, "ideal_cycles": 5, "macs": 40, "carrier": "gemm",
             "bytes": {"load": 8, "store": 4, "fetch": 0},
             "activity": dict.fromkeys(UNITS, table)}
    other = layer | {"macs": 0, "carrier": "", "ideal_cycles": 0}
    series = dict.fromkeys(UNITS, {"busy": [4, 3, 0, 2], "memory": [0, 3, 4, 2]})
    buffer = {"entries": 8, "peak": [3, 5], "sum": [8, 4, 2, 1]}
    return {"cycles": 20, "units": UNITS, "activities": ACTIVITIES, "layers": [layer, other],
            "roofs": {"macs_per_cycle": 16, "bus_bytes": 4, "memory_bytes": 1.5},
            "timeline": {"bucket_cycles": 4, "activity": series},
            "occupancy": {"bucket_cycles": 4, "buffers": {"inp": buffer, "acc": buffer}}}


def explored() -> dict:
    points = [{"label": NAME, "front": True, "values": {"ms": [a, a, a, False],
                                                        "luts/ms": [b, b / 2, b * 2, True]}}
              for a, b in ((1.0, 8.0), (2.0, 4.0), (2.0, 6.0))]
    return {"points": points, "front": [0, 1], "objectives": [
        {"name": name, "title": name, "greatest": False, "asked": True}
        for name in ("ms", "luts/ms")],
        "sensitivity": [{"axis": NAME, "options": [{"option": "8", "point": 1},
                                                   {"option": "9", "reason": "none"}]}]}


def quantized() -> dict:
    layer = {"name": NAME, "alone_db": 30.0, "accumulated_db": 20.0, "effect_db": None,
             "quantized": True}
    return {"layers": [layer, layer | {"alone_db": None, "quantized": False}]}


def compared() -> dict:
    return {"machines": [{"name": NAME}, {"name": "b"}],
            "networks": {NAME: [{"cycles": 5}, {"cycles": 7}]}}


DRAWINGS = {
    "run": (lambda: run_pictures(run()), ("timeline", "buffers", "roofline", "stalls", "traffic")),
    "explored": (lambda: exploration_pictures(explored()), ("front-ms-luts-per-ms", "alone-ms",
                                                            "alone-luts-per-ms")),
    "quantized": (lambda: quantization_pictures(quantized()), ("noise",)),
    "compared": (lambda: comparison_pictures(compared(), [(NAME, 2, 3), ("none", 0, 3)]),
                 ("hardware", "cycles")),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("which", DRAWINGS)
def test_every_picture_is_a_file(tmp_path, which: str) -> None:
    make, names = DRAWINGS[which]
    folder = PictureFolder(tmp_path / "made")
    put_pictures(Namespace(svg=folder, pdf=None), make(), PROVENANCE)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.svg" for name in names)
    for path in folder.iterdir():
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.slow
def test_equal_figures_give_equal_files() -> None:
    drawing, = quantization_pictures(quantized()).values()
    for kind, begin in (("svg", b"<?xml"), ("pdf", b"%PDF")):
        data = drawn(drawing, kind, PROVENANCE)
        assert data == drawn(drawing, kind, PROVENANCE)
        assert data.startswith(begin) and b"/Type3" not in data


def test_steps_of_a_long_run_are_whole() -> None:
    edges, lengths, starts = _steps(10_001, 2)
    assert edges[0] == 0 and edges[-1] == 10_001 and lengths.sum() == 10_001
    assert len(starts) <= 400 and (edges[:-1] == 2 * starts).all()


def test_the_front_is_that_of_the_objectives_in_the_picture() -> None:
    answer = explored()
    assert front_of(answer["points"], *answer["objectives"]) == answer["points"][:2]
    assert front_of(answer["points"], answer["objectives"][0]) == answer["points"][:1]
    greatest = [one | {"greatest": True} for one in answer["objectives"][:1]]
    assert front_of(answer["points"], *greatest) == answer["points"][1:2]


def test_a_file_is_no_folder(tmp_path, capsys) -> None:
    path = tmp_path / "x.svg"
    path.write_text("")
    for wrong in (path, tmp_path / "a" / "b"):
        assert main(["run", "digits", "--svg", str(wrong)]) == 2
        assert f"error: {str(wrong)!r} must name a folder, in a folder that exists\n" in (
            capsys.readouterr().err)


def test_pictures_need_the_cycle_simulator(tmp_path, capsys) -> None:
    assert main(["run", "digits", "--sim", "functional", "--pdf", str(tmp_path)]) == 2
    assert "error: --pdf must come with --sim cycle or slice, not functional: " in (
        capsys.readouterr().err)
