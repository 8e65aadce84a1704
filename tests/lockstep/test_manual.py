"""The manual of instructions: facts against the hardware's own, pages against the facts."""

import re
from html.parser import HTMLParser

import pytest

from accel.datapath.plan import plan
from accel.machine import isa
from accel.machine.config import MACHINE, load, preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, disassemble, finish
from accel.machine.status import Status
from accel.machine.words import _leaves
from accel.proof.access import require_ranges, touches
from accel.sim.timed import cycle
from compiler import te
from lockstep.manual import Facts, facts, facts_of, fields_of
from lockstep.manual.examples import example, hexadecimal
from lockstep.manual.markdown import manual
from lockstep.manual.page import page
from lockstep.manual.text import cells
from lockstep.manual.timing import timing_of
from lockstep.manual.words import MEANINGS, UNUSED
from tests.support.machines import GEOMETRIES, LONG, PACKED, SHORT, TINY

OWN = Machine(preset("tiny-1x4x4"), (*SHIPPED, vector_op("absdiff", lambda a, b: te.abs(a - b))))
MACHINES = {"tiny": TINY, "short": SHORT, "own": OWN, "2x8x8": Machine(load(
    GEOMETRIES / "2x8x8.toml")), "two beats": Machine(preset("ecp5-1x16x16")), "packed": PACKED,
    "int16": LONG}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


# ---- words -------------------------------------------------------------------------------------

LAYOUTS = isa.FORMATS | {"packed": isa.PACKED, "wide load": isa.WIDE_DMA,
                         "wide vector": isa.WIDE_VECTOR}
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


@each_layout
def test_fields_are_where_the_decoder_reads_them(layout) -> None:
    """Every field, those of all loops, as `accel.machine.words` reads whole streams."""
    told = {(field.path if field.count == 1 else field.path.replace("loops.", f"loops.{loop}."),
             field.offset + loop * field.stride, field.width, field.signed, int(field.minus_one))
            for field in fields_of(layout) for loop in range(field.count)
            if field.path not in ("reserved", "rest")}
    assert told == {(path[1:], *others) for path, *others in _leaves(layout)}


def test_every_field_has_a_meaning() -> None:
    immediates = {"imm", "ma", "mb", "s", "zp", "lo", "hi"}
    for layout in LAYOUTS.values():
        for field in fields_of(layout):
            assert field.path in {*MEANINGS, *UNUSED, *immediates}, field.path


def test_how_weights_are_packed_is_in_the_manual_of_machines_that_unpack_them() -> None:
    row = "| 29 ... 30 | `bits` | bits of an element in memory; "
    assert row in manual(PACKED) and "0 8, 1 4, 2 2 |" in manual(PACKED)
    assert "### Words of store" in manual(PACKED)
    assert "`bits`" not in manual(TINY)


def test_words_of_16_bit_elements_are_in_the_manual_of_their_machines() -> None:
    row = "| 496 ... 503 | `pad_high` | the byte that padding writes to odd addresses"
    assert row in manual(LONG)
    assert "`pad_high`" not in manual(TINY)
    lo, = (field for field in fields_of(LONG.formats["vector"]) if field.path == "lo")
    assert lo.width == 16 and f"| {lo.bits} | `lo` | " in manual(LONG)


@each_layout
def test_a_diagram_has_every_bit_once(layout) -> None:
    rows = list(cells(layout))
    assert sum(width for row in rows for *_, width in row) == isa.WORD_BITS
    assert all(sum(width for *_, width in row) % 32 == 0 for row in rows)
    place = 0
    for row in rows:
        for field, _, width in row:
            if field is not None:
                assert field.offset <= place and place + width <= field.offset + field.width
            place += width


@each_machine
def test_a_bit_that_is_not_listed_changes_nothing(machine: Machine, rng) -> None:
    """An instruction touches the same, whatever the fields hold that it does not read."""
    for told in facts(machine)[1:]:
        instruction = example(machine, told.name)
        read = {field.path for field in told.fields}
        fields = {**instruction.fields}
        loops = [dict(loop) for loop in fields["loops"]]
        for field in fields_of(machine.formats[told.unit]):
            head, _, tail = field.path.partition(".")
            if field.path in read or field.path in UNUSED:
                continue
            noise = int(rng.integers(1, 1 << min(field.width - field.signed, 30)) if field.width > 1
                        else 1)
            if head == "loops":
                loops = [loop | {tail: noise} for loop in loops]
            elif tail:
                fields["base"] = fields["base"] | {tail: noise}
            else:
                fields[head] = noise
        changed = Instruction(told.name, told.unit, {**fields, "loops": loops})
        assert touches(machine, changed) == touches(machine, instruction), told.name


