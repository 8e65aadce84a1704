"""The structure of a machine: which units and buffers it has, and who reads and writes what.

A `Unit` and a `BufferRecord` are records; a `Structure` is a list of each, checked when it is
made. Codes in words, masks of tokens, counters, reports and the wires of the core follow from the
lists and their order. `SHIPPED_STRUCTURE` is the one of machines that name no other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from compiler.errors import Error
from compiler.lazy import cached_property

FETCH = "fetch"
"""The part of every core that reads the program; it reports like a unit."""

SEGMENTS = ("program", "weights", "activations", "io")
"""Segments of memory, in the order of their code in the `base` field."""

IMMEDIATE = "imm"
"""An immediate of the word, where a selector may name it in place of a buffer."""

MOST_UNITS, MOST_BUFFERS = 8, 16
"""Units that a mask of tokens has bits for; buffers that the field of a DMA word has codes for."""


class StructureError(Error, ValueError):
    """Units and buffers of which no core can be built: names them, the rule and the reason."""


class Kind(StrEnum):
    """The way in which instructions of a unit are executed; declarations say which they need.

    LOAD : runs of bytes from memory into a buffer.
    STORE : runs of bytes from a buffer into memory.
    GEMM : a nest of loops over entries; sums of products meet in accumulators.
    VECTOR : a nest of loops over entries; each lane by itself, or the lanes of a row.
    STREAM : rows of entries, which a component of one's own turns into rows of as many entries.
    """

    LOAD = "load"
    STORE = "store"
    GEMM = "gemm"
    VECTOR = "vector"
    STREAM = "stream"

    @property
    def moves(self) -> bool:
        """True if it moves bytes between memory and buffers; others compute on entries."""
        return self in (Kind.LOAD, Kind.STORE)


OPERANDS = {Kind.LOAD: ("dst",), Kind.STORE: ("src",), Kind.GEMM: ("a", "b", "dst"),
            Kind.VECTOR: ("a", "b", "record", "table", "dst"), Kind.STREAM: ("a", "table", "dst")}
"""What a port of a unit of each kind may serve. Ports of one operand are the choices of a selector;
a stream unit has one buffer of results, and a table or none."""

_SINGLE = ("table", "dst")
"""Operands of a stream unit that have one port at most: what no word selects."""

_TILE = ("batch", "block_out")

ENTRIES = {
    (Kind.GEMM, "a"): ((("batch", "block_in"), "operand"),),
    (Kind.GEMM, "b"): ((("block_out", "block_in"), "weight"),),
    (Kind.GEMM, "dst"): ((_TILE, "accumulator"),),
    (Kind.VECTOR, "a"): ((_TILE, "accumulator"), (_TILE, "output")),
    (Kind.VECTOR, "b"): ((_TILE, "accumulator"), (_TILE, "output"), (("block_out",), "param")),
    (Kind.VECTOR, "record"): ((("block_out",), "param"),),
    (Kind.VECTOR, "table"): (((256,), "int8"),),
    (Kind.VECTOR, "dst"): ((_TILE, "accumulator"), (_TILE, "output")),
}
"""The entries, shape and element, that an operand of gemm or vector may have: one buffer of each,
in this order, which is that of the selector's codes."""

EXTENTS = ("batch", "block_in", "block_out")
"""Fields of `AccelConfig` that may be extents of an entry."""

TYPES = ("operand", "weight", "accumulator", "output", "param", "int8", "uint8", "int16", "uint16",
         "int32", "uint32", "float16", "bfloat16", "float32")
"""What an element may be: fields of `AccelConfig`, records of channels, or a type."""


