"""Do networks of PyTorch compute what torch computes, and run on the accelerator in int8?

`exported`: each network of `examples/torch_networks.py` (ResNet-18, both MobileNets and SqueezeNet
on images of 224, all others on 64) is exported, imported, compiled for the target `cpu`, and run on
the same two random inputs as the module itself. Prints the graph's operators, the number of
constants that share torch's memory, and the error: the largest difference from torch relative to
torch's largest output, which must be within the tolerance. `operators` prints the supported
operators of ATen, as in `docs/torch.md`.

The tolerance is 64 roundings of float32 (2**-24 each) times the root of the number of layers with
products. A sum of n products that is rounded after each of them errs by about sqrt(n / 6) roundings
of its own size, 39 for the longest sums here (9,216 products, in the U-Net); two such sums in
different orders are sqrt(2) times as far apart, 55. Layers err independently, so that their errors
add as the squares do. An epsilon of batch norms that is 1e-4 instead of 1e-5 is above it.

`quantized`: each of `bench.inputs.torch_networks`, with seeded random weights, is exported by
torch.export, quantized by 8 seeded samples, compiled for `accel:pynq-1x16x16`, and run on a sample
that is not among them. ``--size small`` has a few dozen channels and images of 32 to 64. Prints the
network's layers in int8, products (convolutions, dense layers, products of two computed matrices)
on the accelerator and in all, segments (on the accelerator, and on all targets), copies between
targets, and the signal to quantization noise ratio of the output against torch in float; with
``--price``, also the milliseconds of an inference by the prices that `auto` decides by. A network
must not be refused, and something must run on the accelerator. Random weights say nothing about
accuracy; the ratio shows that the values are right.
"""

import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.frame import Bench, Sheet
from bench.inputs.torch_networks import NETWORKS, OF_TRANSFORMERS
from compiler.errors import RequestError

try:
    from examples.torch_networks import NETWORKS as EXPORTED
except ImportError:             # without torch there is no network to export
    EXPORTED = {}

LARGE = ("resnet18", "mobilenet_v1", "mobilenet_v2", "squeezenet")
ROUNDING = 2.0 ** -24
PER_LAYER = 64
TARGET = "accel:pynq-1x16x16"
PRODUCTS = ("conv2d", "convtranspose2d", "dense", "matmul")

ALL_PRODUCTS = (*PRODUCTS, "conv", "einsum", "qconv2d", "qconvtranspose2d", "qdense", "qmatmul",
                "qconv2d_add", "qdense_add")

BENCH = Bench(__file__, __doc__)
BENCH.option("--size", choices=("small", "full"), default="full", help="of quantized networks")
BENCH.option("--sim", choices=("functional", "cycle"), default="functional")
BENCH.option("--price", action="store_true",
             help="milliseconds by the prices of `auto`, too (takes minutes)")


@dataclass(frozen=True, slots=True)
class Exported:
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


@dataclass(frozen=True, slots=True)
class Quantized:
    """`products` counts those of the compiled network, `on_accelerator` those that run there, and
    `segments` the accelerator's among `all_segments`. `auto_ms` is the price of an inference where
    `auto` divides it. `refused` is the reason of a refusal, if there is one.
    """

    name: str
    layers: int
    quantized: int
    products: int
    on_accelerator: int
    segments: int
    all_segments: int
    copies: int
    decibels: float
    seconds: float
    auto_ms: float | None = None
    refused: str = ""

    @property
    def holds(self) -> bool:
        return not self.refused and self.on_accelerator > 0


@BENCH.part(EXPORTED)
def exported(sheet: Sheet) -> None:
    _require("torch")
    print(f"{'network':14}{'size':>5}{'operators':>11}{'shared':>10}{'error':>10}{'at most':>10}"
          f"{'s':>7}")
    for name in sheet.cases:
        one = measure(name, 224 if name in LARGE else 64)
        print(f"{one.name:14}{one.size:5}{one.operators:11,}{f'{one.shared}/{one.constants}':>10}"
              f"{one.error:10.1e}{one.tolerance:10.1e}{one.seconds:7.1f}"
              f"{'' if one.holds else '  DIFFERS'}", flush=True)
        sheet.row(one)
        sheet.require(one.holds)


@BENCH.part(extra=True)
def operators(sheet: Sheet) -> None:
    print(operators_text())


