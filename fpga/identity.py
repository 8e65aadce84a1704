"""Which machine is it? A board holds a hash only; here is what it stands for."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from accel.config import AccelConfig, ConfigError, preset, preset_names
from accel.machine import Machine, MachineRecord
from compiler.native import cache_folder

__all__ = ["RECORDS", "difference", "known", "machine_of", "named"]

RECORDS = "bitstreams"
"""Entries of the cache whose ``record.json`` tells machines apart: built bitstreams."""


def known(machine_hash: str) -> MachineRecord | None:
    """The machine behind a hash, if it is one of the presets, or a bitstream was built for it
    here.
    """
    return next((record for record in _known() if record.hash == machine_hash), None)


def named(machine_hash: str) -> AccelConfig | None:
    """The geometry behind a hash that is known, if it is of a machine with the instructions that
    there are.
    """
    record = known(machine_hash)
    if record is None:
        return None
    try:
        config = AccelConfig(**{**record.geometry, "name": record.name})    # type: ignore[arg-type]
        return config if _record(config).hash == machine_hash else None
    except (TypeError, ConfigError):            # a geometry of another version
        return None


def difference(found: str, machine: Machine) -> str:
    """In words: the machine with hash `found`, and where `machine` differs from it."""
    other = known(found)
    if other is None:
        return (f"machine {found[:12]}, which is neither a preset nor was built here, not "
                f"{machine.record}")
    return f"machine {other}, not {machine.record}: {other.difference(machine.record)}"


@cache
def _record(config: AccelConfig) -> MachineRecord:
    return Machine(config).record


def _known() -> Iterator[MachineRecord]:
    yield from (_record(preset(name)) for name in preset_names())
    for path in sorted((cache_folder() / RECORDS).glob("*/record.json")):
        yield machine_of(json.loads(path.read_text()))


def machine_of(record: Mapping[str, Any]) -> MachineRecord:
    """The machine in the record of a bitstream."""
    return MachineRecord.parse({"hash": record["machine"], "name": record["config"], **record})
