"""Judges a file that another tool has quantized: is it taken, are its values right, and how many of
its integer products does the accelerator execute?

The judge is the file itself without integers (``integerize=False``), and what the tool's own
runtime made of one sample, where that lies beside the file. Differences are in steps of the output:
its scale where the network ends in a dequantization or in integers, else a 255th of its range. How
much a network amplifies is told beside them: the difference that one element of the input makes, a
255th of its range up, in the file without integers. Where a rounding falls the other way somewhere,
results are as far apart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from compiler.cpu_gpu_backends.multiplications import multiplications
from compiler.frontend.models import graph_of
from compiler.frontend.spellings import read_signs
from compiler.graph.division.partition import ACCEL
from compiler.graph.graph import Graph, Node
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from runtime import Module, compile as compile_model
from runtime.driver.costs import Pricing
from runtime.driver.targets import Targets
from runtime.exporting.ports import random_inputs
from runtime.exporting.scales import FROM_QUANTIZED

Array = np.ndarray
Values = Mapping[str, Array]
MOST_STEPS = 2
TRIES = 6
BITS_16 = re.compile(r"u?int16\b")
"""The types of activations of 16 bits, as signs of files begin with them."""


@dataclass(slots=True)
class Verdict:
    """`spellings` are those of the file; `tool` is the difference between our values on the host
    and the tool's, `cpu` and `accel` those of our integers and the file without integers, `one`
    what one element of the input makes there, the most of `TRIES`. `auto` is
    the time of what the target `auto` chooses, by its own prices, as a part of the host's alone.
    """

    file: str
    target: str
    spellings: str = ""
    failed: str = ""
    tool: float | None = None
    cpu: float | None = None
    accel: float | None = None
    one: float | None = None
    products: int = 0
    accel_products: int = 0
    segments: int = 0
    auto: float | None = None

    @property
    def is_right(self) -> bool:
        """True if it is taken, and integers are as near to the file without them as promised."""
        return not self.failed and max(self.cpu or 0, self.accel or 0) <= MOST_STEPS

    @property
    def percent(self) -> float | None:
        return 100 * self.accel_products / self.products if self.products else None


def judged(path: Path, target: str, of_16_bits: str | None = None, auto: bool = False) -> Verdict:
    """The verdict about a file; what fails is told there. One whose activations have 16 bits is
    judged on the target for these, if there is one. With `auto`, what that chooses is priced.
    """
    verdict = Verdict(path.name, target)
    try:
        spelled = read_signs(path).spelled
        verdict.spellings = ", ".join(dict.fromkeys(row.spelling for row in spelled))
        if of_16_bits and any(BITS_16.match(row.types) for row in spelled):
            verdict.target = of_16_bits
        _judge(verdict, path, auto)
    except Exception as error:  # noqa: BLE001  -- refusals and crashes are results here
        said = str(error).strip().removeprefix(f"{path}: ") or "no message"
        verdict.failed = f"{type(error).__name__}: {said}"
    return verdict


def _judge(verdict: Verdict, path: Path, auto: bool) -> None:
    graph = graph_of(path, _extents(path))
    sample = Sample(path, graph)
    plain = compile_model(graph, "cpu", integerize=False, cache=False)
    wanted = plain(sample.inputs)
    steps = {name: _step(graph, name, array) for name, array in wanted.items()}
    verdict.one = max(_apart(plain(one_up(sample.inputs, seed)), wanted, steps)
                      for seed in range(TRIES))
    host = compile_model(graph, "cpu", cache=False)
    made = host(sample.inputs)
    verdict.cpu = _apart(made, wanted, steps)
    if sample.outputs:
        verdict.tool = _apart(wanted, dict(zip(graph.outputs, sample.outputs, strict=True)), steps)
    accelerated = compile_model(graph, verdict.target, cache=False)
    verdict.accel = _apart(accelerated(sample.inputs), wanted, steps)
    verdict.products = sum(multiplications(graph, node) for node in Quantized(graph).products)
    verdict.accel_products = executed(accelerated)
    verdict.segments = sum(segment.target == ACCEL for segment in accelerated.partition.segments)
    if auto:
        chosen = compile_model(graph, f"auto:{verdict.target},cpu", cache=False).auto
        alone = Pricing(host.graph, Targets([])).division(host.partition)
        verdict.auto = chosen["seconds"] / alone.seconds if chosen else None


def one_up(inputs: Values, seed: int) -> Values:
    """The inputs, with one element of each a 255th of its range higher; of integers the next."""
    rng, changed = np.random.default_rng(seed), dict[str, Array]()
    for name, array in inputs.items():
        moved = array.copy()
        place = np.unravel_index(rng.integers(array.size), array.shape)
        if array.dtype.kind in "iu":
            moved[place] += 1 if moved[place] < np.iinfo(array.dtype).max else -1
        else:
            moved[place] += np.ptp(array) / 255
        changed[name] = moved
    return changed


def executed(module: Module) -> int:
    """The useful products of all layers of the accelerator's programs."""
    return sum(layer.macs for segment in module.accelerated for group in segment.work
               for layer in group)


