"""How far is each layer on the accelerator from ONNX Runtime, fed with ONNX Runtime's own tensors?

Runs every integer layer of the digits network alone, in the functional simulator, on what ONNX
Runtime (graph optimizations off) computed for the layer's inputs. Prints a table, then the lines
``layer_equal_percent`` and ``layer_largest_difference`` for the worst layer.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.frontend.onnx_import import convert
from compiler.graph.graph import Graph, Node
from compiler.graph.partition import ACCEL, Segment, subgraph
from compiler.graph.pipeline import optimize
from compiler.graph.reference import evaluate_node
from examples.digits.data import held_out
from runtime import Module, SimulatedDevice, compile_graph, simulator

MODEL = Path(__file__).parent.parent / "examples" / "digits" / "digits-int8.onnx"

Values = dict[str, np.ndarray]


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


def compare(machine: Machine, model: onnx.ModelProto,
            feeds: list[Values]) -> dict[str, Difference]:
    """The difference of each layer, by name, over all feeds of the model."""
    graph = optimize(convert(model))
    modules = {node.name: _alone(machine, graph, node) for node in graph.nodes
               if AccelTarget(machine).refusal(graph, node) is None and node.op != "reshape"}
    session, names = _onnx_runtime(model)
    differences: dict[str, Difference] = {}
    for feed in feeds:
        arrays = session.run(list(names.values()), feed)
        theirs = dict(_stored(name, np.asarray(array))
                      for name, array in zip(names, arrays, strict=True))
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


def _onnx_runtime(model: onnx.ModelProto):
    """A session that outputs every quantized tensor, with our name and its own name of each."""
    import onnxruntime as ort

    quantizers = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    names = {node.output[0]: node.output[0] for node in quantizers}
    names |= {f"{node.input[0]}_quantized": node.output[0] for node in quantizers}
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    watched.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in quantizers)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(watched.SerializeToString(), options,
                                providers=["CPUExecutionProvider"]), names


def _stored(name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    """The stored form of a value, under the name that it has in a graph of integers."""
    if array.dtype != np.uint8:
        return name, array
    return f"{name}_stored", (array.astype(np.int16) - 128).astype(np.int8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16")
    parser.add_argument("--images", type=int, default=360)
    args = parser.parse_args()
    images = held_out()[0][:args.images]
    feeds = [{"image": image[None]} for image in images]
    differences = compare(load_machine(args.machine), onnx.load(MODEL), feeds)
    for name, one in differences.items():
        print(f"{name:10} {one.op:16} {one.elements:9,} elements, {one.equal:9.4%} equal, "
              f"largest difference {one.largest}")
    print("layer_equal_percent", f"{100 * min(one.equal for one in differences.values()):.4f}")
    print("layer_largest_difference", max(one.largest for one in differences.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
