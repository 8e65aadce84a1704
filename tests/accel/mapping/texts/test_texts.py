"""Texts of the accelerator's stages: what is said is what the program has."""

import re
from dataclasses import replace

import numpy as np
import pytest

from accel.machine.program import disassemble
from accel.mapping.compiled import CompiledSegment
from accel.mapping.layers import forms_of
from accel.mapping.memory.layout import blocks_of
from accel.mapping.plans.choices import Choices
from accel.mapping.plans.text import tiles_from
from accel.mapping.schedules import shape_of
from accel.mapping.target import AccelTarget
from accel.mapping.texts.forms_text import forms_text
from accel.mapping.texts.tiles_text import tiles_text
from compiler.latency_hiding import Tokens, pair_tokens
from compiler.texts import Part, PartedText, SegmentTexts, wrapped
from tests.support.integer_graphs import Net
from tests.support.machines import SHORT, TINY


@pytest.fixture(scope="module")
def compiled() -> CompiledSegment:
    net = Net(4)
    x = net.input(1, 4, 5, 5)
    stem = net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1))
    y = net.add_node("qconcat", net.conv(stem, 4, (1, 1)), net.rescale(stem), bias=(0, 0),
                     mult=(1 << 15,) * 2, shift=(15, 15), zp=0, lo=-128, hi=127)
    pooled = net.average(net.slice(y, (0, 1, 1), (4, 12, 1), (0, 5, 2), (0, 5, 1)))
    return AccelTarget(TINY).compile(net.graph(net.dense(net.flatten(pooled), 6)))


def text(compiled: CompiledSegment, stage: str, layer: str | None = None) -> str:
    found = compiled.stages[stage]
    assert isinstance(found, PartedText)
    return str(found) if layer is None else found.of(layer)


def test_every_layer_is_in_every_stage_and_every_line_fits_a_page(compiled) -> None:
    for stage, parted in compiled.stages.items():
        assert {layer.node.name for layer in compiled.layers} <= {*parted.names}, stage
        assert max(map(len, str(parted).splitlines())) <= 110, stage


def test_forms_say_which_values_share_memory(compiled) -> None:
    concat, cut, flat = (" ".join(text(compiled, "forms", name).split()) for name in (
        "qrescale_2", "slice_4", "reshape_6"))
    assert "joined images [1,5,5,2]/1x4, in qconcat_3.out from element 4 on, at " in concat
    assert concat.endswith("; channels 4 and on of qconcat_3.out")
    assert "cut images [1,3,5,2]/1x4, in qconcat_3.out from element 4 on, at " in cut
    assert "rows [1,1,1,2]/1x4, in qglobalavgpool_5.out, at " in flat
    assert ("\nx: int8[1,4,5,5], plain images [1,5,5,4]/1, at io+0; given, and qconv2d_0 wants no "
            "rows\n") in text(compiled, "forms")


def test_forms_say_what_is_copied_refused_or_seen_by_strides() -> None:
    net = Net(3)
    x = net.input(1, 4, 6)
    product = net.matmul(x, net.transpose(x, 0, 2, 1))
    copied = net.rescale(net.transpose(net.input(5, 4, name="y"), 1, 0))
    graph = net.graph(product, net.reshape(copied, 20))
    said = str(forms_text(forms_of(graph, blocks_of(TINY.config)), {}))
    assert said.split("\n", 1)[1] == """\
x: int8[1,4,6], plain rows [4,1,1,6]/1; given, and all readers want rows
y: int8[5,4], plain rows [5,1,1,4]/1; given, and transpose_2 wants no rows

transpose_0: transpose
  transpose_0.out: int8[1,6,4], strides [24,1,6], in x; view of x

qmatmul_1: qmatmul
  qmatmul_1.out: int8[1,4,4], rows [4,1,1,1]/1x4; product of rows

transpose_2: transpose
  transpose_2.out: int8[4,5], copied plain rows [4,1,1,5]/1; copy of y: not all readers take strides

qrescale_3: qrescale
  qrescale_3.out: int8[4,5], rows [4,1,1,2]/1x4; as transpose_2.out, which it reads

reshape_4: reshape
  reshape_4.out: int8[20], refused; the accelerator takes tensors of 2 dimensions and more
"""


