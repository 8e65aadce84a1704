"""The parts of a core, and of each the amounts that its size grows with.

A part is a unit or a component of one, by the name of its submodule (``load.front``). Its features
are what `accel.hw` says of its widths and depths; how many LUTs and registers each of them takes is
fitted (`accel.estimates.fitting`). A feature that has no part in a machine is zero or left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from accel.datapath.plan import DatapathPlan, plan
from accel.estimates.amounts import Amounts, amounts
from accel.estimates.memories import (BufferCopy, blocks, buffer_blocks, buffer_copies,
                                      distributed, queue_blocks, shallow_blocks)
from accel.estimates.netlists import NETLIST, NetlistAmounts, amounts_by_module, summed
from accel.hw.core.counters import COUNTER_BITS
from accel.hw.interface import INDEX_BITS
from accel.hw.issue import record_layout
from accel.hw.moving.channels import Channels
from accel.hw.moving.shared import Shared
from accel.hw.parts import GROUP
from accel.hw.stream.unit import StreamUnit
from accel.machine.config import AccelConfig
from accel.machine.isa import WORD_BITS, WORD_BYTES
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE, Unit, UnitKind
from accel.sim.slice.netlist import netlist_of
from compiler.te import bits


@dataclass(frozen=True)
class CorePart:
    """A part of a core.

    Parameters
    ----------
    features : amounts that LUTs grow with, distributed RAM not included.
    kept : amounts that registers grow with.
    distributed : cells of distributed RAM.
    block_rams, multipliers : as the name says.
    products : bits of the products of multipliers: those of both factors, multiplied.
    like : the name of the part of shipped machines that is built as it is; empty for one of these.
    """

    features: Mapping[str, float]
    kept: Mapping[str, float]
    distributed: int = 0
    block_rams: int = 0
    multipliers: int = 0
    products: int = 0
    like: str = ""


def unit_of(part: str) -> str:
    """The unit of a part: ``load`` of ``load.front``."""
    return part.partition(".")[0]


def parts(machine: Machine) -> dict[str, CorePart]:
    """The parts of a machine's core, by name: those of units and buffers by that of their role."""
    machine = machine.in_roles
    vectors = {f"{unit.name}{name}": part if unit.name == "vector" else replace(
        part, like=f"vector{name}") for unit in machine.structure.of_kind(UnitKind.VECTOR)
        for name, part in _vector(machine, unit).items()}
    streams = {name: part for unit in machine.structure.of_kind(UnitKind.STREAM)
               for name, part in stream_parts(machine, unit).items()}
    return {**_common(machine), **_shared(machine), **_memory_port(machine),
            **_load(machine), **_store(machine), **_gemm(machine), **vectors, **streams,
            **_buffers(machine), **_queues(machine)}


def _common(machine: Machine) -> dict[str, CorePart]:
    """The part in which all units meet: it grows with their number, tokens with their pairs."""
    count, shipped = len(machine.structure.units), len(SHIPPED_STRUCTURE.units)
    one, pair = ({"one": (count / shipped)**power} for power in (1, 2))
    return {"core": _plain(), "control": CorePart(one, one), "tokens": CorePart(pair, pair),
            "counters": CorePart(one, one, 2 * count * distributed(COUNTER_BITS, 16))}


