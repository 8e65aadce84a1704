"""Streams that read only the first places of caches: each proved, and what they share."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from zipfile import ZipFile

import numpy as np
import pytest

import lockstep
from accel.machine import isa
from accel.machine.program import AccelProgram, Instruction
from accel.mapping.compiled import CompiledSegment
from accel.mapping.lowering import LoweringError
from accel.mapping.positions.prefixes import OWN_LAYER, PrefixStream, prefix_of_program, with_room
from accel.mapping.positions.puts import moved
from accel.mapping.segment import AccelSegment
from accel.mapping.target import AccelTarget
from accel.proof.legal import IllegalProgram, prove
from compiler.graph import Graph, evaluate
from compiler.graph.division.partition import ACCEL
from runtime import load
from runtime.module import Module
from tests.support.decoders import machine
from tests.support.integer_graphs import Net
from tests.support.steps import attention, feeds
from tests.support.effort import Effort

PLACES = 40
BORDERS = (0, 1, 14, 15, 16, 17, 30, 31, 32, 33, 39)


@cache
def network() -> tuple[Graph, Net]:
    """Attention, and a layer that has nothing to do with it."""
    graph, net = attention(PLACES)
    return net.graph(*graph.outputs, net.dense(net.input(2, 8, name="x"), 12)), net


@cache
def module() -> Module:
    return lockstep.compile(network()[0], "accel,cpu", machine=machine(), sim="cycle",
                            cache=False)


def compiled() -> CompiledSegment:
    (found,) = (step.compiled for step in module().steps if step.segment.target == ACCEL)
    assert isinstance(found, CompiledSegment)
    return found


def segment(of: Module) -> AccelSegment:
    (found,) = of.accelerated
    assert isinstance(found, AccelSegment)
    return found


def is_right(of: Module, position: int) -> bool:
    graph, net = network()
    given = feeds(net, position)
    wanted, found = evaluate(graph, given), of(given)
    return all(np.array_equal(found[name], array) for name, array in wanted.items())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("position", (0, 15, 16, 31, 32, 39) if Effort.quick else BORDERS)
def test_values_around_every_border(position: int) -> None:
    assert is_right(module(), position)


def test_positions_in_any_order() -> None:
    """The driver puts the words of another stream into memory, and those of the whole again."""
    for position in (39, 3, 31, 16, 0, 33, 15):
        assert is_right(module(), position), position


def test_cycles_grow_with_the_position() -> None:
    graph, net = network()
    step, cycles = segment(module()), []
    for position in (0, 16, 39):
        given = feeds(net, position)
        values = evaluate(graph, given, step_inputs(graph))
        run = step({**given, **values}).run
        assert run.places == {0: 16, 16: 32, 39: 0}[position]
        cycles.append(run.cycles)
        rows = step.rows(run)
        assert sum(row["cycles"] for row in rows) == run.cycles
        assert [row["name"] for row in rows[:-1]] == [name for name, _ in step.program.layers]
        products = sum(row["macs"] for row in rows if "qmatmul" in row["op"])
        assert products == 2 * 2 * 3 * 8 * (run.places or PLACES)
    assert cycles == sorted(cycles) and cycles[0] < 0.85 * cycles[2]


def step_inputs(graph: Graph) -> list[str]:
    return [node.outputs[0] for node in graph.nodes if node.op == "where"]


@pytest.mark.parametrize("number", [0, 1])
def test_the_proof_covers_all_places_of_each(number: int) -> None:
    whole, prefix = compiled().program, compiled().prefixes[number]
    program = prefix.program(whole)
    assert program.count == prefix.count(whole)
    assert program.bases == whole.bases and whole.program_bytes >= program.words.size
    assert {place for put in prefix.puts for place in put.stores} <= {*range(program.count)}
    for place in range(0, PLACES, 7):
        words = program.words.copy()
        for index, word in moved(words, prefix.puts, {"position": place}).items():
            words[index] = word
        prove(machine(), replace(program, words=words))


def test_without_tokens_no_prefix_is_legal() -> None:
    program = compiled().prefixes[0].program(compiled().program)
    words = program.words.copy()
    words[:, 1:3] = 0
    with pytest.raises(IllegalProgram) as caught:
        prove(machine(), replace(program, words=words))
    assert {*caught.value.layers} <= {name for layer, _ in program.layers
                                      for name in layer.split(" + ")}


def test_layers_that_know_no_places_are_shared() -> None:
    whole = compiled()
    own = {"qmatmul", "qmap", "qbelow_max", "qsoftmax"}
    assert [prefix.places for prefix in whole.prefixes] == [16, 32]
    for prefix in whole.prefixes:
        differ = [work for number, work in zip(prefix.order, prefix.all_work(whole.work))
                  if number == OWN_LAYER]
        assert prefix.work == tuple(differ)
        assert {layer.node.op for group in differ for layer in group} & own == own
        assert len(differ) < len(whole.work) / 2 + 4
        assert prefix.own.words.size < whole.program.words.size
        shared = [number for number in prefix.order if number != OWN_LAYER]
        assert shared == sorted(shared) and len(prefix.order) == len(whole.program.layers)


def test_a_layer_whose_words_differ_is_not_shared() -> None:
    """Tokens may, though the layer is the same: then it is one of the stream's own."""
    whole, work = compiled().program, compiled().work
    numbers = range(len(whole.layers))
    same = prefix_of_program(16, whole, work, (), whole, numbers)
    assert same.order == (*numbers,) and len(same.own) == 0 and same.layers == same.work == ()
    (_, begin), (name, end), *_ = whole.layers
    words = whole.words.copy()
    words[end - 1, 1] ^= 1
    other = replace(whole, words=words)
    prefix = prefix_of_program(16, other, work, (), whole, numbers)
    assert prefix.order == (0, OWN_LAYER, *numbers[2:])
    assert (prefix.layers, prefix.work) == (((name, end - begin),), work[1:2])
    assert np.array_equal(prefix.program(whole).words, words)
    assert prefix.all_work(work) == work