@dataclass(frozen=True)
class Sample:
    """The inputs that a file is judged by: those beside it, else random ones of a seed."""

    path: Path
    graph: Graph

    @cached_property
    def told(self) -> Mapping[str, Array]:
        beside = self.path.with_suffix(".npz")
        if not beside.exists():
            return {}
        with np.load(beside) as arrays:
            return {name: arrays[name] for name in sorted(arrays.files)}

    @property
    def inputs(self) -> Values:
        given = [array for name, array in self.told.items() if name.startswith("x")]
        return dict(zip(self.graph.inputs, given, strict=True)) if given else random_inputs(
            self.graph, 0)

    @property
    def outputs(self) -> list[Array]:
        return [array for name, array in self.told.items() if name.startswith("y")]


def _extents(path: Path) -> dict[str, int]:
    """The extents of dimensions that an ONNX file leaves open: 1."""
    from compiler.frontend.building.binding import open_dimensions, real_inputs
    from compiler.frontend.onnx.importing import read_model

    if path.suffix != ".onnx":
        return {}
    return dict.fromkeys(open_dimensions(real_inputs(read_model(path).graph)).values(), 1)


def _step(graph: Graph, output: str, array: Array) -> float:
    """The step of an output."""
    if array.dtype.kind in "iu":
        return 1.0
    node = graph.producers().get(output)
    scale = graph.constants.get(node.inputs[1]) if node and node.op == FROM_QUANTIZED else None
    if scale is not None and scale.size == 1:
        return float(scale.item())
    return max(float(np.ptp(array)) / 255, 1e-12)


def _apart(made: Values, wanted: Values, steps: Mapping[str, float]) -> float:
    """The largest difference, in steps."""
    return max(round(float(np.abs(made[name].astype(np.float64) - wanted[name]).max()) / step, 3)
               for name, step in steps.items())        # outputs are float32, so are their steps


class Quantized:
    """The products of a network as it was imported whose factors are all quantized."""

    def __init__(self, graph: Graph):
        self.graph, self.producers = graph, graph.producers()
        self.known: dict[str, bool] = {}

    @property
    def products(self) -> list[Node]:
        return [node for node in self.graph.nodes if multiplications(self.graph, node)
                and all(map(self.is_quantized, node.inputs[:2]))]

    def is_quantized(self, value: str) -> bool:
        """True if the value has the numbers of a quantized one: in integers, dequantized, and then
        perhaps moved or clipped, or multiplied by constants.
        """
        if value not in self.known:
            self.known[value] = self._is_quantized(value)
        return self.known[value]

    def _is_quantized(self, value: str) -> bool:
        node = self.producers.get(value)
        if self.graph.values[value].dtype.startswith(("int", "uint")):
            return True
        if node is None:
            return False
        operator = find(node.op)
        computed = [name for name in node.inputs if not self._is_constant(name)]
        if not computed:                        # of constants alone: of any that are quantized
            return any(map(self.is_quantized, node.inputs))
        moves = operator.kind is Kind.INJECTIVE or operator.picks or operator.bounds
        return node.op == FROM_QUANTIZED or bool(moves) and all(map(self.is_quantized, computed))

    def _is_constant(self, value: str) -> bool:
        node = self.producers.get(value)
        return value in self.graph.constants or (
            node is not None and all(map(self._is_constant, node.inputs)))
