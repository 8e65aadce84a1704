"""Units and buffers as records: what follows from them, and what is refused."""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import AccelConfig, ConfigError, preset
from accel.machine.intrinsics import SHIPPED as DECLARED
from accel.machine.intrinsics import also_on, on_each_vector
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, disassemble, finish
from accel.machine.structure import SHIPPED_STRUCTURE as SHIPPED
from accel.machine.structure import (BufferRecord, Structure, StructureError, Unit, UnitKind,
                                     UnitPort)
from accel.proof.legal import prove
from accel.sim.checking.check import check, compare
from accel.sim.meaning import functional, values
from accel.sim.programs.directed import directed
from accel.sim.programs.forms import forms
from accel.sim.programs.generate import generate, with_forms
from accel.sim.timed import cycle
from lockstep.manual.markdown import manual
from tests.support.streams import machine_of as streams
from tests.support.structures import (NAMES, renamed, reversed_but_vectors, reversed_units,
                                      two_vectors)

TINY = preset("tiny-1x4x4")
ROOT = Path(__file__).parents[3]


def test_codes_follow_from_the_lists() -> None:
    assert SHIPPED.names == ("load", "gemm", "vector", "store")
    assert SHIPPED.buffer_names == ("inp", "wgt", "res", "par", "acc", "out", "tab")
    assert SHIPPED.moved == {"load": ("inp", "wgt", "res", "par", "tab"), "store": ("out",)}
    assert SHIPPED.clients == ("fetch", "load", "store")
    assert SHIPPED.activities[:6] == ("busy", "command", "load", "gemm", "vector", "store")
    assert len(SHIPPED.counters) == 43
    assert isa.selectors(SHIPPED.unit("vector")) == {
        "a_source": ("acc", "res"), "b_source": ("acc", "res", "par", "imm"),
        "destination": ("acc", "out")}
    roles = SHIPPED.roles
    assert all(getattr(roles, name) == name for name in (*SHIPPED.names, *SHIPPED.buffer_names))


def test_shipped_machines_have_the_hashes_of_before() -> None:
    assert Machine(TINY).hash.startswith("c4cd71875988")


def test_a_structure_is_plain_data() -> None:
    own = renamed(TINY)
    assert AccelConfig(**json.loads(json.dumps(own.values()))) == own
    assert AccelConfig(**tomllib.loads(own.to_toml())) == own
    assert "structure" not in TINY.values() and "structure" not in TINY.to_toml()
    assert Structure.of(SHIPPED.plain) == SHIPPED


def test_other_names_are_another_machine() -> None:
    own = Machine(renamed(TINY))
    assert own.hash != Machine(TINY).hash
    assert "units or buffers are others" in own.record.difference(Machine(TINY).record)
    assert own.structure.shape == SHIPPED.shape


@pytest.mark.parametrize("seed", range(4))
def test_functional_and_timed_agree_on_a_machine_of_other_names(seed: int) -> None:
    machine = Machine(renamed(TINY))
    case = generate(machine, seed)
    runs = {"functional": functional.simulate(machine, case.program, case.memory),
            "cycle": cycle.simulate(machine, case.program, case.memory, **case.timing)}
    assert compare(machine, case, runs) is None
    assert runs["functional"].ok
    assert tuple(runs["cycle"].counters.activity) == machine.structure.names


def test_the_same_words_take_the_same_time_whatever_the_names() -> None:
    plain, own = Machine(TINY), Machine(renamed(TINY))
    case = generate(plain, 7)
    other = replace(case.program, machine_hash=own.hash, machine=own.record)
    first = cycle.simulate(plain, case.program, case.memory, **case.timing)
    second = cycle.simulate(own, other, case.memory, **case.timing)
    assert first.cycles == second.cycles and (first.memory == second.memory).all()
    assert (first.retire == second.retire).all()


def test_words_are_written_down_with_the_names_of_the_machine() -> None:
    machine = Machine(renamed(TINY))
    program = AccelProgram.assemble(machine, [
        Instruction("load", NAMES["load"], {"buffer": 1, "signals": 2}),
        Instruction("copy", NAMES["vector"], {"b_source": 2, "destination": 1, "waits": 1}),
        finish()])
    load, copy, _ = (disassemble(one) for one in program.instructions(machine))
    assert f"signal={NAMES['gemm']}" in load and f"buffer={NAMES['wgt']}" in load
    assert f"wait={NAMES['load']}" in copy and f"b_source={NAMES['par']}" in copy
    assert f"destination={NAMES['out']}" in copy


