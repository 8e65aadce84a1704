"""What does a unit of one's own gain? Networks on machines with it, and without.

`gather` and `top_k` take a float network, quantize it, and compile it for the machine of
`examples/machines` with that unit and for the same geometry with shipped units alone. They print

``NAME_cycles``, ``NAME_cycles_without``  one inference in cycles of the machine's clock: those of
                                          the exact simulators (the slice of the RTL with the unit,
                                          the cycle simulator without), with starts, copies and the
                                          host as docs/partition.md prices them
``NAME_accelerator``, ``..._without``     the accelerator's part

and each step of both. `rtl` runs them, small, on the RTL. Exit status 1: outputs are not those of
the CPU to the byte, or RTL and slice differ in cycles.

- `gather`: tags for each byte of a text, from the embeddings of the bytes around it: the window
  approach of R. Collobert et al., Natural Language Processing (Almost) from Scratch, 2011.
- `top_k`: the best of many items for a user, and where they are: the last layers of a network that
  recommends, as P. Covington et al. have them: Deep Neural Networks for YouTube, 2016.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lockstep
from accel.machine.config import AccelConfig, preset
from accel.machine.machine import Machine
from bench.frame import Bench, Sheet
from compiler.quantize import quantize
from examples.machines import gather as gathering
from examples.machines import top_k as sorting
from runtime.driver.auto import greedy
from runtime.driver.costs import Pricing, SegmentPrice
from runtime.driver.targets import Targets, accelerator

GEOMETRY, SMALL = "pynq-1x16x16", "tiny-1x4x4"
WINDOW, WORDS, WIDTH, HIDDEN, TAGS = 5, 256, 32, 64, 16
ITEMS, BEST = 1000, 5
SAMPLES = 8

Feeds = dict[str, np.ndarray]

BENCH = Bench(__file__, __doc__, seed=0)
BENCH.option("--places", type=int, metavar="N", default=256, help="bytes of the text of gather")


class Net:
    """A float network of ONNX, layer by layer, with seeded weights of He's scale."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        return name

    def add(self, op: str, name: str, *inputs: str, outputs: int = 1, **attributes) -> str:
        results = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, results, name, **attributes))
        return name

    def dense(self, name: str, x: str, depth: int, width: int) -> str:
        weight = self.rng.normal(size=(depth, width)) / np.sqrt(depth / 2)
        return self.add("MatMul", name, x, self.constant(f"{name}.w", weight.astype(np.float32)))

    def model(self, x: tuple[int, tuple[int, ...]], *results: tuple[str, int, tuple[int, ...]]
              ) -> onnx.ModelProto:
        """The network; its input is ``x``."""
        return helper.make_model(helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("x", *x)],
            [helper.make_tensor_value_info(*result) for result in results],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()]),
            opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def tagger(seed: int, places: int, words: int = WORDS) -> tuple[onnx.ModelProto, Feeds]:
    """Tags for so many bytes, and samples."""
    net = Net(seed)
    table = net.constant("table", net.rng.normal(size=(words, WIDTH)).astype(np.float32))
    shape = net.constant("shape", np.array([places, WINDOW * WIDTH], np.int64))
    x = net.add("Reshape", "windows", net.add("Gather", "embed", table, "x", axis=0), shape)
    x = net.add("Relu", "relu", net.dense("hidden", x, WINDOW * WIDTH, HIDDEN))
    net.dense("tags", x, HIDDEN, TAGS)
    model = net.model((TensorProto.INT64, (places, WINDOW)),
                      ("tags", TensorProto.FLOAT, (places, TAGS)))
    return model, {"x": net.rng.integers(0, words, (SAMPLES, places, WINDOW))}


