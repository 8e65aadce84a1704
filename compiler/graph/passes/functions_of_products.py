"""Functions of elements behind products, as tables: an int8 comes between."""

from dataclasses import dataclass
from typing import ClassVar

from compiler.graph.functions.places import FunctionParts, FunctionSearch
from compiler.graph.functions.writing import Rewriting
from compiler.graph.graph import Graph
from compiler.graph.passes.fold_scales import FoldScales
from compiler.graph.rewrite import eliminate_dead_code


@dataclass(frozen=True, slots=True)
class FunctionsOfProducts:
    """quantize(f(conv(x, w))) -> quantize(f(dequantize(quantize(conv(x, w))))) for a function f of
    elements, such as hardswish or gelu: a product and a table of integers. The int8 between spans
    the numbers beyond which the result no longer changes. Where its steps would be too coarse, they
    are finer above zero and coarser below, as a leaky relu behind the product bends its sums, and
    one of the inverse slope comes behind the int8. It makes the result less than one step other, or
    it does not come. Operators that move elements may stand before the function; the quantization
    that comes is left behind them.

    Where no int8 is fine enough, or the function is multiplied by factors of channels, as
    SmoothQuant has them, the product is computed `twice`: once before a rest of the function, in
    int8, and once for sums that this rest meets (`compiler.graph.functions.rests`).

    With `pairs` arithmetic functions, also those of two values, of which one or both are such sums,
    read two int8 of each: one of coarse steps, and one of finer steps for what that leaves
    (`compiler.graph.functions.pairs`).

    Before: dequantizations of constants are nodes. After: no quantization to 8 bits reads such a
    function of a product that may be an integer operator, but where the function only bounds or
    bends sums as a product does itself. If others read the function or its sums, these stay, and
    the product is computed `twice`, or all is left as it is.
    """

    twice: bool = False
    pairs: bool = False
    name: ClassVar[str] = "functions-of-products"

    def __call__(self, graph: Graph) -> Graph:
        alone, beside, pairs = FunctionSearch(graph, self.twice, self.pairs).run()
        if not alone and not beside:
            return graph
        made = Rewriting(graph, alone, beside, pairs).run()
        scaled = any(isinstance(place, FunctionParts) for place in beside.values())
        return FoldScales(quantized=True)(eliminate_dead_code(made)) if scaled else made
