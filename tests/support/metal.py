"""Text in Metal as C++: outside of Apple's systems there is no compiler of it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from compiler.cpu_gpu_backends.simt.code import Code
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute

__all__ = ["computed_as_cxx"]

HEADER = Path(__file__).with_name("metal.h")
KERNEL = re.compile(r"kernel void\n(\w+)\(([^)]*(?:\)[^)]*)*?)\) \{\n")
PARAMETER = re.compile(
    r"(?:device (const )?([\w ]+)\*|constant int&) (\w+) \[\[buffer\((\d+)\)\]\]")


def computed_as_cxx(code: Code, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the kernels compute, by the C++ that emulates CUDA."""
    assert code.dialect == "metal"
    begin, metal = code.text.split("using namespace metal;\n")
    assert begin.endswith("#include <metal_stdlib>\n")
    metal = re.sub(r"^  threadgroup (?=__attr|\w+ \w+[\[;])", "  static ", metal, flags=re.M)
    launchers = [_launcher(name, parameters) for name, parameters in KERNEL.findall(metal)]
    assert len(launchers) == metal.count("kernel void")
    text = "\n".join((HEADER.read_text(), metal, *launchers))
    launches = tuple(replace(one, kernel=f"cuda_{one.kernel}") for one in code.launches)
    return compute(EmulatedDevice(), replace(code, dialect="cuda", text=text, launches=launches),
                   inputs)


def _launcher(name: str, parameters: str) -> str:
    """A kernel of CUDA that calls the one of Metal with its place."""
    found = PARAMETER.findall(parameters)
    assert [int(number) for *_, number in found] == list(range(parameters.count("buffer(")))
    taken = ", ".join(f"{constant}{kind}* {word}" if kind else f"int {word}"
                      for constant, kind, word, _ in found)
    given = ", ".join(word for *_, word, _ in found)
    return (f"__global__ void {f'cuda_{name}'}({taken}) {{\n  {name}({given}, "
            "{blockIdx.x, blockIdx.y, blockIdx.z}, {threadIdx.x, threadIdx.y, threadIdx.z});\n}\n")
