"""Segments of GPUs as JSON; the text of their kernels, and machine code, are members."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment, GpuStep, ValueForms
from compiler.cpu_gpu_backends.gpu.target import PRECISIONS
from compiler.cpu_gpu_backends.simt.code import Code, Launch, TensorMap
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import optimize
from compiler.te import Buffer

from .container import Container, Members
from .host import buffer_json, buffer_of

SUFFIX = {"cuda": "cu", "opencl": "cl", "metal": "metal"}


def gpu_json(segment: GpuSegment, number: int, members: Members) -> dict[str, Any]:
    """A segment as JSON: its groups, each with the number of its code; a view has none. Codes have
    one text, and images of it for architectures.
    """
    codes = list(dict.fromkeys(step.code for step in segment.steps if step.code))
    numbers = {code: place for place, code in enumerate(codes)}
    dialect = segment.dialect
    text = members.add(f"gpu/{number}/kernels.{SUFFIX[dialect]}",
                       (codes[0].text if codes else "").encode())
    images = codes[0].images or {} if codes else {}
    return {"gpu": {
        "dialect": dialect, "text": text,
        "last": list(segment.forms.last), "halves": segment.forms.halves,
        "rows": segment.forms.rows,
        "images": {arch: members.add(f"gpu/{number}/{arch}.cubin", image)
                   for arch, image in images.items()},
        "codes": [_code_json(code) for code in codes],
        "steps": [{"nodes": [node.name for node in step.group.nodes],
                   "code": step.code and numbers[step.code]} for step in segment.steps]}}


def gpu_of(entry: Mapping[str, Any], graph: Graph, container: Container) -> GpuSegment:
    """Reads a segment; `graph` is its part of the network."""
    forms = ValueForms(tuple(entry.get("last", ())), entry.get("halves"), entry.get("rows", False))
    if forms.halves not in PRECISIONS.values():
        raise ValueError(f"factors must be stored as a type that products have, not "
                         f"{forms.halves!r}")
    graph = optimize(graph, passes(forms))
    text = container.data(entry["text"]).decode()
    images = {arch: container.data(member) for arch, member in entry["images"].items()}
    codes = [_code_of(code, entry["dialect"], text, images) for code in entry["codes"]]
    nodes = {node.name: node for node in graph.nodes}
    known, steps = {*graph.inputs, *graph.constants}, []
    for saved in entry["steps"]:
        group = Group.of((nodes.pop(name) for name in saved["nodes"]), graph)
        if not known.issuperset(group.inputs):
            raise ValueError("a group must read what is there")
        known.add(group.output)
        steps.append(_step(graph, group, None if saved["code"] is None else codes[saved["code"]]))
    if nodes:
        raise ValueError("groups must hold every node once")
    return GpuSegment(graph, tuple(steps), graph.constants, entry["dialect"], forms)


def _step(graph: Graph, group: Group, code: Code | None) -> GpuStep:
    """A step of a group. Kernels may see arrays in other shapes, with equal types and numbers of
    elements.
    """
    name = group.nodes[-1].name
    if code is None:
        if not group.is_view:
            raise ValueError(f"{name} must have kernels unless it is a view")
        return GpuStep(group, None)
    types = [graph.values[value] for value in (*group.inputs, group.output)]
    if [(prod(b.shape), b.dtype) for b in (*code.inputs, *code.outputs)] != [
            (prod(t.shape), t.dtype) for t in types]:
        raise ValueError(f"{name} must have kernels for its types")
    return GpuStep(replace(group, is_view=False), code)


def _code_json(code: Code) -> dict[str, Any]:
    return {"name": code.name, **{field: list(map(buffer_json, getattr(code, field)))
                                  for field in ("inputs", "outputs", "temporaries")},
            "launches": [{"kernel": launch.kernel, "grid": list(launch.grid),
                          "block": list(launch.block), "numbers": list(launch.numbers),
                          "arguments": [buffer.name for buffer in launch.arguments],
                          "maps": [{"buffer": one.buffer.name, "box": list(one.box)}
                                   for one in launch.maps], "shared_bytes": launch.shared_bytes}
                         for launch in code.launches]}


def _code_of(entry: Mapping[str, Any], dialect: str, text: str, images: Mapping[str, bytes]
             ) -> Code:
    inputs, outputs, temporaries = (tuple(map(buffer_of, entry[field]))
                                    for field in ("inputs", "outputs", "temporaries"))
    buffers = {buffer.name: buffer for buffer in (*inputs, *outputs, *temporaries)}
    return Code(entry["name"], dialect, text,
                tuple(_launch(launch, buffers) for launch in entry["launches"]),
                inputs, outputs, temporaries, images=images)


def _launch(entry: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> Launch:
    grid, block = entry["grid"], entry["block"]
    if (len(grid), len(block)) != (3, 3) or min(*grid, *block) < 1:
        raise ValueError(f"{entry['kernel']} must have blocks and threads along three axes")
    maps = tuple(TensorMap(buffers[one["buffer"]], tuple(one["box"]))
                 for one in entry.get("maps", ()))
    if any(len(one.box) != len(one.buffer.shape) or min(one.box) < 1 for one in maps):
        raise ValueError(f"{entry['kernel']} must have boxes of the dimensions of its arrays")
    return Launch(entry["kernel"], tuple(grid), tuple(block),
                  tuple(buffers[name] for name in entry["arguments"]), tuple(entry["numbers"]),
                  maps, entry.get("shared_bytes", 0))
