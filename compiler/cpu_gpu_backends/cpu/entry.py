"""A segment as one native function: where every value lies is fixed when it is made.

::

    i32 kernel(ptr block, ptr constants, ptr given)     0, or the status of the kernel that could
                                                        not run

`block` has the intermediate values and workspaces of one run, where the memory plan says;
`constants` are the addresses of constants, `given` those of inputs and results, in this order. The
function calls the kernels one after the other, and nothing else happens between them.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from compiler.cpu_gpu_backends.cpu.calls import (ArrayPlace, CallFrame, calling_functions,
                                                 calls_of, places_of)
from compiler.cpu_gpu_backends.cpu.steps import GroupCode
from compiler.cpu_gpu_backends.llvm import host, object_code
from compiler.cpu_gpu_backends.llvm.emitting.emit import FUNCTION
from compiler.cpu_gpu_backends.llvm.objects.jit import Library
from compiler.cpu_gpu_backends.llvm.objects.kernel import refusal
from compiler.cpu_gpu_backends.memory import storage
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.te import numpy_dtype

Array = np.ndarray


class Entry:
    """The function of a segment, linked into this process.

    Called with dense arrays for all inputs of the graph and a block of the plan's size, it returns
    the outputs, arrays of the caller's. May be called from several threads, each with a block.
    """

    def __init__(self, graph: Graph, steps: Sequence[GroupCode], plan: MemoryPlan,
                 constants: Mapping[str, Array]):
        self._graph = graph
        root = storage([step.group for step in steps])
        roots = dict.fromkeys(map(root, graph.outputs))
        self._results = [value for value in roots
                         if value not in constants and value not in graph.inputs]
        given = {value: ArrayPlace(slot) for slot, value in
                 enumerate((*constants, *graph.inputs, *self._results))}
        self._places = places_of(graph, steps, plan, given)
        self._constants = constants
        addresses = [array.ctypes.data for array in constants.values()]
        self._addresses = (ctypes.c_void_p * len(addresses))(*addresses)
        self._made = {value: (graph.values[value].shape, numpy_dtype(graph.values[value].dtype))
                      for value in self._results}
        self._pointers = ctypes.c_void_p * (len(graph.inputs) + len(self._results))
        calls = list(calls_of(steps, plan, self._places))
        self._kernels = [step.kernel for step, _ in calls if step.kernel]
        self._function = self._linked([places for _, places in calls]) if calls else None

    def __call__(self, given: Mapping[str, Array], block: Array) -> dict[str, Array]:
        """Raises what a kernel raises that cannot run."""
        results = {value: np.empty(shape, dtype) for value, (shape, dtype) in self._made.items()}
        arrays = [*(given[name] for name in self._graph.inputs), *results.values()]
        if self._function is not None:
            status = self._function(_address(block), self._addresses,
                                    self._pointers(*map(_address, arrays)))
            if status:
                raise refusal(status, self._graph.name)
        return {name: results[name] if name in results else self._seen(name, arrays)
                for name in self._graph.outputs}

    def _seen(self, name: str, given: Sequence[Array]) -> Array:
        """An output that is a view; a copy of what an input or a constant shows."""
        place, type_ = self._places[name], self._graph.values[name]
        assert place.slot is not None
        arrays = [*self._constants.values(), *given]
        dtype = numpy_dtype(type_.dtype)
        begin = place.offset // dtype.itemsize
        shown = arrays[place.slot].reshape(-1)[begin:begin + prod(type_.shape)]
        shown = shown.view(dtype).reshape(type_.shape)
        return shown if place.slot >= len(arrays) - len(self._results) else shown.copy()

    def _linked(self, calls: Sequence[Sequence[ArrayPlace]]):
        machine = host()
        addresses = {kernel: f"k{number}"
                     for number, kernel in enumerate(dict.fromkeys(self._kernels))}
        text = "\n".join(_lines([addresses[kernel] for kernel in self._kernels], calls,
                                len(self._constants)))
        self._library = Library(object_code(text, machine), (FUNCTION,), machine,
                                {name: kernel.address for kernel, name in addresses.items()})
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)
        return prototype(self._library.address(FUNCTION))


def _lines(names: Sequence[str], calls: Sequence[Sequence[ArrayPlace]], constants: int
           ) -> Iterator[str]:
    """The text of a module whose `FUNCTION` calls kernels of these names at these places."""
    for name, places in dict(zip(names, calls, strict=True)).items():
        yield f"declare i32 @{name}({', '.join(['ptr'] * len(places))})"

    def loads(slot: int) -> Iterator[str]:
        table, row = ("constants", slot) if slot < constants else ("given", slot - constants)
        yield f"  %p{slot} = getelementptr ptr, ptr %{table}, i64 {row}"
        yield f"  %a{slot} = load ptr, ptr %p{slot}"

    frame = CallFrame(("%block", "%constants", "%given"), 0, loads)
    yield from calling_functions(FUNCTION, frame, names, calls)


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]
