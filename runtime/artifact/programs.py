"""Programs of the accelerator as JSON; their words, weights and origins are members."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from math import prod
from typing import Any

import numpy as np

from accel.figures.work import Bound, Work
from accel.machine import isa
from accel.machine.dram import ALIGNMENT
from accel.machine.machine import Machine
from accel.machine.origins import Origins
from accel.machine.program import AccelProgram, Stream, TensorSlot
from accel.mapping.memory.layout import blocks_of
from accel.mapping.positions.prefixes import OWN_LAYER, PrefixStream
from accel.mapping.positions.puts import PlacePut
from compiler.graph.graph import Graph
from compiler.graph.division.partition import Segment

from .container import Container, Members


def program_json(program: AccelProgram, number: int, members: Members) -> dict[str, Any]:
    place = f"programs/{number}"
    return {
        "words": members.array(f"{place}/words", program.words),
        "weights": members.array(f"{place}/weights", program.weights),
        "activations_bytes": program.activations_bytes, "io_bytes": program.io_bytes,
        "inputs": [_slot_json(slot) for slot in program.inputs],
        "outputs": [_slot_json(slot) for slot in program.outputs],
        "layers": program.layers,
        "sites": members.add(f"{place}/sites.json", program.origins.sites_text().encode()),
        "origins": members.array(f"{place}/origins", program.origins.rows)}


def program_of(entry: Mapping[str, Any], machine: Machine, graph: Graph, segment: Segment,
               container: Container) -> AccelProgram:
    origins = Origins.parse(container.data(entry["sites"]).decode(),
                                  container.array(entry["origins"]))
    program = AccelProgram(
        machine.hash, container.array(entry["words"]), container.array(entry["weights"]),
        entry["activations_bytes"], entry["io_bytes"],
        tuple(map(_slot_of, entry["inputs"])), tuple(map(_slot_of, entry["outputs"])), origins,
        tuple((str(name), int(end)) for name, end in entry["layers"]), machine.record)
    _check_stream(program)
    _check_memory(program, machine, graph, segment)
    return program


def _check_stream(program: AccelProgram) -> None:
    ends = [0, *(end for _, end in program.layers)]
    origins = program.origins
    _need(program.words.shape == (program.count, isa.WORD_BYTES) and program.words.dtype == np.uint8
          and program.weights.dtype == np.uint8, "instruction words and weights must be bytes")
    _need(ends == sorted(ends) and ends[-1] <= program.count, "layers must end in the stream")
    _need(origins.rows.ndim == 2 and len(origins) in (0, program.count)
          and bool(np.all((origins.rows[:, :1] >= 0)
                          & (origins.rows[:, :1] < len(origins.sites)))),
          "every instruction must have an origin")
    _need(all(len(site.loops) < origins.rows.shape[1] for site in origins.sites),
          "origins must have a value for each loop")


def _check_memory(program: AccelProgram, machine: Machine, graph: Graph, segment: Segment) -> None:
    lying = tuple(value for value in segment.inputs if graph.values[value].dtype != "int64")
    _need(tuple(slot.name for slot in program.inputs) == lying
          and tuple(slot.name for slot in program.outputs) == segment.outputs,
          "a program must have the inputs and outputs of its segment")
    tensors = 0
    for slot in (*program.inputs, *program.outputs):
        wanted = graph.values[slot.name]
        _need(slot.base == "io" and slot.dtype == wanted.dtype and slot.logical == wanted.shape
              and min(slot.offset, *slot.shape) >= 0
              and slot.offset + slot.size_bytes <= program.io_bytes,
              f"tensor {slot.name} must lie in its segment")
        tensors += slot.size_bytes + ALIGNMENT
    _need(0 <= program.io_bytes <= tensors, "the io segment must hold its tensors, and no more")
    blocks = blocks_of(machine.config)          # the most that padding can enlarge a value
    room = sum(prod(graph.values[value].shape) * blocks.batch * blocks.padded(1) + ALIGNMENT
               for node in segment.nodes for value in node.outputs)
    _need(0 <= program.activations_bytes <= room, "activations must fit their segment")


def _need(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)


def _slot_json(slot: TensorSlot) -> dict[str, Any]:
    return {"name": slot.name, "base": slot.base, "offset": slot.offset, "shape": slot.shape,
            "dtype": slot.dtype, "layout": slot.layout, "logical": slot.logical}


def _slot_of(entry: Mapping[str, Any]) -> TensorSlot:
    return TensorSlot(entry["name"], entry["base"], entry["offset"], tuple(entry["shape"]),
                      entry["dtype"], entry["layout"], tuple(entry["logical"]))


def puts_of(entries: Sequence[Mapping[str, Any]], segment: Segment, program: AccelProgram
            ) -> tuple[PlacePut, ...]:
    puts = tuple(PlacePut(str(entry["position"]), int(entry["places"]), int(entry["stride"]),
                          tuple(map(int, entry["stores"]))) for entry in entries)
    for put in puts:
        _need(put.position in segment.inputs and put.places > 0 and put.stride > 0
              and all(0 <= index < program.count for index in put.stores),
              "what is put must be stores of the stream")
    return puts


def prefix_json(prefix: PrefixStream, number: int, members: Members) -> dict[str, Any]:
    place = f"programs/{number}/prefixes/{prefix.places}"
    return {"places": prefix.places, "order": prefix.order, "layers": prefix.layers,
            "words": members.array(f"{place}/words", prefix.own.words),
            "sites": members.add(f"{place}/sites.json",
                                 prefix.own.origins.sites_text().encode()),
            "origins": members.array(f"{place}/origins", prefix.own.origins.rows),
            "work": work_json(prefix.work), "puts": [asdict(put) for put in prefix.puts]}


def prefixes_of(entries: Sequence[Mapping[str, Any]], graph: Graph, segment: Segment,
                program: AccelProgram, container: Container) -> tuple[PrefixStream, ...]:
    prefixes = tuple(_prefix_of(entry, graph, segment, program, container) for entry in entries)
    places = [prefix.places for prefix in prefixes]
    _need(places == sorted({*places}) and all(count > 0 for count in places),
          "streams of prefixes must read more and more places")
    return prefixes


def _prefix_of(entry: Mapping[str, Any], graph: Graph, segment: Segment, whole: AccelProgram,
               container: Container) -> PrefixStream:
    origins = Origins.parse(container.data(entry["sites"]).decode(),
                                  container.array(entry["origins"]))
    own, order = Stream(container.array(entry["words"]), origins), tuple(entry["order"])
    layers = tuple((str(name), int(end)) for name, end in entry["layers"])
    _check_stream(replace(whole, words=own.words, origins=origins, layers=layers))
    _need(all(OWN_LAYER <= number < len(whole.layers) for number in order)
          and order.count(OWN_LAYER) == len(layers), "a prefix must have layers that there are")
    prefix = PrefixStream(int(entry["places"]), order, own, layers,
                          work_of(entry["work"], graph, layers), ())
    return replace(prefix, puts=puts_of(entry["puts"], segment, prefix.program(whole)))


def work_json(work: Sequence[Sequence[Work]]) -> list[list[dict[str, Any]]]:
    return [[{"node": layer.node.name, "macs": layer.macs, "products": layer.products,
              "input_bytes": layer.input_bytes, "other_bytes": layer.other_bytes,
              "note": layer.note, "bound": layer.bound and asdict(layer.bound)}
             for layer in group] for group in work]


def work_of(entries: Sequence[Sequence[Mapping[str, Any]]], graph: Graph,
            layers: Sequence[tuple[str, int]]) -> tuple[tuple[Work, ...], ...]:
    nodes = {node.name: node for node in graph.nodes}
    work = tuple(tuple(Work(nodes[entry["node"]], int(entry["macs"]), int(entry["products"]),
                            int(entry["input_bytes"]), int(entry["other_bytes"]),
                            str(entry["note"]), _bound_of(entry.get("bound")))
                       for entry in group) for group in entries)
    _need(len(work) == len(layers) and all(work), "every layer must have its work")
    return work


def _bound_of(entry: Mapping[str, int] | None) -> Bound | None:
    return None if entry is None else Bound(**{part.name: int(entry[part.name])
                                               for part in fields(Bound)})
