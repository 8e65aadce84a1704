"""What does operator fusion gain on the host, on one thread?

    python -m bench.fusion [NAME ...] [--size N] [--rounds N]
    python -m bench.fusion --counts [--size N]

Each float network (MobileNet-v1 unless told) is compiled four times: fused and not, with batch
norms folded into weights and without. All four and ONNX Runtime run in turns, so that other load on
the machine affects all alike. The best processor time of all rounds counts. Prints ``name value``
lines:

- ``fusion_NAME_ms``, ``fusion_NAME_unfused_ms``: one image, batch norms folded;
- ``fusion_NAME_ratio``: the second by the first;
- ``fusion_NAME_norms_ratio``: the same where batch norms are products and sums of their own;
- ``fusion_NAME_over_ort``: time of the first by that of ONNX Runtime, on one thread too;
- ``fusion_NAME_error``: largest difference from ONNX Runtime by the largest output.

``--counts`` prints a table of all networks instead: operators, and kernels that they become.
"""

import argparse
import sys

import numpy as np
import onnx

from bench.inputs.float_networks import NAMES, float_model, image
from bench.support.timing import Run, best_times
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, HostSegment
from compiler.frontend.onnx_import import convert
from compiler.graph.fusion import fuse
from compiler.graph.graph import Graph
from compiler.graph.passes import FoldScales
from compiler.graph.pipeline import optimize, standard_passes

__all__ = ["counts", "graph_of"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["mobilenet_v1"], metavar="NAME",
                        help=f"of {', '.join(NAMES)}")
    parser.add_argument("--size", type=int, default=224, help="of images (default 224)")
    parser.add_argument("--rounds", type=int, default=40, help="default 40")
    parser.add_argument("--counts", action="store_true", help="the table")
    args = parser.parse_args()
    if args.counts:
        print("| network | operators | batch norms folded | kernels | views |")
        print("|---|---|---|---|---|")
        for name in NAMES:
            print("|", " | ".join([name, *map(str, counts(float_model(name, args.size)))]), "|",
                  flush=True)
        return 0
    for name in args.names:
        _measure(name, float_model(name, args.size), args.rounds)
    return 0


def graph_of(model: onnx.ModelProto, folded: bool = True) -> Graph:
    """The network's graph as the host compiles it, batch norms folded or not."""
    passes = [one for one in standard_passes() if folded or not isinstance(one, FoldScales)]
    return optimize(convert(model), passes)


def counts(model: onnx.ModelProto) -> tuple[int, int, int, int]:
    """Counts operators as imported, operators after folding batch norms, kernels, and views."""
    graph = graph_of(model)
    groups = fuse(CpuTarget().lowered(graph)).groups
    views = sum(group.is_view for group in groups)
    return (len(graph_of(model, folded=False).nodes), len(graph.nodes), len(groups) - views, views)


def _measure(name: str, model: onnx.ModelProto, rounds: int) -> None:
    folded, whole = graph_of(model), graph_of(model, folded=False)
    segments = {"fused": _compiled(folded, True), "unfused": _compiled(folded, False),
                "norms_fused": _compiled(whole, True), "norms_unfused": _compiled(whole, False)}
    inputs, session = image(folded), _session(model)
    wanted = np.asarray(session.run(None, inputs)[0])
    error = max(float(np.abs(segment(inputs)[folded.outputs[0]] - wanted).max())
                for segment in segments.values())
    runs: dict[str, Run] = {one: lambda segment=segment: segment(inputs)
                            for one, segment in segments.items()}
    best = best_times(runs | {"ort": lambda: session.run(None, inputs)}, rounds)
    print(f"fusion_{name}_ms", f"{best['fused'] * 1e3:.2f}")
    print(f"fusion_{name}_unfused_ms", f"{best['unfused'] * 1e3:.2f}")
    print(f"fusion_{name}_ratio", f"{best['unfused'] / best['fused']:.3f}")
    print(f"fusion_{name}_norms_ratio", f"{best['norms_unfused'] / best['norms_fused']:.3f}")
    print(f"fusion_{name}_over_ort", f"{best['fused'] / best['ort']:.2f}")
    print(f"fusion_{name}_error", f"{error / np.abs(wanted).max():.1e}", flush=True)


def _compiled(graph: Graph, fusion: bool) -> HostSegment:
    return CpuTarget(fusion=fusion).compile(graph)


def _session(model: onnx.ModelProto):
    import onnxruntime              # from the extra `test`

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    sys.exit(main())
