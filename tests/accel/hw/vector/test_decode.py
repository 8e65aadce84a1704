"""Decoding against what the declarations of the bodies say."""

import random
from itertools import product

import pytest

from accel.datapath.plan import plan
from accel.hw.vector.decode import IMMEDIATES, PARAMETERS, Decode
from accel.machine.isa import DESTINATIONS, SOURCES_A, SOURCES_B, VECTOR
from tests.support.amaranth_sim import simulate
from tests.support.unit_bench import MACHINES

TINY = MACHINES[0]
PLAN = plan(TINY, "vector")
NO_OPCODE = next(code for code in range(256) if code not in PLAN.opcodes)


def random_word(rng, opcode, a, b, to):
    return {"opcode": opcode, "a_source": a, "b_source": b, "destination": to,
            "reset": rng.randrange(2), "banks": rng.randrange(4),
            **{name: rng.choice(signed_range(name)) for name in IMMEDIATES}}


def signed_range(name):
    shape = VECTOR[name].shape
    width, signed = (shape.width, shape.signed) if hasattr(shape, "width") else (shape, False)
    return (-1 << width - 1, 0, 5, (1 << width - 1) - 1) if signed else (0, 5, (1 << width) - 1)


def meaning(word):
    """The operation as a dict; sources and destination as the names that are set."""
    number = PLAN.opcodes.index(word["opcode"]) if word["opcode"] in PLAN.opcodes else None
    scopes = {} if number is None else {
        operand.name: operand.scopes for operand in (*PLAN.bodies[number].operands,
                                                     PLAN.bodies[number].dst)}
    given = {"a": SOURCES_A[word["a_source"]], "b": SOURCES_B[word["b_source"]],
             "dst": DESTINATIONS[word["destination"]]}
    illegal = number is None or any(given[name] not in scopes[name]
                                    for name in given if name in scopes)
    a = {given["a"]} if "a" in scopes and not illegal else set()
    b = {given["b"]} if "b" in scopes and not illegal else set()
    b |= {"par"} if any(name in scopes for name in PARAMETERS) and not illegal else set()
    b |= {"tab"} if "table" in scopes and not illegal else set()
    return {"select": 0 if number is None else 1 << number, "a": a, "b": b,
            "to": set() if illegal else {given["dst"]}, "illegal": int(illegal),
            "twice": int(bool(a & b & {"acc", "res"})),
            **{name: word[name] for name in ("reset", "banks", *IMMEDIATES)}}


def seen(operation):
    sets = {name: {scope for scope, _ in getattr(operation, name).shape()
                   if getattr(operation, name)[scope]} for name in ("a", "b", "to")}
    return {**sets, **{name: int(operation[name]) for name in
                       ("select", "illegal", "twice", "reset", "banks", *IMMEDIATES)}}


@pytest.mark.parametrize("opcode", [*PLAN.opcodes, NO_OPCODE])
def test_matches_meaning(opcode):
    """Every selector, one word a cycle; its operation stands in the next cycle."""
    rng = random.Random(opcode)
    words = [random_word(rng, opcode, *codes) for codes in product(
        range(len(SOURCES_A)), range(len(SOURCES_B)), range(len(DESTINATIONS)))]
    dut, operations = Decode(PLAN, VECTOR), []

    async def bench(ctx):
        for word in words:
            ctx.set(dut.word, word)
            await ctx.tick()
            operations.append(seen(ctx.get(dut.operation)))

    simulate(dut, bench)
    assert operations == [meaning(word) for word in words]
