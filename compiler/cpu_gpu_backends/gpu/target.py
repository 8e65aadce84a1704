"""GPUs as targets: every group of operators becomes kernels in CUDA or OpenCL C."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from compiler.cpu_gpu_backends.gpu.attention import attention_of
from compiler.cpu_gpu_backends.gpu.flat_inputs import with_flat_inputs
from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda, nvrtc_version
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment, GpuStep, ValueForms
from compiler.cpu_gpu_backends.gpu.space import GpuSpace, Launched
from compiler.cpu_gpu_backends.gpu.stages import stages, writes_in
from compiler.cpu_gpu_backends.gpu.tensor_tiles import in_precision
from compiler.cpu_gpu_backends.groups import (Recipe, recipe_from, recipe_of, sample,
                                              unscheduled)
from compiler.cpu_gpu_backends.intrinsics.gpu import TENSOR_CORES, WARP_GROUPS, dp4a
from compiler.cpu_gpu_backends.memory import shown
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.cpu_gpu_backends.simt.dialects import DIALECT
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.graph.division.cheapest_orders import Order
from compiler.graph.division.protocols import CannotCompile, plain
from compiler.graph.fusion import Group, Groups, fuse, separate
from compiler.graph.graph import Graph, Node
from compiler.graph.passes.pipeline import lower
from compiler.ir import Program, Update
from compiler.native import digest
from compiler.ops.registry import OPERATORS
from compiler.plans import OWN, PlanRefused, Plans, Task, replayed
from compiler.schedule import Schedule

KERNELS = 1024              # how many scheduled programs are kept
MOST = 1 << 31              # elements of an array: indices have 32 bits
LONGEST = 40                # characters of a group's name in that of its kernel
LONGEST_ROW = 1 << 12       # elements of a row, two of which a block has in shared memory
FIRST_ARCH = 80             # that has our instructions of tensor cores
GROUP_ARCH = "sm_90a"       # the one that has `wgmma`
PRECISIONS = {"tf32": None, "f16": "float16", "bf16": "bfloat16"}
"""The kinds of `MMA` for products of float32, and in which type their factors are stored."""


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """Compiles for devices that speak a `dialect`, ``cuda``, ``opencl`` or ``metal``. All kernels
    of a segment are one text.

    Without `fusion` every operator is a group of its own. Schedules of groups come from `plans`:
    those that were measured on this `model` of GPU, if it is known.
    Kernels in CUDA multiply int8 by tensor cores, which is exact, unless one of `archs` has none
    for that. With a `precision` (`PRECISIONS`) those of float32 are too, summed in float32, in
    another order: with ``tf32`` their factors are rounded to 10 bits of mantissa, with ``f16`` and
    ``bf16`` they are stored as such halves.
    For `archs`, say ``sm_90``, the text is compiled at once, by NVRTC: CUDA alone has any.
    """

    name: str
    dialect: str
    fusion: bool = True
    plans: Plans = OWN
    precision: str | None = None
    archs: tuple[str, ...] = ()
    model: str = ""

    def __post_init__(self):
        if self.precision not in (None, *PRECISIONS):
            raise ValueError(f"Precision must be {', '.join(PRECISIONS)} or None, not "
                             f"{self.precision!r}")
        if self.precision and self.dialect != "cuda":
            raise ValueError(f"Precision {self.precision} must be computed by cuda, not by "
                             f"{self.dialect}")

    @property
    def fingerprint(self) -> str:
        return digest([self.dialect, *([self.precision] if self.precision else []), *self.archs,
                       *([nvrtc_version()] if self.archs else []),
                       *([self.model] if self.model else [])])

    def on_arch(self, arch: str) -> "GpuTarget":
        """The target for a GPU that is here. For an old one, kernels do without tensor cores, for
        one of 9.0 they have groups of warps; both are compiled at once.
        """
        if arch == GROUP_ARCH.rstrip("a"):
            return replace(self, archs=(GROUP_ARCH,))
        return replace(self, archs=(arch,)) if _is_old(arch) else self

    @property
    def _groups(self) -> bool:
        """True if all architectures have groups of warps and the TMA."""
        return bool(self.archs) and set(self.archs) == {GROUP_ARCH}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of products that tensor cores compute."""
        if self.dialect != "cuda" or any(map(_is_old, self.archs)):
            return ()
        return ("s8", self.precision) if self.precision else ("s8",)

    @property
    def forms(self) -> ValueForms:
        """The stored forms of values."""
        last = tuple(dtype for kind, dtype in (("s8", "int8"), (self.precision, "float32"))
                     if kind in self.kinds)
        return ValueForms(last, PRECISIONS[self.precision] if self.precision else None,
                          "float32" in last)

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when kernels can compute the node, else the reason why not."""
        if node.op not in OPERATORS:
            return f"operator must be one of {', '.join(OPERATORS)}, not {node.op!r}"
        spelled = DIALECT[self.dialect]
        for value in (*node.inputs, *node.outputs):
            type_ = graph.values[value]
            if type_.dtype not in spelled.types or type_.dtype in spelled.between:
                return f"type of {value} must be one that {self.dialect} has, not {type_.dtype}"
            if prod(type_.shape) >= MOST:
                return f"{value} must have fewer than 2^31 elements, not {prod(type_.shape):,}"
        return None

    def borders(self, graph: Graph) -> Mapping[str, Order | None]:
        """Images are NCHW."""
        return plain(graph)

    def compile(self, graph: Graph) -> GpuSegment:
        """Refuses with ValueError a node that `refusal` has a reason against, and with
        CannotCompile what no kernel can compute.
        """
        for node in graph.nodes:
            if reason := self.refusal(graph, node):
                raise ValueError(f"{node.name}: {reason}")
        graph, lowering = lower(graph, passes(self.forms))
        groups = [_without_offset(graph, group) for group in self.groups(graph).groups]
        recipes = {group: recipe_of(graph, group) for group in groups if not group.is_view}
        codes = self._codes(list(dict.fromkeys(recipes.values())))
        return GpuSegment(graph, tuple(GpuStep(group, codes[recipes[group]] if group in recipes
                                               else None) for group in groups), graph.constants,
                          self.dialect, self.forms, lowering)

    def groups(self, graph: Graph) -> Groups:
        """The groups of nodes that are computed together, in order."""
        if not self.fusion:
            return separate(graph)
        return fuse(graph, self._is_one_kernel, LONGEST_ROW)

    def _is_one_kernel(self, graph: Graph, group: Group) -> bool:
        """True if attention is."""
        recipe = recipe_of(graph, group)
        if attention_of(Schedule(_algorithm(recipe, self.kinds, self.precision))) is None:
            return False
        program = _program(recipe, None, self.kinds, self._groups, self.precision)
        return all(stage.buffer.scope != "global" for stage in stages(program))

    def _codes(self, recipes: list[Recipe]) -> dict[Recipe, Code]:
        programs = [replace(self._planned(recipe),
                            name=f"{recipe.name[:LONGEST].rstrip('_')}_{number}")
                    for number, recipe in enumerate(recipes)]
        try:
            codes = generate_all(programs, self.dialect)
        except SimtError as error:
            raise CannotCompile(str(error)) from None
        images = {arch: compile_cuda(codes[0].text, arch).image for arch in self.archs if codes}
        return {recipe: replace(code, images=images or None)
                for recipe, code in zip(recipes, codes, strict=True)}

    def _planned(self, recipe: Recipe) -> Program:
        """The scheduled program of a group."""
        return replayed(self.plans, self._task(recipe), lambda: own_schedule(
            _algorithm(recipe, self.kinds, self.precision), self.kinds, self._groups).text(),
            lambda plan: _program(recipe, plan, self.kinds, self._groups, self.precision))

    def _task(self, recipe: Recipe) -> Task:
        return Task(self.fingerprint, digest(["group of a GPU", repr(recipe)]), str(recipe),
                    recipe.text())

    def space(self, task: Task) -> GpuSpace:
        """The schedules of a group, as our ways make them."""
        recipe = recipe_from(task.body)
        return GpuSpace(self._task(recipe), _algorithm(recipe, self.kinds, self.precision),
                        self.kinds, self._groups)

    def decides_tasks(self, task: Task) -> bool:
        return False

    def measurable(self, task: Task, plan: str, seed: int, device: Any = None) -> Launched:
        """The kernels of a group by this plan on a `runtime.devices.device.KernelDevice`, with
        seeded random arrays there.
        """
        recipe = recipe_from(task.body)
        program = _program(recipe, plan, self.kinds, self._groups, self.precision)
        try:
            code, = generate_all([program], self.dialect)
        except SimtError as error:
            raise PlanRefused(f"Plan of {recipe.name}: {error}") from None
        images = {arch: compile_cuda(code.text, arch).image for arch in self.archs}
        rng = np.random.default_rng(seed)
        return Launched(device, replace(code, images=images or None),
                        [sample(buffer, rng) for buffer in code.inputs])


def _is_old(arch: str) -> bool:
    return int(arch[3:].rstrip("af")) < FIRST_ARCH


def _without_offset(graph: Graph, group: Group) -> Group:
    """A view that begins further in than what it shows is copied: parts of a buffer of OpenCL begin
    at certain addresses alone.
    """
    if group.is_view and shown(graph, group):
        return replace(group, is_view=False)
    return group


def _algorithm(recipe: Recipe, kinds: tuple[str, ...], precision: str | None) -> Program:
    """The program of a group that is scheduled. Where tensor cores may compute it, images that are
    read pixel by pixel are matrices.
    """
    program = unscheduled(recipe)
    if kinds and any(isinstance(write, Update) and write.op == "sum"
                     for write in writes_in(program)):
        program = with_flat_inputs(program)
    return in_precision(program, precision) if precision == "tf32" else program


@lru_cache(KERNELS)
def _program(recipe: Recipe, plan: str | None, kinds: tuple[str, ...], groups: bool,
             precision: str | None) -> Program:
    """The scheduled program of a group. Raises PlanRefused."""
    program = _algorithm(recipe, kinds, precision)
    if plan is None:
        return own_schedule(program, kinds, groups).program
    try:
        return Schedule.replay(program, plan, (*TENSOR_CORES, *WARP_GROUPS, dp4a())).program
    except ValueError as error:
        raise PlanRefused(f"Plan of {recipe.name}: {error}") from None
