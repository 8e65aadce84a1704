"""Stream units: rows in order, whatever their components do; errors, times, tables."""

from dataclasses import replace
from random import Random

import pytest

from accel.machine.config import preset
from accel.machine.program import Instruction
from tests.support.streams import (LONGEST, machine_of, picks_of, row_instruction)
from tests.support.stream_bench import StreamBench, assert_means

MACHINE = machine_of()
PICKS = picks_of()
BATCHED = machine_of(replace(
    preset("tiny-1x4x4"), batch=2, block_out=8, par_bytes=1024, wgt_bytes=4096,
    timing=replace(preset("tiny-1x4x4").timing, read_cycles=3, nest_cycles=5, ahead=2,
                   in_flight=2)))


def random_rows(machine, unit: str, seed: int) -> list[Instruction]:
    """Instructions in range, of any length and way."""
    rng, buffers = Random(seed), machine.config.buffers
    (dst,), result = machine.structure.unit(unit).writes, []
    for _ in range(6):
        form = machine.intrinsic(rng.choice([one.name for one in machine.of_unit(unit)]))
        length = rng.choice([1, 2, 3, min(7, form.longest)])
        rows = rng.choice([1, 1, 2, 4])
        source = rng.choice(form.operands[0].scopes)
        base = {"a": rng.randrange(12), "dst": rng.randrange(12, 24),
                "b": rng.randrange(8)}
        assert buffers[source].depth >= 64 <= buffers[dst].depth
        result.append(row_instruction(
            machine, form.name, rows, length, base, rng.choice([1, 2, -1]), source=source,
            entries=rng.randrange(3),
            **{one.name: rng.randint(one.low, one.high) for one in form.immediates}))
    return result


@pytest.mark.parametrize("refuse", [0.0, 0.5])
@pytest.mark.parametrize("machine", [MACHINE, BATCHED], ids=["1x4x4", "2x4x8"])
def test_rows_are_those_of_the_meaning(machine, refuse: float) -> None:
    for seed in range(2):
        assert_means(machine, "turn", random_rows(machine, "turn", seed), seed, refuse)


def test_tables_are_those_of_their_instruction() -> None:
    for seed in range(2):
        assert_means(PICKS, "pick", random_rows(PICKS, "pick", seed), seed, 0.3 * seed)


def test_latency() -> None:
    """A row reaches a component as the docstring says, and is written in the cycle after."""
    one = row_instruction(MACHINE, "raise_by", 1, 5, {}, more=3)
    bench = assert_means(MACHINE, "turn", [one])
    timing, (taken,) = MACHINE.config.timing, bench.taken
    first = taken + 3 + timing.nest_cycles + timing.read_cycles + 1
    assert [cycle for cycle, _ in bench.writes] == [first + k for k in range(5)]
    assert bench.retired[0] == first + 4 + 2


def test_throughput() -> None:
    """An entry a cycle, and none is lost between instructions."""
    some = [row_instruction(MACHINE, "raise_by", 4, 3, {}, more=k) for k in range(3)]
    cycles = [cycle for cycle, _ in assert_means(MACHINE, "turn", some).writes]
    assert cycles == [*range(cycles[0], cycles[0] + 36)]


def test_a_unit_is_busy_until_its_last_write() -> None:
    bench = assert_means(MACHINE, "turn", [row_instruction(MACHINE, "reverse", 1, LONGEST, {})])
    busy = bench.activity[bench.taken[0]:bench.writes[-1][0] + 1]
    assert set(busy) == {"busy"}


@pytest.mark.parametrize(("fields", "errors"), [
    ({"loops": [{}, {}, {}, {}, {"extent": LONGEST + 1}]}, "ILLEGAL"),
    ({"a_source": 1}, "ILLEGAL"),
    ({"a_source": 7, "base": {"dst": 1 << 15}}, "ILLEGAL"),
    ({"base": {"a": 1 << 15}}, "ADDRESS"),
    ({"base": {"dst": 1 << 15}}, "ADDRESS")])
def test_errors_are_reported_and_the_rest_goes_on(fields, errors: str) -> None:
    good = row_instruction(MACHINE, "reverse", 2, 4, {})
    wrong = replace(good, fields={**good.fields, **fields})
    bench = StreamBench(MACHINE, "turn", [good, wrong, good]).run()
    assert {index for index, _ in bench.errors} == {1}
    assert bench.errors[0] == (1, errors)
    assert [*bench.retired] == [0, 1, 2]


def test_a_table_ends_in_its_buffer() -> None:
    depth = PICKS.config.buffers["inp"].depth
    inside = row_instruction(PICKS, "pick_from", 1, 2, {"b": depth - 4}, entries=2)
    beyond = row_instruction(PICKS, "pick_from", 1, 2, {"b": depth - 3}, entries=2)
    bench = StreamBench(PICKS, "pick", [inside, beyond]).run()
    assert {*bench.errors} == {(1, "ADDRESS")}
