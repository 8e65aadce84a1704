"""Streams that read only the first places of caches: for positions below so many.

Most layers of a segment do not depend on the position, and their words are the same in all its
streams. So a `PrefixStream` has only the layers that differ from those of the whole; the driver
puts them between the others before a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.machine.program import AccelProgram, Stream
from accel.machine.work import Work
from accel.mapping.puts import PlacePut

__all__ = ["OWN_LAYER", "PrefixStream", "prefix_of_program", "with_room"]

OWN_LAYER = -1
"""Stands for the next layer of a stream's own."""

LayerWork = tuple[tuple[Work, ...], ...]


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

    @property
    def ends(self) -> list[int]:
        return [0, *(end for _, end in self.layers)]

    def count(self, whole: AccelProgram) -> int:
        """How many instructions the stream has."""
        ends = [0, *(end for _, end in whole.layers)]
        shared = [number for number in self.order if number != OWN_LAYER]
        return len(self.own) + sum(ends[number + 1] - ends[number] for number in shared) + (
            whole.count - ends[-1])

    def program(self, whole: AccelProgram) -> AccelProgram:
        """The program, in the memory of the whole."""
        ends, mine = [0, *(end for _, end in whole.layers)], self.ends
        pieces, layers, next_own, top = [], [], 0, 0
        for number in self.order:
            if number == OWN_LAYER:
                begin, end = mine[next_own:next_own + 2]
                name, begin, end = self.layers[next_own][0], whole.count + begin, whole.count + end
                next_own += 1
            else:
                name, begin, end = whole.layers[number][0], *ends[number:number + 2]
            pieces.append(np.arange(begin, end))
            top += end - begin
            layers.append((name, top))
        order = np.concatenate([*pieces, np.arange(ends[-1], whole.count)])
        stream = Stream.joined([Stream(whole.words, whole.provenance), self.own]).take(order)
        return replace(whole, words=stream.words, provenance=stream.provenance,
                       layers=tuple(layers))

    def all_work(self, whole: LayerWork) -> LayerWork:
        """The work of all its layers."""
        own = iter(self.work)
        return tuple(next(own) if number == OWN_LAYER else whole[number] for number in self.order)


def prefix_of_program(places: int, program: AccelProgram, work: LayerWork,
                      puts: Sequence[PlacePut], whole: AccelProgram, shared: Sequence[int]
                      ) -> PrefixStream:
    """What a program has of its own; `shared` says, for each of its layers, which one of the whole
    it may be, `OWN_LAYER` if none. It is that one if all words are the same, tokens included.
    """
    theirs, ends = [0, *(end for _, end in whole.layers)], [0, *(end for _, end in program.layers)]
    order, own, layers, mine, top = [], [], [], [], 0
    for number, (begin, end) in enumerate(zip(ends, ends[1:])):
        other = shared[number]
        if other == OWN_LAYER or not np.array_equal(
                program.words[begin:end], whole.words[theirs[other]:theirs[other + 1]]):
            other, top = OWN_LAYER, top + end - begin
            own.append(np.arange(begin, end))
            layers.append((program.layers[number][0], top))
            mine.append(work[number])
        order.append(other)
    chosen = np.concatenate(own) if own else np.zeros(0, np.int64)
    stream = Stream(program.words, program.provenance).take(chosen)
    return PrefixStream(places, tuple(order), stream, tuple(layers), tuple(mine), tuple(puts))


def with_room(program: AccelProgram, prefixes: Sequence[PrefixStream]) -> AccelProgram:
    """The whole program with room for the words of each of its streams."""
    counts = [program.count, *(prefix.count(program) for prefix in prefixes)]
    return replace(program, program_bytes=max(counts) * program.words.shape[1] if prefixes else 0)
