"""Results without what was measured, and where two of them differ.

What is measured, such as seconds of the host, stands in ``provenance/measured``, as paths of keys.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ANY = "*"
ABSENT = "absent"


def unmeasured(figures: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the results without what their provenance marks as measured."""
    rest = copy.deepcopy(dict(figures))
    for path in figures["provenance"]["measured"]:
        _remove(rest, path.split("/"))
    return rest


def _remove(value: Any, path: Sequence[str]) -> None:
    first, *others = path
    for key in _keys(value, first):
        if others:
            _remove(value[key], others)
        elif isinstance(value, dict):
            del value[key]
        else:
            value[key] = None


def _keys(value: Any, name: str) -> list[Any]:
    if isinstance(value, list):
        return [*range(len(value))] if name == ANY else []
    if isinstance(value, dict):
        return [*value] if name == ANY else [name] if name in value else []
    return []


def differences(here: Any, there: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The places where two values of JSON differ, to the bit: path, and both texts."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in {**here, **there}:
            yield from differences(here.get(key, ABSENT), there.get(key, ABSENT), f"{path}/{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for place, pair in enumerate(zip(here, there)):
            yield from differences(*pair, f"{path}/{place}")
    elif (texts := (json.dumps(here), json.dumps(there)))[0] != texts[1]:
        yield path.lstrip("/"), *texts
