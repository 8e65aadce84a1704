"""Lockstep: an accelerator whose hardware, simulators and compiler share one declaration.

>>> import lockstep
>>> module = lockstep.compile("examples/digits/digits-int8.onnx", target="accel:tiny-1x4x4")

Every exception raised on purpose is an `Error`. The names below are loaded on first use, and so is
`testing`, which has networks to try things with.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.machine.config import AccelConfig, ConfigError, preset
    from accel.machine.intrinsics import vector_op
    from accel.machine.machine import Machine
    from accel.mapping.assembling import assemble
    from compiler.errors import ArgumentError, Error
    from compiler.exports.names import ExportError
    from compiler.files import FileError
    from compiler.frontend.onnx.importing import ImportRefused
    from compiler.gradients import (Adam, GradientRefused, LearningRates, Sgd, cross_entropy, grad,
                                    mean_squared_error, trainable)
    from compiler.native import BuildError
    from compiler.quantize.ranges.refusal import QuantizeRefused
    from runtime import compile, load
    from runtime.driver.decoding import decoder
    from runtime.artifact.container import ArtifactError
    from runtime.driver.quantization import quantize
    from runtime.driver.targets import TargetError
    from runtime.driver.training import Trainer, TrainingError, batches
    from runtime.tuning.pool import PoolError
    from runtime.tuning.remote import remote
    from runtime.devices.device import DeviceError
    from runtime.module import InputError, Module
    from lockstep import testing as testing

__all__ = ["AccelConfig", "Adam", "ArgumentError", "ArtifactError", "BuildError", "ConfigError",
           "DeviceError", "Error", "ExportError", "FileError", "GradientRefused", "ImportRefused",
           "InputError", "LearningRates", "Machine", "Module", "PoolError", "QuantizeRefused",
           "Sgd", "TargetError", "Trainer", "TrainingError", "assemble", "batches", "compile",
           "cross_entropy", "decoder", "grad", "load", "mean_squared_error", "preset", "quantize",
           "remote", "trainable", "vector_op"]

_HOMES = {
    "AccelConfig": "accel.machine.config", "Machine": "accel.machine.machine",
    "assemble": "accel.mapping.assembling", "compile": "runtime", "load": "runtime",
    "decoder": "runtime.driver.decoding", "remote": "runtime.tuning.remote",
    "preset": "accel.machine.config", "quantize": "runtime.driver.quantization",
    "vector_op": "accel.machine.intrinsics",
    "ArgumentError": "compiler.errors", "ArtifactError": "runtime.artifact.container",
    "BuildError": "compiler.native", "ConfigError": "accel.machine.config",
    "DeviceError": "runtime.devices.device", "Error": "compiler.errors",
    "ExportError": "compiler.exports.names", "FileError": "compiler.files",
    "Adam": "compiler.gradients", "GradientRefused": "compiler.gradients",
    "Sgd": "compiler.gradients", "cross_entropy": "compiler.gradients",
    "grad": "compiler.gradients", "mean_squared_error": "compiler.gradients",
    "LearningRates": "compiler.gradients", "trainable": "compiler.gradients",
    "Trainer": "runtime.driver.training", "TrainingError": "runtime.driver.training",
    "batches": "runtime.driver.training",
    "ImportRefused": "compiler.frontend.onnx.importing", "InputError": "runtime.module",
    "Module": "runtime.module",
    "PoolError": "runtime.tuning.pool", "QuantizeRefused": "compiler.quantize.ranges.refusal",
    "TargetError": "runtime.driver.targets",
}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "testing":
        return importlib.import_module("lockstep.testing")
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'lockstep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "testing"]


def _version() -> str:
    """Reads the version where it is spelled: in the metadata of the package."""
    from importlib.metadata import version

    return version("lockstep-hw")
