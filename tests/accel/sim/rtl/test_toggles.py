"""Toggles of the RTL: a VCD by hand, and counted accesses against the ports of memories."""

import io

import numpy as np
import pytest

from accel.figures.accesses import AccessProfile
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.sim.timed import cycle
from accel.sim.programs.generate import generate
from accel.sim.rtl.toggles import _Counter, _watched, toggles

VCD = b"""$timescale 1s $end
 $scope module TOP $end
  $scope module core $end
   $var wire 1 c clk $end
   $scope module part $end
    $var wire 4 a sum [3:0] $end
    $var wire 4 b wire [3:0] $end
    $var wire 1 e read__en $end
   $upscope $end
  $upscope $end
 $upscope $end
$enddefinitions $end
#0
b0000 a
b0000 b
0e
#5
b0111 a
b1111 b
1e
#15
b0100 a
#20
0e
#25
b0101 a
1e
#30
0e
#35
b1010 a
1e
"""


def test_bits_that_change_and_cycles_that_are_enabled() -> None:
    """The clock rises at 5, 15, ...: a register changes in that cycle, an enable from the next on,
    unless it changes again before that one."""
    counter = _Counter(frozenset({"core.part.sum"}), [2, 6])
    counter.read(io.BytesIO(VCD))
    found = counter.result()
    assert {name: values.tolist() for name, values in found.toggles.items()} == {
        "core.part": [3 + 2, 1 + 4]}
    assert found.register_bits == {"core.part": 4}
    assert found.enabled["core.part.read__en"].tolist() == [1, 3]       # 1; 4, 5 and the last


def test_registers_and_enables_alone_are_traced() -> None:
    registers: set[str] = set()
    module = _watched("module \\core.part (clk, read__en);\n  input clk;\n  wire clk;\n"
                      "  wire read__en;\n  reg [3:0] \\$1 ;\n  reg [3:0] sum = 4'h0;\n"
                      "  always @(posedge clk) begin\n    if (read__en) begin\n"
                      "      sum[1:0] <= \\$1 [1:0];\n    end\n  end\nendmodule\n", registers)
    assert registers == {"core.part.sum"}
    off = [line for line, after in zip(module.splitlines(), module.splitlines()[1:])
           if after == "/*verilator tracing_on*/"]
    assert off == ["  input clk;", "  wire clk;", "  reg [3:0] \\$1 ;"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_accesses_are_those_of_the_ports_of_memories(seed) -> None:
    machine = Machine(preset("tiny-1x4x4"))
    case = generate(machine, seed)
    run = cycle.simulate(machine, case.program, case.memory)
    counted = AccessProfile.of(machine, case.program, run).totals()
    seen = toggles(machine, case.program, [run.cycles // 2, run.cycles], case.memory)

    def enabled(memory: str, port: str) -> int:
        return int(sum(values.sum() for name, values in seen.enabled.items()
                       if name.startswith(f"core.{memory}") and name.endswith(port)))

    def total(*keys: str) -> int:
        return sum(counted.get(key, 0) for key in keys)

    for buffer in ("inp", "wgt", "res", "par"):
        assert enabled(f"{buffer}.", "write__en") == total(f"{buffer}.write"), buffer
    assert enabled("read__en", "read__en") == total("inp.read")
    for buffer in ("res", "par", "out"):
        assert enabled(f"{buffer}.read__en", "") == total(f"{buffer}.read"), buffer
    assert enabled("out.", "write__en") == total("out.write")
    for access in ("read", "write"):
        assert enabled("acc.", f"{access}__en") == total(f"acc.gemm_{access}",
                                                         f"acc.vector_{access}")
    assert seen.of("core.gemm.datapath").all() and seen.register_bits["core.gemm.datapath"] > 400
    np.testing.assert_array_equal(
        seen.of("core.load"), toggles(machine, case.program, [run.cycles // 2, run.cycles],
                                      case.memory).of("core.load"))
