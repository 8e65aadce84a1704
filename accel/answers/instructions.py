"""Answers of instructions: how often a network executes each, by which layers, or why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.machine.declare import InstructionForm
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.streams import StreamForm
from accel.machine.structure import UnitKind
from accel.answers.products import why_no_depthwise, why_no_product
from accel.answers.streams import why_no_rows
from accel.answers.vector import SLOWER, why_no_element
from accel.mapping.builders import float_products
from accel.mapping.layers import PRODUCTS, forms_of
from accel.mapping.memory.borders import core
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import blocks_of
from accel.mapping.memory.weights import multipliers_of
from accel.mapping.selecting.selection import takes_sums_and_more
from accel.mapping.spreading import twins
from compiler.graph.graph import Graph, Node
from compiler.graph.notes import UNUSED, Note
from compiler.ops.records.stored_floats import AFFINE
from compiler.ops.registry import find
from compiler.te import is_float
from compiler.tensorize import Intrinsic

NOTHING = "no layer of the network runs on the accelerator"
NO_END = "no product of floats on the accelerator ends in it"
NO_SUM = "it computes no product together with an operator that alone reads it, in fewer cycles"


@dataclass(frozen=True, slots=True)
class InstructionAnswer:
    """The part of an instruction in a network.

    Parameters
    ----------
    own : True for one that is not shipped.
    executed : how often it stands in the streams.
    layers : the layers that execute it, in order.
    reason : why it is not executed; "" where it is.
    """

    name: str
    unit: str
    own: bool
    executed: int
    layers: tuple[str, ...]
    reason: str


def answers(machine: Machine, programs: Sequence[AccelProgram], graph: Graph,
            parts: Sequence[Graph], stay: Mapping[str, str]) -> tuple[InstructionAnswer, ...]:
    """The answer of each instruction that computes, in order of opcodes. `parts` of the network's
    graph became the programs; `stay` says of nodes on the host why they are there. An instruction
    counts wherever a further unit of vector executes it, too, and has no other answer there.
    """
    host = next((f"{node.name} ({node.op}) is on the host: {stay[node.name]}"
                 for node in sorted(graph.nodes, key=lambda node: not _multiplies(node))
                 if node.name in stay), "")
    segments = [forms_of(core(part), blocks_of(machine.config)) for part in parts]
    return tuple(_answer(machine, name, forms[0], programs, graph, segments, host)
                 for name, forms in machine.forms.items()
                 if forms[0].unit in (UnitKind.GEMM, UnitKind.VECTOR, UnitKind.STREAM)
                 and name not in twins(machine))


def _multiplies(node: Node) -> bool:
    return node.op in (*PRODUCTS, *float_products.OPERATORS) or find(node.op).contracts


def _answer(machine: Machine, name: str, body: InstructionForm, programs: Sequence[AccelProgram],
            graph: Graph, segments: Sequence[Forms], host: str) -> InstructionAnswer:
    names = [name, *(twin for twin, meant in twins(machine).items() if meant == name)]
    codes, executed, layers = [machine.opcodes[one] for one in names], 0, list[str]()
    for program in programs:
        places = np.flatnonzero(np.isin(program.words[:, 0], codes))
        executed += len(places)
        ends = [end for _, end in program.layers]
        layers += [program.layers[layer][0] for layer in
                   np.unique(np.searchsorted(ends, places, side="right")).tolist()
                   if layer < len(ends)]
    reason = "" if executed else _reason(machine, name, body, graph, segments, host)
    return InstructionAnswer(name, body.unit, name in machine.own, executed, tuple(layers), reason)


def _reason(machine: Machine, name: str, body: InstructionForm, graph: Graph,
            segments: Sequence[Forms], host: str) -> str:
    if told := _of_quantizer(name, graph):
        return told
    if not segments:
        return "; ".join(filter(None, (NOTHING, host)))
    reason = _of_bodies(machine, name, body, graph, segments, host)
    pattern = next(one for one in machine.declarations if one.name == name).pattern
    return reason if pattern is None else f"no layer was quantized for it; {reason}"


def _of_bodies(machine: Machine, name: str, body: InstructionForm, graph: Graph,
               segments: Sequence[Forms], host: str) -> str:
    """The difference of what the instruction computes from what layers do."""
    if isinstance(body, StreamForm):
        return why_no_rows(machine, name, segments)
    if body.unit == "gemm":
        return why_no_product(machine, name, segments, host)
    if body in multipliers_of(machine):
        return why_no_depthwise(machine, name, segments)
    if takes_sums_and_more(body):
        return NO_SUM
    if is_float(machine.config.accumulator):
        return _of_floats(machine, body)
    reason = why_no_element(machine, name, graph)
    return reason if reason.startswith(SLOWER) else _unfilled(machine, name, body) or reason


def _of_floats(machine: Machine, body: Intrinsic) -> str:
    """The reason of an instruction of vector on a machine that sums floats."""
    if any(stored.startswith(f"{AFFINE}.") for operand in body.operands
           for _, stored in operand.storage):
        return NO_END
    return (f"products between conversions are the only layers of a machine that sums in "
            f"{machine.config.accumulator}")


def _of_quantizer(name: str, graph: Graph) -> str:
    """The quantizer's reason for an instruction that matches something in float networks."""
    notes = [note for text in graph.notes if (note := Note.of(text)) and note.fate == UNUSED]
    return next((note.reason for note in notes if note.node == name), "")


def _unfilled(machine: Machine, name: str, body: Intrinsic) -> str:
    """Why networks cannot fill a record of the machine's own that an instruction reads."""
    stored = [stored.partition(".") for operand in body.operands for _, stored in operand.storage]
    fields = {field: record for record, _, field in stored if record in machine.config.records}
    if not fields or next(one for one in machine.declarations if one.name == name).pattern:
        return ""
    return (f"its record {next(iter(fields.values()))} has fields of its own, "
            f"{' and '.join(fields)}, that no pattern fills")
