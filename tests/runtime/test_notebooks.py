"""What notebooks and a console show of modules, machines and reports."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np

import lockstep
from compiler import notebook
from runtime import report
from runtime.report import RunReport
from lockstep.testing.models import DIGITS


def test_a_module_says_what_it_takes_and_where_it_runs() -> None:
    module = lockstep.compile(DIGITS, "accel:tiny-1x4x4,cpu", sim="functional")
    text = repr(module)
    assert text.startswith("<Module image: float32[1,1,8,8] -> logits: float32[1,10]; ")
    assert " operators on accel" in text and " operators on host" in text
    page = module._repr_html_()
    ElementTree.fromstring(f"<div>{page}</div>")
    assert "image: float32[1,1,8,8]" in page and "qconv2d" in page


def test_a_machine_says_its_shape_and_what_is_its_own() -> None:
    own = lockstep.vector_op("twice", lambda a: a + a)
    shipped = lockstep.Machine(lockstep.preset("tiny-1x4x4"))
    machine = lockstep.Machine(shipped.config, (*shipped.declarations, own))
    assert repr(shipped) == (f"<Machine tiny-1x4x4 {shipped.hash[:12]}: 1x4x4 products a cycle, "
                             f"{len(shipped.declarations)} instructions>")
    assert repr(machine).endswith(" instructions, twice of its own>")
    page = machine._repr_html_()
    ElementTree.fromstring(f"<div>{page}</div>")
    assert "<td style=\"text-align:left\">twice</td>" in page and "block_out" in page


def row(name: str, cycles: int, **busy: int) -> dict:
    return {"name": name, "op": "conv<", "cycles": cycles, "ideal_cycles": 50, "utilization": 0.5,
            "busy": busy}


REPORT = RunReport({"cycles": 300, "seconds": 3e-6, "utilization": 0.25,
                 "layers": [row("a", 100, load=50, gemm=100), row("b", 200, load=0, gemm=50)]})


def test_a_report_is_a_table_of_its_layers() -> None:
    assert repr(REPORT) == """\
300 cycles, 0.003 ms at the machine's clock, array busy 25.0%
layer  operator  cycles  ideal  array busy
a      conv<        100     50       50.0%
b      conv<        200     50       50.0%"""
    assert json.loads(json.dumps(REPORT)) == dict(REPORT)


def test_a_report_has_a_lane_for_each_unit() -> None:
    page = ElementTree.fromstring(f"<div>{REPORT._repr_html_()}</div>")
    name = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in page.iter(f"{name}text")] == ["load", "gemm"]
    bars = [(bar.get("fill-opacity"), float(bar.get("width") or 0))
            for bar in page.iter(f"{name}rect")]
    assert bars == [("0.50", 233.3), ("0.00", 466.7), ("1.00", 233.3), ("0.25", 466.7)]


def test_a_report_without_cycles_has_no_picture() -> None:
    module = lockstep.compile(DIGITS, "cpu")
    module.set_input("image", np.zeros((1, 1, 8, 8), np.float32))
    shown = report(module, module.run(), None, 0.0)
    assert repr(shown).startswith("0 cycles") and "svg" not in shown._repr_html_()


def test_what_stands_in_cells_is_escaped() -> None:
    assert "<b>" not in notebook.table("<b>", ["<b>"], [["<b>"]])
    assert "<b>" not in notebook.lanes({"<b>": [(0, 1, 1, "<b>")]}, 1)
