"""Streams that read only the first places of caches: for positions below so many.

Most layers of a segment do not depend on the position, and their words are the same in all its
streams. So a `PrefixStream` has only the layers that differ from those of the whole; the driver
puts them between the others before a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from accel.machine.program import AccelProgram, Stream
from accel.figures.work import Work
from accel.mapping.positions.puts import PlacePut

OWN_LAYER = -1
"""Stands for the next layer of a stream's own."""

LayerWork = tuple[tuple[Work, ...], ...]


Span = tuple[str, int, int]
"""A layer's name, its first instruction, and one past its last."""


@dataclass(frozen=True)
class PrefixStream:
    """A stream for positions below `places`, which reads so many places of each cache.

    Parameters
    ----------
    order : each layer in order: its number among those of the whole program, or `OWN_LAYER`.
    own : the words of its own layers.
    layers, work : its own layers, as a program has them.
    puts : stores of the whole stream, own layers among the others.
    """

    places: int
    order: tuple[int, ...]
    own: Stream
    layers: tuple[tuple[str, int], ...]
    work: LayerWork
    puts: tuple[PlacePut, ...]

    def count(self, whole: AccelProgram) -> int:
        """The number of instructions in the stream."""
        return sum(end - begin for _, begin, end in self._spans(whole)) + len(_rest(whole))

    def program(self, whole: AccelProgram) -> AccelProgram:
        """The program, in the memory of the whole."""
        spans = self._spans(whole)
        order = np.concatenate([*(np.arange(begin, end) for _, begin, end in spans), _rest(whole)])
        stream = Stream.joined([Stream(whole.words, whole.origins), self.own]).take(order)
        ends = accumulate(end - begin for _, begin, end in spans)
        return replace(whole, words=stream.words, origins=stream.origins,
                       layers=tuple((name, top) for (name, _, _), top in zip(spans, ends)))

    def _spans(self, whole: AccelProgram) -> list[Span]:
        """Its layers, in a stream of the whole with its own layers behind."""
        theirs, mine = _spans_of(whole.layers), iter(_spans_of(self.layers, whole.count))
        return [next(mine) if number == OWN_LAYER else theirs[number] for number in self.order]

    def all_work(self, whole: LayerWork) -> LayerWork:
        """The work of all its layers."""
        own = iter(self.work)
        return tuple(next(own) if number == OWN_LAYER else whole[number] for number in self.order)


def prefix_of_program(places: int, program: AccelProgram, work: LayerWork,
                      puts: Sequence[PlacePut], whole: AccelProgram, shared: Sequence[int]
                      ) -> PrefixStream:
    """The part of a program that differs from the whole stream.

    `shared` has, for each of its layers, the layer of the whole that it may be, or `OWN_LAYER`. It
    is that layer if all words are the same, tokens included.
    """
    theirs, top = _spans_of(whole.layers), 0
    order, own, layers, mine = list[int](), list[np.ndarray](), list[tuple[str, int]](), []
    for (name, begin, end), other, its in zip(_spans_of(program.layers), shared, work, strict=True):
        if other != OWN_LAYER:
            _, first, last = theirs[other]
            if not np.array_equal(program.words[begin:end], whole.words[first:last]):
                other = OWN_LAYER
        order.append(other)
        if other == OWN_LAYER:
            top += end - begin
            own.append(np.arange(begin, end))
            layers.append((name, top))
            mine.append(its)
    chosen = np.concatenate(own) if own else np.zeros(0, np.int64)
    stream = Stream(program.words, program.origins).take(chosen)
    return PrefixStream(places, tuple(order), stream, tuple(layers), tuple(mine), tuple(puts))


def with_room(program: AccelProgram, prefixes: Sequence[PrefixStream]) -> AccelProgram:
    """The whole program with room for the words of each of its streams."""
    counts = [program.count, *(prefix.count(program) for prefix in prefixes)]
    return replace(program, program_bytes=max(counts) * program.words.shape[1] if prefixes else 0)


def _spans_of(layers: Sequence[tuple[str, int]], begin: int = 0) -> list[Span]:
    """The layers of a stream whose first instruction has this number."""
    ends = [begin, *(begin + end for _, end in layers)]
    return [(name, *span) for (name, _), span in zip(layers, pairwise(ends), strict=True)]


def _rest(whole: AccelProgram) -> np.ndarray:
    """The instructions behind all layers."""
    return np.arange(whole.layers[-1][1] if whole.layers else 0, whole.count)
