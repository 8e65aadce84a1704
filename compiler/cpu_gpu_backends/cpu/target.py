"""The CPU as a target: every group of operators becomes one kernel of native code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import cycle

import numpy as np

from compiler.cpu_gpu_backends.cpu.algorithms import (AlgorithmSpace, algorithm_task,
                                                      algorithm_text, convolution_from, graph_of,
                                                      size_from)
from compiler.cpu_gpu_backends.cpu.arrays import far_copies, on_cache_lines
from compiler.cpu_gpu_backends.cpu.groups import group_program, own_plan
from compiler.cpu_gpu_backends.cpu.lowering import passes
from compiler.cpu_gpu_backends.cpu.schedules.attention import is_one_kernel
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors, vectors_of
from compiler.cpu_gpu_backends.cpu.segment import Arenas, GroupCode, HostSegment
from compiler.cpu_gpu_backends.cpu.space import GroupSpace
from compiler.cpu_gpu_backends.groups import Recipe, recipe_from, recipe_of, sample
from compiler.cpu_gpu_backends.llvm import Kernel, build, host
from compiler.cpu_gpu_backends.llvm.machine import Processor
from compiler.graph.division.protocols import HOST
from compiler.graph.fusion import Group, Groups, fuse, separate
from compiler.graph.graph import Graph, Node
from compiler.graph.lowering.winograd import Convolution, Sizes, best_size
from compiler.graph.passes.pipeline import Pass, lower, optimize
from compiler.graph.room import require_bytes
from compiler.ir import Program
from compiler.native import digest, processor
from compiler.ops.registry import OPERATORS, find
from compiler.plans import OWN, Plans, Task, replayed
from compiler.te import numpy_dtype

__all__ = ["CpuTarget", "HostSegment", "GroupCode", "kernel_program", "on_cache_lines"]

KERNELS = 1024              # how many compiled kernels are kept


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """Compiles for the processor that this runs on. Equal groups share a kernel, also across
    graphs, so that compiling a network again costs next to nothing. The segments that it compiles
    share memory.

    Without `fusion` every operator is a group of its own. Schedules of groups come from `plans`.
    `threads` share what takes long enough; results are the same for any number. With `plain` sums
    of floats no convolution takes Winograd's products. With a `machine` it compiles for another
    processor: such segments cannot be called here, only exported.
    """

    name: str = HOST
    fusion: bool = True
    threads: int = 1
    plain: bool = False
    plans: Plans = OWN
    machine: Processor | None = None
    arenas: Arenas = field(default_factory=Arenas, compare=False)

    @property
    def fingerprint(self) -> str:
        """A hash of the processor and its features, the number of threads, and whether sums are
        plain.
        """
        return digest([repr(self.machine) if self.machine else processor(),
                       *([str(self.threads)] if self.threads > 1 else []),
                       *(["plain"] if self.plain else [])])

    @property
    def vectors(self) -> Vectors:
        return vectors_of(self.machine or host(), self.threads)

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the CPU takes the node, else the reason why not."""
        if node.op in OPERATORS:
            return None
        return f"operator must be one of {', '.join(OPERATORS)}, not {node.op!r}"

    def borders(self, graph: Graph) -> None:
        """Operators and borders have the order that the layout pass finds for them."""

    def compile(self, graph: Graph, sizes: Sizes | None = None) -> HostSegment:
        """Refuses with ValueError a node that `refusal` has a reason against, and what takes more
        memory than it may. Convolutions are computed by Winograd's products of these `sizes`, by
        default as plans say.
        """
        for node in graph.nodes:
            if reason := self.refusal(graph, node):
                raise ValueError(f"{node.name}: {reason}")
        noted = NotedSizes(sizes or self._size)
        graph, lowering = lower(graph, self.passes(noted))
        steps = tuple(self._step(graph, group) for group in self.groups(graph).groups)
        host = HostSegment(graph, steps, on_cache_lines(graph.constants), self.arenas,
                           noted.chosen, lowering)
        require_bytes(host.plan.size, f"{graph.name}: what the host computes in between")
        return host

    def passes(self, sizes: Sizes = best_size) -> tuple[Pass, ...]:
        """The passes that make a segment's graph one that is fused; convolutions by Winograd's
        products of these sizes.
        """
        return passes(self.vectors, sizes)

    def lowered(self, graph: Graph, sizes: Sizes = best_size) -> Graph:
        """The graph after these passes."""
        return optimize(graph, self.passes(sizes))

    def groups(self, graph: Graph) -> Groups:
        """The groups of nodes that are computed together, in order."""
        return fuse(graph, is_one_kernel) if self.fusion else separate(graph)

    def _step(self, graph: Graph, group: Group) -> GroupCode:
        kernel = None
        if not group.is_view:
            kernel = self._planned(recipe_of(graph, group), self._movable(graph, group))
        return GroupCode(group, kernel, graph.values[group.output])

    def _movable(self, graph: Graph, group: Group) -> tuple[int, ...]:
        """The inputs of a group that its result may lie over: processors without vectors, which
        have little memory, go through what is computed in the order in which it lies.
        """
        return tuple(place for place, value in enumerate(group.inputs)
                     if value not in graph.constants) if self.vectors.scalar else ()

    def _planned(self, recipe: Recipe, movable: tuple[int, ...]) -> Kernel:
        if self.plans is OWN:
            return _kernel(recipe, None, self.threads, self.machine, movable)
        return replayed(self.plans, self._task(recipe), lambda: own_plan(recipe, self.vectors),
                        lambda plan: _kernel(recipe, plan, self.threads, self.machine, movable))

    def _size(self, convolution: Convolution) -> int:
        """The size of tiles of Winograd's products that a convolution is computed with; 0: none."""
        if self.plain or self.plans is OWN or len(convolution.times()) == 1:
            return 0 if self.plain else best_size(convolution)
        return replayed(self.plans, algorithm_task(self.fingerprint, convolution),
                        lambda: algorithm_text(best_size(convolution)), lambda plan: (
                            best_size(convolution) if plan is None
                            else size_from(plan, convolution)))

    def _task(self, recipe: Recipe) -> Task:
        return Task(self.fingerprint, digest(["group of the CPU", repr(recipe)]), str(recipe),
                    recipe.text())

    def space(self, task: Task) -> GroupSpace | AlgorithmSpace:
        """The schedules of a group, as our templates make them, or the ways to compute a
        convolution.
        """
        if convolution := convolution_from(task.body):
            return AlgorithmSpace(algorithm_task(self.fingerprint, convolution), convolution)
        recipe = recipe_from(task.body)
        return GroupSpace(self._task(recipe), recipe, self.vectors)

    def decides_tasks(self, task: Task) -> bool:
        """The way to compute a convolution decides which groups there are."""
        return convolution_from(task.body) is not None

    def measurable(self, task: Task, plan: str, seed: int, device: object = None
                   ) -> Callable[[], object]:
        """The kernel of a group by this plan, or a convolution, with seeded random arrays: one call
        after the other takes another copy of what a network last read an inference ago.
        """
        if convolution := convolution_from(task.body):
            return self._computed(convolution, size_from(plan, convolution), seed)
        kernel = _kernel(recipe_from(task.body), plan, self.threads, self.machine)
        rng = np.random.default_rng(seed)
        inputs, outputs = kernel.program.inputs, kernel.program.outputs
        arrays = {buffer.name: sample(buffer, rng) for buffer in inputs} | {
            buffer.name: np.zeros(buffer.shape, numpy_dtype(buffer.dtype)) for buffer in outputs}
        far = {buffer.name: arrays[buffer.name] for buffer in inputs[1:]}
        arrays = on_cache_lines(arrays)
        return _in_turns([partial(kernel, *(arrays | copy).values()) for copy in far_copies(far)])

    def _computed(self, convolution: Convolution, size: int, seed: int) -> Callable[[], object]:
        segment = self.compile(graph_of(convolution, seed), lambda _: size)
        rng = np.random.default_rng(seed)
        given = {name: np.clip(40 * rng.standard_normal(segment.graph.values[name].shape), -128, 127
                               ).astype(convolution.dtype) for name in segment.graph.inputs}
        return _in_turns([partial(replace(segment, constants=constants).computed, given)
                          for constants in far_copies(segment.constants)])


