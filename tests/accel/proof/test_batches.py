"""What native code says that a stream touches is what `touches` says of every instruction."""


import numpy as np
import pytest

from accel.machine.program import Stream
from accel.machine.origins import Origins
from accel.proof import batches
from accel.proof.access import event
from accel.proof.batches import MEMORIES, Batches
from accel.sim.programs.generate import generate
from compiler.latency_hiding import Batch, measure
from tests.support.effort import tries
from tests.support.machines import MACHINES


def touched(batch: Batch, index: int) -> set[tuple[str, bool, int]]:
    """Memory, whether it is written, and every address, of one event of a batch."""
    found = set()
    first = batch.first[index]
    for one in batch.sets[first:first + batch.count[index]]:
        places = np.array([one["start"]])
        for extent, stride in batch.loops[one["loop"]:one["loop"] + one["loops"]].tolist():
            places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
        every = (places[:, None] + np.arange(one["length"])).reshape(-1)
        found |= {(MEMORIES[one["memory"]], bool(one["write"]), address)
                  for address in every.tolist()}
    return found


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_random_programs(name: str) -> None:
    machine = MACHINES[name]
    for seed in range(tries(6)):
        program = generate(machine, seed).program
        stream = Batches(machine, program.words[:-1], Origins(), program.segment_sizes)
        index = 0
        for batch in stream:
            for number in range(len(batch)):
                instruction = program.instruction(machine, index)
                expected = {(access.memory, access.write, address)
                            for access in event(machine, instruction).accesses
                            for start, stop in access.intervals()
                            for address in range(start, stop)}
                assert touched(batch, number) == expected, (seed, index)
                index += 1
        assert index == program.count - 1 == len(stream)


def test_batches_follow_each_other(monkeypatch) -> None:
    """The last batch is a short one, and a stream may have no instruction."""
    machine = next(iter(MACHINES.values()))
    program = generate(machine, 3).program
    words = program.words[:-1]
    whole = list(Batches(machine, words, Origins(), {}))
    monkeypatch.setattr(batches, "SIZE", 7)
    parts = list(Batches(machine, words, Origins(), {}))
    assert [len(part) for part in parts] == [7] * (len(words) // 7) + [len(words) % 7] * (
        len(words) % 7 > 0)
    assert np.concatenate([part.unit for part in parts]).tolist() == whole[0].unit.tolist()
    assert list(Batches(machine, words[:0], Origins(), {})) == []
    one, other = measure(whole, len(MEMORIES)), measure(parts, len(MEMORIES))
    assert np.array_equal(one.granule, other.granule) and np.array_equal(one.stop, other.stop)


def test_a_granule_divides_all_addresses() -> None:
    machine = next(iter(MACHINES.values()))
    program = generate(machine, 5).program
    stream = Batches(machine, program.words[:-1], Origins(), program.segment_sizes)
    measures = stream.measures
    for index in range(len(stream)):
        for access in stream.event(index).accesses:
            granule = measures.granule[MEMORIES.index(access.memory)]
            assert all(start % granule == stop % granule == 0
                       for start, stop in access.intervals())
            assert access.stop <= measures.stop[MEMORIES.index(access.memory)]


def test_streams_are_joined_and_cut() -> None:
    machine = next(iter(MACHINES.values()))
    program = generate(machine, 2).program
    stream = Stream(program.words, program.origins)
    half = len(stream) // 2
    order = np.arange(len(stream))
    both = Stream.joined([stream.take(order[:half]), stream.take(order[half:])])
    assert np.array_equal(both.words, stream.words) and both.origins == stream.origins
    assert len(Stream.joined([])) == 0
    back = both.take(order[::-1]).take(order[::-1])
    assert np.array_equal(back.words, stream.words) and back.origins == stream.origins


