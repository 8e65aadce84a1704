"""The order of a layer's first loads, and loads that it can do without.

Units work in stream order. A layer's input waits for the stores of the layer before it, and so does
every load behind; weights, parameters and tables are there from the start, and come first.

A window that does not fill its entries is padded, tile after tile in the same places.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Stream
from accel.machine.structure import UnitKind
from accel.machine.words import decode_words
from accel.proof.access import CONSTANT
from accel.proof.batches import Batches

DATA = -1
"""In the place of a byte's value: it is not padding, or nothing is known of it."""


def constants_first(machine: Machine, stream: Stream) -> Stream:
    """The stream with the loads of constants before the other ones of those at its start. These
    write to other places than the loads that they pass, and nothing has read them yet.
    """
    units = Batches(machine, stream.words, stream.origins, {}).units
    load = machine.structure.names.index(machine.structure.roles.load)
    others = np.flatnonzero(units != load)
    first = int(others[0]) if len(others) else len(stream)
    constant = np.isin(_bases(stream.words[:first]), [isa.BASES.index(base) for base in CONSTANT])
    order = np.arange(len(stream))
    order[:first] = np.concatenate((order[:first][constant], order[:first][~constant]))
    return stream.take(order)


def _bases(words: np.ndarray) -> np.ndarray:
    """The base register of each load."""
    field = dict(isa.DMA)["base"]
    return words[:, field.offset // 8] >> field.offset % 8 & (len(isa.BASES) - 1)


def padding_once(machine: Machine, stream: Stream) -> Stream:
    """The stream without the loads to inp that write nothing but padding which is there already."""
    codes = [machine.opcodes[intrinsic.name] for intrinsic in machine.of_unit(UnitKind.LOAD)]
    loads = np.flatnonzero(np.isin(stream.words[:, 0], codes))
    inp = machine.structure.roles.inp
    code = machine.structure.buffer_names.index(inp)
    held = np.full(machine.config.buffers[inp].size_bytes, DATA)
    needed = np.ones(len(stream), bool)
    for index, load in zip(loads.tolist(), decode_words(machine, stream.words[loads]), strict=True):
        fields = load.fields
        if fields["buffer"] != code:
            continue
        places = _written(fields)
        pads = any(loop["before"] + loop["after"] >= loop["extent"] for loop in fields["loops"])
        value = fields["pad_value"] | fields.get("pad_high", 0) << 8 if pads else DATA
        needed[index] = not pads or np.any(held[places] != value)
        held[places] = value
    return stream.take(np.flatnonzero(needed))


def _written(fields: Mapping[str, Any]) -> np.ndarray:
    """The addresses of the bytes that a load writes."""
    places = np.array([fields["address"]])
    for loop in fields["loops"]:
        places = np.add.outer(places, np.arange(loop["extent"]) * loop["buffer"]).ravel()
    return np.add.outer(places, np.arange(fields["run"])).ravel() % (1 << 24)
