"""Compiled networks as text that people read: the kernels, and what the host does with them."""

from compiler.errors import ArgumentError
from compiler.target import Emits
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
        if not isinstance(compiled, Emits):
            continue
        kernels = compiled.emitted(kind, KINDS[kind], arch)
        if kernels is not None:
            notes = [f"Segment {number} on {step.segment.target}", "", *compiled.listing()]
            parts += ["".join(f"{KINDS[kind]} {note}".rstrip() + "\n" for note in notes), kernels]
    if not parts:
        places = dict.fromkeys(segment.target for segment in module.partition.segments)
        raise ArgumentError(f"emit {kind} must come with a target whose segments have such text; "
                            f"those of this network are on {', '.join(places) or 'none'}")
    return "\n".join(parts)