# ---- examples ----------------------------------------------------------------------------------

@each_machine
def test_examples_are_legal_and_decode_to_what_they_say(machine: Machine) -> None:
    for told in facts(machine):
        for form in range(len(told.forms)):
            instruction = example(machine, told.name, form)
            if told.name != "finish":
                require_ranges(machine, instruction, touches(machine, instruction))
            word = sum(int(part, 16) << 64 * place
                       for place, part in enumerate(hexadecimal(machine, instruction)))
            decoded = Instruction.decode(machine, word)
            assert (decoded.name, decoded.unit) == (told.name, told.unit)
            assert disassemble(decoded) == disassemble(instruction)
            assert decoded.encode(machine) == word


# ---- time --------------------------------------------------------------------------------------

@each_machine
@pytest.mark.parametrize("iterations", [4, 23])
def test_times_are_those_of_the_cycle_simulator(machine: Machine, iterations: int) -> None:
    checked = 0
    for told in facts(machine):
        if told.timing is None or not told.timing.write:
            continue
        for shared in (False, True) if told.timing.shared_interval else (False,):
            instruction = _repeated(machine, told, iterations, shared)
            run = cycle.simulate(machine, AccelProgram.assemble(machine, [instruction, finish()]),
                                 values=False)
            assert run.status is Status.DONE, told.name
            assert run.retire[0] - run.start[0] == told.timing.retires(iterations, shared), \
                (told.name, shared)
            checked += 1
    assert checked > len(machine.of_unit("vector"))


def _repeated(machine: Machine, told: Facts, iterations: int, shared: bool) -> Instruction:
    """The same entries again and again, without tokens and without a hazard."""
    instruction = example(machine, told.name)
    fields = {**instruction.fields, "waits": 0, "signals": 0, "loops": [{"extent": iterations}]}
    if told.unit == "vector":
        places = {place.name: [scope for scope, _ in place.storage]
                  for place in told.forms[0].places}
        if "a" in places:
            fields["a_source"] = isa.SOURCES_A.index("res")
        if "b" in places:
            where = "res" if shared or places["b"] == ["res"] else "imm"
            fields["b_source"] = isa.SOURCES_B.index(where)
            if where == "res" and not shared and "a" in places:
                fields["a_source"] = isa.SOURCES_A.index("acc")
    return Instruction(told.name, told.unit, fields)


def test_an_instruction_that_no_datapath_can_have_is_refused() -> None:
    machine = Machine(preset("tiny-1x4x4"), (*SHIPPED, vector_op("own", lambda a, b: a >> b)))
    with pytest.raises(ValueError, match="^.*body of own"):
        facts_of(machine, "own")


# ---- pages -------------------------------------------------------------------------------------

def test_the_manual_of_the_default_machine(golden) -> None:
    golden("../../docs/isa.md", manual(Machine(preset(MACHINE))))


@each_machine
def test_words_of_the_page_decode_to_their_text(machine: Machine) -> None:
    page = manual(machine).replace("\n    ", " ")         # long lines go on with four spaces
    blocks = re.findall(r"```text\n([^\n]+)\n([0-9a-f\s]+)\n```", page)
    assert len(blocks) == 1 + sum(map(len, machine.forms.values()))
    for text, digits in blocks:
        word = sum(int(part, 16) << 64 * place for place, part in enumerate(digits.split()))
        assert disassemble(Instruction.decode(machine, word)) == text


class Elements(HTMLParser):
    """The links and ids of a page; all elements that are opened are closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        named = {key: value or "" for key, value in attrs}
        if tag != "meta":
            self.open.append(tag)
        if "id" in named:
            self.ids.append(named["id"])
        if tag == "a":
            self.links.append(named["href"])
        self.sources += [named[key] for key in ("src",) if key in named]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_html_page_has_every_instruction_and_needs_nothing_else() -> None:
    elements = Elements(page(OWN))
    assert {f"#{name}" for name in OWN.opcodes} == set(elements.links)
    assert {*OWN.opcodes, "word-gemm", "word-vector", "word-load"} <= set(elements.ids)
    assert len(elements.ids) == len(set(elements.ids)) and not elements.sources
    for told in facts(OWN):
        for form in told.forms:
            assert form.formula in elements.text
        assert " ".join(hexadecimal(OWN, example(OWN, told.name))) in elements.text
    assert "loops[0].extent − 1" in elements.text
    timing = timing_of(OWN, OWN.intrinsic("absdiff"))
    assert f"n + {timing.retires(0)} cycles" in elements.text
    assert plan(OWN, "vector").latency == timing.latency