@dataclass(frozen=True, slots=True)
class UnitPort:
    """A port of a unit: the operand that it serves, and the buffer that it reads or, for ``dst``,
    writes. Addresses count entries; bytes where the unit moves them."""

    operand: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that executes instructions of its own. Its place in the list is its bit in masks of
    tokens and its code in reports; the codes of a selector follow the order of its ports."""

    name: str
    kind: Kind
    ports: tuple[UnitPort, ...]

    def at(self, operand: str) -> tuple[str, ...]:
        """The buffers that an operand may be in, in the order of their codes."""
        return tuple(port.buffer for port in self.ports if port.operand == operand)

    @property
    def reads(self) -> tuple[str, ...]:
        """The buffers that it reads by an operand, each once."""
        return tuple(dict.fromkeys(port.buffer for port in self.ports if port.operand != "dst"))

    @property
    def writes(self) -> tuple[str, ...]:
        """The buffers that it writes."""
        return self.at("dst")

    @property
    def buffers(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(port.buffer for port in self.ports))


@dataclass(frozen=True, slots=True)
class BufferRecord:
    """A buffer between units. Its place in the list is its code in the words of units that move
    bytes.

    Parameters
    ----------
    shape : extents of an entry: fields of `AccelConfig` (`EXTENTS`), or numbers.
    element : the field of `AccelConfig` that has the type of an element, or a type (`TYPES`).
    size : the field of `AccelConfig` that has its bytes, or their number.
    banks : parts between which its units alternate, two or one; with two, units that compute may
        share it and instructions say which they touch.
    packed : elements may have fewer bits in memory (`AccelConfig.weight_bits`).
    """

    name: str
    shape: tuple[str | int, ...]
    element: str
    size: str | int
    banks: int = 1
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the units and buffers with which networks are computed: the first unit of each
    kind, and its buffers."""

    load: str
    store: str
    gemm: str
    vector: str
    inp: str
    wgt: str
    acc: str
    res: str
    par: str
    tab: str
    out: str


