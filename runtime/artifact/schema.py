"""The schema of a manifest: the type of every field, and its check. Readers of a manifest rely on
the types; they check themselves that fields are consistent.
"""

from collections.abc import Mapping
from typing import Any

Kind = Any
"""A type of JSON's (`float` takes integers too); ``[kind]`` for a list; ``{str: kind}`` for any
names, ``{"field": kind}`` for these and possibly others; a tuple of alternatives, possibly with
`None`; or a predicate.
"""

NAMES = {str: "text", int: "an integer", float: "a number", bool: "true or false", None: "null"}


class Optional(str):
    """Marks a field that older files lack."""


def is_attribute(value: Any) -> bool:
    """True if the value is an attribute of a node."""
    match value:
        case list(): return all(map(is_attribute, value))
        case {"float": str()}: return len(value) == 1
        case None | bool() | int() | float() | str(): return True
    return False


ARRAY = {"member": str, "dtype": str, "shape": [int]}
BUFFER = {"name": str, "dtype": str, "shape": [int]}
SLOT = {"name": str, "base": str, "offset": int, "shape": [int], "dtype": str, "layout": str,
        "logical": [int]}
SUMS = {"count": int, "bytes": int}
PLACE = {"inputs": [str], "outputs": [str]}

GRAPH = {
    "name": str, **PLACE, "notes": [str],
    "nodes": [{"op": str, "name": str, **PLACE, "attrs": {str: is_attribute}}],
    "values": {str: {"dtype": str, "shape": [int]}}, "constants": {str: ARRAY}}
SEGMENT = {"target": str, "nodes": [str], **PLACE}
COPY = {"copy": str, "source": str, "target": str}
PROGRAM = {
    "words": ARRAY, "weights": ARRAY, "activations_bytes": int, "io_bytes": int,
    "inputs": [SLOT], "outputs": [SLOT], "layers": [[(str, int)]], "sites": str, "origins": ARRAY}
CODE = {
    "name": str, "inputs": [BUFFER], "outputs": [BUFFER], "temporaries": [BUFFER],
    "launches": [{"kernel": str, "grid": [int], "block": [int], "numbers": [int],
                  "arguments": [str], Optional("maps"): [{"buffer": str, "box": [int]}],
                  Optional("shared_bytes"): int}]}
GPU = {"dialect": str, "text": str, "images": {str: str}, "codes": [CODE],
       Optional("last"): [str], Optional("halves"): (str, None), Optional("rows"): bool,
       "steps": [{"nodes": [str], "code": (int, None)}]}
PUT = {"position": str, "places": int, "stride": int, "stores": [int]}
BOUND = dict.fromkeys(("cycles", "busy", "dram_bytes", "gemm", "vector", "loaded", "moved"), int)
WORK = {"node": str, "macs": int, "products": int, "input_bytes": int, "other_bytes": int,
        "note": str, Optional("bound"): (BOUND, None)}
PREFIX = {"places": int, "order": [int], "layers": [[(str, int)]], "words": ARRAY, "sites": str,
          "origins": ARRAY, "work": [[WORK]], "puts": [PUT]}
AUTO = {
    "chosen": str, "seconds": float, Optional("pipelined_seconds"): float,
    Optional("objective"): str, "candidates": {str: float}, "exact": bool, "notes": [str],
    "assumed": {str: {"value": float, "unit": str}},
    "copies": [{"value": str, "source": str, "target": str, "bytes": int, "seconds": float,
                "layout_seconds": float}],
    "segments": [{"device": str, "cycles": int, "seconds": float, "nodes": [str]}],
    "nodes": {str: {str: (float, None)}}}
LAYOUT = {**SUMS, "at_every_border": SUMS,
          "conversions": [{"value": str, "bytes": int, "where": str}]}
STRUCTURE = {
    "units": [{"name": str, "kind": str, "ports": [[str]]}],
    "buffers": [{"name": str, "shape": [(int, str)], "element": str, "size": (int, str),
                 "banks": int, "packed": bool}]}
