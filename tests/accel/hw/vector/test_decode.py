"""Decoding against what the declarations of the bodies say."""

import random
from itertools import product

import pytest

from accel.datapath.plan import plan
from accel.hw.vector.decode import IMMEDIATES, PARAMETERS, Decode
from accel.machine.intrinsics import operand_field
from accel.machine.isa import DESTINATIONS, SOURCES_A, SOURCES_B, THREE, VECTOR
from tests.support.amaranth_sim import ready
from tests.support.unit_bench import MACHINES

PLANS = [plan(machine, "vector") for machine in MACHINES[:2]]
"""Without and with bodies of three operands."""
CASES = [(own, opcode) for own in PLANS for opcode in (
    *own.opcodes, next(code for code in range(256) if code not in own.opcodes))]


def random_word(rng, own, opcode, a, b, to):
    third = {"c": rng.randrange(1 << 16)} if own.third else {}
    return {**third, "opcode": opcode, "a_source": a, "b_source": b, "destination": to,
            "reset": rng.randrange(2), "banks": rng.randrange(4),
            **{name: rng.choice(signed_range(name)) for name in IMMEDIATES}}


def signed_range(name):
    shape = VECTOR[name].shape
    width, signed = (shape.width, shape.signed) if hasattr(shape, "width") else (shape, False)
    return (-1 << width - 1, 0, 5, (1 << width - 1) - 1) if signed else (0, 5, (1 << width) - 1)


def meaning(own, word):
    """The operation as a dict; sources and destination as the names that are set."""
    number = own.opcodes.index(word["opcode"]) if word["opcode"] in own.opcodes else None
    body = None if number is None else own.bodies[number]
    scopes = {} if body is None else {
        operand.name: operand.scopes for operand in (*body.operands, body.dst)}
    given = {"a": SOURCES_A[word["a_source"]], "b": SOURCES_B[word["b_source"]],
             "dst": DESTINATIONS[word["destination"]]}
    illegal = number is None or any(given[name] not in scopes[name]
                                    for name in given if name in scopes)
    a = {given["a"]} if "a" in scopes and not illegal else set()
    places = {"b": {given["b"]} if "b" in scopes and not illegal else set(), "c": set()}
    for name in (*PARAMETERS, "table") if body is not None and not illegal else ():
        if name in scopes:
            places[operand_field(body, name)] |= set(scopes[name])
    b, third = places["b"], {"c": places["c"], "entry": word["c"]} if own.third else {}
    return {**third, "select": 0 if number is None else 1 << number, "a": a, "b": b,
            "to": set() if illegal else {given["dst"]}, "illegal": int(illegal),
            "twice": int(bool(a & b & {"acc", "res"})),
            **{name: word[name] for name in ("reset", "banks", *IMMEDIATES)}}


def seen(own, operation):
    third = ("c",) if own.third else ()
    sets = {name: {scope for scope, _ in getattr(operation, name).shape()
                   if getattr(operation, name)[scope]} for name in ("a", "b", "to", *third)}
    sets |= {"entry": int(operation.entry)} if third else {}
    return {**sets, **{name: int(operation[name]) for name in
                       ("select", "illegal", "twice", "reset", "banks", *IMMEDIATES)}}


def decoder(place: int) -> Decode:
    own = PLANS[place]
    return Decode(own, THREE if own.third else VECTOR)


@pytest.mark.parametrize(("own", "opcode"), CASES)
def test_matches_meaning(own, opcode):
    """Every selector, one word a cycle; its operation stands in the next cycle."""
    rng = random.Random(opcode)
    words = [random_word(rng, own, opcode, *codes) for codes in product(
        range(len(SOURCES_A)), range(len(SOURCES_B)), range(len(DESTINATIONS)))]
    dut, simulation = ready(decoder, PLANS.index(own))
    operations = []

    async def bench(ctx):
        for word in words:
            ctx.set(dut.word, word)
            await ctx.tick()
            operations.append(seen(own, ctx.get(dut.operation)))

    simulation.run(bench)
    assert operations == [meaning(own, word) for word in words]