def test_the_timed_model_refuses_what_it_was_not_written_for() -> None:
    machine = streams()
    case = generate(Machine(TINY), 0)
    other = replace(case.program, machine_hash=machine.hash, machine=machine.record)
    assert not cycle.models(machine)
    with pytest.raises(ConfigError, match=r"Structure of streams must have units of kinds load, "
                                          r"store, gemm, vector alone to be simulated"):
        cycle.simulate_model(machine, other, case.memory)


# One simulator is built for those of reversed_but_vectors, here and for test_energy.
@pytest.mark.parametrize("make", [pytest.param(two_vectors, marks=pytest.mark.slow),
                                  pytest.param(reversed_units, marks=pytest.mark.slow),
                                  reversed_but_vectors])
def test_functional_and_timed_agree_on_machines_of_two_units_of_vector(make) -> None:
    machine = make(TINY)
    case = generate(machine, 3)
    runs = {"functional": functional.simulate(machine, case.program, case.memory),
            "cycle": cycle.simulate_model(machine, case.program, case.memory, **case.timing)}
    assert compare(machine, case, runs) is None
    assert min(sum(runs["cycle"].counters.activity[unit.name].values()) for unit in
               machine.structure.units) == runs["cycle"].cycles


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", [Machine, pytest.param(reversed_units, marks=pytest.mark.slow),
                                  reversed_but_vectors])
def test_bytes_are_counted_for_the_unit_that_moves_them(make) -> None:
    machine = make(TINY)
    roles = machine.structure.roles
    (case,) = [one for one in directed(machine) if one.name.startswith("full counter")
               and one.name.endswith(f" to {roles.store}")]
    moved = cycle.simulate(machine, case.program, case.memory).counters.bytes
    assert moved[roles.load] == 0 and moved[roles.store] > 40_000


def test_units_of_vector_come_and_go() -> None:
    three = SHIPPED.with_vectors(3)
    assert [unit.name for unit in three.of_kind(UnitKind.VECTOR)] == [
        "vector", "vector2", "vector3"]
    assert three.unit("store").reads == ("out", "out2", "out3")
    assert three.with_vectors(1) == SHIPPED and three.with_vectors(3) is three
    odd = SHIPPED.renamed({"inp": "vector2"}).with_vectors(2)
    assert odd.of_kind(UnitKind.VECTOR)[1].name == "vector2b"
    own = on_each_vector(three, DECLARED)
    machine = Machine(replace(TINY, structure=three), own)
    assert machine.unit_of("add_vector3") == "vector3" and len(own) == len(DECLARED) + 2 * 14
    assert on_each_vector(SHIPPED, own) == DECLARED and on_each_vector(three, own) == own


@pytest.mark.parametrize("seed", range(3))
def test_a_second_unit_of_vector_executes_what_is_declared_for_it(seed: int) -> None:
    machine = two_vectors(TINY)
    assert machine.units[machine.opcodes["add_vector2"]] == "vector2"
    assert machine.intrinsic("add_vector2").dst.scopes == ("acc", "out2")
    every = [form for form in forms(machine) if form.unit == "vector2"]
    case = with_forms(machine, seed, every[8 * seed:8 * seed + 8])
    prove(machine, case.program)
    assert functional.simulate(machine, case.program, case.memory).ok
    ran = {one.unit for one in case.program.instructions(machine)}
    assert ran == {*machine.structure.names, "fetch"}


def test_more_than_eight_buffers_have_wider_codes() -> None:
    structure = SHIPPED.with_vector("vector2", "out2").with_vector("vector3", "out3")
    machine = Machine(replace(TINY, structure=structure),
                      DECLARED + also_on("vector2", DECLARED) + also_on("vector3", DECLARED))
    code = machine.formats["store"]["buffer"]
    assert (code.offset, code.width) == (dict(machine.formats["load"])["buffer"].offset, 4)
    every = [form for form in forms(machine) if form.unit in ("load", "store")]
    case = with_forms(machine, 0, [form for form in every if "out3" in str(form)] + every[:6])
    prove(machine, case.program)
    stored = [one.fields["buffer"] for one in case.program.instructions(machine)
              if one.unit == "store"]
    assert structure.buffer_names.index("out3") == 8 and 8 in stored
    runs = [simulate(machine, case.program, case.memory) for simulate in (
        functional.simulate, values.simulate)]
    assert runs[0].ok and np.array_equal(runs[0].memory, runs[1].memory)


