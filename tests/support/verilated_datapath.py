"""Datapaths through Verilator, for more operands than Amaranth's simulator can take."""

import ctypes
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from amaranth.back import verilog

from accel.datapath.plan import DatapathPlan
from accel.hw.compute.datapath import Datapath
from accel.sim.rtl.netlist import clocked, whole_words
from accel.sim.rtl.verilated import COMPILER_FLAGS, verilator_objects, verilator_root
from compiler.native import build_once, call, compile_shared, digest

__all__ = ["VerilatedDatapath"]

FLAGS = ("--cc", "--prefix", "Vdatapath", "--top-module", "datapath", "-O3", "--x-assign", "fast",
         "--x-initial", "fast", "--output-split", "0", "-Wno-fatal", "-Wno-lint", "--no-timing")

HARNESS = """
#include <cstdint>
#include <cstring>
#include "Vdatapath.h"

void vl_finish(const char *, int, const char *) {}

// An element a cycle of opcode 0; results follow after `latency` cycles.
extern "C" void datapath_run(int64_t count, int64_t latency, %(pointers)s, uint8_t *value) {
    VerilatedContext context;
    Vdatapath top{&context};
    top.valid = 1;
    top.select = 1;
    for (int64_t cycle = -1; cycle < count + latency; cycle++) {
        if (0 <= cycle && cycle < count) {
%(inputs)s
        }
        top.clk = 0;
        top.eval();
        if (cycle >= latency)
            std::memcpy(value + (cycle - latency) * %(bytes)d, &top.value, %(bytes)d);
        top.clk = 1;
        top.eval();
    }
}
"""


class VerilatedDatapath:
    """The datapath of a plan of one body, without immediates and tables."""

    def __init__(self, plan: DatapathPlan):
        self.plan, dut = plan, Datapath(plan)
        self.widths = dut.widths
        text = verilog.convert(dut, name="datapath", emit_src=False, strip_internal_attrs=True)
        text = clocked(whole_words(text))
        sizes = {bus: self.element_bytes(bus) for bus in plan.buses}
        copies = (f"            std::memcpy(&top.{bus}, {bus} + cycle * {size}, {size});"
                  for bus, size in sizes.items())
        harness = HARNESS % {
            "pointers": ", ".join(f"const uint8_t *{bus}" for bus in sizes),
            "inputs": "\n".join(copies), "bytes": 4 * prod(plan.shape)}

        def make(folder: Path) -> None:
            (folder / "datapath.v").write_text(text)
            (folder / "harness.cpp").write_text(harness)
            root, generated = verilator_root(), folder / "generated"
            call([str(root / "bin" / "verilator_bin"), *FLAGS, "--Mdir", str(generated),
                  str(folder / "datapath.v")], folder, os.environ | {"VERILATOR_ROOT": str(root)})
            bodies = [*sorted(path.name for path in generated.glob("*.cpp")), "harness.cpp"]
            (folder / "all.cpp").write_text("".join(f'#include "{name}"\n' for name in bodies))
            include = root / "include"
            compile_shared({folder / "all.cpp": ("-O2", "-march=native")}, folder / "datapath.so",
                           ["-DVL_USER_FINISH", "-DVL_TIME_CONTEXT", "-w", *(
                               f"-I{path}" for path in (generated, include, include / "vltstd",
                                                        folder))],
                           verilator_objects(("verilated.cpp", "verilated_threads.cpp"),
                                             COMPILER_FLAGS))

        key = digest([text, harness, *FLAGS, Path(__file__).read_text()])
        built = build_once("datapath", key, "the simulator of a datapath", make)
        self.library = ctypes.CDLL(str(built / "datapath.so"))

    def element_bytes(self, bus: str) -> int:
        bits = self.widths[bus] * prod(self.plan.buses[bus])
        assert bits % 8 == 0, bus
        return bits // 8

    def run(self, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """Values (int32) of many elements: operands and result have one more dimension, the first,
        than the plan's."""
        arrays = {bus: np.ascontiguousarray(operands[bus], f"uint{self.widths[bus]}")
                  for bus in self.plan.buses}
        count = len(next(iter(arrays.values())))
        value = np.empty((count, *self.plan.shape), np.int32)
        self.library.datapath_run(
            ctypes.c_int64(count), ctypes.c_int64(self.plan.latency),
            *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays.values()),
            value.ctypes.data_as(ctypes.c_void_p))
        return value
