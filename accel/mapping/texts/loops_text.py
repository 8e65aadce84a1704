"""The scheduled loop programs of layers as text, each statement with the numbers of its words."""

from collections.abc import Iterator, Sequence

from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.lowering.tile import whole
from accel.mapping.plans.choices import Group, LayerPart
from accel.mapping.schedules import prefix_of, scheduled
from accel.mapping.texts.layer_words import names_of, numbers_text, spans_of
from compiler.ir import Tensorized
from compiler.ir.printer import declared_text, nest_lines
from compiler.ir.visit import renamed
from compiler.te import Const
from compiler.texts import Part, PartedText, wrapped

SHOWN = 6
"""Runs of words of a statement that are listed."""

Touched = tuple[str, frozenset[tuple[str, str, str]]]
"""An instruction's name, and for each operand in a buffer its name, the buffer and the tensor."""


def loops_text(machine: Machine, groups: Sequence[Group], program: AccelProgram) -> PartedText:
    """A part for each layer; names begin within the layer."""
    return PartedText([
        Part(names_of((part,)), lambda part=part, span=span: _lines(machine, part, span, program))
        for group, (_, span) in zip(groups, spans_of(program), strict=True) for part in group])


def _lines(machine: Machine, part: LayerPart, span: range, program: AccelProgram) -> Iterator[str]:
    layer = part.layer
    words = _words(machine, program, part, span)

    def note(stmt: Tensorized) -> str:
        return f"  # {_words_text(words.get(_touched(stmt), []))}"

    named = scheduled(machine, layer.operator, part.tiles, part.threads)
    loops = renamed(named.program, lambda name: name.removeprefix(named.prefix))
    yield f"{layer.name}: words {span.start}..{span.stop - 1}"
    for word, buffers in (("reads", loops.inputs), ("writes", loops.outputs)):
        yield from (f"  {word} {declared_text(buffer)}" for buffer in buffers)
    for depth, line in nest_lines(loops.body, note):
        yield from wrapped(line, 2 + 2 * depth)


def _touched(stmt: Tensorized) -> Touched:
    reads = [(operand, whole(read)) for operand, read in stmt.binding.tiles
             if not isinstance(read, Const)]
    return stmt.intrinsic.name, frozenset(
        (operand, read.buffer.scope, read.buffer.name) for operand, read in reads
        if read.buffer.scope != "global")


def _words(machine: Machine, program: AccelProgram, part: LayerPart, span: range
           ) -> dict[Touched, list[int]]:
    """The instructions of a layer by what they touch."""
    prefix, words = prefix_of(part.layer.operator), dict[Touched, list[int]]()
    for index in span:
        site = program.origin(index).site
        if site.layer == part.layer.name:
            touched = frozenset((operand, memory, tensor.removeprefix(prefix))
                                for operand, memory, tensor in site.tensors if memory not in BASES)
            name = machine.names[int(program.words[index, 0])]
            words.setdefault((name, touched), []).append(index)
    return words


def _words_text(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no words"
    runs = numbers_text(numbers).split(", ")
    more = f", ... ({len(numbers)} in all)" if len(runs) > SHOWN else ""
    return f"word{'s' if len(numbers) > 1 else ''} {', '.join(runs[:SHOWN])}{more}"
