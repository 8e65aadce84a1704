"""Compiled networks as text that people read: the kernels, and what the host does with them."""

from collections.abc import Callable, Iterator

from compiler.cpu_gpu_backends.cpu.target import GroupCode, HostSegment
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment, GpuStep
from compiler.cpu_gpu_backends.llvm.jit import assembly
from compiler.cpu_gpu_backends.memory import storage
from compiler.errors import ArgumentError
from compiler.graph.room import bytes_of
from runtime.module import Module

__all__ = ["KINDS", "emitted"]

KINDS = {"cuda": "//", "opencl": "//", "metal": "//", "ptx": "//", "llvm": ";", "asm": "#"}
"""Kinds of text, and what begins their comments."""

ARCH = "sm_80"


def emitted(module: Module, kind: str, arch: str = ARCH) -> str:
    """The segments of the module that have such text, in order of execution; `arch` is what PTX is
    for. In comments stand the buffers, with their bytes, then all that the host starts, in order:
    a kernel with its grid, block and arguments. Raises ArgumentError where no segment has any.
    """
    parts: list[str] = []
    for number, step in enumerate(module.steps):
        compiled = step.compiled
        if not isinstance(compiled, HostSegment | GpuSegment):
            continue
        kernels = _kernels(compiled, kind, arch)
        if kernels is not None:
            notes = [f"Segment {number} on {step.segment.target}", "", *_host_part(compiled)]
            parts += ["".join(f"{KINDS[kind]} {note}".rstrip() + "\n" for note in notes), kernels]
    if not parts:
        places = dict.fromkeys(segment.target for segment in module.partition.segments)
        raise ArgumentError(f"emit {kind} must come with a target whose segments have such text; "
                            f"those of this network are on {', '.join(places) or 'none'}")
    return "\n".join(parts)


def _kernels(compiled: HostSegment | GpuSegment, kind: str, arch: str) -> str | None:
    """The text of all kernels; None where they have none of this kind."""
    match compiled:
        case HostSegment() if kind in ("llvm", "asm"):
            texts = dict.fromkeys(step.kernel.text for step in compiled.steps if step.kernel)
            write: Callable[[str], str] = assembly if kind == "asm" else str
            return "\n".join(f"{KINDS[kind]} {_name(compiled, text)}\n{write(text)}"
                             for text in texts)
        case GpuSegment(dialect=dialect) if dialect == ("cuda" if kind == "ptx" else kind):
            text = "".join(dict.fromkeys(step.code.text for step in compiled.steps if step.code))
            return compile_cuda(text, arch).ptx if kind == "ptx" else text
    return None


def _name(segment: HostSegment, text: str) -> str:
    return next(step.kernel.program.name for step in segment.steps
                if step.kernel and step.kernel.text == text)


def _host_part(segment: HostSegment | GpuSegment) -> Iterator[str]:
    graph, plan = segment.graph, segment.plan
    root = storage([step.group for step in segment.steps])
    outside = {**dict.fromkeys(graph.inputs, "input"), **dict.fromkeys(graph.constants, "constant")}
    outside |= dict.fromkeys(map(root, graph.outputs), "output")
    yield f"Buffers: {plan.size:,} bytes for results and scratch, and those outside of them"
    for value in dict.fromkeys((*outside, *(step.group.output for step in segment.steps))):
        place = outside.get(value) or (f"as {root(value)}" if root(value) != value else
                                       f"at {plan.offsets[value]:,}")
        type_ = graph.values[value]
        yield f"  {value}: {type_}, {bytes_of(type_):,} bytes, {place}"
    yield ""
    yield "In order:"
    for step, workspaces in zip(segment.steps, plan.workspaces, strict=True):
        names = [*step.group.inputs, step.group.output]
        scratch = [f"scratch at {offset:,}" for offset in workspaces]
        yield from (f"  {call}" for call in _calls(step, names, scratch))
    yield f"Results: {', '.join(graph.outputs)}"


def _calls(step: GpuStep | GroupCode, names: list[str], scratch: list[str]) -> Iterator[str]:
    """The kernels of a group; a view has none."""
    if isinstance(step, GpuStep) and (code := step.code):
        at = dict(zip((*code.inputs, *code.outputs, *code.temporaries), (*names, *scratch),
                      strict=True))
        for launch in code.launches:
            arguments = ", ".join([*(at[buffer] for buffer in launch.arguments),
                                   *map(str, launch.numbers),
                                   *(f"{at[one.buffer]} in boxes of "
                                     f"{' x '.join(map(str, one.box))}" for one in launch.maps)])
            yield f"{launch.kernel} grid {launch.grid} block {launch.block}: {arguments}"
    elif isinstance(step, GroupCode) and (kernel := step.kernel):
        yield f"{kernel.program.name}: {', '.join([*names, *scratch])}"
    else:
        yield f"{names[-1]} is a view of {names[0]}"
