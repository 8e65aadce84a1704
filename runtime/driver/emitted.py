"""Compiled networks as text that people read: kernels and what the host does with them, and the
accelerator's loop programs and words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.cpu_gpu_backends.c.network import CFiles, network_files
from compiler.errors import ArgumentError
from compiler.exports.names import identifier_from
from compiler.graph.division.protocols import HOST, Emits
from compiler.graph.passes.pipeline import AfterStage
from runtime.driver.pipeline import LayOut
from runtime.module import Module

KINDS = {"cuda": "//", "opencl": "//", "metal": "//", "ptx": "//", "llvm": ";", "asm": "#",
         "loops": "#", "program": "#", "timeloop": "#"}
"""Kinds of text, and what begins their comments."""

NETWORKS = ("c", "scalesim")
"""Kinds of text that are a whole network, to be compiled elsewhere."""

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


def network_in_c(module: Module, name: str, header_name: str = "", apart: bool | None = False
                 ) -> CFiles:
    """The network as a file of C99 and its header; what others see of it begins with an identifier
    like the name. Constants `apart` are a file, too; None: where they take more than 16 MiB. Raises
    ArgumentError for a module that is not the processor's alone.
    """
    places = dict.fromkeys(segment.target for segment in module.partition.segments)
    if places.keys() - {HOST}:
        raise ArgumentError(f"emit c must come with target cpu, which computes the whole network; "
                            f"segments of this one are on {', '.join(places)}")
    return network_files(module.graph, identifier_from(name), header_name, apart)


@dataclass(slots=True)
class NetworkStages:
    """A hook that shows the stages of a network up to its layout, and then, instead of its
    targets' stages, those of a text of the whole network.
    """

    after: AfterStage
    count: int = 0
    is_over: bool = False

    def __call__(self, index: int, name: str, result: Any) -> None:
        if not self.is_over:
            self.after(index, name, result)
            self.count, self.is_over = index + 1, name == LayOut.name

    def show(self, stages: Mapping[str, Any]) -> None:
        """Shows the stages of `CFiles.stages`."""
        for index, (name, result) in enumerate(stages.items(), self.count):
            self.after(index, name, result)