def test_there_is_room_for_the_longest_stream() -> None:
    found = compiled()
    whole, (short, _) = replace(found.program, program_bytes=0), found.prefixes
    numbers = (*range(len(whole.layers)),)
    longer = replace(short, order=(*numbers, *numbers), own=short.own.take(np.arange(0)), layers=())
    assert with_room(whole, [short]).program_bytes == whole.words.size
    assert with_room(whole, [longer, short]).program_bytes == (
        longer.count(whole) * whole.words.shape[1]) > whole.words.size
    assert with_room(whole, []).program_bytes == 0


def test_streams_are_told_as_text() -> None:
    """As `--dump` writes it."""
    found, (short, long) = compiled(), compiled().prefixes
    assert found.dropped == ()
    text = str(found.stages["prefixes"])
    assert text.startswith(
        f"16 places: {short.count(found.program)} instructions, {len(short.own)} of their own\n"
        f"32 places: {long.count(found.program)} instructions, {len(long.own)} of their own\n"
        f"all places: {found.program.count} instructions\n\n")
    names, parts = machine().names, [part.splitlines() for part in text.split("\n\n")]
    for prefix in (short, long):
        words = [line.split()[1] for title, *lines in parts
                 if f", {prefix.places} places: " in title
                 for line in lines if re.match(r" {4,}\d+ [a-z]", line)]
        assert words == [names[int(word[0])] for word in prefix.own.words]


def test_a_form_that_cannot_be_lowered_is_told_and_the_next_one_serves_its_positions(
        monkeypatch) -> None:
    layers_like = AccelTarget._layers_like

    def refused(self, graph: Graph, *args) -> object:
        if any(value.shape[-1:] == (16,) for value in graph.values.values()):
            raise LoweringError("tiles must fit")
        return layers_like(self, graph, *args)

    monkeypatch.setattr(AccelTarget, "_layers_like", refused)
    fewer = lockstep.compile(network()[0], "accel,cpu", machine=machine(), sim="cycle",
                             cache=False)
    (found,) = (step.compiled for step in fewer.steps if step.segment.target == ACCEL)
    assert isinstance(found, CompiledSegment)
    assert found.dropped == ((16, "tiles must fit"),)
    assert [prefix.places for prefix in found.prefixes] == [32]
    text = str(found.stages["prefixes"]).splitlines()
    assert text[0] == "16 places: none: tiles must fit" and text[1].startswith("32 places: ")
    assert is_right(fewer, 3) and is_right(fewer, 31) and is_right(fewer, 32)


