"""A module as the text of ``NAME.c``: tables of the programs, and calls of its segments in order.

Segments of the accelerator run on the board, those of the processor are networks in C of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import cast

from accel.machine.dram import ALIGNMENT
from accel.mapping.memory.allocate import allocate
from accel.mapping.segment import AccelSegment
from fpga.driver.tables import (BoardMemory, aligned, byte_rows, store_rows, tensor_table,
                                word_rows)
from fpga.link.registers import MACHINE_WORDS, VERSION, WORD_BITS
from runtime.exporting.segments import (HEADER_BYTES, CInterface, SegmentCode, arrays_of,
                                        bytes_of)
from runtime.module import Module


class BoardNetwork:
    """The text of a module whose segments of the processor are `parts`, by their place among the
    segments. Constants are in the text, or with `apart` in `weights`.

    Values that cross between segments are variables of NAME_run. What is neither an input nor an
    output of the network lies in the arena, at `offsets`; behind all of it lies the arena of the
    segment of the processor that is computed.
    """

    def __init__(self, module: Module, name: str, parts: Mapping[int, SegmentCode],
                 apart: bool):
        self.module, self.name, self.graph = module, name, module.graph
        self.parts, self.apart = parts, apart
        self.segments = [step.segment for step in module.steps]
        self.programs = dict(zip(
            (place for place in range(len(self.segments)) if place not in parts),
            cast(tuple[AccelSegment, ...], module.accelerated), strict=True))
        self.machine = next(iter(self.programs.values())).device.machine
        self.memory = BoardMemory(tuple(one.program for one in self.programs.values()))
        self.image = self.memory.image.tobytes()
        self.variables = {value: f"v{number}" for number, value in enumerate(dict.fromkeys(
            value for segment in self.segments for value in (*segment.inputs, *segment.outputs)))}
        self.offsets, self.crossing_bytes = self._placed()
        self.interface = self._interface()

    def _placed(self) -> tuple[Mapping[str, int], int]:
        lives: dict[str, tuple[int, int]] = {}
        for place, segment in enumerate(self.segments):
            for value in (*segment.inputs, *segment.outputs):
                if value not in (*self.graph.inputs, *self.graph.outputs):
                    lives[value] = (lives.get(value, (place, place))[0], place)
        return allocate({value: bytes_of(self.graph.values[value]) for value in lives}, lives)

    def _interface(self) -> CInterface:
        graph = self.graph
        own = [part.interface for part in self.parts.values()]
        arena = max((part.arena_bytes for part in own), default=0)
        machine = self.machine
        return CInterface(
            self.name, self._hash().hex(), arrays_of(graph, graph.inputs),
            arrays_of(graph, graph.outputs), self.crossing_bytes + arena, ALIGNMENT,
            len(self.weights()) if self.apart else 0, ALIGNMENT,
            title=f"{graph.name}, on a board with {machine.config.name} ({machine.hash[:12]})",
            notes=("", "One run at a time uses an accelerator. lockstep_board.h says what the "
                       "caller provides,", "and which statuses there are besides."),
            fields=("const void *weights", "lockstep_board *board",
                    *(f"struct {part.name} host{place}"
                      for place, part in zip(self.parts, own, strict=True))),
            includes=("lockstep_board.h", *(f"{part.name}.h" for part in own)),
            sizes=(("DMA_BYTES", self.memory.size_bytes), ("DMA_ALIGNMENT", ALIGNMENT)),
            parameters=("lockstep_board *board",))

    def _hash(self) -> bytes:
        """The hash of all that the network computes with."""
        parts = [self.machine.hash, *(part.interface.hash for part in self.parts.values())]
        return sha256(self.image + "\n".join(parts).encode()).digest()

    def weights(self) -> bytes:
        """The file of constants: the hash, the image, and the file of each segment of the
        processor.
        """
        parts = [self._hash().ljust(HEADER_BYTES, b"\0"), self.image,
                 *(part.weights for part in self.parts.values())]
        return b"".join(part.ljust(aligned(len(part)), b"\0") for part in parts)

    def source(self) -> str:
        parts = [self._head(), self._tables(), self._image(), self._init(), self._run()]
        return "\n\n".join("\n".join(part) for part in parts) + "\n"

    def _head(self) -> Iterator[str]:
        yield f"/* {self.name}.h says how this network is called. */"
        yield f'#include "{self.name}.h"'
        yield ""
        yield "#include <stddef.h>"
        yield "#include <string.h>"
        yield ""
        yield f"#if LOCKSTEP_REGISTERS_VERSION != {VERSION}"
        yield '#error "lockstep_board.h must come from the same Lockstep as this file"'
        yield "#endif"

    def _tables(self) -> Iterator[str]:
        digest = int(self.machine.hash, 16)
        yield f"/* {self.machine.record}. */"
        yield from _table("uint32_t machine[LOCKSTEP_MACHINE_WORDS]", word_rows(
            [digest >> WORD_BITS * word & 0xFFFFFFFF for word in range(MACHINE_WORDS)]))
        yield ""
        yield from _table("lockstep_program programs[]", (
            f"{{{program.count}, {{{', '.join(map(str, self.memory.bases(number)))}}}}},"
            for number, program in enumerate(self.memory.programs)))
        yield ""
        yield "/* Inputs and outputs of the programs. */"
        yield from _table("lockstep_tensor tensors[]", (
            f"{tensor_table(slot, self.memory.place(number, slot)).text},"
            for number, program in enumerate(self.memory.programs)
            for slot in (*program.inputs, *program.outputs)))
        stores = [row for number, segment in enumerate(self.programs.values())
                  for put in segment.puts
                  for row in store_rows(put, segment.program, self.memory.bases(number)[0])]
        if stores:
            yield ""
            yield "/* Stores to places that positions say. */"
            yield from _table("lockstep_store stores[]", stores)

    def _image(self) -> Iterator[str]:
        if self.apart:
            yield "/* What the file of constants begins with. */"
            yield from _table("unsigned char hash[32]", byte_rows(self._hash()))
            return
        yield "/* What the board's memory begins with: instructions and constants. */"
        yield from _table(f"unsigned char image[{len(self.image)}]", byte_rows(self.image))

    def _init(self) -> Iterator[str]:
        name, prefix = self.name, self.interface.prefix
        yield f"int32_t {name}_init(struct {name} *self, const void *weights,"
        yield f"{' ' * len(f'int32_t {name}_init(')}lockstep_board *board)"
        yield "{"
        if self.apart:
            yield "    const unsigned char *const bytes = weights;"
            yield "    size_t place;"
        yield f"    int32_t status = lockstep_board_open(board, machine, {prefix}DMA_BYTES);"
        yield ""
        yield from _returned()
        yield from self._weights_checked()
        begin = HEADER_BYTES + aligned(len(self.image))
        for place, part in self.parts.items():
            given = f"bytes + {begin}" if part.weights else "NULL"
            yield f"    status = {part.interface.name}_init(&self->host{place}, {given});"
            yield from _returned()
            begin += aligned(len(part.weights))
        image = f"bytes + {HEADER_BYTES}" if self.apart else "image"
        yield f"    lockstep_board_load(board, {image}, {len(self.image)}, {prefix}DMA_BYTES);"
        yield "    self->weights = weights;"
        yield "    self->board = board;"
        yield f"    return {prefix}DONE;"
        yield "}"

    def _weights_checked(self) -> Iterator[str]:
        prefix = self.interface.prefix
        if not self.apart:
            yield "    if (weights)"
            yield f"        return {prefix}WEIGHTS;"
            return
        yield f"    if (!bytes || (uintptr_t)bytes % {prefix}WEIGHTS_ALIGNMENT)"
        yield f"        return {prefix}WEIGHTS;"
        yield "    for (place = 0; place < sizeof hash; place++)"
        yield "        if (bytes[place] != hash[place])"
        yield f"            return {prefix}OTHER_WEIGHTS;"

    def _run(self) -> Iterator[str]:
        name, prefix = self.name, self.interface.prefix
        missing = "!memory || " if self.interface.arena_bytes else ""
        yield f"int32_t {name}_run(const struct {name} *self, const {name}_inputs *inputs,"
        yield f"{' ' * len(f'int32_t {name}_run(')}const {name}_outputs *outputs, void *arena)"
        yield "{"
        yield "    unsigned char *const memory = arena;"
        for value, variable in self.variables.items():
            yield f"    {self._declared(value, variable)};"
        yield "    int32_t status;"
        yield ""
        yield f"    if ({missing}(uintptr_t)memory % {prefix}ARENA_ALIGNMENT)"
        yield f"        return {prefix}ARENA;"
        for place in range(len(self.segments)):
            yield from self._hosted(place) if place in self.parts else self._accelerated(place)
        for value in self.graph.outputs:
            if value in self.graph.inputs:
                yield (f"    memcpy({self._member('outputs', value)}, "
                       f"{self._member('inputs', value)}, {bytes_of(self.graph.values[value])});")
        yield f"    return {prefix}DONE;"
        yield "}"

    def _declared(self, value: str, variable: str) -> str:
        if value in self.graph.inputs:
            return f"const void *const {variable} = {self._member('inputs', value)}"
        if value in self.graph.outputs:
            return f"void *const {variable} = {self._member('outputs', value)}"
        return f"void *const {variable} = memory + {self.offsets[value]}"

    def _member(self, kind: str, value: str) -> str:
        of, members = ((self.graph.inputs, self.interface.input_members) if kind == "inputs"
                       else (self.graph.outputs, self.interface.output_members))
        return f"{kind}->{members[of.index(value)]}"

    def _accelerated(self, place: int) -> Iterator[str]:
        number = [*self.programs].index(place)
        program = self.memory.programs[number]
        first = sum(len(one.inputs) + len(one.outputs) for one in self.memory.programs[:number])
        calls = [f"(self->board, &tensors[{at}], {self.variables[slot.name]});"
                 for at, slot in enumerate((*program.inputs, *program.outputs), first)]
        yield ""
        yield from self._moved(place)
        yield from (f"    lockstep_board_put{call}" for call in calls[:len(program.inputs)])
        yield f"    status = lockstep_board_run(self->board, &programs[{number}]);"
        yield from _returned()
        yield from (f"    lockstep_board_get{call}" for call in calls[len(program.inputs):])

    def _moved(self, place: int) -> Iterator[str]:
        """Moves the stores of a program to the positions of the run."""
        first = sum(len(put.stores) for other, segment in self.programs.items() if other < place
                    for put in segment.puts)
        for put in self.programs[place].puts:
            yield (f"    status = lockstep_board_move(self->board, &stores[{first}], "
                   f"{len(put.stores)}, {put.places}, {self.variables[put.position]});")
            yield from _returned()
            first += len(put.stores)

    def _hosted(self, place: int) -> Iterator[str]:
        name, segment = self.parts[place].interface.name, self.segments[place]
        yield "    {"
        for kind, local, values in (("inputs", "given", segment.inputs),
                                    ("outputs", "made", segment.outputs)):
            listed = ", ".join(self.variables[value] for value in values)
            yield f"        const {name}_{kind} {local} = {{{listed}}};"
        yield ""
        yield f"        status = {name}_run(&self->host{place}, &given, &made,"
        yield f"                            memory + {self.crossing_bytes});"
        yield "    }"
        yield from _returned()


def _table(declaration: str, rows: Sequence[str] | Iterator[str]) -> Iterator[str]:
    yield f"static const {declaration} = {{"
    yield from (f"    {row}" for row in rows)
    yield "};"


def _returned() -> Iterator[str]:
    yield "    if (status)"
    yield "        return status;"
