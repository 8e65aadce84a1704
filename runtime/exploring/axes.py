"""Axes of an exploration: fields of a machine, each with the values that it may take.

``block_out=8,16,32``
    a field of the machine's TOML file, with numbers; ``32k`` is 32 KiB, ``8+4`` a list,
``wgt=half,same,double``
    a buffer by its name, with sizes relative to the machine's own (`RELATIVE`); any number may be
    relative,
``memory.latency=16,64``, ``timing.ahead=8,16``
    a field of the table ``[memory]``, or of ``[timing]``, the hardware's latencies and depths,
``units=1,2``
    units of vector, each with the instructions of the first and a buffer for its results,
``machine=pynq-1x16x16,int16.py``
    whole machines, whose other fields are then varied: so instructions and data types vary,
``effort=0,1,2``
    how mappings of networks are searched for, as ``--effort`` of ``lockstep run`` has it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from accel.machine.config import BUFFERS, DATAFLOWS, ELEMENTS, AccelConfig
from accel.machine.dram import Dram
from accel.machine.structure import UnitKind
from accel.machine.timing import CoreTiming
from accel.mapping.plans.search import EFFORTS
from compiler.errors import RequestError

RELATIVE = {"eighth": 1 / 8, "quarter": 1 / 4, "half": 1 / 2, "same": 1.0, "double": 2.0,
            "quadruple": 4.0, "octuple": 8.0}
"""Values relative to those of the machine that is changed."""

MACHINE_AXIS = "machine"
"""The axis whose options are whole machines."""

UNITS_AXIS = "units"
"""The axis of the number of units of vector."""

EFFORT_AXIS = "effort"
"""The axis of efforts for mappings, which the machine does not depend on."""

_FOLLOWING = ("name", "records", *ELEMENTS)
"""Fields that follow from the declared instructions, or mean nothing to hardware."""

_SUFFIXES = {"k": 1 << 10, "m": 1 << 20}
_TABLES = {"memory": Dram, "timing": CoreTiming}
"""The fields of a machine that are tables of fields: ``memory.latency``."""

_WORDS = {"none": None, "true": True, "false": False}


class AxisError(RequestError):
    """Something that cannot be varied: names the field, the value and the rule."""


@dataclass(frozen=True, slots=True)
class VariedAxis:
    """A field and its options, as texts, each once."""

    name: str
    options: tuple[str, ...]

    def __post_init__(self):
        if not self.options or not all(self.options):
            raise AxisError(f"{self.name} must have values with commas between, not "
                            f"{','.join(self.options)!r}")
        if len(set(self.options)) < len(self.options):
            raise AxisError(f"{self.name} must have each value once, not "
                            f"{','.join(self.options)!r}")


def axis_of(text: str) -> VariedAxis:
    """Parses ``FIELD=a,b,c``. Raises AxisError for a field that there is not, or that follows from
    others, and for values that the field cannot take in any machine.
    """
    name, equals, values = text.partition("=")
    if not equals:
        raise AxisError(f"What is varied must be FIELD=VALUE,VALUE..., not {text!r}")
    return _checked(name.strip(), [value.strip() for value in values.split(",")])


def axes_of_file(path: Path) -> list[VariedAxis]:
    """The axes of the table ``[vary]`` of a TOML file: fields, each with a list of values. Raises
    AxisError for any other file.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AxisError(f"Space {path} cannot be read: {error}") from None
    rows = table.get("vary")
    if set(table) != {"vary"} or not isinstance(rows, dict) or not rows:
        raise AxisError(f"Space {path} must have a table [vary] with fields, and nothing else")
    return [_checked(name, _texts(path, name, values)) for name, values in _flat(rows)]


