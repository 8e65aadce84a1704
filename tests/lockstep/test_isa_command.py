"""``lockstep isa``: every instruction, its meaning and the words, from the declarations."""

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.status import STALLS, Status
from lockstep.cli import main
from lockstep.manual.page import page

MACHINE = Machine(preset("pynq-1x16x16"))


def shown(capsys, *arguments: str) -> list[str]:
    assert main(["isa", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_instruction_has_its_opcode_and_unit(capsys):
    lines = shown(capsys)
    assert lines[0] == f"machine {MACHINE.hash[:12]} (pynq-1x16x16), words of 512 bits"
    listed = [line.split()[:3] for line in lines[1:lines.index("")]]
    expected = [[str(MACHINE.opcodes[name]), name, forms[0].unit]
                for name, forms in MACHINE.forms.items() for _ in forms]
    assert listed == [["1", "finish", "fetch"], *expected]


def test_meanings_are_the_declared_bodies(capsys):
    text = "\n".join(shown(capsys, "--machine", "tiny-1x4x4"))
    assert "dst += int32(inp[lane_b, lane_i]) * int32(wgt[lane_o, lane_i]) summed over " \
           "lane_i < 4; dst in acc, inp in inp, wgt in wgt" in text
    assert "dst max= a[lane_b, lane_o]; dst in acc, a in res" in text


def test_fields_stand_where_the_layouts_put_them(capsys):
    lines = shown(capsys)
    words = lines[lines.index("gemm word:"):lines.index("vector word:")]
    assert words[1].split() == ["0", "+8", "opcode"]
    loops = isa.GEMM["loops"]
    assert f"  {loops.offset:3} +16     loops[i].extent (stored minus one), i < 6, + 64 i" in words
    assert "   27 +1      a_source (0 acc, 1 res)" in lines


def test_units_have_their_loops_and_times(capsys):
    lines = shown(capsys, "--machine", "tiny-1x4x4")
    vector = lines[lines.index("vector word:") - 1]
    assert vector.startswith("vector: 5 loops around the iteration, the last innermost. Latency ")
    assert "(2 n + 20, if both sources are in one buffer)" in vector
    assert sum(line.endswith("; flag reset") for line in lines) == 4    # gemm and reductions


def test_the_manual_is_written(capsys, tmp_path):
    path = tmp_path / "isa.html"
    assert shown(capsys, "--machine", "tiny-1x4x4", "--html", str(path)) == [
        f"{path}: the 18 instructions of tiny-1x4x4"]
    assert path.read_text() == page(Machine(preset("tiny-1x4x4")))


def test_the_manual_has_no_status_codes(capsys, tmp_path):
    assert main(["isa", "--status", "--html", str(tmp_path / "isa.html")]) == 2
    assert capsys.readouterr().err == ("lockstep: error: --html must be left out with --status: "
                                       "the manual has instructions\n")


def test_status_codes(capsys):
    lines = shown(capsys, "--status")
    assert lines[:len(Status)] == [f"{status.value}  {status.text}" for status in Status]
    assert lines[-1].endswith(", ".join(STALLS))


def test_an_unknown_preset_is_one_line(capsys):
    assert main(["isa", "--machine", "nope"]) == 2
    assert capsys.readouterr().err.startswith("lockstep: error: Machine must be one of ")