def test_the_manual_has_the_names_of_the_machine() -> None:
    page = manual(Machine(renamed(TINY)))
    assert "unit lanes" in page and "0 sums, 1 tiles, 2 factors, 3 imm" in page
    assert "banks of sums that mac holds" in page and "bit i: unit i of reader, mac, lanes" in page
    assert not re.search(r"unit (load|gemm|vector|store)|in (acc|res|out)\b", page)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda config: Machine(renamed(config)), two_vectors,
                                  reversed_units, reversed_but_vectors])
def test_the_rtl_agrees(make) -> None:
    machine = make(TINY)
    report = check(machine, 60, locate=False)
    assert report.ok, report.difference or (report.empty, report.missing)
    assert report.left_out == ()


def _with(*units: Unit, buffers: tuple[BufferRecord, ...] = ()) -> Structure:
    """The shipped structure with these units and buffers in place of those of their names."""
    own, other = ({one.name: one for one in some} for some in (units, buffers))
    known = {*SHIPPED.names}, {*SHIPPED.buffer_names}
    return Structure(
        (*(own.get(one.name, one) for one in SHIPPED.units),
         *(one for one in units if one.name not in known[0])),
        (*(other.get(one.name, one) for one in SHIPPED.buffers),
         *(one for one in buffers if one.name not in known[1])))


_VECTOR, _STORE, _LOAD = (SHIPPED.unit(name) for name in ("vector", "store", "load"))
_OUT = SHIPPED.buffer("out")


@pytest.mark.parametrize(("make", "message"), [
    (lambda: _with(*(replace(_VECTOR, name=f"v{k}") for k in range(5))),
     "Units must be at most 8, not 9: masks of tokens have 8 bits"),
    (lambda: _with(buffers=[replace(_OUT, name=f"a{k}") for k in range(10)]),
     "Buffers must be at most 16, not 17: the field of a word has at most 4 bits"),
    (lambda: SHIPPED.renamed({"gemm": "fetch"}),
     "Unit or buffer fetch must have another name: a part of every core is called so"),
    (lambda: SHIPPED.renamed({"gemm": "vector", "vector": "gemm"}),
     "Unit vector must have another name: units of kind vector are called so"),
    (lambda: SHIPPED.renamed({"inp": "\u00e9"}),
     "Unit or buffer '\u00e9' must be an identifier of ASCII letters, digits and single"),
    (lambda: Structure.of({**SHIPPED.plain, "units": [
        {**one, "name": ["v"] if one["name"] == "vector" else one["name"]}
        for one in SHIPPED.plain["units"]]}),
     "Unit or buffer ['v'] must be an identifier of ASCII letters, digits and single"),
    (lambda: SHIPPED.renamed({"inp": "_inp"}),
     "Unit or buffer '_inp' must be an identifier of ASCII letters, digits and single"),
    (lambda: _with(buffers=(replace(_OUT, name="out", packed="no"),)),
     "Packed of buffer out must be true or false, not 'no'"),
    (lambda: _with(buffers=(replace(SHIPPED.buffer("inp"), packed=True),)),
     "Packed of buffer inp must be false: only weights of gemm, its operand b, have fewer bits in"),
    (lambda: SHIPPED.with_vectors(0), "Units of vector must be at least 1, not 0"),
    (lambda: Structure.of({**SHIPPED.plain, "unit": []}),
     "Structure must have units and buffers alone, not unit"),
    (lambda: Structure.of({**SHIPPED.plain, "units": [
        {**one, "port": []} for one in SHIPPED.plain["units"]]}),
     "Unit load must have name, kind and ports alone, not port"),
    (lambda: SHIPPED.renamed({"gemm": "memory"}),
     "Unit or buffer memory must have another name: an activity is called so"),
    (lambda: SHIPPED.renamed({"inp": "commands"}),
     "Unit or buffer commands must have another name: a part of the core or of a unit is called"),
    (lambda: SHIPPED.renamed({"inp": "vector"}),
     "Unit or buffer vector must have another name: another one is called so"),
    (lambda: SHIPPED.renamed({"inp": "in-put"}),
     "Unit or buffer 'in-put' must be an identifier"),
    (lambda: _with(replace(_STORE, ports=())), "Unit store must have a port"),
    (lambda: _with(replace(_STORE, ports=(UnitPort("src", "far"),))),
     "Port src of unit store must be at one of inp, wgt, res, par, acc, out, tab, not at far"),
    (lambda: _with(replace(_STORE, ports=(UnitPort("a", "out"),))),
     "Port a of unit store must be one of src: a unit of kind store has no other operand"),
    (lambda: _with(replace(_VECTOR, ports=_VECTOR.ports[1:])),
     "Ports a of unit vector must be at buffers of accumulator of batchxblock_out and output of"),
    (lambda: _with(replace(_LOAD, ports=_LOAD.ports[:4])),
     "Buffer tab must have a unit that writes it: nothing would be in it"),
    (lambda: _with(replace(_LOAD, ports=(*_LOAD.ports, UnitPort("dst", "out")))),
     "Buffer out must have one unit that writes it, not load and vector"),
    (lambda: _with(replace(_STORE, ports=(*_STORE.ports, UnitPort("src", "res")))),
     "Buffer res must be between a unit that moves bytes and one that computes, not between load"),
    (lambda: _with(replace(_STORE, ports=(*_STORE.ports, UnitPort("src", "acc")))),
     "Buffer acc must not be used by store: a buffer of two banks is between units that compute"),
    (lambda: _with(replace(_STORE, name="second", kind=UnitKind.STORE)),
     "Units must have one of kind store, not store and second: the core has one place for it"),
    (lambda: _with(buffers=(replace(SHIPPED.buffer("acc"), banks=1),)),
     "Element of buffer acc must not be accumulator"),
    (lambda: Structure.of({"units": []}), "Structure must be a table of units and buffers"),
])
def test_what_cannot_be_built_is_refused(make, message: str) -> None:
    with pytest.raises(StructureError, match=f"^{re.escape(message)}"):
        make()


