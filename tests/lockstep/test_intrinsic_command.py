"""``lockstep intrinsic``: a new instruction, what it is, what it costs, what it wins."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from accel.datapath.plan import plan
from accel.machine.config import preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.sim.checking import check
from accel.sim.meaning import functional
from lockstep.cli import main
from lockstep.manual.resources import added_by, resources, used_by

ROOT = Path(__file__).parents[2]
MACHINES = ROOT / "examples" / "machines"


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def intrinsic(*arguments: object) -> int:
    return main(["intrinsic", *map(str, arguments)])


def shown(capsys, *arguments: object) -> str:
    assert intrinsic(*arguments) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: object) -> str:
    assert intrinsic(*arguments) == 2
    out, said = capsys.readouterr()
    assert said.startswith("lockstep: error: ") and said.count("\n") == 1 and not out
    return said.removeprefix("lockstep: error: ").strip()


# ---- new ---------------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_new_machine_works_as_it_stands(capsys) -> None:
    said = shown(capsys, "new", "absdiff")
    machine = load_machine("absdiff.py")
    assert machine.opcodes["absdiff"] == max(machine.opcodes.values())
    assert machine.config == preset("tiny-1x4x4")
    report = check.check(machine, 4, simulators={
        "functional": lambda machine, case: functional.simulate(machine, case.program,
                                                                case.memory)})
    assert report.difference is None and "absdiff ran " in check.ran([report])
    commands = [line.split() for line in said.splitlines() if line.startswith("  lockstep")]
    assert [command[1] for command in commands] == ["isa", "intrinsic", "check", "intrinsic"]
    for command in commands:
        if command[1] != "check":
            assert main(command[1:]) == 0


@pytest.mark.parametrize("name", ["ecp5-1x2x2", "ecp5-1x16x16"])
def test_a_new_machine_of_another_geometry(capsys, name: str) -> None:
    shown(capsys, "new", "distance", "--preset", name, "-o", "mine.py")
    machine = load_machine("mine.py")
    assert machine.config == preset(name) and "distance" in machine.opcodes
    assert "lockstep check --machine mine.py" in Path("mine.py").read_text()


def test_a_file_that_exists_stays(capsys) -> None:
    Path("absdiff.py").write_text("mine")
    assert refused(capsys, "new", "absdiff") == (
        "'absdiff.py' must not exist yet: what is there is not overwritten; name another file by "
        "-o")
    Path("link.py").symlink_to("nowhere.py")
    assert refused(capsys, "new", "absdiff", "-o", "link.py").startswith("'link.py' must not exist")
    assert Path("absdiff.py").read_text() == "mine"


@pytest.mark.parametrize(("name", "message"), [
    ("3x", "NAME must be an identifier of Python, not '3x'"),
    ("if", "NAME must be an identifier of Python, not 'if'"),
    ("a/b", "NAME must be an identifier of Python, not 'a/b'"),
    ("machine", "NAME must not be 'machine': the file uses that name itself"),
    ("add", "Instruction add must be declared once"),
    ("finish", "Instruction finish must have another name: fetch performs FINISH"),
])
def test_names_that_no_instruction_can_have(capsys, name: str, message: str) -> None:
    assert refused(capsys, "new", name) == message
    assert not list(Path().iterdir())


def test_a_preset_that_is_none(capsys) -> None:
    assert refused(capsys, "new", "x", "--preset", "no").startswith("Preset must be one of ecp5-")


# ---- show --------------------------------------------------------------------------------------

def test_show(capsys) -> None:
    shown(capsys, "new", "absdiff")
    said = shown(capsys, "show", "absdiff", "--machine", "absdiff.py", "--json", "r.json")
    machine = load_machine("absdiff.py")
    figures = json.loads(Path("r.json").read_text())
    assert said.splitlines()[0] == (f"absdiff: opcode 19, unit vector, of machine "
                                    f"{machine.hash[:12]} (tiny-1x4x4)")
    assert "  dst[lane_b, lane_o] = abs(a[lane_b, lane_o] - b[lane_b, lane_o])" in said
    assert "b: int32 1×4, in acc as int32 or res as int8 or par as param.bias or imm as int32" \
        in said
    assert "  80 ... 95 + 64 i  loops[i].extent: iterations of the loop; stored minus one" in said
    datapath = plan(machine, "vector")
    assert figures["datapath"]["registers"] == datapath.registers()
    assert f"{datapath.latency} stages, {sum(datapath.registers()):,} bits of registers" in said
    assert figures["opcode"] == 19 and figures["timing"]["latency"] == datapath.latency
    assert figures["datapath"]["used"]["adders"] == {"32": 4, "33": 4}     # abs, difference
    assert figures["datapath"]["without"]["operators"]["multipliers"] == {"17x8": 4, "33x17": 4}


@pytest.mark.parametrize("name", Machine(preset("tiny-1x4x4")).opcodes)
def test_every_shipped_instruction_is_shown(capsys, name: str) -> None:
    said = shown(capsys, "show", name, "--machine", "tiny-1x4x4")
    assert said.startswith(f"{name}: opcode ") and "example: " in said


def test_immediates_have_their_ranges(capsys) -> None:
    assert "immediates: lo: int8, -128 ... 127, hi: int8, -128 ... 127" in shown(
        capsys, "show", "clamp")


def test_the_verilog_of_a_datapath(capsys) -> None:
    shown(capsys, "show", "add", "--machine", "tiny-1x4x4", "--verilog", "d.v")
    text = Path("d.v").read_text()
    assert "module vector_datapath(" in text and text.count("endmodule") == 1
    assert "output [127:0] value;" in text
    assert refused(capsys, "show", "load", "--verilog", "e.v") == (
        "--verilog must be left out for load: load has no datapath")
    assert not Path("e.v").exists()


def test_an_instruction_that_the_machine_lacks(capsys) -> None:
    assert refused(capsys, "show", "nope", "--machine", "tiny-1x4x4").startswith(
        "NAME must be an instruction of tiny-1x4x4: finish, load, store, gemm, add, ")


# ---- resources ---------------------------------------------------------------------------------

def test_resources_are_those_of_the_plan() -> None:
    machine = Machine(preset("tiny-1x4x4"))
    gemm = resources(machine)["gemm"]
    assert gemm.operators["multipliers"] == {"8x8": 16}
    assert gemm.operators["adders"] == {"17": 8, "18": 4}      # three for each of four sums
    assert gemm.register_bits == sum(plan(machine, "gemm").registers())
    vector = resources(machine)["vector"]
    assert vector.count("multipliers") == plan(machine, "vector").count("mul") == 8


def test_what_an_instruction_uses_and_adds() -> None:
    machine = Machine(preset("tiny-1x4x4"))
    assert used_by(machine, "mul")["multipliers"] == {"33x17": 4}      # shared with requantize
    assert set(used_by(machine, "add_scaled")["multipliers"]) == {"33x17", "17x8"}
    assert "multipliers" not in used_by(machine, "reduce_add")
    added = added_by(machine, "add_scaled")
    assert added is not None
    assert added[1].count("multipliers") - added[0].count("multipliers") == 4
    assert added_by(machine, "gemm") is None


def test_registers_are_those_of_the_verilog(capsys) -> None:
    """All that is clocked, but for immediates at the entrance, and control: `select`, `there`."""
    machine = Machine(preset("tiny-1x4x4"))
    for name, unit in (("gemm", "gemm"), ("add", "vector")):
        shown(capsys, "show", name, "--machine", "tiny-1x4x4", "--verilog", f"{name}.v")
        text = Path(f"{name}.v").read_text()
        widths = {register: int(high or 0) + 1 for high, register in re.findall(
            r"^  reg (?:\[(\d+):0\] )?(s\d+_[^ ;]+)", text, re.MULTILINE)}
        clocked = re.findall(r"always @\(posedge clk\)\n +(?:if \(.+\) )?(s\d+_\S+) <= ", text)
        bits = sum(widths[register] for register in clocked if not register.startswith("s0_imm"))
        assert bits == resources(machine)[unit].register_bits


# ---- diff --------------------------------------------------------------------------------------

OWN = """
import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler import te

machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"), {declarations})
"""


def own(name: str, declarations: str, preset: str = "tiny-1x4x4") -> str:
    Path(name).write_text(OWN.format(declarations=declarations).replace("tiny-1x4x4", preset))
    return name


def differences(capsys, *arguments: object) -> tuple[list[str], dict]:
    """The sentences before the table, and the figures."""
    said = shown(capsys, "diff", *arguments, "--json", "d.json").splitlines()
    end = next(place for place, line in enumerate(said) if line.startswith("hardware of "))
    return said[1:end], json.loads(Path("d.json").read_text())


MORE = """(*SHIPPED, lockstep.vector_op("more", lambda a, b: {value}{options}))"""


def test_one_instruction_more(capsys) -> None:
    shown(capsys, "new", "absdiff")
    sentences, figures = differences(capsys, "absdiff.py")
    assert sentences == ["absdiff: is one more"] and figures["added"] == ["absdiff"]
    here, there = figures["resources"]["vector"]
    machine = load_machine("absdiff.py")
    assert there["register_bits"] == sum(plan(machine, "vector").registers())
    assert here["register_bits"] == sum(plan(Machine(machine.config), "vector").registers())
    assert figures["resources"]["gemm"][0] == figures["resources"]["gemm"][1]
    back, _ = differences(capsys, "absdiff.py", "tiny-1x4x4")
    assert back == ["absdiff: is missing"]
    again, _ = differences(capsys, "absdiff.py", "--machine", "absdiff.py")
    assert again == ["instructions, encodings and geometry are the same"]


def test_an_instruction_that_changed(capsys) -> None:
    first = own("one.py", MORE.format(value="te.abs(a - b)", options=""))
    second = own("two.py", MORE.format(value="te.abs(a - b) * 2", options=", b=('res',)"))
    sentences, _ = differences(capsys, first, second)
    assert sentences == [
        "more: meaning dst[lane_b, lane_o] = abs(a[lane_b, lane_o] - b[lane_b, lane_o]) -> "
        "dst[lane_b, lane_o] = abs(a[lane_b, lane_o] - b[lane_b, lane_o]) * 2",
        "more: b acc as int32 or res as int8 or par as param.bias or imm as int32 -> res as int8",
        "more: no longer reads the field imm"]


def test_an_update_that_changed_and_a_flag(capsys) -> None:
    first = own("one.py", MORE.format(value="a + b", options=", a=('res',), b=('res',)"))
    second = own("two.py", MORE.format(value="a + b", options=", a=('res',), b=('res',), "
                                                              "update='max'"))
    sentences, _ = differences(capsys, first, second)
    assert "more: now reads the field reset" in sentences
    assert "more: dst acc as int32 or out as int8 -> acc as int32" in sentences


def test_the_same_declaration_in_another_geometry_is_no_change(capsys) -> None:
    first = own("one.py", MORE.format(value="a + b", options=""))
    second = own("two.py", MORE.format(value="a + b", options=""), "ecp5-1x2x2")
    sentences, figures = differences(capsys, first, second)
    assert "block_in: 4 -> 2" in sentences and "vector_beats: 1 -> 2" in sentences
    assert not any(sentence.startswith("more") for sentence in sentences)
    assert figures["memory"]["wgt"] == [4096, 2048]
    assert [time["interval"] for time in figures["times"]["vector"]] == [1, 2]


def test_opcodes_that_moved(capsys) -> None:
    second = own("two.py", "(*SHIPPED[:4], *SHIPPED[5:])")
    sentences, figures = differences(capsys, "tiny-1x4x4", second)
    assert sentences[:2] == ["sub: is missing", "max: opcode 7 -> 6"]
    assert len(figures["opcodes"]) == 12


@pytest.mark.slow
def test_cycles_and_the_page(capsys) -> None:
    shown(capsys, "new", "absdiff")
    said = shown(capsys, "diff", "tiny-1x4x4", "ecp5-1x2x2", "--networks", "digits", "--html",
                 "d.html", "--json", "d.json")
    figures = json.loads(Path("d.json").read_text())
    cycles = [one["cycles"] for one in figures["networks"]["digits"]]
    assert cycles[1] > 2 * cycles[0] and all(f"{count:,}" in said for count in cycles)
    page = Path("d.html").read_text()
    assert all(f"<td>{count:,}</td>" in page for count in cycles)
    assert "<li>block_in: 4 → 2</li>" in page and page.count("Plotly.newPlot(") == 2
    assert re.search(r"digits</td><td[^>]*>gemm</td><td[^>]*>[\d,]+ times</td><td", page)


@pytest.mark.parametrize(("arguments", "message"), [
    (["tiny-1x4x4"], "OTHER must be given: tiny-1x4x4 has the shipped instructions alone"),
    ([str(MACHINES / "two_vectors.py")],
     f"OTHER must be given: {MACHINES / 'two_vectors.py'} has the shipped instructions alone"),
    ([str(MACHINES / "softmax.py")], f"OTHER must be given: a unit of {MACHINES / 'softmax.py'} "
     f"would do nothing without its own instructions"),
    (["tiny-1x4x4", "ecp5-1x2x2", "--machine", "ecp5-1x8x8"],
     "OTHER must be given once: as an argument, or by --machine"),
    (["", "tiny-1x4x4"], "--machine must name a machine, not ''"),
    (["tiny-1x4x4", "ecp5-1x2x2", "--networks", "digits,"],
     "argument --networks: must be names with commas between, not 'digits,' (see lockstep "
     "intrinsic diff --help)"),
])
def test_machines_that_cannot_be_compared(capsys, arguments: list[str], message: str) -> None:
    assert refused(capsys, "diff", *arguments) == message


# ---- bench -------------------------------------------------------------------------------------

@pytest.mark.slow
def test_bench_against_the_run_command(capsys) -> None:
    digits = ROOT / "examples" / "digits" / "digits-int8.onnx"
    said = shown(capsys, "bench", "digits", digits, "--machine", "tiny-1x4x4", "--base",
                 "ecp5-1x2x2", "--json", "b.json", "--technology", "7nm")
    assert "technology 7nm: ms at the nominal clock, 80 MHz: " in said
    figures = json.loads(Path("b.json").read_text())
    assert [machine["name"] for machine in figures["machines"]] == ["ecp5-1x2x2", "tiny-1x4x4"]
    assert figures["networks"]["digits"] == figures["networks"][str(digits)]
    assert main(["run", str(digits), "--target", "accel:tiny-1x4x4", "--no-values", "--json",
                 "r.json"]) == 0
    run, measured = json.loads(Path("r.json").read_text()), figures["networks"]["digits"][1]
    assert figures["technology"]["name"] == "7nm" and figures["provenance"]["command"][0] == (
        "intrinsic")
    assert (measured["cycles"], measured["macs"]) == (run["cycles"], run["macs"])
    assert measured["share"] == run["utilization"] and measured["host"] == len(run["host"])
    assert re.findall(r"^never executed: (\w+): ", said, re.MULTILINE) == [
        "add", "sub", "max", "min", "mul", "shr", "clamp", "reduce_min", "lookup"]


def test_instructions_are_counted_in_the_stream(capsys) -> None:
    import lockstep

    shown(capsys, "bench", "digits", "--machine", "tiny-1x4x4", "--json", "b.json")
    (measured,) = json.loads(Path("b.json").read_text())["networks"]["digits"]
    machine = load_machine("tiny-1x4x4")
    module = lockstep.compile(ROOT / "examples" / "digits" / "digits-int8.onnx", machine=machine)
    (program,) = [one.program for one in module.accelerated]
    assert program is not None and sum(measured["executed"].values()) == program.count
    stream = program.instructions(machine)
    for name in ("gemm", "requantize"):
        ran = [one for one in stream if one.name == name]
        assert measured["executed"][name] == len(ran) > 0
        assert measured["iterations"][name] == sum(
            np.prod([loop["extent"] for loop in one.fields["loops"]]) for one in ran)


@pytest.mark.slow
def test_networks_with_the_memory_of_a_board(capsys) -> None:
    cycles = []
    for memory in ((), ("--memory", "board:ulx3s-85f")):
        shown(capsys, "bench", "digits", "--machine", "tiny-1x4x4", "--json", "b.json", *memory)
        (measured,) = json.loads(Path("b.json").read_text())["networks"]["digits"]
        cycles.append(measured["cycles"])
    assert cycles[1] > 1.2 * cycles[0]


def test_a_network_of_the_zoo(capsys) -> None:
    shown(capsys, "bench", "keywords", "--machine", "tiny-1x4x4", "--json", "b.json")
    (measured,) = json.loads(Path("b.json").read_text())["networks"]["keywords"]
    assert measured["cycles"] > 0 and 0 < measured["share"] < 1
    assert not [path for path in Path().iterdir() if path.name != "b.json"]


@pytest.mark.parametrize(("arguments", "message"), [
    (["nope"], "'nope' must be a file that exists, or a network of lockstep.testing: digits, "),
    (["nope.onnx"], "'nope.onnx' must be a file that exists"),
    (["resnet18", "--size", "5"], "'resnet18': size must be 32 to 1024, not 5"),
    (["digits", "--machine", "nope"], "Machine must be one of "),
])
def test_networks_that_are_none(capsys, arguments: list[str], message: str) -> None:
    assert refused(capsys, "bench", *arguments).startswith(message)


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockstep", "intrinsic"]
    done = subprocess.run([*command, "new", "own"], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and (tmp_path / "own.py").exists()