@pytest.mark.parametrize("more", [-16, 16])
def test_a_stream_at_positions_that_it_does_not_serve(more: int) -> None:
    """So a wrong count is seen: of fewer places than the position needs, values differ."""
    step = segment(module())
    wrong = AccelSegment(step.program, step.work, step.device, step.puts, [
        replace(prefix, places=prefix.places + more) for prefix in step.prefixes])
    graph, net = network()
    right = []
    for position in BORDERS:
        given = feeds(net, position)
        values = evaluate(graph, given, [*step_inputs(graph), *graph.outputs])
        found = wrong({**given, **values}).values
        right.append(np.array_equal(found[graph.outputs[0]], values[graph.outputs[0]]))
    assert all(right) == (more < 0)
    assert right[BORDERS.index(16)] == (more < 0)


def shorter_reads(prefix: PrefixStream, whole: AccelProgram) -> Iterator[PrefixStream]:
    """The stream, each time with one load of its own that reads less of a cache."""
    caches = [range(slot.offset, slot.offset + slot.size_bytes) for slot in whole.inputs
              if slot.name in ("keys", "values")]
    for index, raw in enumerate(prefix.own.words):
        load = Instruction.decode(machine(), int.from_bytes(raw.tobytes(), "little"))
        if load.unit != "load" or load.fields["base"] != isa.BASES.index("io") or not any(
                load.fields["dram"] in cache for cache in caches):
            continue
        loops = [*load.fields["loops"]]
        longest = max(range(len(loops)), key=lambda place: loops[place]["extent"])
        if loops[longest]["extent"] > 1:
            loops[longest] = {**loops[longest], "extent": loops[longest]["extent"] - 1}
            fields = {**load.fields, "loops": loops}
        else:
            fields = {**load.fields, "run": load.fields["run"] - 1}
        words = prefix.own.words.copy()
        words[index] = np.frombuffer(replace(load, fields=fields).encode(machine()).to_bytes(
            isa.WORD_BYTES, "little"), np.uint8)
        yield replace(prefix, own=replace(prefix.own, words=words))


@pytest.mark.slow
def test_a_wrong_extent_is_seen() -> None:
    """By the proof, or in the values."""
    step, (graph, net) = segment(module()), network()
    given = feeds(net, 31)
    values = evaluate(graph, given, [*step_inputs(graph), *graph.outputs])
    count = 0
    for wrong in shorter_reads(step.prefixes[1], step.program):
        count += 1
        try:
            prove(machine(), wrong.program(step.program))
        except IllegalProgram:
            continue
        found = AccelSegment(step.program, step.work, step.device, step.puts, [wrong])(
            {**given, **values}).values
        assert not np.array_equal(found[graph.outputs[0]], values[graph.outputs[0]]), count
    assert count >= 4


def test_a_saved_module_has_its_prefixes(tmp_path) -> None:
    path = tmp_path / "net.lockstep"
    module().save(path)
    loaded = load(path, sim="cycle", machine=machine())
    mine, theirs = segment(module()), segment(loaded)
    assert theirs.program.program_bytes == mine.program.program_bytes > 0
    for one, other in zip(mine.prefixes, theirs.prefixes, strict=True):
        assert (one.places, one.order, one.layers, one.puts) == (
            other.places, other.order, other.layers, other.puts)
        assert np.array_equal(one.own.words, other.own.words)
        assert one.own.origins == other.own.origins
    for position in (0, 15, 16, 31, 32, 39):
        assert is_right(loaded, position)


@pytest.mark.parametrize(("change", "message"), [
    (lambda entries: entries.reverse(), "streams of prefixes must read more and more places"),
    (lambda entries: entries[0]["order"].append(OWN_LAYER),
     "a prefix must have layers that there are"),
    (lambda entries: entries[0]["order"].insert(0, 99),
     "a prefix must have layers that there are"),
    (lambda entries: entries[0]["puts"][0]["stores"].append(1 << 20),
     "what is put must be stores of the stream"),
    (lambda entries: entries[0]["work"].pop(), "every layer must have its work")])
def test_prefixes_that_do_not_fit_are_refused(tmp_path, change, message: str) -> None:
    path = tmp_path / "net.lockstep"
    module().save(path)
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    (part,) = (part for part in manifest["parts"] if "prefixes" in part)
    change(part["prefixes"])
    members["manifest.json"] = json.dumps(manifest).encode()
    digest = hashlib.sha256(members["manifest.json"]).hexdigest()
    members["manifest.sha256"] = f"{digest}  manifest.json\n".encode()
    with ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(lockstep.ArtifactError, match=message):
        load(path, machine=machine())
