"""Networks quantized for a machine."""

from pathlib import Path
from typing import Any, overload

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.quantizing import float_options, quantizer_options
from compiler.errors import called_by_name
from compiler.frontend.models import Model
from compiler.quantize import quantizer
from compiler.quantize.in_floats import InFloats, in_floats
from compiler.quantize.quantizer import Quantized
from compiler.quantize.ranges.sets import CalibrationSet
from compiler.te import is_float
from runtime.arguments import require_kind


@overload
def quantize(model: Model, calibration: CalibrationSet, *, machine: None = None,
             **options: Any) -> Quantized: ...


@overload
def quantize(model: Model, calibration: CalibrationSet, *, machine: Machine | str | Path | None,
             **options: Any) -> Quantized | InFloats: ...


@called_by_name
def quantize(model: Model, calibration: CalibrationSet, *,
             machine: Machine | str | Path | None = None, **options) -> Quantized | InFloats:
    """Quantize a float network, for a machine if one is named: see `compiler.quantize.quantize`,
    whose options these are.

    machine : a `Machine`, or its name or file as `accel.machine.loading` has them, whose Python
        code is run. Bits of activations are those that it stores; weights are pruned to the pattern
        that all its products need, if they do; and what its instructions match becomes these.
        Options that are given count, and those that the machine cannot have are refused. For one
        that stores floats the network is in floats of its types: `compiler.quantize.in_floats`,
        whose options are ``keep_float``, ``bind`` and ``example_inputs``.
    """
    require_kind("machine", machine, Machine | str | Path | None, "a Machine, a name or a path")
    if machine is not None:
        own = machine if isinstance(machine, Machine) else load_machine(machine)
        if is_float(own.config.output):
            return in_floats(model, calibration, **float_options(own, options))
        options = quantizer_options(own, options)
    return quantizer.quantize(model, calibration, **options)
