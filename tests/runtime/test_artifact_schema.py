"""The types of a manifest's fields."""

import copy
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

import lockstep
from runtime.artifact.schema import MANIFEST, require


DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> dict[str, Any]:
    """The manifest of a module for host and accelerator, as it was written."""
    path = tmp_path_factory.mktemp("schema") / "digits.lockstep"
    lockstep.compile(DIGITS, "accel:tiny-1x4x4").save(path)
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))


def test_what_is_written_fits(manifest) -> None:
    require(manifest, MANIFEST)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Paths of all that lies in a manifest."""
    inside = (value.items() if isinstance(value, dict) else
              enumerate(value) if isinstance(value, list) else ())
    return [path, *(found for key, item in inside for found in places(item, (*path, key)))][
        not path:]


def test_no_field_may_be_of_another_type(manifest) -> None:
    """Whatever is put in its place, but attributes, which may be all that JSON has."""
    found = [place for place in places(manifest) if "attrs" not in place]
    assert len(found) > 500
    for place in found[::7]:
        spoiled = copy.deepcopy(manifest)
        holder = spoiled
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = [[None]]
        with pytest.raises(ValueError, match="must be"):
            require(spoiled, MANIFEST)


@pytest.mark.parametrize(("value", "kind", "message"), [
    ({"a": [1, "x"]}, {"a": [int]}, "a[1] must be an integer, not 'x'"),
    ({"a": True}, {"a": int}, "a must be an integer, not True"),
    ({"a": 1}, {"a": bool}, "a must be true or false, not 1"),
    ({"a": 1}, {"a": (str, None)}, "a must be text or null, not 1"),
    ({"a": 1}, {"a": ({"b": int}, None)}, "a must be null or an object, not 1"),
    ({"a": {"b": "x"}}, {"a": ({"b": int}, {"c": int})}, "a.b must be an integer, not 'x'"),
    ({"a": {}}, {"a": ({"b": int}, {"c": int})}, "a.c is missing"),
    ({"a": "x" * 80}, {"a": float}, f"a must be a number, not '{'x' * 56}..."),
    ({"a": True}, {"a": (int, [int])}, "a must be an integer or a list, not True"),
    ({"a": [1, "x"]}, {"a": (int, [int])}, "a[1] must be an integer, not 'x'"),
    ([], {"a": int}, "the manifest must be an object, not []"),
    ({"attrs": {"f": {"float": 1}}}, MANIFEST["graph"]["nodes"][0],
     "op is missing"),
    ({"f": {"float": 1}}, MANIFEST["graph"]["nodes"][0]["attrs"],
     "f must be an attribute, not {'float': 1}"),
])
def test_the_first_wrong_field_is_named(value: Any, kind: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        require(value, kind)


def test_integers_are_numbers_and_old_files_lack_fields(manifest) -> None:
    require({"a": 1, "b": 1.5}, {str: float})
    require({"a": [1, 2], "b": 3}, {str: (int, [int])})
    old = {name: value for name, value in manifest.items() if name not in ("auto", "layout")}
    require(old, MANIFEST)
