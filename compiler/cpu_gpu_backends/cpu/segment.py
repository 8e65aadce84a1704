"""Parts of graphs as native code, and the memory that they compute in."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np

from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.cpu_gpu_backends.cpu.calls import workspaces_of
from compiler.cpu_gpu_backends.cpu.entry import Entry
from compiler.cpu_gpu_backends.cpu.steps import GroupCode
from compiler.cpu_gpu_backends.listing import listing
from compiler.cpu_gpu_backends.llvm.objects.jit import assembly
from compiler.cpu_gpu_backends.llvm.objects.kernel import Kernel
from compiler.cpu_gpu_backends.memory import plan_groups
from compiler.graph.division.protocols import Outcome, Row, Values
from compiler.graph.fusion import Group, Groups
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.graph.reference import check_inputs, evaluate_node
from compiler.ir import program_text
from compiler.lazy import cached_property
from compiler.te import numpy_dtype
from compiler.texts import Part, PartedText

__all__ = ["Arenas", "HostExecutable", "HostSegment", "GroupCode", "dense"]

Array = np.ndarray


class Arenas:
    """Blocks of memory for what lives during one call. Calls at one time get different blocks;
    calls that follow each other get the same one, whichever segments share this.
    """

    def __init__(self):
        self._free: deque[Array] = deque()

    @contextmanager
    def block(self, size: int) -> Iterator[Array]:
        """A block of at least `size` bytes that begins at a cache line."""
        try:
            block = self._free.pop()
        except IndexError:
            block = aligned((0,), "uint8")
        if block.size < size:
            block = aligned((size,), "uint8")
        try:
            yield block
        finally:
            self._free.append(block)


def _kernel_lines(group: Group, kernel: Kernel) -> Iterator[str]:
    """The scheduled loop program of a group, then what LLVM gets of it."""
    yield str(group)
    yield from program_text(kernel.program).splitlines()
    yield from kernel.text.splitlines()


@dataclass(frozen=True, eq=False)
class HostSegment:
    """A graph as native code. May be called from several threads: a call owns what it computes.

    Called with an array for every input of the graph, of its declared type, it returns the
    graph's outputs, arrays of the caller's. Anything else is refused with ValueError. What is
    computed on the way lies in a block of `arenas`, where the `plan` says. The graph is lowered,
    its convolutions by Winograd's products of these `sizes`, by their texts; `lowering` has the
    graph after each pass that did so, none where it was read from a file.
    """

    graph: Graph
    steps: tuple[GroupCode, ...]
    constants: Mapping[str, Array]
    arenas: Arenas = field(default_factory=Arenas)
    sizes: Mapping[str, int] = field(default_factory=dict)
    lowering: Mapping[str, Graph] = field(default_factory=dict)
    kind: ClassVar[str | None] = "kernels"

    @property
    def text(self) -> list[str]:
        """The text of each kernel; ``view`` for a group without one."""
        return [step.kernel.text if step.kernel else "view" for step in self.steps]

    def emitted(self, kind: str, comment: str, arch: str) -> str | None:
        if kind not in ("llvm", "asm"):
            return None
        names: dict[str, str] = {}
        for step in self.steps:
            if step.kernel:
                names.setdefault(step.kernel.text, step.kernel.program.name)
        write = assembly if kind == "asm" else str
        return "\n".join(f"{comment} {name}\n{write(text)}" for text, name in names.items())

    @property
    def weight_bytes(self) -> int:
        """The bytes of constants as kernels read them: in whole blocks, and by Winograd's products
        up to eight times as many.
        """
        return sum(array.nbytes for array in self.constants.values())

    def listing(self) -> Iterator[str]:
        return listing(self.graph, self.plan, self.steps)

    @property
    def stages(self) -> dict[str, object]:
        return {**self.lowering, "fuse": self.groups, "plan-memory": self.plan,
                "kernels": PartedText([
                    Part(tuple(node.name for node in step.group.nodes),
                         lambda step=step, kernel=step.kernel: _kernel_lines(step.group, kernel))
                    for step in self.steps if step.kernel])}

    def on(self, device: object = None) -> "HostExecutable":
        """The processor needs no device."""
        return HostExecutable(self)

    @property
    def groups(self) -> Groups:
        return Groups(self.graph, tuple(step.group for step in self.steps))

    @cached_property
    def plan(self) -> MemoryPlan:
        return plan_groups(self.graph, [step.group for step in self.steps],
                           workspaces_of(self.steps))

    @cached_property
    def entry(self) -> Entry:
        """All of it as one native function."""
        return Entry(self.graph, self.steps, self.plan, self.constants)

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self.computed(check_inputs(self.graph, inputs))

    def computed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of inputs that have been checked."""
        with self.arenas.block(self.plan.size) as block:
            return self.entry(dense(inputs), block)

    def run(self, given: Mapping[str, Array], block: Array,
            after: Callable[[int], None] = lambda number: None) -> dict[str, Array]:
        """Computes all values step by step, from dense inputs and constants; those in the block may
        have been overwritten since. `after` is called with the number of each step when it is done.
        """
        values = dict(given)
        for number, step in enumerate(self.steps):
            values[step.group.output] = self._execute(number, values, block)
            after(number)
        return values

    def _execute(self, number: int, values: Mapping[str, Array], block: Array) -> Array:
        step = self.steps[number]
        given = [values[value] for value in step.group.inputs]
        if step.kernel is None:
            return evaluate_node(step.group.nodes[0], given)
        program = step.kernel.program
        result, *workspaces = program.outputs
        offset = self.plan.offsets.get(step.group.output)
        written = (np.empty(result.shape, numpy_dtype(result.dtype)) if offset is None
                   else _placed(block, offset, result.shape, result.dtype))
        scratch = (_placed(block, place, buffer.shape, buffer.dtype) for place, buffer
                   in zip(self.plan.workspaces[number], workspaces, strict=True))
        seen = (array.reshape(buffer.shape)
                for array, buffer in zip(given, program.inputs, strict=True))
        step.kernel(*seen, written, *scratch)
        return written.reshape(step.type.shape)


