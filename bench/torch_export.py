"""Do the example networks give the same results through torch.export as in torch?

    python -m bench.torch_export [NAME ...] [--json FILE]
    python -m bench.torch_export --operators

Each network of `examples/torch_networks.py` (all ten unless told; ResNet-18, both MobileNets and
SqueezeNet on images of 224, all others on 64) is exported, imported, compiled for the target `cpu`,
and run on the same two random inputs as the module itself. It prints the graph's operators, the
number of constants that share torch's memory, and the error: the largest difference from torch
relative to torch's largest output. The exit status is 1 where an error is above the tolerance.
`--operators` prints the supported operators of ATen, as in `docs/torch.md`.

The tolerance is 64 roundings of float32 (2**-24 each) times the root of the number of layers with
products. A sum of n products that is rounded after each of them errs by about sqrt(n / 6) roundings
of its own size, 39 for the longest sums here (9,216 products, in the U-Net); two such sums in
different orders are sqrt(2) times as far apart, 55. Layers err independently, so that their errors
add as the squares do. An epsilon of batch norms that is 1e-4 instead of 1e-5 is above it.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

__all__ = ["Figures", "measure", "operators"]

LARGE = ("resnet18", "mobilenet_v1", "mobilenet_v2", "squeezenet")
ROUNDING = 2.0 ** -24
PER_LAYER = 64
PRODUCTS = ("conv2d", "convtranspose2d", "dense", "matmul")


@dataclass(frozen=True, slots=True)
class Figures:
    """`shared` of the `constants` are torch's own memory; `seconds` has export, import and
    compilation.
    """

    name: str
    size: int
    operators: int
    shared: int
    constants: int
    error: float
    tolerance: float
    seconds: float

    @property
    def holds(self) -> bool:
        return self.error <= self.tolerance


def main() -> int:
    from examples.torch_networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--operators", action="store_true", help="print what is supported")
    args = parser.parse_args()
    if args.operators:
        print(operators())
        return 0
    unknown = [name for name in args.names if name not in NETWORKS]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(NETWORKS)}, not {unknown[0]!r}")
    found = []
    print(f"{'network':14}{'size':>5}{'operators':>11}{'shared':>10}{'error':>10}{'at most':>10}"
          f"{'s':>7}")
    for name in args.names or NETWORKS:
        found.append(measure(name, 224 if name in LARGE else 64))
        _show(found[-1])
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return int(not all(one.holds for one in found))


def operators() -> str:
    """Names of all operators that have a rule, without overloads and ATen's internal forms."""
    import compiler.frontend.aten       # noqa: F401 - fills the table
    from compiler.frontend.aten.registry import OPERATORS, REFUSED

    names = {name.partition(".")[0] for name in set(OPERATORS) - REFUSED if name[0] != "_"}
    return ", ".join(f"`{name}`" for name in sorted(names)) + "."


def _show(one: Figures) -> None:
    print(f"{one.name:14}{one.size:5}{one.operators:11,}{f'{one.shared}/{one.constants}':>10}"
          f"{one.error:10.1e}{one.tolerance:10.1e}{one.seconds:7.1f}"
          f"{'' if one.holds else '  DIFFERS'}", flush=True)


def measure(name: str, size: int = 64) -> Figures:
    """Measures one network on a batch of two."""
    import torch  # pyright: ignore[reportMissingImports]

    import lockstep
    from compiler.frontend import torch_export
    from examples.torch_networks import build

    module, inputs = build(name, size, batch=2)
    begin = time.perf_counter()
    program = torch_export.exported(module, inputs)
    graph = torch_export.convert(program, name)
    compiled = lockstep.compile(graph, "cpu", cache=False)
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        wanted = module(*inputs).numpy()
    made = compiled(dict(zip(graph.inputs, inputs, strict=True)))[graph.outputs[0]]
    pointers = {one.data_ptr() for one in program.state_dict.values()}
    shared = sum(one.ctypes.data in pointers for one in graph.constants.values())
    layers = sum(node.op in PRODUCTS for node in graph.nodes)
    return Figures(name, size, len(graph.nodes), shared, len(graph.constants),
                   float(np.abs(made - wanted).max() / np.abs(wanted).max()),
                   PER_LAYER * ROUNDING * layers ** 0.5, seconds)


if __name__ == "__main__":
    sys.exit(main())