MACHINE = {
    "config": {str: (int, float, str, [(int, str)], STRUCTURE, {str: (int, float, bool)})},
    "hash": str, "name": str,
    "geometry": {str: (int, str, [(int, str)], STRUCTURE, {str: (int, float, bool)})},
    Optional("instructions"): {str: [(int, str)]}, Optional("layouts"): {str: str}}

MANIFEST = {
    "format": str, "version": int, "made_with": {str: str}, "settings": {str: (int, bool)},
    Optional("auto"): (AUTO, None), Optional("layout"): (LAYOUT, None), "machine": (MACHINE, None),
    Optional("scales"): {str: {"scale": float, "zero_point": int}},
    "processor": {"triple": str, "cpu": str, "features": str}, "graph": GRAPH,
    "partition": {"steps": [(COPY, SEGMENT)], "reasons": {str: str}},
    "parts": [({"program": PROGRAM, "work": [[WORK]], "puts": [PUT], "prefixes": [PREFIX]},
               {"program": PROGRAM, "work": [[WORK]], "puts": [PUT]},
               {"program": PROGRAM, "work": [[WORK]]}, {"gpu": GPU},
               {"winograd": {str: int}, "groups": [{"nodes": [str], "kernel": (int, None)}]})],
    "kernels": [{"name": str, "inputs": [BUFFER], "outputs": [BUFFER], "code": str}],
    "members": {str: {"bytes": int, "sha256": str}}}


def require(value: Any, kind: Kind, where: str = "") -> None:
    """Raises ValueError for the first field of another kind."""
    match kind:
        case tuple(): _require_one(value, kind, where)
        case list():
            _require_type(value, list, "a list", where)
            for number, item in enumerate(value):
                require(item, kind[0], f"{where}[{number}]")
        case dict() if str in kind:
            _require_type(value, dict, "an object", where)
            for name, item in value.items():
                require(item, kind[str], _within(where, name))
        case dict(): _require_fields(value, kind, where)
        case None | type(): _require_plain(value, kind, where)
        case _: _require(kind(value), "an attribute", value, where)


def _require_one(value: Any, kinds: tuple[Kind, ...], where: str) -> None:
    """Checks a value against alternatives, of which one at most is a list. Among those with fields,
    the first whose fields are all present counts, else the last.
    """
    records = [kind for kind in kinds if isinstance(kind, dict)]
    if isinstance(value, Mapping) and records:
        require(value, next((kind for kind in records if kind.keys() <= value.keys()),
                            records[-1]), where)
        return
    lists = [kind for kind in kinds if isinstance(kind, list)]
    if isinstance(value, list) and lists:
        require(value, lists[0], where)
        return
    plain = [kind for kind in kinds if not isinstance(kind, dict | list)]
    _require(any(_is_plain(value, kind) for kind in plain),
             " or ".join([*(NAMES[kind] for kind in plain), *["a list" for _ in lists],
                          *["an object" for _ in records[:1]]]), value, where)


def _require_fields(value: Any, fields: Mapping[str, Kind], where: str) -> None:
    _require_type(value, dict, "an object", where)
    for name, kind in fields.items():
        if name in value:
            require(value[name], kind, _within(where, name))
        elif not isinstance(name, Optional):
            raise ValueError(f"{_within(where, name)} is missing")


def _require_plain(value: Any, kind: type | None, where: str) -> None:
    _require(_is_plain(value, kind), NAMES[kind], value, where)


def _require_type(value: Any, kind: type, name: str, where: str) -> None:
    _require(isinstance(value, kind), name, value, where)


def _is_plain(value: Any, kind: type | None) -> bool:
    """True if a plain value is of this kind; a bool is no number."""
    if kind is None or value is None:
        return value is kind
    return isinstance(value, bool) == (kind is bool) and isinstance(
        value, (int, float) if kind is float else kind)


def _require(holds: bool, expected: str, value: Any, where: str) -> None:
    if not holds:
        text = repr(value)
        raise ValueError(f"{where or 'the manifest'} must be {expected}, not "
                         f"{text if len(text) <= 60 else f'{text[:57]}...'}")


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
