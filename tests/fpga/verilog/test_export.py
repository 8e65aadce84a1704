# amaranth: UnusedElaboratable=no
"""The folder that `lockstep verilog` writes, with registers and memory behind AXI4."""

import csv
import re
from pathlib import Path

import pytest

from accel.machine.isa import BASES
from accel.sim.meaning import functional
from fpga.verilog.bench import program
from fpga.verilog.export import export
from fpga.verilog.lint import WAIVERS
from tests.support.machines import TINY
from tests.support.verilator_lint import warnings_of

ADDRESS = "addr prot valid ready".split()
CHANNELS = {"aw": ADDRESS, "w": "data strb valid ready".split(), "b": "resp valid ready".split(),
            "ar": ADDRESS, "r": "data resp valid ready".split()}
BURSTS = {"aw": "id len size burst cache".split(), "w": ["last"], "b": ["id"],
          "ar": "id len size burst cache".split(), "r": ["id", "last"]}
"""The signals that AXI4 has beyond AXI4-Lite."""




@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("verilog") / "made"
    export(TINY, "axi4", 50, made, vivado=True)
    return made


def test_lint_has_no_warning_with_the_waivers(folder):
    assert warnings_of(folder / "lockstep.vlt", folder / "lockstep.v", top="lockstep") == ""


def test_ports_are_what_vivado_takes_for_interfaces(folder):
    text = (folder / "lockstep.v").read_text()
    module = text[text.index("\nmodule lockstep("):]
    ports = set(re.findall(r"\w+", module[:module.index(";")])) - {"module", "lockstep"}
    names = {f"{c}{one}" for c, all_ in CHANNELS.items() for one in all_}
    wanted = {f"s_axi_control_{one}" for one in names}
    wanted |= {f"m_axi_gmem_{one}" for one in
               names | {f"{c}{one}" for c, all_ in BURSTS.items() for one in all_}}
    assert ports == wanted | {"ap_clk", "ap_rst_n", "irq"}
    assert re.search(r'ASSOCIATED_BUSIF s_axi_control:m_axi_gmem, ASSOCIATED_RESET ap_rst_n" \*\)\n'
                     r"  input ap_clk;", module)
    assert re.search(r'X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT", '
                     r'X_INTERFACE_PARAMETER = "SENSITIVITY LEVEL_HIGH" \*\)\n  output irq;',
                     module)


def test_every_port_and_every_memory_is_on_the_page(folder):
    page = (folder / "README.md").read_text()
    assert "| `s_axi_control_awaddr` | 12 | input | registers, AXI4-Lite slave: awaddr |" in page
    assert "| `irq` | 1 | output |" in page
    with open(folder / "memories.csv") as file:
        memories = [*csv.DictReader(file)]
    assert all(f"| `{memory['module']}` | `{memory['name']}` |" in page for memory in memories)
    text = (folder / "lockstep.v").read_text()
    assert len(memories) == len(re.findall(r"^  reg \[\d+:0\] \S+ \[\d+:0\];$", text, re.MULTILINE))
    assert all(f"- `{rule}`: " in page for rule in WAIVERS)


def test_memories_of_buffers_are_those_of_the_machine(folder):
    with open(folder / "memories.csv") as file:
        memories = {row["module"].removeprefix("lockstep.core."): row
                    for row in csv.DictReader(file)}
    bits = {name: sum(int(row["depth"]) * int(row["width"]) for module, row in memories.items()
                      if module.split(".")[0] == name)
            for name in ("inp", "wgt", "res", "par", "acc", "out")}
    assert bits == {name: 8 * TINY.config.buffers[name].size_bytes for name in bits}
    inputs, sums = memories["inp.slice0"], memories["acc.bank0_0"]
    assert (inputs["mask_bits"], sums["mask_bits"]) == ("8", "128")
    assert (inputs["clocked_reads"], inputs["direct_reads"]) == ("1", "0")


def test_nothing_but_what_is_never_written_has_initial_values(folder):
    text = (folder / "lockstep.v").read_text()
    assert not re.search(r"^  reg .* = ", text, re.MULTILINE)
    assert set(re.findall(r"^  initial (.+)$", text, re.MULTILINE)) == {
        "begin", "wakes_blocks <= 1'b0;"}
    assert text.count("  initial begin\n") == 1 == text.count("    record[0] = ")


def test_the_bench_gets_the_program_and_what_it_must_leave(folder):
    case = program(TINY)
    run = functional.simulate(TINY, case.program, case.memory)
    for name, memory in (("memory.hex", case.memory), ("expected.hex", run.memory)):
        words = (folder / name).read_text().split()
        assert b"".join(bytes.fromhex(word)[::-1] for word in words) == memory.tobytes()
    settings = (folder / "bench.vh").read_text()
    assert f"localparam [31:0] COUNT = {case.program.count};\n" in settings
    assert all(f"REGISTER_BASE_{name.upper()} = " in settings for name in BASES)


def test_the_program_has_every_instruction():
    ran = {instruction.name for instruction in program(TINY).program.instructions(TINY)}
    assert ran == {"finish", *TINY.forms}


def test_scripts_for_vivado_name_the_verilog(folder):
    assert (folder / "settings.tcl").read_text().startswith("set name lockstep\n")
    assert (folder / "build.tcl").is_file()
