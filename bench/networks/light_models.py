"""ONNX's light models in float against ONNX Runtime, and in int8 on the accelerator.

Weights are seeded random ones (`bench.inputs.light_weights`). For each model

1. the host (`cpu`) runs the float network and must agree with ONNX Runtime (the extra `bench`):
   every output, and what goes into a last softmax, within `TOLERANCE` of its largest element;
2. our quantizer makes the int8 network from a few images, which runs with the accelerator's
   functional simulator; every segment of the accelerator must give, to the bit, what the integer
   reference (`compiler.graph.reference`: NumPy, nothing of the accelerator's lowering) makes of the
   same inputs, and every convolution must be on the accelerator, or is listed with its reason.

Prints figures, seconds of processor time among them: ``light_models_float`` and
``light_models_int8`` count the models that are right, ``light_models_host_convolutions`` the
convolutions that are not on the accelerator. Exit status 1 when a model is wrong.

`layers` (of the digits): how far is each layer on the accelerator from ONNX Runtime, fed with ONNX
Runtime's own tensors? Runs every integer layer alone, in the functional simulator, on what ONNX
Runtime (graph optimizations off) computed for the layer's inputs. Prints a table, then
``layer_equal_percent`` and ``layer_largest_difference`` for the worst layer.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import ModelProto

from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.accelerator.limits import macs
from bench.frame import Bench, Sheet
from bench.inputs.light_weights import NAMES, images, light_model
from bench.support.onnx_runtime import Peer
from compiler.frontend.onnx.importing import convert
from compiler.graph.graph import Graph, Node
from compiler.graph.division.partition import ACCEL, Partition, Segment, subgraph
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate, evaluate_node
from compiler.quantize import quantize
from compiler.graph.division.protocols import Outcome
from examples.digits.data import held_out
from lockstep.testing.models import DIGITS
from runtime import SimulatedDevice, compile_graph, simulator
from runtime.module import Module, Step

TOLERANCE = 1e-4
"""A share of the largest element. Both sides round float32 sums of up to 25,088 products in
different orders, through up to 121 layers; observed differences are at most 1.4e-5. An error in a
layer shows as 1e-2 or more.
"""
CONVOLUTIONS = ("conv2d", "qconv2d", "convtranspose2d", "qconvtranspose2d")
PRODUCTS = (*CONVOLUTIONS, "dense", "qdense", "matmul", "qmatmul")
Array = np.ndarray
Stage = Callable[[str], AbstractContextManager[None]]
Values = dict[str, np.ndarray]

BENCH = Bench(__file__, __doc__, "pynq-1x16x16")
BENCH.option("--float", action="store_true", help="only the comparison in float")
BENCH.option("--samples", type=int, default=2, metavar="N", help="images to calibrate on")
BENCH.option("--images", type=int, default=360, help="digits of layers")


@dataclass
class Figures:
    """The figures of a model. `float_error`: the largest difference from ONNX Runtime, as a share
    of the largest element. `segments`: the accelerator's; `differing`: those that differ from the
    reference. Counts and multiply-accumulates are of the int8 network.
    """

    name: str
    float_error: float | None = None
    decibels: float | None = None
    segments: int = 0
    differing: list[str] = field(default_factory=list)
    convolutions: int = 0
    accel_convolutions: int = 0
    accel_convolution_macs_percent: float = 0.0
    accel_macs_percent: float = 0.0
    host_products: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def float_is_right(self) -> bool:
        return self.float_error is not None and self.float_error <= TOLERANCE

    @property
    def int8_is_right(self) -> bool:
        return (self.segments > 0 and not self.differing
                and self.accel_convolutions == self.convolutions)


@BENCH.part(NAMES)
def models(sheet: Sheet) -> None:
    found, target = [], AccelTarget(sheet.machine)
    for name in sheet.cases:
        one = Figures(name)
        measure(name, target, sheet.samples, sheet.float, _stages(one), one)
        found.append(one)
        sheet.row(one)
        print("\n".join(lines(one, sheet.float)), flush=True)
    sheet.figure("light_models_float", sum(one.float_is_right for one in found))
    sheet.require(all(one.float_is_right for one in found))
    if not sheet.float:
        sheet.figure("light_models_int8", sum(one.int8_is_right for one in found))
        sheet.require(all(one.int8_is_right for one in found))
        sheet.figure("light_models_host_convolutions",
                     sum(one.convolutions - one.accel_convolutions for one in found))


@BENCH.part(extra=True)
def layers(sheet: Sheet) -> None:
    feeds = [{"image": image[None]} for image in held_out()[0][:sheet.images]]
    differences = compare(sheet.machine, onnx.load(DIGITS), feeds)
    for name, one in differences.items():
        print(f"{name:10} {one.op:16} {one.elements:9,} elements, {one.equal:9.4%} equal, "
              f"largest difference {one.largest}")
    sheet.figure("layer_equal_percent",
                 100 * min(one.equal for one in differences.values()), ".4f")
    sheet.figure("layer_largest_difference", max(one.largest for one in differences.values()))


def with_logits(model: ModelProto) -> ModelProto:
    """The model with the inputs of softmaxes as additional outputs: a softmax hides errors of
    logits.
    """
    wider = ModelProto()
    wider.CopyFrom(model)
    present = {one.name for one in model.graph.output}
    wider.graph.output.extend(
        onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None)
        for node in model.graph.node
        if node.op_type == "Softmax" and node.input[0] not in present)
    return wider


def compare_float(model: ModelProto, inputs: Mapping[str, Array], stage: Stage) -> float:
    """The largest difference of the host's outputs from ONNX Runtime's, relative to the largest
    element of the output.
    """
    model = with_logits(model)
    with stage("import"):
        graph = optimize(convert(model))
    with stage("compile for cpu"):
        module = compile_graph(graph, None)
    with stage("run on cpu"):
        ours = module(inputs)
    with stage("ONNX Runtime"):
        theirs = Peer(model)(inputs)
    return max(_difference(ours[name], array) for name, array in theirs.items())


def _difference(ours: Array, theirs: Array) -> float:
    if ours.shape != theirs.shape or not np.isfinite(ours).all():
        return np.inf
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def compare_int8(model: ModelProto, samples: Mapping[str, Array], inputs: Mapping[str, Array],
                 target: AccelTarget, figures: Figures, stage: Stage) -> None:
    """Quantizes by the samples, runs the inputs and records the results in `figures`."""
    with stage("quantize"):
        made = quantize(model, samples)
    figures.decibels = made.decibels
    with stage("import int8"):
        graph = optimize(convert(made.model, figures.name))
    with stage("compile for accel"):
        device = SimulatedDevice(target.machine, simulator("functional"))
        module = compile_graph(graph, target, device)
    _count(figures, graph, module.partition)
    run_segments(figures, module, inputs, stage)


def _count(figures: Figures, graph: Graph, parts: Partition) -> None:
    there = {node.name for segment in parts.segments if segment.target == ACCEL
             for node in segment.nodes}
    products = [node for node in graph.nodes if node.op in PRODUCTS]
    convolutions = [node for node in products if node.op in CONVOLUTIONS]

    def percent(nodes: Sequence) -> float:
        total = sum(macs(graph, node) for node in nodes)
        return 100 * sum(macs(graph, node) for node in nodes if node.name in there) / total

    figures.convolutions = len(convolutions)
    figures.accel_convolutions = sum(node.name in there for node in convolutions)
    figures.accel_convolution_macs_percent = percent(convolutions)
    figures.accel_macs_percent = percent(products)
    figures.host_products = {node.name: parts.reasons[node.name] for node in products
                             if node.name not in there}


def run_segments(figures: Figures, module: Module, inputs: Mapping[str, Array],
                 stage: Stage) -> None:
    """Compares every segment of the accelerator with the reference for the same inputs."""
    def perform(step: Step, given: Mapping[str, Array]) -> Outcome:
        if step.segment.target != ACCEL:
            with stage("host segments"):
                return step.execute(given)
        with stage("functional simulator"):
            made = step.execute(given)
        with stage("integer reference"):
            wanted = evaluate(subgraph(module.graph, step.segment), given)
        figures.segments += 1
        figures.differing += [name for name in wanted
                              if not np.array_equal(made.values[name], wanted[name])]
        return made

    module.perform(inputs, perform)


def measure(name: str, target: AccelTarget, samples: int, only_float: bool, stage: Stage,
            figures: Figures) -> None:
    with stage("weights"):
        model = light_model(name)
        inputs = images(model, 1)
    figures.float_error = compare_float(model, inputs, stage)
    if not only_float:
        compare_int8(model, images(model, samples, seed=2), inputs, target, figures, stage)


def lines(one: Figures, only_float: bool) -> Iterator[str]:
    yield f"light_{one.name}_float_error {one.float_error:.1e}"
    if not only_float:
        equal = "equal to the reference" if not one.differing else (
            f"{', '.join(one.differing)} DIFFER from the reference")
        yield (f"light_{one.name}_accel_convolutions {one.accel_convolutions}  "
               f"# of {one.convolutions}, {one.accel_convolution_macs_percent:.2f}% of their "
               f"multiply-accumulates ({one.accel_macs_percent:.2f}% of all); "
               f"{one.segments} segments, {equal}; output {one.decibels or np.inf:.1f} dB")
        for layer, reason in one.host_products.items():
            yield f"  {layer} is on the host: {reason}"
    yield f"light_{one.name}_seconds {sum(one.seconds.values()):.1f}  # " + ", ".join(
        f"{stage} {seconds:.1f}" for stage, seconds in one.seconds.items() if seconds >= 0.05)


def _stages(figures: Figures) -> Stage:
    """Times the stages of a model."""
    @contextmanager
    def stage(name: str) -> Iterator[None]:
        begin = time.process_time()
        yield
        figures.seconds[name] = figures.seconds.get(name, 0) + time.process_time() - begin

    return stage


@dataclass
class Difference:
    """The difference of one layer's outputs, over all images."""

    op: str
    elements: int = 0
    different: int = 0
    largest: int = 0

    @property
    def equal(self) -> float:
        return 1 - self.different / self.elements

    def add(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        far = np.abs(ours.astype(int) - theirs)
        self.elements += far.size
        self.different += int(np.count_nonzero(far))
        self.largest = max(self.largest, int(far.max()))


def compare(machine: Machine, model: ModelProto, feeds: list[Values]) -> dict[str, Difference]:
    """The difference of each layer, by name, over all feeds of the model."""
    graph = optimize(convert(model))
    modules = {node.name: _alone(machine, graph, node) for node in graph.nodes
               if AccelTarget(machine).refusal(graph, node) is None and node.op != "reshape"}
    quantizers = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    names = {node.output[0]: node.output[0] for node in quantizers}
    names |= {f"{node.input[0]}_quantized": node.output[0] for node in quantizers}
    watched = ModelProto.FromString(model.SerializeToString())
    watched.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in quantizers)
    peer, differences = Peer(watched, plain=True), dict[str, Difference]()
    for feed in feeds:
        arrays = peer(feed)
        theirs = dict(_stored(name, arrays[their]) for name, their in names.items())
        _one(graph, modules, feed, theirs, differences)
    return differences


