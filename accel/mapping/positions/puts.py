"""Stores that put a row at a place which a value of the run says: the driver moves their addresses
before the program starts.

A stream is compiled for place 0. For tokens and proof each such store writes all places, so what is
proved holds at every place: the accesses of one place are some of these, and all else is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, Stream
from accel.mapping.lowering.nest import LoweringError

ONE = {"extent": 1, "dram": 0, "buffer": 0, "before": 0, "after": 0}
LOOPS = 4


@dataclass(frozen=True, slots=True)
class PlacePut:
    """The instructions, by their index, that put a row at one of `places`, which the value
    `position` says; a place lies `stride` bytes behind the one before.
    """

    position: str
    places: int
    stride: int
    stores: tuple[int, ...]

    def after(self, count: int) -> "PlacePut":
        """The put in a stream that has `count` more instructions before it."""
        return replace(self, stores=tuple(index + count for index in self.stores))


def widened(machine: Machine, stream: Stream, puts: Sequence[PlacePut]) -> Stream:
    """The stream with stores that write all places."""
    words = stream.words.copy() if puts else stream.words
    for put in puts:
        for index in put.stores:
            store = Instruction.decode(machine, _number(words[index]))
            loops = [loop for loop in store.fields["loops"] if loop["extent"] > 1]
            if len(loops) == LOOPS:
                raise LoweringError("a store of what is put has no loop left for its places")
            every = {**ONE, "extent": put.places, "dram": put.stride}
            words[index] = _word(replace(store, fields={**store.fields, "loops": [every, *loops]}
                                         ).encode(machine))
    return replace(stream, words=words)


def narrowed(machine: Machine, program: AccelProgram, puts: Sequence[PlacePut]) -> AccelProgram:
    """The program of a widened stream, whose stores write place 0 alone."""
    words = program.words.copy()
    for put in puts:
        for index in put.stores:
            store = Instruction.decode(machine, _number(words[index]), program.origin(index))
            loops = [*store.fields["loops"][1:], ONE]
            words[index] = _word(replace(store, fields={**store.fields, "loops": loops}
                                         ).encode(machine))
    return replace(program, words=words)


def moved(words: np.ndarray, puts: Sequence[PlacePut], places: Mapping[str, int]
          ) -> dict[int, np.ndarray]:
    """The words of stores for the places that positions say, by their index."""
    offset = isa.DMA["dram"].offset
    return {index: _word(_number(words[index]) + (places[put.position] * put.stride << offset))
            for put in puts for index in put.stores}


def _number(word: np.ndarray) -> int:
    return int.from_bytes(word.tobytes(), "little")


def _word(number: int) -> np.ndarray:
    return np.frombuffer(number.to_bytes(isa.WORD_BYTES, "little"), np.uint8)
