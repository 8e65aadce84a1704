"""Graph passes: each a frozen dataclass, called with a graph, giving a graph."""

from compiler.graph.passes.dead_code import EliminateDeadCode
from compiler.graph.passes.clean_up import CleanUp
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.passes.fold_scales import FoldScales
from compiler.graph.passes.gathers import GathersAsSlices
from compiler.graph.integerize.integerize import Integerize
from compiler.graph.passes.pads import PadsInWindows
from compiler.graph.passes.products_as_sums import ProductsAsSums
from compiler.graph.passes.puts import WheresAsPuts
from compiler.graph.passes.reductions import ReductionsAsPools
from compiler.graph.passes.sink_dequantize import SinkDequantize
from compiler.graph.passes.transpose_weights import TransposeWeights

__all__ = ["CleanUp", "EliminateDeadCode", "FoldConstants", "FoldScales", "GathersAsSlices",
           "Integerize", "PadsInWindows", "ProductsAsSums", "ReductionsAsPools", "SinkDequantize",
           "TransposeWeights", "WheresAsPuts"]
