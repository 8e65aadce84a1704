"""The generator of random programs: it repeats itself, is legal, and places only needed tokens."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.timing import CoreTiming
from accel.proof.legal import IllegalProgram, prove
from accel.sim.meaning import functional
from accel.sim.programs.generate import generate
from tests.support.effort import tries

MACHINE = Machine(preset("tiny-1x4x4"))
WIDE = Machine(replace(preset("tiny-1x4x4"), name="wide", batch=2, block_in=8, block_out=16,
                       wgt_bytes=8192, acc_bytes=8192, bus_bytes=16))


def test_a_seed_gives_one_program():
    one, again, other = generate(MACHINE, 3), generate(MACHINE, 3), generate(MACHINE, 4)
    assert np.array_equal(one.program.words, again.program.words)
    assert np.array_equal(one.memory, again.memory) and one.timing == again.timing
    assert not np.array_equal(one.program.words, other.program.words)


FEW_TOKENS = Machine(replace(preset("tiny-1x4x4"), timing=CoreTiming(token_bits=1)))


@pytest.mark.parametrize("machine", [MACHINE, WIDE, FEW_TOKENS], ids=["tiny", "wide", "tokens"])
def test_programs_are_proved_legal_and_end(machine):
    for seed in range(tries(40)):
        case = generate(machine, seed)
        prove(machine, case.program)
        assert functional.simulate(machine, case.program, case.memory).ok


def without(case, source, target, number):
    """The program without one signal of a pair and the wait that it matches."""
    stream = case.program.instructions(MACHINE)
    signals = [k for k, one in enumerate(stream) if one.unit == source and target in one.signals]
    waits = [k for k, one in enumerate(stream) if one.unit == target and source in one.waits]
    changes = ((signals[number], "signals", target), (waits[number], "waits", source))
    for place, key, unit in changes:
        fields = stream[place].fields
        mask = fields[key] & ~isa.unit_mask([unit])
        stream[place] = replace(stream[place], fields={**fields, key: mask})
    return replace(case.program, words=AccelProgram.assemble(MACHINE, stream).words)


def test_the_proof_refuses_programs_that_lack_a_token():
    """Most tokens are needed; those that are not were added at random."""
    refused = kept = 0
    for seed in range(tries(6)):
        case = generate(MACHINE, seed)
        pairs = [(s, one.unit) for one in case.program.instructions(MACHINE) for s in one.waits]
        for pair in sorted(set(pairs)):
            if pair[0] == pair[1]:
                continue
            for number in range(pairs.count(pair)):
                try:
                    prove(MACHINE, without(case, *pair, number))
                    kept += 1
                except IllegalProgram as error:
                    assert "in no fixed order" in str(error)
                    refused += 1
    assert refused > 40 and kept > 10