@dataclass(frozen=True, slots=True)
class NotedSizes:
    """Sizes, and what was said of each convolution so far, by its text."""

    sizes: Sizes
    chosen: dict[str, int] = field(default_factory=dict)

    def __call__(self, convolution: Convolution) -> int:
        size = self.chosen.get(str(convolution))
        if size is None:
            size = self.chosen[str(convolution)] = self.sizes(convolution)
        return size


def _in_turns(calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
    turns = cycle(calls)
    return lambda: next(turns)()


def kernel_program(graph: Graph, group: Group) -> Program | None:
    """The scheduled program of a group for this processor; None for a view."""
    return None if group.is_view else _program(recipe_of(graph, group), None, 1, None)


@lru_cache(KERNELS)
def _program(recipe: Recipe, plan: str | None, threads: int, machine: Processor | None) -> Program:
    return group_program(recipe, vectors_of(machine or host(), threads), plan)


@lru_cache(KERNELS)
def _kernel(recipe: Recipe, plan: str | None, threads: int, machine: Processor | None,
            movable: tuple[int, ...] = ()) -> Kernel:
    return build(_program(recipe, plan, threads, machine), machine,
                 contract=any(find(operation.op).contracts for operation in recipe.operations),
                 in_place=tuple(f"x{place}" for place in sorted({*recipe.overwritable, *movable})),
                 link=machine is None)

