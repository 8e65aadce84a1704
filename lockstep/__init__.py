"""Lockstep: an accelerator whose hardware, simulators and compiler share one declaration.

>>> import lockstep
>>> module = lockstep.compile("examples/digits/digits-int8.onnx", target="accel:tiny-1x4x4")

The names below are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.config import AccelConfig, preset
    from accel.intrinsics import vector_op
    from accel.machine import Machine
    from accel.target import assemble
    from compiler.quantize import quantize
    from runtime import compile, load

__all__ = ["AccelConfig", "Machine", "assemble", "compile", "load", "preset", "quantize",
           "vector_op"]

_HOMES = {"AccelConfig": "accel.config", "Machine": "accel.machine", "assemble": "accel.target",
          "compile": "runtime", "load": "runtime", "preset": "accel.config",
          "quantize": "compiler.quantize", "vector_op": "accel.intrinsics"}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