def _one(graph: Graph, modules: Mapping[str, Module], feed: Values, theirs: Values,
         differences: dict[str, Difference]) -> None:
    """Runs one layer on ONNX Runtime's tensors; a value that ONNX Runtime lacks is computed from
    these.
    """
    known: Values = {**graph.constants, **feed}
    for node in graph.nodes:
        value = node.outputs[0]
        if node.name in modules:
            ours = _run(modules[node.name], node, known)
        else:
            ours = evaluate_node(node, [known[name] for name in node.inputs])
        known[value] = theirs.get(value, ours)
        if node.name in modules and value in theirs:
            differences.setdefault(node.name, Difference(node.op)).add(ours, theirs[value])


def _alone(machine: Machine, graph: Graph, node: Node) -> Module:
    inputs = tuple(dict.fromkeys(v for v in node.inputs if v not in graph.constants))
    part = subgraph(graph, Segment(ACCEL, (node,), inputs, node.outputs))
    return compile_graph(part, AccelTarget(machine),
                         SimulatedDevice(machine, simulator("functional")))


def _run(module: Module, node: Node, known: Values) -> np.ndarray:
    for name in module.graph.inputs:
        module.set_input(name, known[name])
    module.run()
    return module.get_output(node.outputs[0])


def _stored(name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    """The stored form of a value, under the name that it has in a graph of integers."""
    if array.dtype != np.uint8:
        return name, array
    return f"{name}_stored", (array.astype(np.int16) - 128).astype(np.int8)
