"""Graph passes: each a frozen dataclass, called with a graph, giving a graph."""

from compiler.graph.passes.bounds import BoundsBeforeQuantize
from compiler.graph.passes.dead_code import EliminateDeadCode
from compiler.graph.passes.clean_up import CleanUp
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.passes.fold_scales import FoldScales
from compiler.graph.passes.functions_of_products import FunctionsOfProducts
from compiler.graph.passes.gathers import GathersAsSlices
from compiler.graph.integerize.integerize import Integerize
from compiler.graph.rows.lookups import LookupsAsRows
from compiler.graph.rows.orders import OrdersAsRows
from compiler.graph.passes.pads import PadsInWindows
from compiler.graph.products.products_as_sums import ProductsAsSums
from compiler.graph.products.products_in_parts import ProductsInParts
from compiler.graph.passes.puts import WheresAsPuts
from compiler.graph.passes.quantized_constants import QuantizedConstants
from compiler.graph.passes.raise_quantize import RaiseQuantize
from compiler.graph.passes.reductions import ReductionsAsPools
from compiler.graph.passes.sink_dequantize import SinkDequantize
from compiler.graph.passes.transpose_weights import TransposeWeights
from compiler.graph.passes.weights_on_grids import WeightsOnGrids

__all__ = ["BoundsBeforeQuantize", "CleanUp", "EliminateDeadCode", "FoldConstants", "FoldScales",
           "FunctionsOfProducts", "GathersAsSlices", "Integerize", "LookupsAsRows",
           "OrdersAsRows", "PadsInWindows", "ProductsAsSums", "ProductsInParts",
           "QuantizedConstants", "RaiseQuantize", "ReductionsAsPools", "SinkDequantize",
           "TransposeWeights", "WeightsOnGrids", "WheresAsPuts"]
