"""Arguments that are not of their kind: refused in one sentence, before anything is computed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from runtime import InputError, Link, Module, SimulatedDevice, TargetError, compile_for
from runtime.devices.device import simulator
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def refused(act: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as refusal:
        act()
    assert str(refusal.value) == message
    assert isinstance(refusal.value, lockstep.Error)


@pytest.mark.parametrize(("options", "message"), [
    ({"threads": 0}, "threads must be 1 or 2, not 0"),
    ({"threads": 3}, "threads must be 1 or 2, not 3"),
    ({"threads": True}, "threads must be 1 or 2, not True"),
    ({"threads": "2"}, "threads must be 1 or 2, not '2'"),
    ({"integerize": 1}, "integerize must be True or False, not 1"),
    ({"cache": None}, "cache must be True or False, not None"),
    ({"after": "print"}, "after must be a function of number, name and result, not 'print'"),
    ({"shapes": 5}, "shapes must be a mapping of names to integers, not 5"),
    ({"shapes": {"N": "4"}}, "shapes must be integers by name, not {'N': '4'}"),
    ({"pins": ["conv1"]}, "pins must be a mapping of names to 'host' or 'accel', not ['conv1']"),
    ({"pins": {"conv1": "cpu"}}, "pins must be 'host' or 'accel' by name, not 'conv1': 'cpu'"),
    ({"link": 400e6}, "link must be a runtime.Link, not 400000000.0"),
])
def test_an_option_of_another_kind(options, message: str) -> None:
    refused(lambda: lockstep.compile(DIGITS, "cpu", **options), lockstep.ArgumentError, message)
    refused(lambda: compile_for(DIGITS, None, **options), lockstep.ArgumentError, message)


@pytest.mark.parametrize(("name", "nearest"), [
    ("observr", "observer"), ("keepfloat", "keep_float"), ("bits", "scale_bits, weight_bits, bind"),
    ("unknown", None)])
def test_an_option_that_the_quantizer_does_not_take(name: str, nearest: str | None) -> None:
    options: dict[str, Any] = {name: 1}
    near = nearest or ("accumulator_bits, activation_bits, bias_correction, bind, budget, "
                       "calibration, equalize, example_inputs, keep_float, made_for, model, "
                       "observer, patterns, percentile, scale_bits, sparsity, watch, weight_bits, "
                       "weight_groups, weight_rounding")
    refused(lambda: lockstep.quantize(DIGITS, "samples.npz", **options), lockstep.ArgumentError,
            f"quantize has no option {name!r}; the nearest are {near}")


@pytest.mark.parametrize(("function", "given", "options", "message"), [
    ("quantize", [DIGITS], {"calibraton": 1},
     "quantize has no option 'calibraton'; the nearest are calibration"),
    ("quantize", [], {"modle": DIGITS, "calibration": 1},
     "quantize has no option 'modle'; the nearest are model"),
    ("quantize", [DIGITS], {}, "quantize: missing a required argument: 'calibration'"),
    ("quantize", [DIGITS, 1, "mse"], {}, "quantize: too many positional arguments"),
    ("compile", [], {"modl": DIGITS}, "compile has no option 'modl'; the nearest are model"),
    ("compile", [], {"latency": 1}, "compile: missing a required argument: 'model'"),
    ("compile", [DIGITS], {"model": DIGITS}, "compile: multiple values for argument 'model'"),
    ("load", [], {"pth": "x"}, "load has no option 'pth'; the nearest are path"),
])
def test_a_call_that_does_not_fit(function: str, given: list, options, message: str) -> None:
    refused(lambda: getattr(lockstep, function)(*given, **options), lockstep.ArgumentError,
            message)


@pytest.mark.parametrize(("options", "message"), [
    ({"sim": None}, "Simulator must be one of functional, cycle, slice, verilator, not None"),
    ({"sim": ["cycle"]},
     "Simulator must be one of functional, cycle, slice, verilator, not ['cycle']"),
    ({"thraeds": 1}, "compile has no option 'thraeds'; the nearest are threads"),
    ({"calibrate": 1}, "compile has no option 'calibrate'; the nearest are calibration"),
    ({"latency": 1},
     "latency must come with the simulator cycle or slice or verilator, not functional"),
    ({"sim": "verilator", "values": True},
     "values must come with the simulator cycle or slice, not verilator"),
    ({"sim": "cycle", "latencies": 1}, "compile has no option 'latencies'; the nearest are "
                                       "latency, patterns, plans"),
    ({"sim": "cycle", "values": 1}, "values must be True or False, not 1"),
    ({"sim": "cycle", "dram": 64}, "dram must be an accel.machine.dram.Dram, not 64"),
    ({"sim": "cycle", "max_cycles": 0}, "max_cycles must be an integer of at least 1, not 0"),
])
@pytest.mark.parametrize("target", ["cpu", "accel:tiny-1x4x4"])
def test_an_option_that_nobody_takes(target: str, options, message: str) -> None:
    refused(lambda: lockstep.compile(DIGITS, target, **options), lockstep.ArgumentError, message)


@pytest.mark.parametrize("target", [None, 5, b"cpu", "", "cpu:", "cpu:0", "accel:", "accelerator"])
def test_a_target_that_is_none(target) -> None:
    refused(lambda: lockstep.compile(DIGITS, target), TargetError,
            f"Target must be accel:MACHINE, auto:MACHINE, cpu, cpu:THREADS, cpu:plain, "
            f"cuda, opencl, metal, or "
            "a list of "
            f"targets, not {target!r}; a machine is a preset or a file")


@pytest.mark.parametrize("model", [None, 5, b"m.onnx", [DIGITS]])
def test_a_model_that_is_none(model) -> None:
    refused(lambda: lockstep.compile(model, "cpu"), lockstep.ArgumentError,
            f"Model must be the path of a file, an ONNX model, a program or module of PyTorch, or "
            f"a graph, not {model!r}")


def test_options_of_the_memory_are_refused_before_a_run() -> None:
    match = r"^latency of the memory must be an integer from 0 to \d+, not -1$"
    with pytest.raises(lockstep.Error, match=match):
        simulator("cycle", latency=-1)


def test_a_link_that_cannot_be() -> None:
    refused(lambda: Link(0), lockstep.ArgumentError, "bytes_per_second must be positive, not 0")


@pytest.mark.parametrize(("path", "options", "message"), [
    (5, {}, "Path must be text or a path, not 5"),
    ("x", {"machine": 3}, "machine must be a Machine, a name or a path, not 3"),
    ("x", {"sim": "fast"},
     "Simulator must be one of functional, cycle, slice, verilator, not 'fast'"),
    ("x", {"sim": "cycle", "laency": 5}, "Simulator cycle has no option 'laency'; the nearest are "
                                         "latency"),
])
def test_load_refuses(path, options, message: str) -> None:
    refused(lambda: lockstep.load(path, **options), lockstep.ArgumentError, message)


@pytest.mark.parametrize("samples", [5, 0.5])
def test_calibration_that_is_no_set_of_samples(samples) -> None:
    message = f"calibration samples must be arrays or files of them, not {samples!r}"
    refused(lambda: lockstep.quantize(DIGITS, samples), lockstep.QuantizeRefused, message)
    refused(lambda: lockstep.compile(DIGITS, "cpu", calibration=samples), lockstep.QuantizeRefused,
            message)


def test_a_machine_of_no_geometry() -> None:
    name: Any = "tiny-1x4x4"
    refused(lambda: lockstep.Machine(name), lockstep.ConfigError,
            "Machine must have an AccelConfig, not 'tiny-1x4x4'")


@pytest.fixture(scope="module")
def module() -> Module:
    net = Net(6)
    x, z = net.input(1, 4), net.input(1, 4, name="z")
    return compile_for(net.graph(net.add(x, z), z), SimulatedDevice(TINY, simulator("functional")))


@pytest.mark.parametrize("inputs", [5, None, np.zeros((1, 4), np.int8), [("x", 1)]])
def test_inputs_that_are_no_mapping(module: Module, inputs) -> None:
    message = f"Inputs must be a mapping of names to arrays, not {type(inputs).__name__}"
    refused(lambda: module(inputs), InputError, message)
    refused(lambda: module.profile(inputs), InputError, message)


@pytest.mark.parametrize("inputs", [5, None, {"x": np.zeros((1, 4), np.int8)}])
def test_inputs_of_many_runs_that_are_no_list(module: Module, inputs) -> None:
    refused(lambda: module.run_many(inputs), InputError,
            f"Inputs of many runs must be a list of mappings, not {type(inputs).__name__}")


@pytest.mark.parametrize("name", [5, None, ["x"], {}])
def test_names_that_are_none(module: Module, name) -> None:
    refused(lambda: module.set_input(name, np.zeros((1, 4), np.int8)), InputError,
            f"Input must be one of x, z, not {name!r}")
    refused(lambda: module.get_output(name), InputError,
            f"Output must be a name or 0 to 1, not {name!r}")


@pytest.mark.parametrize("path", [5, None, b"m", ["m"]])
def test_a_module_is_saved_to_a_path(module: Module, path) -> None:
    refused(lambda: module.save(path), lockstep.ArgumentError,
            f"Path must be text or a path, not {path!r}")


def test_set_input_copies(module: Module) -> None:
    given = {name: np.full((1, 4), 3, np.int8) for name in ("x", "z")}
    for name, array in given.items():
        module.set_input(name, array)
    wanted = {name: array.copy() for name, array in module(given).items()}
    given["z"][:] = 9
    module.run()
    for name, array in wanted.items():
        np.testing.assert_array_equal(module.get_output(name), array)
        assert not np.shares_memory(module.get_output(name), given["z"])
