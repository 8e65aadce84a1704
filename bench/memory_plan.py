"""How much memory do intermediate values of float networks need on the host?

    python -m bench.memory_plan [NAME ...] [--size N] [--gpu]

Prints for each network (ResNet-50 and DenseNet-121 unless told) ``name value`` lines:

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

import argparse
import sys

from bench.inputs.float_networks import NAMES, float_graph
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, kernel_program
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.memory import plan_groups
from compiler.graph.fusion import fuse
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan

__all__ = ["plan_of"]


def plan_of(graph: Graph) -> MemoryPlan:
    """The memory plan of the whole graph on the host."""
    graph = CpuTarget().lowered(graph)
    groups = fuse(graph).groups
    programs = [kernel_program(graph, group) for group in groups]
    return plan_groups(graph, groups, [program and program.outputs[1:] for program in programs])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["resnet50", "densenet121"], metavar="NAME",
                        help=f"of {', '.join(NAMES)}")
    parser.add_argument("--size", type=int, default=224, help="of images (default 224)")
    parser.add_argument("--gpu", action="store_true", help="of a GPU instead of the host")
    args = parser.parse_args()
    for name in args.names:
        graph = float_graph(name, args.size)
        on_gpu = GpuTarget("cuda", "cuda").compile(graph) if args.gpu else None
        plan = on_gpu.plan if on_gpu else plan_of(graph)
        print(f"memory_{name}_bytes", plan.size)
        print(f"memory_{name}_live_bytes", plan.live)
        print(f"memory_{name}_ratio", f"{plan.size / plan.live:.4f}")
        print(f"memory_{name}_unshared_bytes", plan.unshared, flush=True)
        if on_gpu:
            print(f"memory_{name}_device_bytes", on_gpu.device_bytes, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