def test_a_table_that_is_no_structure_is_refused_by_the_geometry() -> None:
    with pytest.raises(ConfigError, match="Structure must be a table"):
        replace(TINY, structure={"units": 3})
    buffers = (replace(_OUT, size="far_bytes"),)
    with pytest.raises(ConfigError, match="Size of buffer out must be one of inp_bytes"):
        replace(TINY, structure=_with(buffers=buffers))


WORDS = {*SHIPPED.names, *SHIPPED.buffer_names}

ALLOWED = {
    "accel/hw/compute/datapath.py": {"tab"},        # its own port
    "accel/hw/compute/gemm.py": {"out"}, "accel/hw/compute/hazards.py": {"acc"},
    "accel/hw/compute/meeting.py": {"acc"}, "accel/hw/compute/update.py": {"acc"},
    "accel/hw/issue.py": {"load"}, "accel/hw/loops.py": {"load", "out"},
    "accel/hw/moving/arbiter.py": {"load"}, "accel/hw/vector/unit.py": {"out"},
}
"""Files in which these words are names of their own signals, not of units and buffers. The list
only gets shorter."""

FREE = ("accel/hw", "accel/proof", "accel/sim/meaning", "accel/sim/checking", "accel/sim/programs")


def test_weights_of_few_bits_need_a_buffer_that_load_unpacks_into() -> None:
    plain = _with(buffers=(replace(SHIPPED.buffer("wgt"), packed=False),))
    assert replace(TINY, structure=plain).weight_bits == (8,)
    with pytest.raises(ConfigError, match=re.escape(
            "weight_bits must be [8] where buffer wgt is not packed, not (8, 4)")):
        replace(TINY, structure=plain, weight_bits=(8, 4))


def test_no_unit_and_no_buffer_is_a_special_word() -> None:
    found: dict[str, set[str]] = {}
    for folder in FREE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            words = {word for word in WORDS if f'"{word}"' in text}
            if words:
                found[path.relative_to(ROOT).as_posix()] = words
    assert found == ALLOWED
