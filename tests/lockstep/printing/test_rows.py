"""Tables as data: CSV in files, TSV on standard output."""

import csv
import io
from argparse import Namespace
from pathlib import Path

from lockstep.cli import main
from lockstep.printing.rows import diff_rows, flat, point_rows, put_rows

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"


def test_all_columns_and_rows(tmp_path: Path, capsys) -> None:
    path = tmp_path / "r.csv"
    put_rows(Namespace(csv=path, tsv=True), [{"a, b": 1, "c": None}, {"a, b": "x\"y", "d": 0.1}])
    assert path.read_text() == '"a, b",c,d\n1,,\n"x""y",,0.1\n'
    assert capsys.readouterr().out == 'a, b\tc\td\n1\t\t\n"x""y"\t\t0.1\n'


def test_nested_figures_are_columns() -> None:
    assert dict(flat({"name": "conv1", "stalls": {"gemm": {"load": 3}}, "busy": {}})) == {
        "name": "conv1", "stalls.gemm.load": 3}


def test_machines_of_an_exploration() -> None:
    point = {"label": "base", "hash": "ab", "front": True, "effort": 0, "choices": {"wgt": "half"},
             "host_layers": 2, "host_share": 0.5, "other_division": "",
             "values": {"energy": [2.0, 1.0, 3.0, False]}, "bounds": {"gemm": 1.0},
             "networks": {"digits": {"cycles": 7, "accuracy": None, "layers": []}}}
    alone = [{"axis": "acc", "options": [{"option": "8", "point": 1}, {"option": "4", "point": 0}]},
             {"axis": "out", "options": [{"option": "8", "reason": "too large"}]}]
    axes = [{"name": name} for name in ("wgt", "acc", "out", "+absdiff")]
    assert point_rows({"axes": axes, "points": [point], "sensitivity": alone,
                       "objectives": [{"name": "energy", "title": "energy, uJ"}]}) == [{
        "machine": "base", "hash": "ab", "front": True, "effort": 0, "wgt": "half", "acc": "4",
        "out": "base", "+absdiff": "without",
        "energy, uJ": 2.0, "energy, uJ low": 1.0, "energy, uJ high": 3.0,
        "energy, uJ extrapolated": False, "host layers": 2, "host share": 0.5,
        "other division": "", "digits cycles": 7, "digits accuracy": None, "bound by gemm": 1.0}]


def test_two_machines() -> None:
    side = {"cycles": 9, "share": .5, "busy": {"gemm": 4}, "joules": {"gemm": 1e-6},
            "rows": [("conv1", 9, 20, "load")],
            "beside": {"seconds": 0.5, "layers": ["a"]}}
    other = side | {"rows": [("conv2", 8, 21, "gemm")]}
    rows = diff_rows({"networks": {"n": [side, other]}}, [("gemm: stages", 5, 6)])
    cells = [tuple(row.values()) for row in rows]
    assert [*rows[0]] == ["network", "what", "name", "a", "b"]
    assert cells[0] == ("", "hardware", "gemm: stages", 5, 6)
    assert ("n", "layer: bound by", "conv1", "load", None) in cells
    assert ("n", "busy cycles", "gemm", 4, 4) in cells and ("n", "network", "cycles", 9, 9) in cells
    assert [cell for cell in cells if cell[1] == "host"] == [("n", "host", "seconds", 0.5, 0.5)]


def test_layers_of_a_run(tmp_path: Path, capsys) -> None:
    path = tmp_path / "l.csv"
    assert main(["run", str(DIGITS), "--target", "accel:tiny-1x4x4", "--no-values", "--tsv",
                 "--csv", str(path)]) == 0
    out = capsys.readouterr().out
    printed, written = (list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
                        for text, delimiter in ((out, "\t"), (path.read_text(), ",")))
    assert printed == written and [row["name"] for row in printed][:2] == ["conv1", "conv2"]
    assert all(int(row["cycles"]) == int(row["busy.gemm"]) + sum(
        int(value) for name, value in row.items() if name.startswith("stalls.gemm."))
        for row in printed)
