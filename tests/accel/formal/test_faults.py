"""Faults planted in hardware are found: of each the claim about that part is refuted."""

import importlib
from dataclasses import replace

import pytest

from accel.datapath.plan import plan
from accel.formal import datapaths
from accel.formal.accumulators import hazard_claims, update_claims
from accel.formal.arbiters import arbiter_claims
from accel.formal.moving import stepper_claims, unpack_claims
from accel.formal.operands import operand_claims
from accel.formal.proving import parts_of
from accel.formal.queues import queue_claims, relay_claims
from accel.formal.tokens import token_claims
from accel.hw.vector.operands import Operands
from accel.machine.loading import load_machine
from accel.machine.timing import TIMING
from tests.accel.formal.faults import (ARBITER, BODIES, DATAPATH, DMA, HAZARDS, OPERANDS, QUEUE,
                                       TOKENS, UNPACK, UPDATE, Fault)

TINY = load_machine("ecp5-1x2x2")


def first_of_each(faults, length: int) -> list:
    """Marks faults as slow that begin with the same `length` entries as one before, a cheap one."""
    kinds = [fault[:length] for fault in faults]
    return [pytest.param(*fault, marks=pytest.mark.slow if kind in kinds[:place] else ())
            for place, (fault, kind) in enumerate(zip(faults, kinds, strict=True))]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body, right, wrong", first_of_each(BODIES, 1))
def test_in_a_datapath(monkeypatch, body, right, wrong):
    made = Fault(DATAPATH, right, wrong).module_with_it()
    monkeypatch.setattr(datapaths, "Datapath", made.Datapath)
    refuted = [claim for claim in datapaths.datapath_claims(TINY) if claim.instruction == body
               and claim.decide(60).proved is False]
    assert refuted


def test_a_fault_comes_with_numbers_that_show_it(monkeypatch):
    made = Fault(DATAPATH, *BODIES[3][1:]).module_with_it()
    monkeypatch.setattr(datapaths, "Datapath", made.Datapath)
    (claim,) = (one for one in datapaths.datapath_claims(TINY) if one.instruction == "sub")
    values = claim.decide(60).values
    assert values["a[0]"] - values["b[0]"] != values["b[0]"] - values["a[0]"]


def decided(claims) -> list:
    return [claim.decide(60).proved for claim in claims]


def queues(module):
    return [claim for queue in (module.Queue(8, 4, 1), module.Queue(8, 4, 2),
                                module.Queue(8, 4, 3, pause=True))
            for claim in queue_claims(queue, "queue")]


def relays(module):
    return relay_claims(module.Relay(8), "relay")


def updates(module):
    made = plan(TINY, "vector")
    return update_claims(module.Update(("sum", "max", "min"), 2, 8, 3, made.value_bits,
                                       TIMING.read_cycles), "update")


def operands(module):
    machine = load_machine("tiny-1x4x4")        # with several lanes
    widths = next(part.widths for _, part in parts_of(machine) if isinstance(part, Operands))
    return operand_claims(module.Operands(machine.config, plan(machine, "vector"), widths),
                          "operands")


def steppers(module):
    return [claim for kept in (0, 2) for claim in stepper_claims(
        module.Stepper(TINY.config, 12, 14, 3, kept), "stepper", "load")]


def unpacks(module):
    config = replace(TINY.config, weight_bits=(8, 4, 2))
    return unpack_claims(module.Unpack(config), "unpack", "load")


PARTS = {
    OPERANDS: operands, UPDATE: updates, DMA: steppers, UNPACK: unpacks,
    HAZARDS: lambda module: hazard_claims(module.Hazards(8, 5), "hazards"),
    TOKENS: lambda module: token_claims(module.Tokens(TIMING), "tokens"),
    ARBITER: lambda module: arbiter_claims(module.Arbiter(TINY.config), "arbiter"),
}
FAULTS = [
    (queues, QUEUE, "full.eq(count == limit - 1)", "full.eq(count == limit)"),
    (queues, QUEUE, "some.eq(count != 1)", "some.eq(count != 0)"),
    (queues, QUEUE, "w_port.addr.eq(tail)", "w_port.addr.eq(head)"),
    (queues, QUEUE, "free = ~self.o.valid if self.pause else ~self.o.valid | self.o.ready",
     "free = Const(1)"),
    (relays, QUEUE, "with m.If(~held):", "with m.If(~self.o.valid):"),
    (None, UPDATE, "old = Mux(last, fresh, base)", "old = base"),
    (None, UPDATE, "early = control(same[2:].any(), \"early\")",
     "early = control(same[2:-1].any(), \"early\")"),
    (None, UPDATE, "second[lane], fresh, Mux(", "second[lane], base[bits], Mux("),
    (None, OPERANDS, "Mux(a_from_acc[lane], acc[lane], stored)", "acc[lane]"),
    (None, OPERANDS, "with m.If(takes_b[lane]):", "with m.If(takes_a[lane]):"),
    (None, OPERANDS, "self._sources(m, platform, s1, s2.operation.imm, par)",
     "self._sources(m, platform, s1, s1.operation.imm, par)"),
    (None, OPERANDS, "par[lane % self.columns].bias", "par[0].bias"),
    (None, HAZARDS, "meets = [self._meets(acc, entry) for acc, entry in places[:len(flags)]]",
     "meets = [self._meets(acc, entry) for acc, entry in places[1:]]"),
    (None, HAZARDS, "Cat(meets[1:]).any()", "Cat(meets[2:]).any()"),
    (None, TOKENS, "user.available[number].eq(some)", "user.available[number].eq(full)"),
    (None, TOKENS, "port.signals & Cat(fulls)", "port.signals & Cat(fulls[:-1])"),
    (None, TOKENS, "m.d.sync += taken.eq(user.take & user.waits[number])",
     "m.d.sync += taken.eq(user.take & user.waits[place])"),
    (None, ARBITER, "client.request.ready.eq(free & ~taken)", "client.request.ready.eq(free)"),
    (None, ARBITER, "beat == owners.o.p.last", "beat + 1 == owners.o.p.last"),
    (None, ARBITER, "Mux(opened, left == bursts - 1, left == bursts)", "left == bursts"),
    (None, DMA, "passed.eq(lower & several & (run.again != 0))", "passed.eq(0)"),
    (None, DMA, "lane > late_after", "lane >= late_after"),
    (None, DMA, "(~last | (lane <= last_lane))", "(~last | (lane < last_lane))"),
    (None, UNPACK, "e[-1].replicate(8 - bits)", "Const(0, 8 - bits)"),
    (None, UNPACK, "self.addr[:free] == part", "self.addr[:free] != part"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claims, module, right, wrong", first_of_each(FAULTS, 2))
def test_in_a_part(claims, module, right, wrong):
    claims = claims or PARTS[module]
    made = Fault(module, right, wrong).module_with_it()
    assert False in decided(claims(made))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("claims, module", [(queues, QUEUE), (relays, QUEUE), *(
    (claims, module) for module, claims in PARTS.items())])
def test_without_a_fault_all_holds(claims, module):
    assert set(decided(claims(importlib.import_module(module)))) == {True}
