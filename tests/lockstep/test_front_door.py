"""`import lockstep`: every name of the front door, loaded when it is first used."""

import subprocess
import sys

import pytest

import lockstep
from accel.machine.config import AccelConfig, ConfigError, preset
from accel.machine.intrinsics import vector_op
from accel.machine.machine import Machine
from accel.mapping.assembling import assemble
from compiler.errors import ArgumentError, Error
from compiler.exports import ExportError
from compiler.files import FileError
from compiler.frontend.onnx.importing import ImportRefused
from compiler.gradients import (Adam, GradientRefused, LearningRates, Sgd, cross_entropy, grad,
                                mean_squared_error, trainable)
from compiler.native import BuildError
from compiler.quantize.ranges.refusal import QuantizeRefused
from runtime import compile, load
from runtime.artifact.container import ArtifactError
from runtime.driver.decoding import decoder
from runtime.driver.quantization import quantize
from runtime.driver.targets import TargetError
from runtime.driver.training import Trainer, TrainingError, batches
from runtime.tuning.pool import PoolError
from runtime.tuning.remote import remote
from runtime.devices.device import DeviceError
from runtime.module import InputError, Module


def test_names() -> None:
    found = {name: getattr(lockstep, name) for name in lockstep.__all__}
    assert found == {"AccelConfig": AccelConfig, "Adam": Adam, "ArgumentError": ArgumentError,
                     "ArtifactError": ArtifactError, "BuildError": BuildError,
                     "ConfigError": ConfigError, "DeviceError": DeviceError, "Error": Error,
                     "ExportError": ExportError, "FileError": FileError,
                     "GradientRefused": GradientRefused,
                     "ImportRefused": ImportRefused, "InputError": InputError,
                     "Machine": Machine, "Module": Module, "PoolError": PoolError,
                     "QuantizeRefused": QuantizeRefused, "LearningRates": LearningRates, "Sgd": Sgd,
                     "TargetError": TargetError, "Trainer": Trainer,
                     "TrainingError": TrainingError, "assemble": assemble, "batches": batches,
                     "compile": compile, "cross_entropy": cross_entropy,
                     "decoder": decoder, "grad": grad, "load": load,
                     "mean_squared_error": mean_squared_error, "preset": preset,
                     "quantize": quantize, "remote": remote, "trainable": trainable,
                     "vector_op": vector_op}


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"^module 'lockstep' has no attribute 'compiled'$"):
        getattr(lockstep, "compiled")                                           # noqa: B009


def test_importing_it_imports_nothing_heavy() -> None:
    code = ("import sys, lockstep; "
            "print(sorted({'amaranth', 'numpy', 'onnx', 'llvmlite', 'islpy'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    assert done.stdout == "[]\n"
