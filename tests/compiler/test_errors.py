"""One base class of errors, and every exception of the house derives from it."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

from compiler.errors import ArgumentError, Error, RequestError

ROOT = Path(__file__).resolve().parents[2]
HOUSES = ("accel", "compiler", "fpga", "lockstep", "runtime")
CONTROL = {"accel.machine.immediates.NoRoom", "accel.proof.access.Fault",
           "accel.mapping.lowering.nest.NotAffine",
           "accel.sim.programs.places.NoPlace", "accel.sim.meaning.steps.Foreign",
           "compiler.frontend.building.refusal.NodeRefused",
           "compiler.gradients.rules.adjoint.NoGradient",
           "compiler.ops.records.integer_forms.StaysFloat", "compiler.tensorize.cover.Uncovered",
           "compiler.tensorize.cover.Unmatched"}
"""Caught where they are raised; no caller meets them."""


@cache
def exceptions() -> list[str]:
    """Dotted names of classes that derive from an exception of Python's, or from `Error`."""
    found = []
    for path in sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text()
        if not re.search(r"^class .*(?:Error|Exception)\b", text, re.MULTILINE):
            continue                                    # it takes ten times as long to be parsed
        for node in ast.parse(text).body:
            match node:
                case ast.ClassDef(name=name, bases=[_, *_]) if not name.startswith("_"):
                    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                    if any(base.endswith(("Error", "Exception")) for base in bases):
                        found.append(f"{module}.{name}")
    return found


def class_of(name: str) -> type:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_exception_is_an_error() -> None:
    names = {*exceptions()} - CONTROL
    assert [name for name in sorted(names) if not issubclass(class_of(name), Error)] == []


def test_the_house_is_read() -> None:
    assert {"compiler.errors.RequestError", "fpga.link.host.LinkError", *CONTROL} <= {*exceptions()}


def test_who_catches_a_value_error_catches_an_argument_error() -> None:
    assert issubclass(ArgumentError, ValueError) and issubclass(ArgumentError, TypeError)
    assert not issubclass(RequestError, ValueError)     # argparse would replace its message
