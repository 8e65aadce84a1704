"""What does operator fusion gain on the host, on one thread, and how much memory do values need?

`fusion`: each float network is compiled four times: fused and not, with batch norms folded into
weights and without. All four and ONNX Runtime run in turns, so that other load on the machine
affects all alike. The best processor time of all rounds counts. Prints

- ``fusion_NAME_ms``, ``fusion_NAME_unfused_ms``: one image, batch norms folded;
- ``fusion_NAME_ratio``: the second by the first;
- ``fusion_NAME_norms_ratio``: the same where batch norms are products and sums of their own;
- ``fusion_NAME_over_ort``: time of the first by that of ONNX Runtime, on one thread too;
- ``fusion_NAME_error``: largest difference from ONNX Runtime by the largest output.

`counts` prints a table of all networks: operators, and kernels that they become.

`memory` prints for each network

- ``memory_NAME_bytes``: the block in which all values between input and output lie, and the
  kernels' scratch memory (padded copies of their inputs);
- ``memory_NAME_live_bytes``: the most that is in use at one time; no plan is smaller;
- ``memory_NAME_ratio``: the first by the second;
- ``memory_NAME_unshared_bytes``: without sharing.

Results are rounded up to cache lines. Constants, inputs and outputs lie elsewhere. With ``--gpu``
the figures are those of a GPU (CUDA), whose results are rounded up to 512 bytes and never lie
where an operand does; the last line, ``memory_NAME_device_bytes``, has constants, inputs and
outputs in it.
"""

import numpy as np
import onnx

from bench.frame import Bench, Sheet
from bench.inputs.float_networks import NAMES, float_graph, float_model, image
from bench.support.onnx_runtime import Peer
from bench.support.timing import Run, best_times
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, kernel_program
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.memory import plan_groups
from compiler.frontend.onnx.importing import convert
from compiler.graph.fusion import fuse
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.graph.passes import FoldScales
from compiler.graph.passes.pipeline import optimize, standard_passes

BENCH = Bench(__file__, __doc__)
BENCH.option("--size", type=int, default=224, help="of images")
BENCH.option("--rounds", type=int, default=40, help="of fusion")
BENCH.option("--gpu", action="store_true", help="memory of a GPU instead of the host")


@BENCH.part(NAMES, ("mobilenet_v1",))
def fusion(sheet: Sheet) -> None:
    for name in sheet.cases:
        _measure(sheet, name, float_model(name, sheet.size))


@BENCH.part(NAMES, extra=True)
def counts(sheet: Sheet) -> None:
    print("| network | operators | batch norms folded | kernels | views |")
    print("|---|---|---|---|---|")
    for name in sheet.cases:
        print("|", " | ".join([name, *map(str, counts_of(float_model(name, sheet.size)))]), "|",
              flush=True)


@BENCH.part(NAMES, ("resnet50", "densenet121"), extra=True)
def memory(sheet: Sheet) -> None:
    for name in sheet.cases:
        graph = float_graph(name, sheet.size)
        on_gpu = GpuTarget("cuda", "cuda").compile(graph) if sheet.gpu else None
        plan = on_gpu.plan if on_gpu else plan_of(graph)
        sheet.figure(f"memory_{name}_bytes", plan.size)
        sheet.figure(f"memory_{name}_live_bytes", plan.live)
        sheet.figure(f"memory_{name}_ratio", plan.size / plan.live, ".4f")
        sheet.figure(f"memory_{name}_unshared_bytes", plan.unshared)
        if on_gpu:
            sheet.figure(f"memory_{name}_device_bytes", on_gpu.device_bytes)


def graph_of(model: onnx.ModelProto, folded: bool = True) -> Graph:
    """The network's graph as the host compiles it, batch norms folded or not."""
    passes = [one for one in standard_passes() if folded or not isinstance(one, FoldScales)]
    return optimize(convert(model), passes)


def counts_of(model: onnx.ModelProto) -> tuple[int, int, int, int]:
    """Counts operators as imported, operators after folding batch norms, kernels, and views."""
    graph = graph_of(model)
    groups = fuse(CpuTarget().lowered(graph)).groups
    views = sum(group.is_view for group in groups)
    return (len(graph_of(model, folded=False).nodes), len(graph.nodes), len(groups) - views, views)


def _measure(sheet: Sheet, name: str, model: onnx.ModelProto) -> None:
    folded, whole = graph_of(model), graph_of(model, folded=False)
    segments = {"fused": CpuTarget().compile(folded),
                "unfused": CpuTarget(fusion=False).compile(folded),
                "norms_fused": CpuTarget().compile(whole),
                "norms_unfused": CpuTarget(fusion=False).compile(whole)}
    inputs, peer = image(folded), Peer(model)
    wanted, *_ = peer(inputs).values()
    error = max(float(np.abs(segment(inputs)[folded.outputs[0]] - wanted).max())
                for segment in segments.values())
    runs: dict[str, Run] = {one: lambda segment=segment: segment(inputs)
                            for one, segment in segments.items()}
    best = best_times(runs | {"ort": lambda: peer(inputs)}, sheet.rounds)
    for figure, value, form in (
            ("ms", best["fused"] * 1e3, ".2f"), ("unfused_ms", best["unfused"] * 1e3, ".2f"),
            ("ratio", best["unfused"] / best["fused"], ".3f"),
            ("norms_ratio", best["norms_unfused"] / best["norms_fused"], ".3f"),
            ("over_ort", best["fused"] / best["ort"], ".2f"),
            ("error", error / np.abs(wanted).max(), ".1e")):
        sheet.figure(f"fusion_{name}_{figure}", value, form)


def plan_of(graph: Graph) -> MemoryPlan:
    """The memory plan of the whole graph on the host."""
    graph = CpuTarget().lowered(graph)
    groups = fuse(graph).groups
    programs = [kernel_program(graph, group) for group in groups]
    return plan_groups(graph, groups, [program and program.outputs[1:] for program in programs])
