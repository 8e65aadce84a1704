"""What can be seen from outside of a netlist."""

from tests.support.liveness import Liveness


def cell(kind, inputs, output, parameters=None):
    name, bits = output
    return {"type": kind, "parameters": parameters or {}, "connections": {**inputs, name: bits},
            "port_directions": {**dict.fromkeys(inputs, "input"), name: "output"}}


# x (bits 2 to 5) and y (6 to 9) are inputs. sum = x + y; kept = register of sum; out = kept[1];
# mem holds sum, of what it reads only bit 2 goes out; chosen = sum[3] or nothing.
NETLIST = {"modules": {"top": {
    "ports": {"x": {"direction": "input", "bits": [2, 3, 4, 5]},
              "y": {"direction": "input", "bits": [6, 7, 8, 9]},
              "clk": {"direction": "input", "bits": [40]},
              "out": {"direction": "output", "bits": [15, 32]}},
    "cells": {
        "sum": cell("$add", {"A": [2, 3, 4, 5], "B": [6, 7, 8, 9]}, ("Y", [10, 11, 12, 13])),
        "kept": cell("$dff", {"D": [10, 11, 12, 13], "CLK": [40]}, ("Q", [14, 15, 16, 17])),
        "mem": cell("$mem_v2", {"WR_DATA": [10, 11, 12, 13], "WR_EN": [41, 42, 43, 44],
                                "WR_ADDR": [45], "RD_ADDR": [46]},
                    ("RD_DATA", [30, 31, 32, 33]), {"WIDTH": "100"}),
        "chosen": cell("$mux", {"A": [13], "B": ["0"], "S": [41]}, ("Y", [50])),
    }}}}


def test_bits_are_followed_through_sums_registers_and_memories():
    live = Liveness(NETLIST, "top").live
    assert [live(("sum", "Y", k)) for k in range(4)] == [False, True, True, False]
    assert [live(("sum", "A", k)) for k in range(4)] == [True, True, True, False]
    assert [live(("kept", "Q", k)) for k in range(4)] == [False, True, False, False]
    assert [live(("kept", "D", k)) for k in range(4)] == [False, True, False, False]
    assert live(("kept", "CLK", 0))


def test_a_lane_of_a_memory_needs_its_own_lane_and_all_addresses():
    live = Liveness(NETLIST, "top").live
    assert [live(("mem", "WR_EN", k)) for k in range(4)] == [False, False, True, False]
    assert [live(("mem", "RD_DATA", k)) for k in range(4)] == [False, False, True, False]
    assert live(("mem", "WR_ADDR", 0)) and live(("mem", "RD_ADDR", 0))


def test_what_goes_nowhere_is_dead():
    live = Liveness(NETLIST, "top").live
    assert not live(("chosen", "Y", 0)) and not live(("chosen", "A", 0))
    assert not live(("chosen", "S", 0))


def test_what_another_bit_settles():
    cells = {
        "any": cell("$reduce_bool", {"A": [2, 3]}, ("Y", [10])),
        "all": cell("$reduce_and", {"A": [2, 3]}, ("Y", [11])),
        "two": cell("$eq", {"A": [2, 3, 4], "B": ["0", "1"]}, ("Y", [12])),
        "sum": cell("$add", {"A": [2, 3], "B": ["0", "1"]}, ("Y", [13, 14])),
        "signs": cell("$eq", {"A": [2, 3, 4], "B": ["0", "1"]}, ("Y", [15]), {"A_SIGNED": "1"}),
    }
    settled = Liveness({"modules": {"top": {"ports": {}, "cells": cells}}}, "top").settled
    assert settled(("any", "A", 0), 1, 1) and not settled(("any", "A", 0), 1, 0)
    assert settled(("all", "A", 0), 1, 0) and not settled(("all", "A", 0), 1, 1)
    assert settled(("two", "A", 2), 0, 1) and not settled(("two", "A", 2), 0, 0)
    assert settled(("two", "A", 2), 1, 0) and not settled(("two", "A", 2), 1, 1)
    assert not settled(("two", "B", 0), 1, 0)
    assert settled(("two", "A", 0), 2, 1) and not settled(("two", "A", 0), 2, 0)    # 2 is 010
    assert not settled(("signs", "A", 0), 2, 1)
    assert not settled(("any", "A", 1), 1, 1)           # the bit itself
    assert not any(settled(("sum", port, 0), 1, value) for port in "AB" for value in (0, 1))
    assert not settled(("any", "Y", 0), 0, 1)