@dataclass(frozen=True, slots=True)
class HostExecutable:
    """A segment on this processor, which keeps no account of its runs."""

    segment: HostSegment
    device: None = None
    program: None = None
    work: tuple[()] = ()

    def __call__(self, values: Values) -> Outcome:
        return Outcome(self.segment.computed(values))

    def rows(self, run: object) -> list[Row]:
        return []

    def profile(self, values: Values) -> tuple[Outcome, list[Row]]:
        """Seconds were measured, in this call: what is run for the first time may take longer than
        later.
        """
        segment, moments = self.segment, [time.perf_counter()]
        given = {**segment.constants, **dense(check_inputs(segment.graph, values))}
        with segment.arenas.block(segment.plan.size) as block:
            found = segment.run(given, block, lambda _: moments.append(time.perf_counter()))
            outputs = {name: found[name].copy() for name in segment.graph.outputs}
        rows = [{"name": " + ".join(node.name for node in step.group.nodes),
                 "op": step.group.name.replace("+", " + "), "seconds": end - begin, "cycles": 0}
                for step, begin, end in zip(segment.steps, moments, moments[1:], strict=False)]
        return Outcome(outputs), rows


def _placed(block: Array, offset: int, shape: Sequence[int], dtype: str) -> Array:
    size = prod(shape) * numpy_dtype(dtype).itemsize
    return block[offset:offset + size].view(numpy_dtype(dtype)).reshape(shape)


def dense(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays as kernels read them: in row-major order, aligned."""
    return {name: array if array.flags.c_contiguous and array.flags.aligned
            else np.require(array, requirements=("C", "A")) for name, array in arrays.items()}
