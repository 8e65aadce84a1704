"""The identity of a board's machine: its record, packed into the register ``record``.

It is JSON with the members of `accel.machine.machine.MachineRecord`, deflated (zlib, RFC 1950), and
zeros.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from accel.machine.config import AccelConfig, ConfigError
from accel.machine.machine import Machine, MachineRecord
from fpga.link.registers import RECORD_BYTES


def encoded(record: MachineRecord) -> bytes:
    """`RECORD_BYTES` bytes. A record that does not fit omits instructions and the end of its name.
    """
    for told in (record, replace(record, name=record.name[:64], instructions={}, layouts={})):
        packed = zlib.compress(json.dumps(asdict(told)).encode(), 9)
        if len(packed) <= RECORD_BYTES:
            break
    assert len(packed) <= RECORD_BYTES
    return packed.ljust(RECORD_BYTES, b"\0")


def decoded(packed: bytes) -> MachineRecord:
    """Unpacks a record. Raises ValueError for bytes that `encoded` cannot make."""
    try:
        return MachineRecord.parse(json.loads(zlib.decompressobj().decompress(packed, 1 << 20)))
    except (zlib.error, KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None


def named(record: MachineRecord) -> AccelConfig | None:
    """The geometry of a record, if the machine has the shipped instructions."""
    try:
        config = AccelConfig(**{**record.geometry, "name": record.name})    # type: ignore[arg-type]
        return config if Machine(config).hash == record.hash else None
    except (TypeError, ConfigError):            # a geometry of another version of Lockstep
        return None


def machine_of(record: Mapping[str, Any]) -> MachineRecord:
    """The machine in the record of a bitstream."""
    return MachineRecord.parse({"hash": record["machine"], "name": record["config"], **record})