@BENCH.part(NETWORKS, extra=True)
def quantized(sheet: Sheet) -> None:
    _require("torch", *(["transformers"] if {*sheet.cases} & {*OF_TRANSFORMERS} else []))
    print(f"{'network':19}{'int8':>10}{'products':>10}{'segments':>10}{'copies':>8}"
          f"{'auto ms':>9}{'dB':>7}{'s':>7}")
    for name in sheet.cases:
        one = measure_quantized(name, sheet.size == "small", sheet.sim, sheet.price)
        _show(one)
        sheet.row(one)
        sheet.require(one.holds)


def _require(*packages: str) -> None:
    if absent := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise RequestError(f"Package {', '.join(absent)} must be installed: "
                           "pip install -e '.[dev]' -c constraints.txt")


def operators_text() -> str:
    """Names of all operators_text that have a rule, without overloads and ATen's internal forms."""
    import compiler.frontend.pytorch.aten       # noqa: F401 - fills the table
    from compiler.frontend.pytorch.aten.registry import OPERATORS, REFUSED

    names = {name.partition(".")[0] for name in set(OPERATORS) - REFUSED if name[0] != "_"}
    return ", ".join(f"`{name}`" for name in sorted(names)) + "."


def measure(name: str, size: int = 64) -> Exported:
    """Measures one network on a batch of two."""
    import torch  # pyright: ignore[reportMissingImports]

    import lockstep
    from compiler.frontend.pytorch import programs as torch_export
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
    return Exported(name, size, len(graph.nodes), shared, len(graph.constants),
                   float(np.abs(made - wanted).max() / np.abs(wanted).max()),
                   PER_LAYER * ROUNDING * layers ** 0.5, seconds)


def measure_quantized(name: str, small: bool = True, sim: str = "functional",
            price: bool = False) -> Quantized:
    """Measures one network. A refusal is among the figures."""
    import torch  # pyright: ignore[reportMissingImports]

    from compiler.errors import Error

    torch.manual_seed(0)
    begin = time.perf_counter()
    module, samples = NETWORKS[name](small)
    try:
        figures = _measured(module, samples, sim, price)
    except Error as error:
        figures = {"layers": 0, "quantized": 0, "products": 0, "on_accelerator": 0, "segments": 0,
                   "all_segments": 0, "copies": 0, "decibels": 0.0, "refused": str(error)}
    return Quantized(name=name, seconds=time.perf_counter() - begin, **figures)


def _measured(module: Any, samples: list[tuple], sim: str, price: bool) -> dict[str, Any]:
    import torch  # pyright: ignore[reportMissingImports]

    import lockstep
    from compiler.frontend.pytorch import programs as torch_export

    *known, last = samples
    program = torch_export.exported(module, last)
    inputs = program.graph_signature.user_inputs
    calibration = {name: np.concatenate([one[place].numpy() for one in known])
                   for place, name in enumerate(inputs)}
    made = lockstep.quantize(program, calibration)
    compiled = lockstep.compile(made.graph, TARGET, sim=sim, cache=False)
    with torch.no_grad():
        real = module(*last).numpy().astype(np.float64)
    arrays = {name: last[place].numpy() for place, name in enumerate(inputs)}
    result, = compiled(arrays).values()
    accelerated = {node.name for segment in compiled.partition.segments
                   if segment.target == "accel" for node in segment.nodes}
    products = [node.name for node in compiled.graph.nodes if node.op in ALL_PRODUCTS]
    return {"layers": len(made.layers),
            "quantized": sum(layer.quantized for layer in made.layers),
            "products": len(products),
            "on_accelerator": sum(name in accelerated for name in products),
            "segments": len(compiled.accelerated),
            "all_segments": len(compiled.partition.segments),
            "copies": len(compiled.partition.copies),
            "auto_ms": _auto_ms(made.graph) if price else None,
            "decibels": float(10 * np.log10(np.sum(real**2) / np.sum((real - result)**2)))}


def _auto_ms(graph: Any) -> float:
    import lockstep

    decided = lockstep.compile(graph, TARGET.replace("accel", "auto"), cache=False).auto
    assert decided is not None
    return 1e3 * decided["seconds"]


def _show(one: Quantized) -> None:
    price = "-" if one.auto_ms is None else f"{one.auto_ms:.2f}"
    print(f"{one.name:19}{f'{one.quantized}/{one.layers}':>10}"
          f"{f'{one.on_accelerator}/{one.products}':>10}"
          f"{f'{one.segments}/{one.all_segments}':>10}{one.copies:8}{price:>9}{one.decibels:7.1f}"
          f"{one.seconds:7.1f}{'  REFUSED: ' * bool(one.refused)}{one.refused}", flush=True)
