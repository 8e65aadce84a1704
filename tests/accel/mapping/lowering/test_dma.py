"""Copies as instructions: every byte goes where the loops say, or is padding."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.machine import isa
from accel.mapping.lowering.dma import LOOPS, DmaCopy, DmaLoop, runs
from accel.mapping.lowering.nest import AffineAddress, Interval, LoweringError
from compiler.te import Var

PAD = "pad"
Moves = dict[int, int | str]
"""Byte of the buffer to byte of DRAM, or to `PAD`."""


def enumerated(dram: AffineAddress, buffer: AffineAddress, extents: dict[Var, int],
               valid: dict[Var, Interval] | None, item: int) -> Moves:
    """Enumerates the loops, one iteration at a time."""
    moves: Moves = {}
    for point in product(*(range(extent) for extent in extents.values())):
        at = dict(zip(extents, point, strict=True))
        exists = valid is not None and all(valid[v][0] <= at[v] < valid[v][1] for v in extents)
        for byte in range(item):
            here = buffer.offset + byte + sum(at[v] * buffer.over(v) for v in extents)
            there = dram.offset + byte + sum(at[v] * dram.over(v) for v in extents)
            moves[here] = there % (1 << 32) if exists else PAD
    return moves


def performed(copies: list[DmaCopy]) -> Moves:
    """What the instructions do, as docs/machine.md says; no byte is written twice."""
    moves: Moves = {}
    for copy in copies:
        fields = isa.decode(isa.DMA, isa.encode(isa.DMA, copy.fields()))
        for point in product(*(range(loop["extent"]) for loop in fields["loops"])):
            steps = list(zip(point, fields["loops"], strict=True))
            padding = any(i < loop["before"] or i >= loop["extent"] - loop["after"]
                          for i, loop in steps)
            here = fields["address"] + sum(i * loop["buffer"] for i, loop in steps)
            there = fields["dram"] + sum(i * loop["dram"] for i, loop in steps)
            for byte in range(fields["run"]):
                assert here + byte not in moves
                moves[here + byte] = PAD if padding else (there + byte) % (1 << 32)
    return moves


@st.composite
def nests(draw):
    """Loops whose destinations are apart, often contiguous; any source strides, often contiguous
    with them; no padding, some, or nothing else.
    """
    item = draw(st.sampled_from((1, 1, 4, 8)))
    count = draw(st.integers(0, 6))
    variables = [Var(f"v{n}") for n in range(count)]
    extents = {var: draw(st.integers(1, 4)) for var in variables}
    strides, steps, reach = {}, {}, item
    for var in draw(st.permutations(variables)):
        strides[var] = reach + draw(st.sampled_from((0, 0, 0, 3)))
        steps[var] = draw(st.one_of(st.just(strides[var]), st.just(strides[var]),
                                    st.integers(-20, 20)))
        reach = strides[var] * extents[var]
    valid = {}
    for var in variables:
        low = draw(st.sampled_from((0, 0, 0, 1))) if extents[var] > 1 else 0
        high = draw(st.sampled_from((extents[var], extents[var], extents[var] - 1)))
        valid[var] = (low, max(high, low + 1))
    dram = AffineAddress(draw(st.integers(-64, 300)), steps)
    return (dram, AffineAddress(draw(st.integers(0, 9)), strides), extents,
            draw(st.sampled_from((valid, valid, valid, None))), item)


@given(nests())
def test_every_byte_goes_where_the_loops_say(nest) -> None:
    copies = list(runs(*nest))
    assert performed(copies) == enumerated(*nest)
    assert all(len(copy.loops) <= LOOPS for copy in copies)


I, J, K, L, M = (Var(name) for name in "ijklm")


def affine(offset: int, **strides: int) -> AffineAddress:
    return AffineAddress(offset, {Var(name): stride for name, stride in strides.items()})


def whole(extents: dict[Var, int]) -> dict[Var, Interval]:
    return {var: (0, extent) for var, extent in extents.items()}


def test_contiguous_loops_are_one_run() -> None:
    extents = {I: 3, J: 4, K: 5}
    form = affine(7, i=20, j=5, k=1)
    assert list(runs(form, form, extents,
                       whole(extents), 1)) == [DmaCopy(7, 7, 60, ())]


def test_loops_that_step_as_one_are_merged() -> None:
    extents = {I: 3, J: 4, K: 5}
    (copy,) = runs(affine(0, i=40, j=10, k=1), affine(0, i=20, j=5, k=1), extents,
                   whole(extents), 1)
    assert copy == DmaCopy(0, 0, 5, (DmaLoop(12, 10, 5, (0, 12)),))


def test_runs_that_overlap_in_memory_follow_each_other() -> None:
    """Windows of three lines: neighbours in a line share bytes, lines of a window do not."""
    extents = {I: 5, J: 3, K: 9}
    (copy,) = runs(affine(0, i=6, j=100, k=1), affine(0, i=32, j=9, k=1), extents,
                   whole(extents), 1)
    assert copy == DmaCopy(0, 0, 9, (DmaLoop(3, 100, 9, (0, 3)), DmaLoop(5, 6, 32, (0, 5))))


def test_padding_of_rows_is_one_instruction() -> None:
    extents = {I: 4, J: 6, K: 16}
    valid = {I: (1, 4), J: (1, 5), K: (0, 16)}
    (copy,) = runs(affine(-80, i=64, j=16, k=1), affine(0, i=96, j=16, k=1), extents, valid, 1)
    assert copy == DmaCopy(-80, 0, 16, (DmaLoop(4, 64, 96, (1, 4)), DmaLoop(6, 16, 16, (1, 5))))
    assert copy.fields()["dram"] == (1 << 32) - 80


def test_padding_within_a_short_run_is_cut_off() -> None:
    """Three channels of sixteen: a run of 3 bytes each pixel, and padding of 13."""
    extents = {J: 6, K: 16}
    first, second = runs(affine(0, j=3, k=1), affine(0, j=16, k=1), extents,
                         {J: (0, 6), K: (0, 3)}, 1)
    assert first == DmaCopy(0, 0, 3, (DmaLoop(6, 3, 16, (0, 6)),))
    assert (second.run, second.buffer, second.filled) == (13, 3, True)


def test_more_than_four_loops_unroll_the_shortest() -> None:
    extents = {I: 3, J: 3, K: 2, L: 3, M: 3}
    strides = {I: 1000, J: 300, K: 90, L: 20, M: 4}
    steps = {var: 5 * stride for var, stride in strides.items()}
    copies = list(runs(AffineAddress(0, steps), AffineAddress(0, strides), extents,
                       whole(extents), 1))
    assert [(copy.dram, copy.buffer, len(copy.loops)) for copy in copies] == [
        (0, 0, 4), (450, 90, 4)]


def test_padding_alone_reads_nothing_with_any_number_of_loops() -> None:
    for count in range(5):
        extents = dict.fromkeys((I, J, K, L)[:count], 3)
        strides = AffineAddress(0, {var: 10 ** (n + 1) for n, var in enumerate(extents)})
        (copy,) = runs(strides, strides, extents, None, 1)
        assert set(performed([copy]).values()) == {PAD}


def test_an_extent_over_the_field_is_refused() -> None:
    extents = {I: 70000}
    with pytest.raises(LoweringError) as refusal:
        list(runs(affine(0, i=2), affine(0, i=4), extents,
                       whole(extents), 1))
    assert str(refusal.value) == ("Extent of a copy's loop must be at most 65536 and its padding "
                                  "4095, not 70000 with (0, 70000)")


def test_padding_over_the_field_is_refused() -> None:
    with pytest.raises(LoweringError) as refusal:
        list(runs(affine(0, i=2), affine(0, i=4), {I: 9000}, {I: (4096, 9000)}, 1))
    assert str(refusal.value) == ("Extent of a copy's loop must be at most 65536 and its padding "
                                  "4095, not 9000 with (4096, 9000)")


def test_a_run_longer_than_the_field_stays_a_loop() -> None:
    extents = {I: 3, J: 1 << 15}
    form = affine(0, i=1 << 15, j=1)
    (copy,) = runs(form, form, extents, whole(extents), 1)
    assert copy == DmaCopy(0, 0, 1 << 15, (DmaLoop(3, 1 << 15, 1 << 15, (0, 3)),))