def _flat(rows: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Fields with their values; those of ``memory`` and ``timing`` may be a table of their own."""
    flat = [(name, values) for name, values in rows.items() if name not in _TABLES]
    for table in _TABLES:
        inner = rows.get(table, {})
        if not isinstance(inner, dict):
            raise AxisError(f"{table} must be a table of fields, each with a list of values")
        flat += [(f"{table}.{name}", values) for name, values in inner.items()]
    return flat


def _texts(path: Path, name: str, values: Any) -> list[str]:
    if not isinstance(values, list):
        raise AxisError(f"Space {path}: {name} must have a list of values, not {values!r}")
    return ["+".join(map(str, value)) if isinstance(value, list)
            else str(value).lower() if isinstance(value, bool) else str(value) for value in values]


def _checked(name: str, values: list[str]) -> VariedAxis:
    axis = VariedAxis(_field(name), tuple(values))
    if axis.name == EFFORT_AXIS:
        for value in axis.options:
            if value not in map(str, range(len(EFFORTS))):
                raise AxisError(f"{name} must be 0 to {len(EFFORTS) - 1}, not {value!r}")
    elif axis.name != MACHINE_AXIS:
        for value in axis.options:
            _value(axis.name, value, None)
    return axis


def _field(name: str) -> str:
    """The field that a name means; buffers are named by their size."""
    known = [field.name for field in fields(AccelConfig) if field.name not in _FOLLOWING
             and field.name not in (*_TABLES, "structure")] + [
                 f"{name}.{field.name}" for name, table in _TABLES.items()
                 for field in fields(table)]
    field = f"{name}_bytes" if name in BUFFERS else name
    if name in _FOLLOWING:
        raise AxisError(f"{name} cannot be varied alone: it follows from the declared "
                        f"instructions; vary {MACHINE_AXIS}=FILE.py,... instead")
    if field not in known and field not in (MACHINE_AXIS, UNITS_AXIS, EFFORT_AXIS):
        raise AxisError(f"What is varied must be one of {', '.join((*known, *BUFFERS))}, "
                        f"{UNITS_AXIS}, {MACHINE_AXIS} or {EFFORT_AXIS}, not {name!r}")
    return field


def changed_config(config: AccelConfig, values: Mapping[str, str]) -> AccelConfig:
    """The configuration with these fields changed. Raises ConfigError or StructureError for what
    cannot be built, and AxisError for a relative value that is no whole number.
    """
    own: dict[str, Any] = {}
    for name, text in values.items():
        table, _, field = name.rpartition(".")
        value = _value(name, text, field_of(config, name))
        if name == UNITS_AXIS:
            own["structure"] = config.structure.with_vectors(value)
        elif table:
            own[table] = {**own.get(table, getattr(config, table).options), field: value}
        else:
            own[name] = value
    return replace(config, **own)


def field_of(config: AccelConfig, name: str) -> Any:
    """The value of what may be varied in a configuration."""
    if name == UNITS_AXIS:
        return len(config.structure.of_kind(UnitKind.VECTOR))
    table, _, field = name.rpartition(".")
    return getattr(getattr(config, table) if table else config, field)


def _value(name: str, text: str, base: Any) -> Any:
    """The value of a text; a relative one of `base`, which is None where it does not matter yet."""
    if name == "dataflow":
        if text in DATAFLOWS:
            return text
        raise AxisError(f"{name} must be one of {', '.join(DATAFLOWS)}, not {text!r}")
    if text in RELATIVE:
        if name == "weight_bits" or isinstance(base, bool):
            raise AxisError(f"{name} must be a value of its own, not {text!r}")
        return None if base is None else _scaled(name, text, base)
    if name == "weight_bits":
        parts = text.split("+")
        if all(part.isdecimal() for part in parts):
            return tuple(map(int, parts))
    elif text in _WORDS and name.startswith("memory."):
        return _WORDS[text]
    elif text[:-1].isdecimal() and text[-1].lower() in _SUFFIXES:
        return int(text[:-1]) * _SUFFIXES[text[-1].lower()]
    elif text.isdecimal():
        return int(text)
    elif name == "memory.bytes_per_cycle" and text.replace(".", "", 1).isdecimal():
        return float(text)
    raise AxisError(f"{name} must be a number, or one of {', '.join(RELATIVE)}, not {text!r}")


def _scaled(name: str, text: str, base: Any) -> int | float:
    scaled = base * RELATIVE[text]
    if scaled == int(scaled):
        return int(scaled)
    if name == "memory.bytes_per_cycle":
        return scaled
    raise AxisError(f"{name} must be a whole number, not {text} of {base}")
