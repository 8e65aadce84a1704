import json

import pytest

from accel.figures.layers import LayerRow
from accel.machine.status import STALLS
from lockstep.printing.columns import LAYER_COLUMNS, cells, largest_stall

NONE = dict.fromkeys(STALLS, 0)
ROW = LayerRow(name="a", op="qconv2d", cycles=1000, ideal_cycles=800, macs=6400, utilization=0.4,
               dram_bytes=5000, bound_cycles=900, bound_bytes=4000, carrier="gemm",
               busy={"gemm": 600}, stalls={"gemm": NONE | {"load": 300, "bank": 100}},
               moved={"load": 4000, "store": 1000, "fetch": 640})
FINISH = LayerRow(name="finish", op="fetch", cycles=7)


def test_texts_of_a_row():
    assert cells(list(LAYER_COLUMNS), ROW) == [
        "a", "qconv2d", "1,000", "800", "800", "40.0%", "6,400", "5,000", "gemm: load 30.0%",
        "1.25", "900", "1.111", "4,000", "1.250", "4,000", "1,000", "640"]


def test_what_is_not_known_is_a_dash():
    columns = ("known ideal", "array", "largest stall", "real to ideal", "least cycles",
               "ratio of bytes")
    assert cells(columns, FINISH) == ["-"] * 6
    assert cells(columns, FINISH, total=True) == ["0", "0.0%", "", "-", "-", "-"]


def test_a_row_becomes_json_and_a_row_again():
    plain = json.loads(json.dumps({"device": "accel", **ROW.plain, "energy": {}}))
    assert list(plain)[:4] == ["device", "name", "op", "cycles"] and "moved" not in plain
    again = LayerRow.of(plain)
    assert again.plain == ROW.plain and not again.moved


@pytest.mark.parametrize("busy, load, bound, stall", [
    (600, 300, "gemm", "gemm: load 30.0%"), (200, 300, "load", "gemm: load 30.0%"),
    (300, 300, "gemm", "gemm: load 30.0%"), (600, 0, "gemm", "-")])
def test_a_layer_is_bound_by_its_carrier_or_by_the_longest_wait(busy, load, bound, stall):
    row = LayerRow(name="a", op="b", cycles=1000, carrier="gemm", busy={"gemm": busy},
                   stalls={"gemm": NONE | {"load": load}})
    assert row.bound == bound and largest_stall(row) == stall


def test_without_a_timeline_nothing_bounds_a_layer():
    assert LayerRow(name="a", op="b", cycles=1000, carrier="gemm").bound == ""
