"""Which machine is it? What a hash stands for, and in which fields two machines differ."""

import json
from collections.abc import Iterator
from functools import cache

from accel.config import AccelConfig, preset, preset_names
from accel.machine import Machine
from compiler.native import cache_folder

__all__ = ["RECORDS", "difference", "named"]

RECORDS = "bitstreams"
"""Entries of the cache whose ``record.json`` tells machines apart: built bitstreams."""


def named(machine_hash: str) -> AccelConfig | None:
    """The geometry behind a hash, if it is one of the presets, or a bitstream was built for it
    here with the instructions that there are.
    """
    return next((config for config in _known() if _hash(config) == machine_hash), None)


def difference(found: str, machine: Machine) -> str:
    """In words: the machine with hash `found`, and where `machine` differs from it."""
    other = named(found)
    if other is None:
        return (f"machine {found[:12]}, which is neither a preset nor was built here, not "
                f"{machine.hash[:12]} ({machine.config.name})")
    theirs, ours = other.geometry(), machine.config.geometry()
    fields = ", ".join(f"{name} is {theirs[name]}, not {ours[name]}" for name in ours
                       if theirs[name] != ours[name])
    return (f"machine {found[:12]} ({other.name}), not {machine.hash[:12]} "
            f"({machine.config.name}): {fields or 'the instructions differ'}")


@cache
def _hash(config: AccelConfig) -> str:
    return Machine(config).hash


def _known() -> Iterator[AccelConfig]:
    yield from map(preset, preset_names())
    for path in sorted((cache_folder() / RECORDS).glob("*/record.json")):
        record = json.loads(path.read_text())
        yield AccelConfig(**record["geometry"], name=record["config"])
