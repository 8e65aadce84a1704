"""Faults in tokens: the proof refuses them, a weakened proof is found out, the judge judges."""

from random import Random

import pytest

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.mapping.target import AccelTarget
from accel.proof.legal import with_tokens
from tests.support.happens_before import Judge
from bench.simulators import proof
from bench.simulators.proof import BENCH, FAULTS, Subject, convolution, examine
from compiler.latency_hiding import arrays, legality
from tests.support.integer_graphs import Net
from tests.support.machines import MACHINES

MACHINE = Machine(preset("tiny-1x4x4"))


@pytest.fixture(scope="module")
def subject() -> Subject:
    """19 instructions with a virtual thread."""
    return convolution("ecp5-1x8x8", 8, 9, 2)


def test_the_proof_refuses_what_is_not_redundant(subject):
    found = list(examine(subject, 21, Random(1)))
    assert found[0].kind == "none" and not found[0].refusal and not found[0].judgement
    assert {fault.kind for fault in found[1:]} == set(FAULTS)
    assert [fault for fault in found if fault.missed or fault.false_alarm] == []
    assert sum(bool(fault.refusal) for fault in found) >= 15


def break_proof(monkeypatch, old: str, new: str) -> None:
    """Builds the proof with one piece of its text replaced."""
    monkeypatch.setattr(arrays, "_FLAGS", ("-O0",))     # it scans 19 instructions
    texts = arrays.texts()
    assert texts["legality.cpp"].count(old) == 1
    broken = arrays.built(texts | {"legality.cpp": texts["legality.cpp"].replace(old, new)})
    monkeypatch.setattr(legality, "library", lambda: broken)


def without_orders(monkeypatch) -> None:
    break_proof(monkeypatch, "if (late.empty()) return;", "return;")


@pytest.mark.slow           # the command, below, finds the same
def test_a_proof_without_orders_misses_faults(subject, monkeypatch):
    without_orders(monkeypatch)
    assert any(fault.missed for fault in examine(subject, 21, Random(1)))


@pytest.mark.slow           # as above
def test_a_proof_that_forgets_reads_misses_faults(subject, monkeypatch):
    """What is loaded over what gemm has not read yet goes unseen."""
    break_proof(monkeypatch, "if (set[k].write == write) mark(", "if (write && set[k].write) mark(")
    assert any(fault.missed for fault in examine(subject, 35, Random(1)))


@pytest.mark.slow
def test_a_proof_that_is_too_strict_raises_false_alarms(subject, monkeypatch):
    break_proof(monkeypatch, "mine[other] = std::max(mine[other],", "std::max(mine[other],")
    alarm = next(examine(subject, 0, Random(1)))
    assert alarm.false_alarm and not alarm.missed


@pytest.mark.slow
def test_the_command_prints_its_figures(subject, monkeypatch, capsys):
    monkeypatch.setattr(proof, "subjects", lambda: iter([subject]))
    wanted = ["--only", "faults", "--faults", "7", "--seed", "3"]
    assert BENCH.main(wanted) == 0
    first = capsys.readouterr().out
    assert first.startswith("seed 3\n") and "\ntoken_faults 7\n" in first
    assert "token_faults_missed 0\ntoken_faults_false_alarms 0\n" in first
    BENCH.main(wanted)
    assert capsys.readouterr().out == first

    without_orders(monkeypatch)
    assert BENCH.main(["--only", "faults", "--faults", "21"]) == 1
    assert "MISSED: 8 channels, 9x9, 2 threads on ecp5-1x8x8: " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", MACHINES)
def test_networks_that_are_proved_are_judged_legal(name):
    """Every kind of layer, on buffers large and small."""
    net = Net(3)
    x = net.input(1, 8, 8, 8)
    y = net.add(net.conv(x, 8, (2, 2), pads=(1, 1, 0, 0)), net.rescale(x))
    logits = net.dense(net.flatten(net.average(net.max_pool(y))), 10)
    one = Judge(MACHINES[name], AccelTarget(MACHINES[name]).compile(net.graph(logits)).program)
    assert one.fault(one.tokens) == ""
    assert one.fault([((), ())] * len(one.stream)) != ""


# ---- the judge ---------------------------------------------------------------------------------

def chain() -> list[Instruction]:
    return [
        Instruction("load", "load", {"buffer": 0, "base": 3, "run": 16}),
        Instruction("load", "load", {"buffer": 1, "base": 3, "run": 16, "dram": 16}),
        Instruction("gemm", "gemm", {"banks": 1, "reset": 1,
                                     "loops": [{"extent": 4, "dst": 1, "a": 1}]}),
        Instruction("requantize", "vector", {"banks": 1, "b_source": 2, "destination": 1}),
        Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 64, "run": 4}),
        Instruction("load", "load", {"buffer": 0, "base": 3, "dram": 66, "run": 4,
                                     "loops": [{"extent": 3, "dram": 2, "buffer": 4,
                                                "before": 1, "after": 1}]})]


def judge(stream: list[Instruction]) -> Judge:
    return Judge(MACHINE, AccelProgram.assemble(MACHINE, [*stream, finish()], io_bytes=128))


def pairs(one: Judge) -> set[tuple[int, int]]:
    return {(earlier, later) for later, known in enumerate(one.conflicts)
            for earlier in range(later) if known >> earlier & 1}


def test_conflicts_are_of_different_units_that_touch_one_address():
    assert pairs(judge(chain())) == {(0, 2), (1, 2), (2, 3), (3, 4), (2, 5)}


def test_padding_reads_nothing():
    stream = chain()
    stream[5].fields["loops"][0].update(before=0)       # now it reads from 66 on
    assert (4, 5) in pairs(judge(stream))


def test_tokens_of_the_compiler_are_legal():
    one = judge(with_tokens(MACHINE, chain()))
    assert one.fault(one.tokens) == ""


def test_each_rule():
    one = judge(chain())
    none = ((), ())
    assert one.fault([none] * 6) == "1 and 2 are in no order"
    assert one.fault([none, none, (("load",), ()), none, none, none]) == (
        "instruction 2 waits for load, whose counter is empty")
    early = [((), ("gemm",)), none, (("load",), ()), none, none, none]
    assert one.fault(early) == "1 and 2 are in no order"
    one = judge(chain()[:1])
    assert one.fault([((), ("gemm",))]) == "tokens of load to gemm are left"
    one = judge(chain()[:1] * 256)
    assert one.fault([((), ("store",))] * 256) == (
        "instruction 255 signals store, whose counter is full")


def test_order_goes_through_other_units():
    """store gets no token of gemm: vector hands it on."""
    stream = with_tokens(MACHINE, chain())
    one = judge(stream)
    assert [isa.units_of(s.fields["waits"]) for s in stream[2:5]] == [
        ("load",), ("gemm",), ("vector",)]
    assert one.fault(one.tokens) == ""
    cut = list(one.tokens)
    cut[3] = ((), cut[3][1])
    cut[2] = (cut[2][0], tuple(unit for unit in cut[2][1] if unit != "vector"))
    assert one.fault(cut) == "2 and 3 are in no order"
