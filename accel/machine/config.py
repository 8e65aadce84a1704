"""The geometry of the machine: one frozen record, written as TOML, that proves itself.

Every number that varies between accelerators is a field of `AccelConfig`; everything else about
the geometry (entry sizes, depths, lanes) is derived here, once.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from dataclasses import field as declared
from math import prod
from pathlib import Path
from typing import Any

from accel.machine.dram import DRAM, Dram, DramError
from accel.machine.limits import FieldLimits, limited, limits_of
from accel.machine.structure.rows import MemoryRows
from accel.machine.structure import SHIPPED_STRUCTURE, Structure, StructureError, Unit, UnitKind
from accel.machine.timing import TIMING, CoreTiming, TimingError
from compiler import te
from compiler.errors import Error
from compiler.lazy import cached_property

MACHINE = "pynq-1x16x16"
"""The preset where no machine is named."""

UNITS = SHIPPED_STRUCTURE.names
"""Execution units of shipped machines, in the order of their bit in the `waits` and `signals`
masks."""

BUFFERS = SHIPPED_STRUCTURE.buffer_names
"""On-chip buffers of shipped machines, in the order of their code in the `buffer` field of a DMA
instruction."""

PRESETS = Path(__file__).parents[1] / "presets"

PARAM_BYTES = 8             # one lane of an entry of par: bias int32, mult uint16, shift uint8
TABLE_BYTES = 256           # an entry of tab: a value for each byte


WEIGHT_BITS = (8, 4, 2)
"""Bits that a weight may have in memory, in the order of their code in the `bits` field of a
load."""

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
"""Floats of eight bits that machines multiply and store."""

ELEMENTS = {"operand": ("int8", "uint8", "int16", "uint16", "float16", "bfloat16", *FLOAT8),
            "weight": ("int8", "uint8", "int16", "uint16", "float16", "bfloat16", *FLOAT8),
            "accumulator": ("int32", "float32", "int16", "int24", "int40", "int48"),
            "output": ("int8", "int16", "bfloat16", *FLOAT8)}
"""The types that these fields may have, the default first."""

ADDER_TREE, WEIGHT_STATIONARY, OUTPUT_STATIONARY = DATAFLOWS = (
    "adder_tree", "weight_stationary", "output_stationary")
"""How gemm computes a block product, the default first: an adder tree for each sum, or a systolic
array in which the weights, or the sums, stay where they are."""

LEFT_OUT = {"weight_bits": [8], "weight": "int8", "records": [], "timing": {},
            "dataflow": ADDER_TREE, "shared_bytes": 0, "channels": 1}
"""Fields with these values are no part of `AccelConfig.geometry`: machines that do not have what
the field stands for keep their hash."""

NOT_HASHED = ("name", "clock_mhz", "memory")
"""Fields that are no part of it whatever their values: neither hardware nor programs depend on
them."""


class ConfigError(Error, ValueError):
    """A geometry that cannot be built: names the field, the value and the rule."""


@dataclass(frozen=True, slots=True)
class BufferGeometry:
    """An on-chip buffer of `depth` entries, each of `entry_bytes` bytes, of which hardware leaves
    out `unused_bits`."""

    name: str
    entry_bytes: int
    depth: int
    unused_bits: int = 0

    @property
    def entry_bits(self) -> int:
        return self.entry_bytes * 8 - self.unused_bits

    @property
    def size_bytes(self) -> int:
        return self.entry_bytes * self.depth


def one_of(types: Sequence[str]) -> str:
    """Some names as a sentence has them: ``int8, uint8 or int16``."""
    *some, last = types
    return f"{', '.join(some)} or {last}" if some else last


def _buffer(what: str, costs: str = "block RAM", default: Any = MISSING) -> Any:
    return limited(f"size of {what}; as many whole entries as fit count", "bytes", costs,
                   default=default, rule="at least 4 entries and two beats of the bus, at most "
                                         "65536 entries and 16 MiB")


_TESTED = "none that are larger have been compared with the RTL"


def _element(name: str) -> Any:
    buffers = " and ".join(
        buffer.name for buffer in SHIPPED_STRUCTURE.buffers if buffer.element == name)
    default, *others = ELEMENTS[name]
    return limited(f"type of an element of {buffers}", "", "width of what computes with it",
                   default=default, rule=f"{default} in a file; {one_of(others)} follow from the "
                                         f"declared instructions")


@dataclass(frozen=True)
class AccelConfig:
    """A GEMM accelerator that computes one block product a cycle::

        acc[batch, block_out] += inp[batch, block_in] · wgt[block_out, block_in]

    Fields say themselves what they mean and may be (`accel.machine.limits`).
    """

    name: str = limited("the name of the machine in reports; not part of its hash", "", "nothing",
                        rule="any text")
    batch: int = limited(
        "rows of a block product, which share its weights", "rows",
        "multipliers, and lanes of vector; entries of inp, res, acc and out widen with it",
        most=16, why=_TESTED)
    block_in: int = limited(
        "input channels of a block product", "channels",
        "multipliers, and levels of adders behind them; entries of inp and wgt widen with it",
        most=256, why=_TESTED)
    block_out: int = limited(
        "output channels of a block product", "channels",
        "multipliers, and lanes of vector; entries of wgt, res, par, acc and out widen with it",
        most=256, why=_TESTED)
    inp_bytes: int = _buffer("inp, which holds the activations that gemm reads")
    wgt_bytes: int = _buffer("wgt, which holds the weights that gemm reads")
    res_bytes: int = _buffer("res, which holds the tensors that vector reads")
    par_bytes: int = _buffer("par, which holds the numbers of channels that vector reads")
    acc_bytes: int = _buffer(
        "acc, which holds accumulators in two banks; an element counts as a power of two of bytes: "
        "int24 as 4, int40 and int48 as 8")
    out_bytes: int = _buffer("out, which holds results for store")
    tab_bytes: int = _buffer("tab, which holds tables", "block RAM for each lane of vector: every "
                             "one has a copy", 2048)
    shared_bytes: int = limited(
        "size of the scratchpad between the memory port and load and store, which holds the first "
        "bytes of the activations segment; 0: there is none", "bytes", "block RAM", default=0,
        least=0, is_power_of_two=True, rule="0, or from 1024 to 16 MiB")
    bus_bytes: int = limited(
        "width of the memory port", "bytes",
        "shifters and masks of load and store, and ports of buffers", default=8, most=512,
        is_power_of_two=True, why="the bits of an address are a beat, and a byte in it")
    channels: int = limited(
        "memory ports of that width, each to a memory of its own; addresses are in turn in each of "
        "them, by blocks of 64 bytes or of a longer beat", "ports",
        "an arbiter each, and queues of beats for each unit that moves some", default=1, most=8,
        is_power_of_two=True, why="the bits of an address above a block say which one has it")
    queue_depth: int = limited(
        "commands that wait for each unit", "commands",
        "memory for as many words of 64 bytes in each queue", default=8, most=64,
        is_power_of_two=True, why="places in a queue are counted modulo their number")
    vector_beats: int = limited(
        "cycles that vector takes for an entry", "cycles",
        "time of vector; its datapath has that many times fewer lanes", default=1,
        is_power_of_two=True, rule="such that an entry has so many equal parts of whole rows, or "
                                   "of lanes of a row",
        why="the bits of an address are an entry, and a part of it")
    stage_depth: int = limited(
        "adder levels, or the like, between two pipeline registers of a datapath", "levels",
        "clock; fewer levels cost registers and cycles of latency", default=2, most=8)
    dsp_multipliers: int = limited(
        "multipliers of gemm that may be multiplier blocks of an FPGA; the rest are adders",
        "multipliers", "multiplier blocks; each one fewer costs LUTs", default=1 << 16)
    dataflow: str = limited(
        "how gemm computes block products: an adder tree for each sum, or a systolic array whose "
        "weights, or sums, stay in place", "",
        "a systolic array has short wires, and registers between its elements; one whose weights "
        "stay takes block_out cycles to change them", default=ADDER_TREE,
        rule=f"{one_of(DATAFLOWS)}; the last two where gemm sums products of integers")
    clock_mhz: int = limited(
        "what reports convert cycles to seconds with; not part of the hash", "MHz",
        "nothing: what a core reaches is estimated, or routed", default=100)
    weight_bits: tuple[int, ...] = limited(
        "bits that a weight may have in memory; load unpacks it to int8 on its way into wgt",
        "bits", "an unpacker in load, and a wider port of wgt", default=(8,),
        rule="a list of 8 and some of 4 and 2, each once; [8] where weights are not int8")
    operand: str = _element("operand")
    accumulator: str = _element("accumulator")
    output: str = _element("output")
    weight: str = _element("weight")
    records: tuple[str, ...] = limited(
        "records beside param as which instructions read an element of par", "",
        "what the declared instructions take", default=(),
        rule="[] in a file: they follow from the declared instructions")
    memory: Dram = limited(
        "the memory behind the core in simulations that name no other; not part of the hash", "",
        "nothing in hardware: cycles of simulations", default=DRAM,
        rule="a table of the fields below")
    timing: CoreTiming = limited(
        "latencies and depths of the hardware", "", "registers and memory", default=TIMING,
        rule="a table of the fields below")
    structure: Structure = declared(default=SHIPPED_STRUCTURE, hash=False, metadata={
        "limits": FieldLimits(
            "units and buffers, and who reads and writes what", "", "what they are made of",
            rule="a table as `Structure.plain` gives it (`accel.machine.structure`)")})

    def __post_init__(self):
        self._make_structure()
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is str and not isinstance(value, str):
                raise ConfigError(f"{field.name} must be a string, not {value!r}")
            if field.type is int and (not isinstance(value, int) or isinstance(value, bool)
                                      or value < min(limits_of(field).least, 1)):
                kind = "a positive" if limits_of(field).least else "0 or a positive"
                raise ConfigError(f"{field.name} must be {kind} integer, not {value!r}")
        self._order_weight_bits()
        self._require("records", isinstance(self.records, list | tuple) and all(
            isinstance(name, str) for name in self.records), "a list of names")
        object.__setattr__(self, "records", tuple(self.records))
        for field in fields(self):
            limits = limits_of(field)
            if field.type is int and (rule := limits.broken(getattr(self, field.name))):
                self._require(field.name, False, rule, limits.why)
        self._require("shared_bytes", not self.shared_bytes or 1024 <= self.shared_bytes <= 1 << 24,
                      "0, or from 1024 to 16 MiB")
        self._require("vector_beats", self.vector_beats <= self.lanes,
                      f"at most the {self.lanes} lanes of an entry")
        rows, columns = self.vector_tile
        whole = self.vector_beats * rows * columns == self.lanes
        self._require("vector_beats", whole and (columns == self.block_out or rows == 1
                                                 and self.block_out % columns == 0),
                      f"a number of equal parts of the {self.batch} rows of {self.block_out} lanes "
                      f"of an entry", "a part is whole rows, or lanes of a row")
        for field, types in (*ELEMENTS.items(), ("dataflow", DATAFLOWS)):
            self._require(field, getattr(self, field) in types, one_of(types))
        is_float = self.accumulator == "float32"
        self._require("output", te.is_float(self.output) == is_float,
                      f"{'a float' if is_float else 'an integer type'} where "
                      f"acc holds {self.accumulator}: vector computes in one of them")
        self._require("weight_bits", self.weight_bits == (8,) or self.weight == "int8",
                      f"[8] where weights are {self.weight}: load unpacks to int8")
        wgt = self.structure.buffer(self.structure.roles.wgt)
        self._require("weight_bits", self.weight_bits == (8,) or wgt.packed,
                      f"[8] where buffer {wgt.name} is not packed")
        entry, fewest = self.buffers[wgt.name].entry_bytes, min(self.weight_bits)
        self._require("weight_bits", entry * fewest % 8 == 0,
                      f"such that an entry of {wgt.name}, {entry} elements, has whole bytes in "
                      f"memory, where addresses count bytes")
        for buffer in self.buffers.values():
            field, written = self.structure.buffer(buffer.name).size, (
                self.written_bytes(buffer.name))
            for holds, rule in (
                    (buffer.depth >= 4, f"at least 4 entries of {buffer.entry_bytes} bytes (of "
                                        f"which half are in use while half are filled)"),
                    (buffer.size_bytes >= 2 * written, f"at least two beats of {written} bytes (of "
                                                       f"which a row of its memory has one)"),
                    (buffer.depth <= 1 << 16, f"at most 65536 entries of {buffer.entry_bytes} "
                                              f"bytes (entry addresses have 16 bits)"),
                    (buffer.size_bytes <= 1 << 24, "at most 16 MiB (byte addresses have 24 bits)")):
                if isinstance(field, str):
                    self._require(field, holds, rule)
                elif not holds:
                    raise ConfigError(f"Size of buffer {buffer.name} must be {rule}, not {field}")
        self._make_memory()
        self._make_timing()

    def _order_weight_bits(self):
        """Puts the numbers in the order of their codes, as a tuple; refuses others."""
        bits = self.weight_bits
        rule = f"a list of 8 and some of {', '.join(map(str, WEIGHT_BITS[1:]))}, each once"
        is_list = isinstance(bits, list | tuple) and all(type(number) is int for number in bits)
        self._require("weight_bits", is_list and 8 in bits and len(set(bits)) == len(bits)
                      and set(bits) <= set(WEIGHT_BITS), rule)
        object.__setattr__(self, "weight_bits", tuple(sorted(bits, reverse=True)))

    def _make_structure(self):
        """Makes a `Structure` of a table; refuses one that the geometry has no sizes for."""
        self._require("structure", isinstance(self.structure, Structure | Mapping), "a table")
        try:
            structure = (Structure.of(self.structure) if isinstance(self.structure, Mapping)
                         else self.structure)
        except StructureError as error:
            raise ConfigError(str(error)) from None
        sizes = [buffer.size for buffer in SHIPPED_STRUCTURE.buffers]
        for buffer in structure.buffers:
            size = buffer.size
            if size not in sizes and (type(size) is not int or size < 1):
                raise ConfigError(f"Size of buffer {buffer.name} must be one of "
                                  f"{', '.join(map(str, sizes))}, or a number of bytes, not "
                                  f"{size!r}")
        object.__setattr__(self, "structure", structure)

    def _make_memory(self):
        """Makes a `Dram` of a table; refuses one that the bus cannot have."""
        self._require("memory", isinstance(self.memory, Dram | Mapping), "a table")
        try:
            memory = Dram.of(self.memory) if isinstance(self.memory, Mapping) else self.memory
            memory.require_bus(self.bus_bytes, self.name)
        except DramError as error:
            raise ConfigError(str(error)) from None
        object.__setattr__(self, "memory", memory)

    def _make_timing(self):
        """Makes a `CoreTiming` of a table; refuses one that this geometry cannot have."""
        self._require("timing", isinstance(self.timing, CoreTiming | Mapping), "a table")
        try:
            timing = CoreTiming.of(self.timing) if isinstance(self.timing, Mapping) else self.timing
            timing.require_reporters(len(self.structure.reporters))
        except TimingError as error:
            raise ConfigError(str(error)) from None
        object.__setattr__(self, "timing", timing)

    def _require(self, field: str, holds: bool, rule: str, why: str = ""):
        if not holds:
            reason = f": {why}" if why else ""
            raise ConfigError(f"{field} must be {rule}, not {getattr(self, field)!r}{reason}")

    @cached_property
    def tiles(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and element type of an entry of each buffer, by name, in the order of codes."""
        return {one.name: (tuple(extent if isinstance(extent, int) else getattr(self, extent)
                                 for extent in one.shape), self.elements[one.name])
                for one in self.structure.buffers}

    @cached_property
    def elements(self) -> dict[str, str]:
        """The type of an element of each buffer; `PARAM` stands for a record of any kind."""
        return {one.name: getattr(self, one.element) if one.element in ELEMENTS else one.element
                for one in self.structure.buffers}

    @cached_property
    def types(self) -> dict[str, str]:
        """The field that has the type of an element of a buffer, where it may vary."""
        return {one.name: one.element for one in self.structure.buffers if one.element in ELEMENTS}

    @cached_property
    def buffers(self) -> dict[str, BufferGeometry]:
        """Geometry of each buffer, by name, in the order of codes."""
        result = {}
        for name, (shape, dtype) in self.tiles.items():
            size, banks = prod(shape) * element_bytes(dtype), self.structure.buffer(name).banks
            result[name] = BufferGeometry(
                name, size, self.bytes_of(name) // (banks * size) * banks,
                prod(shape) * _unused_bits(dtype))
        return result

    def bytes_of(self, buffer: str) -> int:
        """The bytes that a buffer was given: a field of the geometry, or the record's own number.
        """
        size = self.structure.buffer(buffer).size
        return size if isinstance(size, int) else getattr(self, size)

    def rows_of(self, seen: BufferGeometry, writes: bool) -> MemoryRows:
        """The rows of a buffer that a unit which computes sees so; whether that writes it."""
        chunk = self.bus_bytes if writes else self.written_bytes(seen.name)
        return MemoryRows(chunk, seen.entry_bytes, seen.depth)

    def written_bytes(self, buffer: str) -> int:
        """Bytes that load writes to a buffer in a cycle, at most: a beat of the bus, of packed
        elements what that unpacks to."""
        packed = self.structure.buffer(buffer).packed
        return self.bus_bytes * (8 // min(self.weight_bits) if packed else 1)

    @property
    def burst_beats(self) -> int:
        """Beats of the longest burst, which is `block_bytes` long."""
        return self.block_bytes // self.bus_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes between boundaries that no burst crosses: those of the timing, or a beat where that
        is longer."""
        return max(self.timing.burst_bytes, self.bus_bytes)

    @property
    def memory_ports(self) -> tuple[str, ...]:
        """The names of the core's ports to memory, by channel."""
        several = tuple(f"mem{channel}" for channel in range(self.channels))
        return several if self.channels > 1 else ("mem",)

    def rate_of(self, memory: Dram = DRAM, clients: int = 1) -> float:
        """Bytes that so many clients of such a memory move in a cycle at most, on average: each a
        beat, and each channel."""
        channel = min(self.bus_bytes, memory.bytes_per_cycle or self.bus_bytes)
        return min(clients * self.bus_bytes, self.channels * channel)

    @property
    def channel_beats(self) -> int:
        """Beats that wait between a channel and who reads or writes it: two bursts."""
        return 2 * self.burst_beats

    @property
    def last_bits(self) -> int:
        """Bits of the beats of a burst, minus one, in a request at the memory port."""
        return max(5, (self.burst_beats - 1).bit_length())

    @property
    def kept_beats(self) -> int:
        """Beats of the bus that load can see again when it has used them: 64 bytes, but at least
        one and at most eight. A run of no more beats shares them with the next one.
        """
        return min(8, max(1, 64 // self.bus_bytes))

    @property
    def lanes(self) -> int:
        """Accumulators in one entry."""
        return self.batch * self.block_out

    @property
    def vector_tile(self) -> tuple[int, int]:
        """Rows and columns of the part of an entry that vector takes in a cycle: adjacent lanes."""
        rows = max(self.batch // self.vector_beats, 1)
        return rows, self.lanes // self.vector_beats // rows

    @cached_property
    def parts(self) -> dict[str, BufferGeometry]:
        """Buffers as vector sees them: an entry is the part of one that it takes in a cycle; of
        a table, the byte that a lane does."""
        columns, result = self.block_out // self.vector_tile[1], {}
        for unit in self.structure.of_kind(UnitKind.VECTOR):
            for name in unit.buffers:
                whole, rank = self.buffers[name], len(self.tiles[name][0])
                count = (TABLE_BYTES if name in unit.at("table") else
                         self.vector_beats if rank > 1 else columns)
                result[name] = BufferGeometry(name, whole.entry_bytes // count,
                                              whole.depth * count, whole.unused_bits // count)
        return result

    def seen(self, unit: Unit, buffer: str) -> BufferGeometry:
        """A buffer as a unit that computes sees it: its entries, or parts of them. A systolic array
        whose weights stay takes a column of them at a time."""
        whole = self.buffers[buffer]
        if (self.dataflow == WEIGHT_STATIONARY and unit.kind is UnitKind.GEMM
                and buffer in unit.at("b")):
            return BufferGeometry(buffer, whole.entry_bytes // self.block_out,
                                  whole.depth * self.block_out)
        return self.parts[buffer] if unit.kind is UnitKind.VECTOR else whole

    @property
    def macs_per_cycle(self) -> int:
        return self.batch * self.block_in * self.block_out

    @property
    def bank_depth(self) -> int:
        """Entries in one of the two banks of acc, the second of which follows the first."""
        return self.buffers[self.structure.roles.acc].depth // 2

    def geometry(self) -> dict[str, Any]:
        """Every field that the machine hash covers: all but `NOT_HASHED` and what `LEFT_OUT` says.
        """
        return {key: value for key, value in self.values().items()
                if key not in NOT_HASHED and value != LEFT_OUT.get(key)}

    def values(self) -> dict[str, Any]:
        """Every field in plain data, of which `AccelConfig` can be made again: lists for tuples, of
        memory and timing what does not have its default, the structure where it is not the shipped
        one."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        own = values.pop("structure")
        return {key: list(value) if isinstance(value, tuple) else value
                for key, value in values.items()} | {
                    "memory": self.memory.options, "timing": self.timing.options} | (
                    {} if own == SHIPPED_STRUCTURE else {"structure": own.plain})

    def to_toml(self) -> str:
        """The geometry as TOML, which `load` reads back."""
        values = self.values()
        tables = {name: _lines(values.pop(name)) for name in ("memory", "timing")}
        return _lines({key: value for key, value in values.items() if value != LEFT_OUT.get(key)}
                      ) + "".join(f"\n[{name}]\n{lines}" for name, lines in tables.items() if lines)


def read_channels(channels: int, block_in: int) -> int:
    """The channels that gemm reads: whole blocks of inputs."""
    return -(-channels // block_in) * block_in


def padded_channels(channels: int, block_in: int, block_out: int) -> int:
    """The channels in memory: whole blocks of outputs, in which all lie that gemm reads."""
    return -(-read_channels(channels, block_in) // block_out) * block_out


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    """A value as TOML has it. JSON's numbers and strings are TOML's too, but for DEL, which TOML
    wants escaped."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def flat(geometry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a geometry, those of its tables as well: ``timing.beats``."""
    return {name: value for key, fields in geometry.items() for name, value in (
        {f"{key}.{inner}": one for inner, one in fields.items()}.items()
        if isinstance(fields, Mapping) and key != "structure" else [(key, fields)])}


def known_default(name: str) -> Any:
    """The value of a field that a geometry leaves out, ``timing.beats`` of its table."""
    table, _, inner = name.rpartition(".")
    return getattr(TIMING, inner, "unknown") if table == "timing" else LEFT_OUT.get(name, "unknown")


def element_bytes(dtype: str) -> int:
    """Bytes that an element takes in a buffer, a power of two."""
    return PARAM_BYTES if dtype == "param" else 1 << (te.bits(dtype) // 8 - 1).bit_length()


def _unused_bits(dtype: str) -> int:
    """The bits of these bytes that an element does not have."""
    return 0 if dtype == "param" else 8 * element_bytes(dtype) - te.bits(dtype)


def preset_names() -> list[str]:
    """Names of the shipped geometries, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset(name: str) -> AccelConfig:
    """A shipped geometry."""
    if name not in preset_names():
        raise ConfigError(f"Preset must be one of {', '.join(preset_names())}, not {name!r}")
    return load(PRESETS / f"{name}.toml")


def load(path: str | Path) -> AccelConfig:
    """The geometry of a preset's name or of a TOML file."""
    if not isinstance(path, str | Path):
        raise ConfigError(f"Configuration must be a preset's name or a path, not {path!r}")
    path = Path(path)
    if path.suffix != ".toml":
        return preset(str(path))
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"Configuration {path} does not exist") from None
    except (ValueError, OSError) as error:
        raise ConfigError(f"Configuration {path} cannot be read: {error}") from None
    except RecursionError:
        raise ConfigError(f"Configuration {path} nests values too deeply; a geometry has numbers "
                          f"and names alone") from None
    known = {field.name for field in fields(AccelConfig)}
    table.setdefault("name", path.stem)
    for field, (default, *_) in ELEMENTS.items():
        if table.get(field, default) != default:
            raise ConfigError(f"Configuration {path}: {field} must be {default}, not "
                              f"{table[field]!r}: other types follow from declared instructions")
    if table.get("records", []) != []:
        raise ConfigError(f"Configuration {path}: records must be [], not {table['records']!r}: "
                          f"they follow from declared instructions")
    if unknown := sorted(set(table) - known):
        raise ConfigError(f"Configuration {path} has unknown fields {', '.join(unknown)}; "
                          f"known are {', '.join(sorted(known))}")
    try:
        return AccelConfig(**table)
    except TypeError as error:
        missing = sorted(f.name for f in fields(AccelConfig)
                         if f.name not in table and f.default is MISSING)
        raise ConfigError(f"Configuration {path} lacks {', '.join(missing)}") from error
    except ConfigError as error:
        raise ConfigError(f"Configuration {path}: {error}") from None