def _shared(machine: Machine) -> dict[str, CorePart]:
    """The shared scratchpad, as its netlist has it; the blocks of its memory are counted."""
    config = machine.config
    if not config.shared_bytes:
        return {}
    logic = summed([*amounts_by_module(netlist_of(Shared(config), "shared")).values()])
    rams = blocks(8 * config.bus_bytes, config.shared_bytes // config.bus_bytes)
    return {"shared": replace(part_of(logic), block_rams=rams)}


def _held(machine: Machine) -> int:
    """The distributed RAM that load and store keep started instructions in."""
    depth = machine.config.timing.in_flight
    return distributed(record_layout(machine.structure).size, depth) + distributed(1, depth)


def _plain(distributed: int = 0, **features: float) -> CorePart:
    """A part whose LUTs and registers grow with the same amounts."""
    amounts = {"one": 1.0, **features}
    return CorePart(amounts, amounts, distributed)


def _memory_port(machine: Machine) -> dict[str, CorePart]:
    config, opcodes = machine.config, len(machine.declarations)
    bus, offset = 8 * config.bus_bytes, _log(config.bus_bytes)
    depth = config.timing.prefetch * max(1, WORD_BYTES // config.bus_bytes)
    return {
        **_arbiter(config),
        "fetch": _plain(opcodes=opcodes, offset=offset),
        "fetch.buffer": CorePart({"one": 1.0, "chosen": (bus + 1) * (-(-depth // 16) - 1)},
                                 {"one": 1.0, "bits": bus, "offset": offset},
                                 distributed(bus + 1, depth)),
        "fetch.requests": _plain(offset=offset),
    }


def _arbiter(config: AccelConfig) -> dict[str, CorePart]:
    """The arbiter of one memory; of several channels all between them and their clients, as its
    netlist has it."""
    if config.channels > 1:
        return {"arbiter": part_of(summed([*amounts_by_module(
            netlist_of(Channels(config), "arbiter")).values()]))}
    return {"arbiter": _plain(), "arbiter.owners": _plain(distributed(6, config.timing.bursts))}


def _load(machine: Machine) -> dict[str, CorePart]:
    config = machine.config
    bus, offset = 8 * config.bus_bytes, _log(config.bus_bytes)
    wide = {"high": int(machine.pads_high)}
    written, formats = config.written_bytes("wgt"), len(config.weight_bits)
    run = {"address": _loaded_bits(machine), "packed": int(formats > 1), **wide}
    handed = 36 + offset + run["address"] + 2 * run["packed"] + 8 * run["high"]
    found = {
        "load": CorePart({"one": 1.0, "rotated": bus * offset, "bits": bus, **wide,
                          "unpacked": 8 * written * (formats - 1)},
                         {"one": 1.0, "bits": bus, **run}),
        "load.beats": _plain(2 * distributed(bus + 1, config.timing.beats // 2), bits=bus),
        "load.bursts": _plain(offset=offset, **run), "load.overlap": _plain(offset=offset),
        "load.front": _plain(_held(machine) + distributed(
            64 + run["address"] + 2 * run["packed"] + 8 * run["high"], config.timing.ahead), **run),
        "load.incoming": _plain(offset=offset, **run), "load.requests": _plain(offset=offset),
        "load.runs": _plain(distributed(handed, config.timing.bursts), offset=offset, **run),
        "load.stepper": CorePart({"one": 1.0, "bytes": config.bus_bytes, "offset": offset,
                                  "masks": written * (formats > 2)},
                                 {"one": 1.0, "bytes": config.bus_bytes, "offset": offset, **run}),
    }
    if formats > 1:
        found["load.unpack"] = _plain(bits=8 * written, mask=8 * written * (formats - 1))
    return found


def _store(machine: Machine) -> dict[str, CorePart]:
    config = machine.config
    bus, offset = 8 * config.bus_bytes, _log(config.bus_bytes)
    address = max(_log(config.bytes_of(name)) for name in machine.structure.unit("store").reads)
    depth = config.timing.write_room(config.bus_bytes)
    banks, requested = -(-depth // 16), 38 - offset
    return {
        "store": _plain(rotated=bus * offset, bits=bus, address=address),
        "store.front": _plain(_held(machine) + distributed(
            54 + address, config.timing.ahead), address=address),
        "store.stepper": _plain(bytes=config.bus_bytes, offset=offset, address=address),
        "store.writer": CorePart(
            {"one": 1.0, "bits": bus, "chosen": (bus * 9 // 8 + requested) * (banks - 1)},
            {"one": 1.0, "bits": bus, "offset": offset},
            sum(distributed(*size) for size in (
                (bus * 9 // 8, depth), (requested, depth), (1, config.timing.bursts)))),
    }


def _gemm(machine: Machine) -> dict[str, CorePart]:
    config, planned = machine.config, plan(machine, "gemm")
    counted = amounts(planned, config.dsp_multipliers)
    lanes, width = config.lanes, planned.value_bits
    tag = _immediate_bits(planned) + len(planned.bodies)
    element = 9 + _log(config.buffers["acc"].depth) + _updates(planned)
    found = {
        "gemm": _plain(carried=element * planned.fold_cycles, tag=tag),
        "gemm.issue": _issue(machine, planned), "gemm.nest": _plain(tag=tag),
        "gemm.datapath": _datapath(counted),
    }
    if planned.meeting:
        meeting = amounts(planned.meeting)
        addresses = sum(_log(config.buffers[name].depth) for name in ("acc", "inp", "wgt"))
        found |= {
            "gemm.update": _datapath(meeting, element * (2 + planned.meeting.latency)),
            "gemm.ahead": _plain(distributed(addresses + 31 + tag, config.timing.ahead), tag=tag),
            "gemm.hazards": _hazards(machine, planned.hazard_cycles),
        }
    else:
        found["gemm.update"] = _update(planned, lanes * width, element)
        # The sum with the destination and those before it become one.
        summed = found["gemm.update"].features["sums"]
        found["gemm.datapath"] = _datapath(counted, updated=summed)
    if planned.array and planned.array.weights_stay:
        tile, depth = _log(config.buffers["wgt"].depth), planned.array.ahead
        found["gemm.ahead"] = replace(
            _plain(distributed(64 + tag, depth) + distributed(tile, depth), tag=tag),
            like="vector.ahead")
    return found


def _vector(machine: Machine, unit: Unit) -> dict[str, CorePart]:
    """The parts of a unit of vector, by what follows its name in theirs."""
    config, planned = machine.config, plan(machine, unit.name)
    counted = amounts(planned)
    rows, columns = config.vector_tile
    lanes, width = rows * columns, planned.value_bits
    tag = _immediate_bits(planned) + len(planned.bodies) + 16 * bool(planned.third)
    depth = _log(max(config.parts[name].depth for name in unit.writes))
    element = 9 + depth + _updates(planned)
    stored = bits(config.elements[unit.at("a")[1]])
    return {
        "": _plain(carried=element * planned.fold_cycles, tag=tag, depth=depth,
                   bodies=len(planned.bodies), lanes=lanes),
        ".issue": _issue(machine, planned), ".nest": _plain(tag=tag),
        ".decode": _plain(tag=tag, bodies=len(planned.bodies)),
        ".ahead": _plain(distributed(_addresses(config, unit) + 22 + tag, config.timing.ahead),
                         tag=tag),
        ".hazards": _hazards(machine, planned.write_cycles),
        ".operands": CorePart(
            {"one": 1.0, "chosen": lanes * max(width, 32), "stored": lanes * stored, "tag": tag},
            {"one": 1.0, "lanes": lanes * (width + max(width, 32)), "tag": tag,
             "parameters": columns * _parameter_bits(machine, planned)}),
        ".datapath": _datapath(counted),
        ".update": _update(planned, lanes * width, element),
    }


@cache
def stream_parts(machine: Machine, unit: Unit) -> dict[str, CorePart]:
    """The parts of a stream unit, as its netlist has them: the unit's own, and each component."""
    found: dict[str, list[NetlistAmounts]] = {}
    netlist = netlist_of(StreamUnit(machine, unit.name), unit.name)
    for module, counted in amounts_by_module(netlist).items():
        name = ".".join(module.split(".")[:2])
        found.setdefault(name if ".component_" in name else unit.name, []).append(counted)
    return {name: part_of(summed(some)) for name, some in found.items()}


def part_of(counted: NetlistAmounts) -> CorePart:
    """A netlist as a part of a core."""
    return CorePart({"luts": counted.luts}, {"bits": counted.registers}, counted.distributed,
                    counted.block_rams, counted.multipliers, counted.products, NETLIST)


def _issue(machine: Machine, planned: DatapathPlan) -> CorePart:
    kept = record_layout(machine.structure).size
    return _plain(distributed(kept, planned.retire_depth), depth=_log(planned.retire_depth),
                  chosen=kept * (-(-planned.retire_depth // 16) - 1))


def _hazards(machine: Machine, cycles: int) -> CorePart:
    depth = _log(machine.config.buffers["acc"].depth)
    return CorePart({"one": 1.0, "places": cycles * depth},
                    {"one": 1.0, "places": cycles * (depth + 2)})


def _update(planned: DatapathPlan, width: int, element: int) -> CorePart:
    """The bypassed update of so many bits."""
    kinds = {body.update for body in planned.bodies} - {"assign"}
    return CorePart({"one": 1.0, "bits": width, "sums": width * ("sum" in kinds),
                     "extremes": width * len(kinds & {"min", "max"}), "element": element},
                    {"one": 1.0, "bits": width, "element": element})


def _datapath(counted: Amounts, carried: int = 0, updated: float = 0.0) -> CorePart:
    """A datapath beside which so many bits are carried, and after which so many are summed."""
    return CorePart({"updated": updated, "carry": 0.0, **counted.bits},
                    {"bits": counted.registers + carried}, multipliers=counted.multipliers,
                    products=counted.products)


def _buffers(machine: Machine) -> dict[str, CorePart]:
    """The copies of buffers, and the banks of acc, which every unit that computes reads."""
    config, rams = machine.config, buffer_blocks(machine)
    found = {copy.part: _copy(config, copy, rams[copy.part]) for copy in buffer_copies(machine)}
    width, beats = config.buffers["acc"].entry_bits, config.vector_beats
    readers = len(machine.structure.of_kind(UnitKind.VECTOR))
    found["acc"] = CorePart(
        {"one": 1.0, "bits": width, "part": readers * (width // beats * (2 * beats - 1)),
         "address": 2 * beats * _log(config.bank_depth)},
        {"one": 1.0, "groups": readers * -(-config.lanes // GROUP)}, block_rams=rams["acc"])
    return found


def _copy(config: AccelConfig, copy: BufferCopy, rams: int) -> CorePart:
    """A copy of a buffer: the bits between which its reads select, and its writes."""
    rows = config.rows_of(copy.seen, writes=copy.like == "out")
    if copy.like == "out":
        places, masks = rows.slices, rows.entries * (rows.entries > 1)
        chosen = rows.chunk_bytes * (places - 1)
    else:
        places, masks = rows.entries, rows.row_bytes * (rows.slices > 1)
        chosen = rows.entry_bytes * (places - 1) + rows.row_bytes * (rows.chunk_slices - 1)
    return CorePart({"chosen": 8 * chosen * copy.ports, "masks": masks * copy.ports, "one": 1.0},
                    {"select": copy.ports * 2 * _log(places)}, block_rams=rams,
                    like="" if copy.part == copy.like else copy.like)


def _queues(machine: Machine) -> dict[str, CorePart]:
    """The queues of instructions."""
    depth = machine.config.queue_depth
    if shallow_blocks(machine):
        return {f"queue_{unit}": CorePart({"one": 1.0, "depth": _log(depth)},
                                          {"one": 1.0, "depth": _log(depth)}, block_rams=rams)
                for unit, rams in queue_blocks(machine).items()}
    cells = distributed(WORD_BITS, 2 * depth) + distributed(INDEX_BITS, 2 * depth)
    rows = (WORD_BITS + INDEX_BITS) * (-(-2 * depth // 16) - 1)
    return {f"queue_{unit}": CorePart({"one": 1.0, "depth": _log(depth), "chosen": rows,
                                       "shown": 1.0},
                                      {"one": 1.0, "depth": _log(depth), "shown": 1.0}, cells)
            for unit in queue_blocks(machine)}


def _addresses(config: AccelConfig, unit: Unit) -> int:
    """Bits of an iteration's addresses that some buffer has."""
    operands = (unit.writes, unit.at("a"), (*unit.at("b"), *unit.at("table")))
    return sum(max(_log(config.buffers[name].depth) for name in names) for names in operands)


def _immediate_bits(planned: DatapathPlan) -> int:
    return sum(interval.width for interval in planned.immediates.values())


def _updates(planned: DatapathPlan) -> int:
    return max(len({body.update for body in planned.bodies} - {"assign"}), 1)


def _parameter_bits(machine: Machine, planned: DatapathPlan) -> int:
    """Bits of the parameters of a channel in registers of their own."""
    own = [node for node in (operation.node for operation in planned.operations)
           if node.kind == "read" and node.attr[0] not in ("a", "b", "tab")]
    return sum({node.attr[0]: node.interval.width for node in own}.values())


def _loaded_bits(machine: Machine) -> int:
    """Bits of the byte address in the largest buffer that load writes."""
    return max(_log(machine.config.bytes_of(name))
               for name in machine.structure.unit("load").writes)


def _log(number: int) -> int:
    return (number - 1).bit_length()