def test_tiles_are_those_of_the_layer_and_limits_are_real(compiled) -> None:
    """The tiles as text are a plan; tiles that are said to fit do, and others do not."""
    for group in compiled.way.groups:
        for part in group:
            said = text(compiled, "tiles", part.layer.name)
            plan = re.findall(rf"^{part.layer.name}: (rows=.*)$", said, re.MULTILINE)[0]
            shape = shape_of(part.layer.operator)
            assert tiles_from(plan, TINY.config, shape, 2, part.room) == (part.tiles, part.threads)
            for buffer, need, have in re.findall(r"must fit (\w+), which has (\d+) entries for it, "
                                                 r"not (\d+)", said):
                assert buffer in TINY.config.buffers and int(need) < int(have)


def test_tiles_that_are_not_the_formulas_are_told() -> None:
    net = Net(4)
    segment = AccelTarget(SHORT).compile(net.graph(net.conv(net.input(1, 4, 8, 8), 8)))
    layer, = segment.layers
    said = text(segment, "tiles", layer.name)
    assert re.search(r"chosen: of \d+ that fit in pieces, as none fits whole, the cheapest", said)
    others = Choices(SHORT, 2).others(layer, 4)
    said = str(tiles_text(SHORT, 2, [others[-1]]))
    assert "chosen: by a plan or a search; the formula has rows=" in said


def test_tokens_are_paired_as_the_units_take_them(compiled) -> None:
    program = compiled.program
    known = program.instructions(TINY)
    said = " ".join(text(compiled, "stream").split())
    lines = {int(number): rest for number, rest in re.findall(
        r"(\d+) \w+: \S+ <- (.*?)(?= \d+ \w+: \S+ <- |$)", said)}
    assert [*lines] == list(range(program.count - 1))
    pairs = pair_tokens([one.unit for one in known[:-1]],
                        [Tokens(one.waits, one.signals) for one in known[:-1]])
    for (giver, taker), pair in pairs.items():
        for given, taken in zip(pair.signals, pair.waits, strict=False):
            assert re.search(rf"waits for [^;)]*\b{giver} {given}\b", lines[taken])
            assert re.search(rf"signals [^;)]*\b{taker} {taken}\b", lines[given])
    count = sum(len(pair.signals) for pair in pairs.values())
    assert f"{program.count} instructions, {count} tokens" in said


def test_words_can_be_read_back(compiled) -> None:
    """From the text alone: hexadecimal is the program, and assembly is what it means."""
    program = compiled.program
    said = text(compiled, "program")
    found = re.findall(r"^ {4,}(\d+) ([a-z][^#]*?)\n((?: {9}[0-9a-f]{16}[^\n]*\n)+)", said,
                       re.MULTILINE)
    assert [int(number) for number, _, _ in found] == list(range(program.count))
    for index, (_, assembly, word) in enumerate(found):
        parts = np.array([int(part, 16) for part in word.split()], "<u8")
        whole = np.pad(parts, (0, 8 - len(parts)))
        np.testing.assert_array_equal(whole.view(np.uint8), program.words[index])
        assert " ".join(assembly.split()) == disassemble(program.instruction(TINY, index))


def test_a_loaded_segment_has_no_way(compiled) -> None:
    loaded = replace(compiled, way=None)
    assert loaded.stages == {} and loaded.groups == ()
    assert loaded.emitted("program", "#", "") is None


def test_parts_are_made_when_they_are_asked_for() -> None:
    asked: list[str] = []

    def lines(name: str):
        asked.append(name)
        yield f"{name}: {len(asked)}"

    parted = PartedText([Part((name, "both"), lambda name=name: lines(name)) for name in "ab"],
                        lambda: iter(["head"]))
    assert parted.names == ("a", "both", "b") and asked == []
    assert parted.of("b") == "b: 1\n" and parted.of("c") == "" and asked == ["b"]
    assert str(parted) == "head\n\na: 2\n\nb: 3\n"
    assert str(SegmentTexts([("one", parted.of("both")), ("two", "")])) == (
        "one\n\na: 4\n\nb: 5\n\ntwo\n")


def test_lines_are_wrapped_between_what_belongs_together() -> None:
    first, second = wrapped(f"{'x' * 95} [8x dst+1 a+2]", 2)
    assert first == "  " + "x" * 95 and second == "      [8x dst+1 a+2]"
