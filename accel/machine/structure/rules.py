"""The rules of structures: hardware can be built of all that they allow.

Each is a function that says, in a sentence for each place, what is wrong with units and buffers:
the unit or buffer, the rule, the reason. `broken` is all of them.
"""

from collections.abc import Iterator, Sequence

from accel.machine.structure.records import (
    CAUSES, ENTRIES, EXTENTS, FETCH, IMMEDIATE, MOST_BUFFERS, MOST_UNITS, OPERANDS, SEGMENTS, TYPES,
    BufferRecord, Unit, UnitKind)

Units = Sequence[Unit]
Buffers = Sequence[BufferRecord]

_PARTS = frozenset(
    "activity arbiter available bases blocked blocked_index clk commands control count counter "
    "counter_value counters done error error_index error_status finish global halt idle illegal "
    "mem open refused request retired retired_index rst signal signalled signals start started "
    "started_index status status_index status_unit take tokens waits watched".split())
"""Names of ports and parts that components of hardware have besides those of units and buffers."""

_SINGLE = ("table", "dst")
"""Operands of a stream unit that have one port at most: what no word selects."""


def broken(units: Units, buffers: Buffers) -> Iterator[str]:
    """The rules that units and buffers break, in sentences."""
    yield from _names(units, buffers)
    for unit in units:
        yield from _ports(unit, buffers)
    for buffer in buffers:
        yield from _record(buffer)
        yield from _between(units, buffer)
    yield from _kinds(units, buffers)


def _names(units: Units, buffers: Buffers) -> Iterator[str]:
    for what, records, most, why in (
            ("Units", units, MOST_UNITS, "masks of tokens have 8 bits"),
            ("Buffers", buffers, MOST_BUFFERS, "the field of a word has at most 4 bits")):
        if len(records) > most:
            yield f"{what} must be at most {most}, not {len(records)}: {why}"
    names = [record.name for record in (*units, *buffers)]
    taken = {**dict.fromkeys(_PARTS, "a part of the core or of a unit"),
             FETCH: "a part of every core",
             IMMEDIATE: "a selector", **dict.fromkeys(("busy", *CAUSES), "an activity"),
             **dict.fromkeys(SEGMENTS, "a segment of memory")}
    for name in names:
        if (not isinstance(name, str) or not name.isidentifier() or not name.isascii()
                or name.startswith("_") or "__" in name):
            yield (f"Unit or buffer {name!r} must be an identifier of ASCII letters, digits and "
                   f"single underscores, a letter first: ports of the core are called so")
        elif name in [*UnitKind] and any(unit.name == name != unit.kind for unit in units):
            yield f"Unit {name} must have another name: units of kind {name} are called so"
        elif name in taken:
            yield f"Unit or buffer {name} must have another name: {taken[name]} is called so"
        elif names.count(name) > 1:
            yield f"Unit or buffer {name} must have another name: another one is called so"


def _ports(unit: Unit, buffers: Buffers) -> Iterator[str]:
    names = [buffer.name for buffer in buffers]
    if not unit.ports:
        yield f"Unit {unit.name} must have a port: it would have nothing to read or write"
    for port in unit.ports:
        known = OPERANDS[unit.kind]
        if port.operand not in known:
            yield (f"Port {port.operand} of unit {unit.name} must be one of {', '.join(known)}: "
                   f"a unit of kind {unit.kind} has no other operand")
        if port.buffer not in names:
            yield (f"Port {port.operand} of unit {unit.name} must be at one of "
                   f"{', '.join(names)}, not at {port.buffer}: there is no such "
                   f"buffer")
        if unit.ports.count(port) > 1:
            yield (f"Port {port.operand} of unit {unit.name} must be at {port.buffer} once: a "
                   f"selector has one code for it")
    for operand in OPERANDS[unit.kind]:
        if not unit.at(operand) and (unit.kind, operand) != (UnitKind.STREAM, "table"):
            yield (f"Unit {unit.name} must have a port {operand}: instructions of kind "
                   f"{unit.kind} need it")
        if (unit.kind, operand) in ENTRIES:
            yield from _entries(unit, operand, buffers)
    if unit.kind is UnitKind.STREAM:
        yield from _streams(unit, buffers)


def _streams(unit: Unit, buffers: Buffers) -> Iterator[str]:
    """The buffers of a stream unit are those of one component, which has no banks."""
    records = {buffer.name: buffer for buffer in buffers}
    for operand in _SINGLE:
        if len(unit.at(operand)) > 1:
            yield (f"Unit {unit.name} must have one port {operand}, not at "
                   f"{' and '.join(unit.at(operand))}: no word of a stream unit selects among them")
    for name in unit.at("table"):
        if name in unit.at("a"):
            yield (f"Port table of unit {unit.name} must be at another buffer than {name}, which "
                   f"port a reads: a copy of a buffer has one port for reads")
    for name in unit.buffers:
        if records[name].banks == 2:
            yield (f"Unit {unit.name} must not use {name}: instructions of kind {unit.kind} name "
                   f"no banks")
    first, *others = (records[name] for name in unit.at("a"))
    for other in others:
        if (other.shape, other.element) != (first.shape, first.element):
            yield (f"Ports a of unit {unit.name} must be at buffers of equal entries, not "
                   f"{_text(first.shape, first.element)} and {_text(other.shape, other.element)}: "
                   f"a component takes one kind")


def _entries(unit: Unit, operand: str, buffers: Buffers) -> Iterator[str]:
    """The buffers of an operand have the entries that the unit computes on."""
    wanted = ENTRIES[unit.kind, operand]
    records = {buffer.name: buffer for buffer in buffers}
    found = tuple((records[name].shape, records[name].element) for name in unit.at(operand)
                  if name in records)
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


def _between(units: Units, buffer: BufferRecord) -> Iterator[str]:
    """Rules for the users of a buffer, which follow from its hardware."""
    name = buffer.name
    users = [unit for unit in units if name in unit.buffers]
    writers = [unit for unit in users if name in unit.writes]
    readers = [unit for unit in users if name in unit.reads]
    if not writers:
        yield f"Buffer {name} must have a unit that writes it: nothing would be in it"
    if not isinstance(buffer.packed, bool):
        yield f"Packed of buffer {name} must be true or false, not {buffer.packed!r}"
    elif buffer.packed and not any(unit.kind is UnitKind.GEMM and name in unit.at("b")
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


def _kinds(units: Units, buffers: Buffers) -> Iterator[str]:
    for kind in UnitKind:
        alike = [unit.name for unit in units if unit.kind is kind]
        if not alike and kind is not UnitKind.STREAM:
            yield f"Units must have one of kind {kind}: without it no network can be computed"
        if len(alike) > 1 and kind not in (UnitKind.VECTOR, UnitKind.STREAM):
            yield (f"Units must have one of kind {kind}, not {' and '.join(alike)}: the core has "
                   f"one place for it")
    banked = [buffer.name for buffer in buffers if buffer.banks == 2]
    sums = [name for unit in units if unit.kind is UnitKind.GEMM for name in unit.writes]
    if banked != sums[:1]:
        yield (f"Buffers of two banks must be {' and '.join(sums)} alone, not "
               f"{' and '.join(banked) or 'none'}: sums of products meet there, and words have "
               f"bits for the banks of one")
