"""Runs stages one after the other, with hooks that see what each makes; and the first of
them, the graph passes.

`runtime.driver.pipeline` has the whole list: on the passes follow stages that make no graph any
more, but a partition, a layout, and compiled segments.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Protocol

from compiler.files import write_text
from compiler.graph.graph import Graph
from compiler.graph.passes.bounds import BoundsBeforeQuantize
from compiler.graph.passes.dead_code import EliminateDeadCode
from compiler.graph.passes.clean_up import CleanUp
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.passes.fold_scales import FoldScales
from compiler.graph.passes.functions_of_products import FunctionsOfProducts
from compiler.graph.passes.gathers import GathersAsSlices
from compiler.graph.integerize.integerize import Integerize
from compiler.graph.rows.lookups import LookupsAsRows, TakesRows, no_row
from compiler.graph.rows.orders import OrdersAsRows
from compiler.graph.passes.pads import PadsInWindows
from compiler.graph.products.data_of_channels import DataOfChannels
from compiler.graph.products.float_products import FloatProducts, FloatTypes
from compiler.graph.products.products_as_sums import ProductsAsSums
from compiler.graph.products.products_in_parts import ProductsInParts
from compiler.graph.passes.puts import WheresAsPuts
from compiler.graph.passes.quantized_constants import QuantizedConstants
from compiler.graph.passes.raise_quantize import RaiseQuantize
from compiler.graph.passes.reductions import ReductionsAsPools
from compiler.graph.passes.sequences import SequencesAsImages
from compiler.graph.passes.sink_dequantize import SinkDequantize
from compiler.graph.passes.transpose_weights import TransposeWeights
from compiler.graph.passes.weights_on_grids import WeightsOnGrids
from compiler.graph.verify import verify
from compiler.ops.records.integer_forms import ACCUMULATOR_BITS

AfterStage = Callable[[int, str, Any], None]


class PipelineStage(Protocol):
    """A frozen dataclass whose fields are its options and whose docstring is its contract. What it
    makes is a graph, or has `results`: pairs of a name and what a dump shows as text.
    """

    name: ClassVar[str]

    def __call__(self, subject: Any, /) -> Any: ...


class Pass(Protocol):
    """A stage that makes a graph of a graph."""

    name: ClassVar[str]

    def __call__(self, graph: Graph, /) -> Graph: ...


def standard_passes(integerize: bool = True, accumulator_bits: int = ACCUMULATOR_BITS,
                    exact: bool = False, sums: bool = False, takes: TakesRows = no_row,
                    twice: bool = True, floats: FloatTypes | None = None) -> tuple[Pass, ...]:
    """The passes over every imported network, in order; without `integerize` ONNX's float
    semantics hold. Some target forms sums of `accumulator_bits`. What a TensorFlow Lite file
    computes is, where `exact`, what LiteRT computes, to the bit, by operators that no accelerator
    has. With `sums` products of integers are sums of integers even where nothing quantizes these:
    what an accelerator has; a processor multiplies floats as well. Unless told not to, a product
    whose sums some read in float, and others as bytes, is then computed `twice`; so is, for any
    target, one before an arithmetic function. What some target `takes` as an operator of rows
    becomes one: lookups in constant tables, elements in order. Products of `floats` of few bits are
    one operator where some target has such.
    """
    to_integers: tuple[Pass, ...] = (FloatProducts(floats), QuantizedConstants(), DataOfChannels(),
                                     ReductionsAsPools(), BoundsBeforeQuantize(),
                                     SinkDequantize(), WeightsOnGrids(),
                                     FoldScales(quantized=True), RaiseQuantize(),
                                     FunctionsOfProducts(twice and sums, twice), RaiseQuantize(),
                                     LookupsAsRows(takes),
                                     Integerize(accumulator_bits, exact), OrdersAsRows(takes),
                                     ProductsInParts(sums), ProductsAsSums(sums))
    return (
        FoldConstants(dequantize=False),
        GathersAsSlices(),
        SequencesAsImages(),
        CleanUp(),
        WheresAsPuts(),
        *(to_integers if integerize else ()),
        FoldConstants(),
        CleanUp(),
        PadsInWindows(),
        FoldScales(),
        TransposeWeights(),
        EliminateDeadCode(),
    )


def run(stages: Sequence[PipelineStage], graph: Graph, after: AfterStage | None = None) -> Any:
    """Runs the stages one after the other, each on the result of the one before.

    Each graph that a stage has changed is verified.

    `after(index, name, result)` is called for the imported graph, with index 0 and name `import`,
    and then for all that each stage has to show: its graph, or the `results` of what it made.
    """
    after = after or (lambda index, name, result: None)
    after(0, "import", verify(graph))
    current, numbers = graph, count(1)
    for stage in stages:
        before, current = current, stage(current)
        if isinstance(current, Graph):
            current = current if current is before else verify(current)
        shown = [(stage.name, current)] if isinstance(current, Graph) else current.results
        for name, result in shown:
            after(next(numbers), name, result)
    return current


def optimize(graph: Graph, passes: Sequence[Pass] | None = None,
             after: AfterStage | None = None) -> Graph:
    """The graph after these passes, `standard_passes()` unless told: see `run`."""
    return run(standard_passes() if passes is None else passes, graph, after)


def lower(graph: Graph, passes: Sequence[Pass]) -> tuple[Graph, dict[str, Graph]]:
    """The graph after the passes of a target, and what each has made, by name, in order."""
    made: dict[str, Graph] = {}

    def note(index: int, name: str, result: Graph) -> None:
        if index:
            made[name] = result
    return run(passes, graph, note), made


def dump_into(folder: Path) -> AfterStage:
    """A hook that writes each result as text: 00-import.txt, 01-fold-constants.txt, ..."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(index: int, name: str, result: Any) -> None:
        write_text(folder / f"{_numbered(index, name)}.txt", str(result))
    return write


def keep_in(stages: dict[str, Any]) -> AfterStage:
    """A hook that keeps each result by its number and name: 00-import, 01-fold-constants, ..."""
    def keep(index: int, name: str, result: Any) -> None:
        stages[_numbered(index, name)] = result
    return keep


def _numbered(index: int, name: str) -> str:
    return f"{index:02d}-{name}"
