"""Claims that hold are proved, and netlists are read as they simulate."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from accel.datapath.plan import plan
from accel.formal.claims import all_of
from accel.formal.datapaths import datapath_claims
from accel.formal.logic import Logic, ProofError
from accel.formal.proving import claims_of, parts_of, prove
from accel.formal.unrolled import Unrolled
from accel.hw.compute.datapath import Datapath
from accel.hw.compute.update import Update
from accel.hw.core.tokens import Tokens
from accel.hw.moving.arbiter import Arbiter
from accel.hw.moving.dma import Stepper
from accel.hw.queue import Queue
from accel.machine.loading import load_machine
from accel.machine.timing import TIMING
from tests.support.machines import example

SMALL = load_machine("ecp5-1x2x2")
CYCLES = 12


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body", ["gemm", "add", "max", "mul", "shr", "requantize", "lookup"])
def test_bodies_of_the_smallest_machine(body):
    (claim,) = (one for one in datapath_claims(SMALL) if one.instruction == body)
    answer = claim.decide(120)
    assert answer.proved, answer


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["ecp5-1x2x2", "tiny-1x4x4", "ecp5-1x8x8", "pynq-1x16x16"])
def test_whole_machines(machine):
    proofs = prove(load_machine(machine))
    assert all(one.answer.proved for one in proofs.proofs)
    assert proofs.unclaimed == ("finish: fetch performs it",)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["argmax", "hardswish", "int16", "depthwise", "sparse"])
def test_instructions_of_ones_own(machine):
    proofs = prove(load_machine(f"examples/machines/{machine}.py"))
    assert all(one.answer.proved for one in proofs.proofs)


def test_every_part_of_a_kind_is_claimed():
    claims = [claim.name for claim in claims_of(SMALL)]
    for path, part in parts_of(SMALL):
        if isinstance(part, Update | Tokens | Arbiter | Stepper):
            assert any(name.startswith(f"{path}: ") for name in claims), path
    assert len(set(claims)) == len(claims)


def test_floats_are_not_decided():
    proofs = prove(example("bfloat16", SMALL), only="add: ")
    assert [(one.answer.proved, one.answer.reason) for one in proofs.proofs] == [
        (None, "Bodies must be of integers for a proof, not of floats")]


def test_of_the_impossible_nothing_is_proved():
    logic = Logic()
    x = logic.symbol("x", 4)
    given = [logic.compared("ult", x, logic.number(2, 4)),
             logic.compared("ult", logic.number(2, 4), x)]
    with pytest.raises(AssertionError, match="impossible"):
        all_of(logic, [logic.number(0, 1)], given, 10)


def test_what_is_not_decided_says_in_which_time():
    (claim,) = (one for one in datapath_claims(SMALL) if one.instruction == "requantize")
    answer = claim.decide(0.01)
    assert (answer.proved, answer.reason) == (None, "not decided in 0 seconds")


def test_without_the_solver(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bitwuzla", None)
    with pytest.raises(ProofError, match=r"pip install 'lockstep-hw\[prove\]'"):
        prove(SMALL)


PARTS = {
    "queue": lambda: Queue(8, 4, 2), "pause": lambda: Queue(8, 8, 3, pause=True),
    "tokens": lambda: Tokens(TIMING), "arbiter": lambda: Arbiter(SMALL.config),
    "stepper": lambda: Stepper(SMALL.config, 12, 14, 3, 2),
    "update": lambda: Update(("sum", "max"), 2, 8, 3, 32, TIMING.read_cycles),
    "gemm": lambda: Datapath(plan(SMALL, "gemm")),
    "vector": lambda: Datapath(plan(SMALL, "vector")),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_netlist_is_read_as_it_simulates(name):
    """With numbers for inputs all outputs are numbers: those of Amaranth's simulator."""
    rng = np.random.default_rng(20)
    logic = Logic()
    inputs = Unrolled(logic, PARTS[name]()).netlist.inputs
    given = {port: [int.from_bytes(rng.bytes(-(-len(nets) // 8)), "little") % (1 << len(nets))
                    for _ in range(CYCLES)]
             for port, nets in inputs.items() if port not in ("clk", "rst")}
    hardware = Unrolled(logic, component := PARTS[name](), started=True, given={
        port: lambda cycle, port=port: logic.number(given[port][cycle], len(inputs[port]))
        for port in given})
    seen = simulated(component, given)
    for cycle in range(CYCLES):
        for port in hardware.netlist.outputs:
            term = hardware.output(port, cycle)
            same = logic.compared("eq", term, logic.number(seen[cycle][port], logic.width(term)))
            assert logic.decide(same).proved, (port, cycle)


def simulated(component, given) -> list[dict[str, int]]:
    ports = {"__".join(map(str, path)): value for path, _, value
             in component.signature.flatten(component)}
    seen = []

    async def drive(ctx):
        for cycle in range(CYCLES):
            for port, numbers in given.items():
                ctx.set(as_bits(ports[port]), numbers[cycle])
            seen.append({port: ctx.get(as_bits(value)) for port, value in ports.items()
                         if port not in given})
            await ctx.tick()

    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    return seen


def as_bits(value):
    from amaranth.hdl import Value

    return Value.cast(value).as_unsigned()