@dataclass(frozen=True)
class Structure:
    """Units and buffers, in the order of their codes. Raises `StructureError`, which names the unit
    or buffer, the rule and the reason."""

    units: tuple[Unit, ...]
    buffers: tuple[BufferRecord, ...]

    def __post_init__(self):
        for message in _broken(self):
            raise StructureError(message)

    @classmethod
    def of(cls, plain: Mapping[str, Sequence[Mapping[str, Any]]]) -> "Structure":
        """The structure of plain data, the inverse of `plain`."""
        try:
            _only("Structure", plain, ("units", "buffers"))
            for unit in plain["units"]:
                _only(f"Unit {unit['name']}", unit, ("name", "kind", "ports"))
            units = tuple(Unit(unit["name"], Kind(unit["kind"]),
                               tuple(UnitPort(*port) for port in unit["ports"]))
                          for unit in plain["units"])
            buffers = tuple(BufferRecord(**{**buffer, "shape": tuple(buffer["shape"])})
                            for buffer in plain["buffers"])
        except StructureError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise StructureError(f"Structure must be a table of units and buffers as "
                                 f"Structure.plain gives it: {error}") from None
        return cls(units, buffers)

    @cached_property
    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """The records in plain data: numbers, texts and lists of them."""
        return {"units": [{"name": unit.name, "kind": unit.kind.value,
                           "ports": [[port.operand, port.buffer] for port in unit.ports]}
                          for unit in self.units],
                "buffers": [{field.name: _plain(getattr(buffer, field.name))
                             for field in fields(BufferRecord)} for buffer in self.buffers]}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Units, in the order of their bits in masks."""
        return tuple(unit.name for unit in self.units)

    @cached_property
    def buffer_names(self) -> tuple[str, ...]:
        """Buffers, in the order of their codes."""
        return tuple(buffer.name for buffer in self.buffers)

    @cached_property
    def reporters(self) -> tuple[str, ...]:
        """Units, and fetch, in the order of their codes in reports of errors."""
        return (*self.names, FETCH)

    @cached_property
    def clients(self) -> tuple[str, ...]:
        """Fetch and the units that move bytes over the memory port, in order."""
        return (FETCH, *(unit.name for unit in self.units if unit.kind.moves))

    @cached_property
    def stalls(self) -> tuple[str, ...]:
        """The reasons why a unit stalls in a cycle."""
        return ("command", *self.names, *_STALLS[1:])

    @cached_property
    def activities(self) -> tuple[str, ...]:
        """All that a unit may do in a cycle."""
        return ("busy", *self.stalls)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """The counters of the hardware, in the order of their numbers."""
        return (*(f"count_{unit}_{activity}" for unit in self.names
                  for activity in self.activities),
                *(f"bytes_{client}" for client in self.clients))

    @cached_property
    def moved(self) -> dict[str, tuple[str, ...]]:
        """The buffers that each unit that moves bytes reaches."""
        return {unit.name: unit.buffers for unit in self.units if unit.kind.moves}

    def unit(self, name: str) -> Unit:
        """The unit of a name; KeyError where there is none."""
        return self._units[name]

    def buffer(self, name: str) -> BufferRecord:
        """The buffer of a name; KeyError where there is none."""
        return self._buffers[name]

    def kind(self, name: str) -> Kind | None:
        """The kind of a unit; None of fetch, and of what is none."""
        unit = self._units.get(name)
        return unit and unit.kind

    def meant(self, name: str) -> str:
        """The unit that a declaration means: that of the name, or the first of the kind."""
        if name in self._units or name not in [*Kind] or not self.of_kind(Kind(name)):
            return name
        return self.of_kind(Kind(name))[0].name

    def of_kind(self, kind: Kind) -> tuple[Unit, ...]:
        """The units of a kind."""
        return tuple(unit for unit in self.units if unit.kind is kind)

    def users(self, buffer: str) -> tuple[Unit, ...]:
        """The units that read or write a buffer."""
        return tuple(unit for unit in self.units if buffer in unit.buffers)

    @cached_property
    def roles(self) -> Roles:
        """The names with which networks are computed."""
        load, store, gemm, vector = (self.of_kind(kind)[0] for kind in (
            Kind.LOAD, Kind.STORE, Kind.GEMM, Kind.VECTOR))
        (inp,), (wgt,), (acc,) = (gemm.at(operand) for operand in ("a", "b", "dst"))
        (_, res), (par,), (tab,), (_, out) = (
            vector.at(operand) for operand in ("a", "record", "table", "dst"))
        return Roles(load.name, store.name, gemm.name, vector.name, inp, wgt, acc, res, par, tab,
                     out)

    def renamed(self, names: Mapping[str, str]) -> "Structure":
        """This structure with other names of units and buffers; those that `names` lacks
        stay."""
        def new(name: str) -> str:
            return names.get(name, name)

        return Structure(
            tuple(replace(unit, name=new(unit.name), ports=tuple(
                replace(port, buffer=new(port.buffer)) for port in unit.ports))
                for unit in self.units),
            tuple(replace(buffer, name=new(buffer.name)) for buffer in self.buffers))

    def with_vector(self, unit: str, results: str) -> "Structure":
        """This structure with one more unit of vector, as the first one is, whose results lie in a
        buffer of their own, from which the same unit stores them."""
        first, roles = self.of_kind(Kind.VECTOR)[0], self.roles
        ports = tuple(replace(port, buffer=results) if port.buffer == roles.out else port
                      for port in first.ports)
        units = (replace(one, ports=(*one.ports, UnitPort("src", results)))
                 if one.name == roles.store else one for one in self.units)
        return Structure((*units, Unit(unit, Kind.VECTOR, ports)),
                         (*self.buffers, replace(self.buffer(roles.out), name=results)))

    def with_vectors(self, count: int) -> "Structure":
        """This structure with so many units of vector: further ones as `with_vector` adds them, or
        without the last ones and the buffers of these alone. Raises StructureError for less than
        one."""
        vectors = self.of_kind(Kind.VECTOR)
        if count < 1:
            raise StructureError(f"Units of vector must be at least 1, not {count}: results of "
                                 f"products leave through one")
        if count > len(vectors):
            roles, number = self.roles, len(vectors) + 1
            names = [self._free(f"{role}{number}") for role in (roles.vector, roles.out)]
            return self.with_vector(*names).with_vectors(count)
        if count == len(vectors):
            return self
        left = [unit for unit in self.units if unit not in vectors[count:]]
        used = {name for unit in left if not unit.kind.moves for name in unit.buffers}
        return Structure(
            tuple(replace(unit, ports=tuple(port for port in unit.ports if port.buffer in used))
                  for unit in left),
            tuple(buffer for buffer in self.buffers if buffer.name in used))

    def _free(self, name: str) -> str:
        """The name, or one like it that no unit or buffer has."""
        while name in (*self.names, *self.buffer_names):
            name += "b"
        return name

    def with_stream(self, unit: str, ports: Sequence[tuple[str, str]],
                    buffers: Sequence[BufferRecord] = ()) -> "Structure":
        """This structure with one more stream unit, whose ports are pairs of an operand and a
        buffer, and with these buffers: those that it reads are loaded, those that it writes are
        stored."""
        made = Unit(unit, Kind.STREAM, tuple(UnitPort(*port) for port in ports))
        new = [buffer.name for buffer in buffers]
        reached = {Kind.LOAD: ("dst", made.reads), Kind.STORE: ("src", made.writes)}

        def reaching(one: Unit) -> Unit:
            operand, theirs = reached.get(one.kind, ("", ()))
            return replace(one, ports=(*one.ports, *(
                UnitPort(operand, name) for name in new if name in theirs)))

        return Structure((*map(reaching, self.units), made), (*self.buffers, *buffers))

    @cached_property
    def in_roles(self) -> "Structure":
        """This structure with the name of its role for each unit and buffer that has one."""
        names = {getattr(self.roles, field.name): field.name for field in fields(Roles)}
        if all(name == role for name, role in names.items()):
            return self
        others = {name: f"{name}_" for name in (*self.names, *self.buffer_names)
                  if name not in names and name in names.values()}
        return self.renamed(names | others)

    @cached_property
    def shape(self) -> "Structure":
        """This structure with places in the lists for names: equal for structures that differ in
        names alone."""
        return self.renamed({name: f"{what}{place}" for what, names in (
            ("unit", self.names), ("buffer", self.buffer_names))
            for place, name in enumerate(names)})

    @cached_property
    def _units(self) -> dict[str, Unit]:
        return {unit.name: unit for unit in self.units}

    @cached_property
    def _buffers(self) -> dict[str, BufferRecord]:
        return {buffer.name: buffer for buffer in self.buffers}


_PARTS = frozenset(
    "activity arbiter available bases blocked blocked_index clk commands control count counter "
    "counter_value counters done error error_index error_status finish global halt idle illegal "
    "mem open refused request retired retired_index rst signal signalled signals start started "
    "started_index status status_index status_unit take tokens waits".split())
"""Names of ports and parts that components of hardware have besides those of units and buffers."""

_STALLS = ("command", "bank", "memory", "hazard", "signal")


def _only(what: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses the fields of a table that nothing would read."""
    if unknown := sorted(set(table) - set(known)):
        *some, last = known
        raise StructureError(f"{what} must have {', '.join(some)} and {last} alone, not "
                             f"{', '.join(map(str, unknown))}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# ---- what a structure must be ------------------------------------------------------------------

def _broken(structure: Structure) -> Iterator[str]:
    """The rules that a structure breaks, in sentences."""
    yield from _names(structure)
    for unit in structure.units:
        yield from _ports(structure, unit)
    for buffer in structure.buffers:
        yield from _record(buffer)
        yield from _between(structure, buffer)
    yield from _kinds(structure)


def _names(structure: Structure) -> Iterator[str]:
    units, buffers = structure.names, structure.buffer_names
    for what, names, most, why in (
            ("Units", units, MOST_UNITS, "masks of tokens have 8 bits"),
            ("Buffers", buffers, MOST_BUFFERS, "the field of a word has at most 4 bits")):
        if len(names) > most:
            yield f"{what} must be at most {most}, not {len(names)}: {why}"
    taken = {**dict.fromkeys(_PARTS, "a part of the core or of a unit"),
             FETCH: "a part of every core",
             IMMEDIATE: "a selector", **dict.fromkeys(("busy", *_STALLS), "an activity"),
             **dict.fromkeys(SEGMENTS, "a segment of memory")}
    for name in (*units, *buffers):
        if (not isinstance(name, str) or not name.isidentifier() or not name.isascii()
                or name.startswith("_") or "__" in name):
            yield (f"Unit or buffer {name!r} must be an identifier of ASCII letters, digits and "
                   f"single underscores, a letter first: ports of the core are called so")
        elif name in [*Kind] and any(unit.name == name != unit.kind for unit in structure.units):
            yield f"Unit {name} must have another name: units of kind {name} are called so"
        elif name in taken:
            yield f"Unit or buffer {name} must have another name: {taken[name]} is called so"
        elif (*units, *buffers).count(name) > 1:
            yield f"Unit or buffer {name} must have another name: another one is called so"


def _ports(structure: Structure, unit: Unit) -> Iterator[str]:
    if not unit.ports:
        yield f"Unit {unit.name} must have a port: it would have nothing to read or write"
    for port in unit.ports:
        known = OPERANDS[unit.kind]
        if port.operand not in known:
            yield (f"Port {port.operand} of unit {unit.name} must be one of {', '.join(known)}: "
                   f"a unit of kind {unit.kind} has no other operand")
        if port.buffer not in structure.buffer_names:
            yield (f"Port {port.operand} of unit {unit.name} must be at one of "
                   f"{', '.join(structure.buffer_names)}, not at {port.buffer}: there is no such "
                   f"buffer")
        if unit.ports.count(port) > 1:
            yield (f"Port {port.operand} of unit {unit.name} must be at {port.buffer} once: a "
                   f"selector has one code for it")
    for operand in OPERANDS[unit.kind]:
        if not unit.at(operand) and (unit.kind, operand) != (Kind.STREAM, "table"):
            yield (f"Unit {unit.name} must have a port {operand}: instructions of kind "
                   f"{unit.kind} need it")
        if (unit.kind, operand) in ENTRIES:
            yield from _entries(structure, unit, operand)
    if unit.kind is Kind.STREAM:
        yield from _streams(structure, unit)


def _streams(structure: Structure, unit: Unit) -> Iterator[str]:
    """The buffers of a stream unit are those of one component, which has no banks."""
    for operand in _SINGLE:
        if len(unit.at(operand)) > 1:
            yield (f"Unit {unit.name} must have one port {operand}, not at "
                   f"{' and '.join(unit.at(operand))}: no word of a stream unit selects among them")
    for name in unit.at("table"):
        if name in unit.at("a"):
            yield (f"Port table of unit {unit.name} must be at another buffer than {name}, which "
                   f"port a reads: a copy of a buffer has one port for reads")
    for name in unit.buffers:
        if structure.buffer(name).banks == 2:
            yield (f"Unit {unit.name} must not use {name}: instructions of kind {unit.kind} name "
                   f"no banks")
    first, *others = (structure.buffer(name) for name in unit.at("a"))
    for other in others:
        if (other.shape, other.element) != (first.shape, first.element):
            yield (f"Ports a of unit {unit.name} must be at buffers of equal entries, not "
                   f"{_text(first.shape, first.element)} and {_text(other.shape, other.element)}: "
                   f"a component takes one kind")


def _entries(structure: Structure, unit: Unit, operand: str) -> Iterator[str]:
    """The buffers of an operand have the entries that the unit computes on."""
    wanted = ENTRIES[unit.kind, operand]
    found = tuple((buffer.shape, buffer.element) for buffer in map(
        structure.buffer, (name for name in unit.at(operand) if name in structure.buffer_names)))
    if found != wanted:
        texts = [" and ".join(_text(shape, element) for shape, element in entries)
                 for entries in (wanted, found)]
        yield (f"Ports {operand} of unit {unit.name} must be at buffers of {texts[0]}, not of "
               f"{texts[1]}: its datapath computes on these")


def _text(shape: Sequence[str | int], element: str) -> str:
    return f"{element} of {'x'.join(map(str, shape))}"


def _record(buffer: BufferRecord) -> Iterator[str]:
    """An entry is of known extents and elements."""
    name, numbers = buffer.name, [one for one in buffer.shape if one not in EXTENTS]
    for extent in numbers:
        if type(extent) is not int or extent < 1:
            yield (f"Shape of buffer {name} must have {', '.join(EXTENTS)} and positive numbers, "
                   f"not {extent!r}: an entry has elements")
    if not buffer.shape:
        yield f"Shape of buffer {name} must have an extent: an entry has elements"
    if buffer.element not in TYPES:
        yield (f"Element of buffer {name} must be one of {', '.join(TYPES)}, not "
               f"{buffer.element!r}")
    if buffer.element == "accumulator" and buffer.banks == 1:
        yield (f"Element of buffer {name} must not be accumulator: sums are in no memory, so none "
               f"are loaded or stored")


def _between(structure: Structure, buffer: BufferRecord) -> Iterator[str]:
    """Rules for the users of a buffer, which follow from its hardware."""
    name, users = buffer.name, structure.users(buffer.name)
    writers = [unit for unit in users if name in unit.writes]
    readers = [unit for unit in users if name in unit.reads]
    if not writers:
        yield f"Buffer {name} must have a unit that writes it: nothing would be in it"
    if not isinstance(buffer.packed, bool):
        yield f"Packed of buffer {name} must be true or false, not {buffer.packed!r}"
    elif buffer.packed and not any(unit.kind is Kind.GEMM and name in unit.at("b")
                                   for unit in users):
        yield (f"Packed of buffer {name} must be false: only weights of gemm, its operand b, have "
               f"fewer bits in memory")
    if not readers and buffer.banks == 1:
        yield f"Buffer {name} must have a unit that reads it: it would be of no use"
    if buffer.banks not in (1, 2):
        yield f"Banks of buffer {name} must be 1 or 2, not {buffer.banks}: words have two bits"
    if buffer.banks == 2:
        for unit in users:
            if unit.kind.moves:
                yield (f"Buffer {name} must not be used by {unit.name}: a buffer of two banks is "
                       f"between units that compute")
        return
    if len(writers) > 1:
        yield (f"Buffer {name} must have one unit that writes it, not "
               f"{' and '.join(unit.name for unit in writers)}: it has one port for writes")
    for unit in readers:
        if unit in writers:
            yield (f"Buffer {name} must not be read by {unit.name}, which writes it: only a buffer "
                   f"of two banks is read and written by one unit")
        elif unit.kind.moves == any(writer.kind.moves for writer in writers):
            yield (f"Buffer {name} must be between a unit that moves bytes and one that computes, "
                   f"not between {writers[0].name} and {unit.name}")


def _kinds(structure: Structure) -> Iterator[str]:
    for kind in Kind:
        units = structure.of_kind(kind)
        if not units and kind is not Kind.STREAM:
            yield f"Units must have one of kind {kind}: without it no network can be computed"
        if len(units) > 1 and kind not in (Kind.VECTOR, Kind.STREAM):
            yield (f"Units must have one of kind {kind}, not "
                   f"{' and '.join(unit.name for unit in units)}: the core has one place for it")
    banked = [buffer.name for buffer in structure.buffers if buffer.banks == 2]
    sums = [name for unit in structure.of_kind(Kind.GEMM) for name in unit.writes]
    if banked != sums[:1]:
        yield (f"Buffers of two banks must be {' and '.join(sums)} alone, not "
               f"{' and '.join(banked) or 'none'}: sums of products meet there, and words have "
               f"bits for the banks of one")


SHIPPED_STRUCTURE = Structure(
    units=(
        Unit("load", Kind.LOAD, (
            UnitPort("dst", "inp"), UnitPort("dst", "wgt"), UnitPort("dst", "res"),
            UnitPort("dst", "par"), UnitPort("dst", "tab"))),
        Unit("gemm", Kind.GEMM, (
            UnitPort("a", "inp"), UnitPort("b", "wgt"), UnitPort("dst", "acc"))),
        Unit("vector", Kind.VECTOR, (
            UnitPort("a", "acc"), UnitPort("a", "res"),
            UnitPort("b", "acc"), UnitPort("b", "res"), UnitPort("b", "par"),
            UnitPort("record", "par"), UnitPort("table", "tab"),
            UnitPort("dst", "acc"), UnitPort("dst", "out"))),
        Unit("store", Kind.STORE, (UnitPort("src", "out"),)),
    ),
    buffers=(
        BufferRecord("inp", ("batch", "block_in"), "operand", "inp_bytes"),
        BufferRecord("wgt", ("block_out", "block_in"), "weight", "wgt_bytes", packed=True),
        BufferRecord("res", ("batch", "block_out"), "output", "res_bytes"),
        BufferRecord("par", ("block_out",), "param", "par_bytes"),
        BufferRecord("acc", ("batch", "block_out"), "accumulator", "acc_bytes", banks=2),
        BufferRecord("out", ("batch", "block_out"), "output", "out_bytes"),
        BufferRecord("tab", (256,), "int8", "tab_bytes"),
    ))
"""The structure of every machine that names no other."""
