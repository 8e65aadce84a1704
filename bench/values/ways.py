"""The ways to compute a network: its graph in NumPy, and every target, in integers and in float."""

import ctypes
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from compiler.errors import ArgumentError
from compiler.graph import Graph

Array = np.ndarray
Arrays = dict[str, Array]
EXAMPLES = Path(__file__).parents[2] / "examples" / "machines"


@dataclass(frozen=True, slots=True)
class Way:
    """``run(model, inputs)`` gives the outputs. `integers`: with integer forms. `exact`: they are
    those of the graph in NumPy, to the bit. One of `every` trials takes it: as it costs.
    """

    name: str
    run: Callable[[onnx.ModelProto, Mapping[str, Array]], Arrays]
    integers: bool = True
    exact: bool = True
    every: int = 1


def _in_numpy(integerize: bool) -> Callable[[onnx.ModelProto, Mapping[str, Array]], Arrays]:
    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Arrays:
        from compiler.graph import evaluate

        return evaluate(optimized(model.SerializeToString(), integerize), inputs)
    return run


@lru_cache(1)
def imported(model: bytes) -> Graph:
    """The graph of a model, which all ways share."""
    from compiler.frontend.onnx.importing import convert

    return convert(onnx.ModelProto.FromString(model))


@lru_cache(2)
def optimized(model: bytes, integerize: bool) -> Graph:
    """The graph of a model after the passes."""
    from compiler.graph import optimize
    from compiler.graph.passes.pipeline import standard_passes

    return optimize(imported(model), standard_passes(integerize))


def _compiled(target: str, **options: Any) -> Callable[..., Arrays]:
    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Arrays:
        import lockstep

        graph = imported(model.SerializeToString())
        return lockstep.compile(graph, target, cache=False, **options)(dict(inputs))
    return run


def _accelerated(machine: str | Path, **options: Any) -> Callable[..., Arrays]:
    """On an accelerator, and what it does not take in NumPy."""
    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Arrays:
        from bench.values import numpy_target

        with numpy_target.known():
            return _compiled(f"accel:{machine},{numpy_target.NAME}", strict=True, **options)(
                model, inputs)
    return run


def _exported(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Arrays:
    """As a shared library for C, which is loaded and called; its code is for AVX2, where there is
    that, since `cpu` has the widest vectors of this computer.
    """
    import lockstep
    from bench.exports.programs import pointers
    from compiler.cpu_gpu_backends.cpu.arrays import aligned
    from compiler.cpu_gpu_backends.llvm.machine import MACHINES, host

    machine = "x86-64-v3" if {*MACHINES["x86-64-v3"].features} <= {*host().features} else None
    module = lockstep.compile(imported(model.SerializeToString()), "cpu", cache=False)
    with tempfile.TemporaryDirectory(prefix="lockstep-values-") as folder:
        made = module.export(folder, "net", kind="shared", machine=machine)
        interface, library = made.exported.interface, ctypes.CDLL(f"{folder}/libnet.so")
        weights, address = Path(folder, "net.bin"), None
        if interface.weights_bytes:
            data = np.fromfile(weights, np.uint8)
            block = aligned(data.shape, "uint8")
            block[:] = data
            address = block.ctypes.data
        me, arena = ctypes.c_void_p(), aligned((max(1, interface.arena_bytes),), "uint8")
        arena[:] = 0xA5                 # what it holds before means nothing
        outputs = {one.name: np.zeros(one.shape, module.graph.values[one.name].dtype)
                   for one in interface.outputs}
        status = library.net_init(ctypes.byref(me), ctypes.c_void_p(address))
        status = status or library.net_run(
            ctypes.byref(me), pointers([np.ascontiguousarray(inputs[one.name])
                                        for one in interface.inputs]),
            pointers(list(outputs.values())), ctypes.c_void_p(arena.ctypes.data))
        if status:
            raise RuntimeError(f"the library ended with status {status}")
        return outputs


GRAPH = Way("graph", _in_numpy(True))
WAYS: dict[str, Way] = {way.name: way for way in (
    GRAPH,
    Way("graph-float", _in_numpy(False), integers=False, every=3),
    Way("cpu", _compiled("cpu"), every=16),
    Way("cpu-float", _compiled("cpu", integerize=False), integers=False, every=48),
    Way("accel:tiny-1x4x4", _accelerated("tiny-1x4x4"), every=6),
    Way("accel:pynq-1x16x16", _accelerated("pynq-1x16x16"), every=6),
    Way("accel:tiny-1x4x4-cycle", _accelerated("tiny-1x4x4", sim="cycle"), every=24),
    Way("accel:pynq-1x16x16-cycle", _accelerated("pynq-1x16x16", sim="cycle"), every=24),
    Way("accel:int16", _accelerated(EXAMPLES / "int16.py"), every=12),
    Way("accel:int16_deep", _accelerated(EXAMPLES / "int16_deep.py"), exact=False, every=16),
    Way("accel:normalize", _accelerated(EXAMPLES / "normalize.py"), every=16),
    Way("accel:tiny-1x4x4-cpu", _compiled("accel:tiny-1x4x4", strict=True), every=60),
    Way("opencl", _compiled("opencl"), every=100),
    Way("c", _exported, every=48),
)}
"""By name; in the order in which a trial takes them."""

DEFAULT = tuple(WAYS)


def chosen(names: Sequence[str], number: int) -> list[Way]:
    """The ways that a trial of this number takes, those of `names` alone; all where they are few.
    """
    ways = [WAYS[name] for name in names]
    few = min((way.every for way in ways), default=1)
    return [way for place, way in enumerate(ways) if (number + place) % -(-way.every // few) == 0]


def require(names: Sequence[str]) -> None:
    """ArgumentError for a way that there is not."""
    for name in names:
        if name not in WAYS:
            raise ArgumentError(f"targets must be of {', '.join(WAYS)}, not {name!r}")