def ranker(seed: int, items: int = ITEMS) -> tuple[onnx.ModelProto, Feeds]:
    """The best of so many items, and samples."""
    net = Net(seed)
    x = net.add("Relu", "relu", net.dense("hidden", "x", HIDDEN, HIDDEN))
    best = net.constant("best", np.array([BEST], np.int64))
    net.add("TopK", "top", net.dense("scores", x, HIDDEN, items), best, outputs=2, axis=-1)
    model = net.model((TensorProto.FLOAT, (1, HIDDEN)), ("top", TensorProto.FLOAT, (1, BEST)),
                      ("top.1", TensorProto.INT64, (1, BEST)))
    return model, {"x": net.rng.normal(size=(SAMPLES, HIDDEN)).astype(np.float32)}


@dataclass(frozen=True)
class Inference:
    """What one inference takes, in cycles of the machine's clock, and its steps in words."""

    total: int
    accelerator: int
    steps: tuple[str, ...]


def inference(model: onnx.ModelProto, machine: Machine) -> Inference:
    """The price of a network, the accelerator of which has what it can have."""
    graph = lockstep.compile(model, "accel,cpu", machine=machine, sim="functional").graph
    pricing, clock = Pricing(graph, Targets([accelerator(machine)])), machine.config.clock_mhz * 1e6
    price = pricing.division(greedy(graph, pricing.placed, {}))
    names = [" ".join((step.segment.target, *(node.op for node in step.segment.nodes)))
             if isinstance(step, SegmentPrice) else str(step.copy) for step in price.steps]
    return Inference(round(price.seconds * clock), sum(
        step.cycles for step in price.steps if isinstance(step, SegmentPrice)), tuple(
            f"{step.seconds * clock:9,.0f} {name}"
            for step, name in zip(price.steps, names, strict=True)))


def results(model: onnx.ModelProto, x: np.ndarray, target: str, machine: Machine | None = None,
            sim: str = "functional") -> tuple[list[bytes], int]:
    """The outputs, and the cycles of the accelerator."""
    module = lockstep.compile(model, target, machine=machine, sim=sim)
    module.set_input(x=x)
    runs = module.run()
    outputs = [module.get_output(name).tobytes() for name in module.graph.outputs]
    return outputs, sum(run.cycles for run in runs)


def _compared(sheet: Sheet, name: str, network: tuple[onnx.ModelProto, Feeds],
              machine_of: Callable[[AccelConfig], Machine]) -> None:
    floats, samples = network
    model, x = quantize(floats, samples).model, samples["x"][0].reshape(_shape(floats))
    wanted, _ = results(model, x, "cpu")
    for ending, machine in (("", machine_of(preset(GEOMETRY))),
                            ("_without", Machine(preset(GEOMETRY)))):
        found, _ = results(model, x, "accel,cpu", machine)
        sheet.require(found == wanted)
        cost = inference(model, machine)
        print(f"{name} on {machine.config.name}: {'equal' if found == wanted else 'DIFFERENT'}")
        print("\n".join(cost.steps))
        sheet.figure(f"{name}_cycles{ending}", cost.total)
        sheet.figure(f"{name}_accelerator{ending}", cost.accelerator)


def _shape(model: onnx.ModelProto) -> list[int]:
    return [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim]


@BENCH.part()
def gather(sheet: Sheet) -> None:
    _compared(sheet, "gather", tagger(sheet.seed, sheet.places), gathering.machine_of)


@BENCH.part()
def top_k(sheet: Sheet) -> None:
    _compared(sheet, "top_k", ranker(sheet.seed), sorting.machine_of)


@BENCH.part(extra=True)
def rtl(sheet: Sheet) -> None:
    for name, network, machine in (("gather", tagger(sheet.seed, 8, 64), gathering.machine),
                                   ("top_k", ranker(sheet.seed, 90), sorting.machine)):
        floats, samples = network
        model, x = quantize(floats, samples).model, samples["x"][0].reshape(_shape(floats))
        wanted, _ = results(model, x, "cpu")
        (_, cycles), (found, taken) = (results(model, x, "accel,cpu", machine, sim)
                                       for sim in ("slice", "verilator"))
        right = found == wanted and cycles == taken
        sheet.require(right)
        print(f"{name} on the RTL of {machine.config.name}: {taken:,} cycles, "
              f"{cycles:,} on its slice, {'equal' if right else 'DIFFERENT'}")
