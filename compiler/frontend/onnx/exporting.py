"""Graphs as ONNX models: float operators, and integers in the QDQ form.

Nodes and values keep their names. An operator of the graph becomes one of ONNX's, a few become
several; those of integers (`qconv2d` ...) have no form here, since QDQ models have theirs.

Extents of a graph are numbers. Where a network may have others, a `Variant` of its graph shows what
depends on them: what the model then leaves to ONNX to find out.

ONNX has no operator for the meaning of a machine's own instruction between quantizations: that is
a function of the model (`onnx_maps`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.frontend.onnx.nodes.maps import (OWN, QUANTIZED_MAP, QUANTIZED_TERMS,
                                               TERM_ATTRIBUTES, function_of, summing_function)
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.onnx.operators.elementwise import PLAIN, ROUNDED
from compiler.graph.graph import Graph, Node, TensorType
from compiler.te import SMALL

OPSET = 18              # the first in which all reductions take their axes as an input
NEWER = {"cumprod": 26}
"""Operators that came later."""
WIDE = 21
"""The first in which quantized tensors may have 16 bits."""
IR_VERSION = 8

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """The graph of the same network with other extents of some open dimensions; `names` has these
    by their extents in both graphs.
    """

    graph: Graph
    names: Mapping[tuple[int, int], str]


class _Fixed(Exception):
    """The model cannot leave a dimension open."""


def exported_model(graph: Graph, variants: Iterable[Variant] = ()) -> onnx.ModelProto:
    """The model, with the open dimensions of the first of the variants that it can be written for;
    else with the extents of the graph. Raises ImportRefused with every node that ONNX has no
    operator for.
    """
    for variant in variants:
        try:
            return _Writer(graph, variant).model()
        except _Fixed:
            pass
    return _Writer(graph, Variant(graph, {})).model()


class _Writer:
    """Nodes and constants of the model, in order; rules call `add` and `constant`."""

    def __init__(self, graph: Graph, variant: Variant):
        self.graph, self.variant = graph, variant
        self.others = {node.outputs[0]: node for node in variant.graph.nodes}
        self.nodes: list[onnx.NodeProto] = []
        self.tensors = dict(graph.constants)
        self.small = {value: dtype for node in graph.nodes for value, dtype in _of_floats(node)}
        self.tensors |= {value: self.tensors[value].view(dtype) for value, dtype
                         in self.small.items() if value in self.tensors}
        self.taken = {*graph.values, *(node.name for node in graph.nodes)}
        self.functions: dict[tuple, str] = {}       # what makes them, and their names

    def model(self) -> onnx.ModelProto:
        self._require_like()
        refused = [f"{node.name} ({node.op}): ONNX has no such operator"
                   for node in self.graph.nodes if not self._written(node)]
        if refused:
            raise ImportRefused(f"{self.graph.name}: cannot be written as ONNX: "
                                f"{'; '.join(refused)}; replace these in the network")
        wide = bool(self.small) or any(
            self.graph.values[value].dtype in ("int16", "uint16")
            for node in self.graph.nodes for value in _quantized(node))
        opset = max(OPSET, *(NEWER.get(node.op, 0) for node in self.graph.nodes), WIDE * wide)
        inner = [node.outputs[0] for node in self.graph.nodes
                 if node.outputs[0] not in self.graph.outputs]
        graph = helper.make_graph(
            self.nodes, self.graph.name, list(map(self._info, self.graph.inputs)),
            list(map(self._info, self.graph.outputs)),
            [numpy_helper.from_array(array, name) for name, array in self.tensors.items()],
            value_info=list(map(self._info, inner)))
        own = [helper.make_opsetid(OWN, 1)] * bool(self.functions)
        functions = [make(name, *of, opset) for (make, *of), name in self.functions.items()]
        return helper.make_model(graph, ir_version=IR_VERSION + 2 * wide, producer_name="lockstep",
                                 opset_imports=[helper.make_opsetid("", opset), *own],
                                 functions=functions)

    def _require_like(self) -> None:
        """The variant must have the same nodes, which may differ in what `OPEN` says, and the same
        constants.
        """
        ours, theirs = ([(node.op, node.name, node.inputs, node.outputs,
                          node.attrs if node.op not in OPEN else None) for node in graph.nodes]
                        for graph in (self.graph, self.variant.graph))
        constants = self.variant.graph.constants
        if self.variant.graph is not self.graph and (ours != theirs or any(
                name not in constants or not np.array_equal(array, constants[name])
                for name, array in self.graph.constants.items())):
            raise _Fixed

    def _info(self, value: str) -> onnx.ValueInfoProto:
        type_ = self.graph.values[value]
        shape = [extent if extent == other else self.variant.names.get((extent, other))
                 for extent, other in self.extents(value)]
        dtype = np.dtype(self.small.get(value, type_.dtype))
        return helper.make_tensor_value_info(value, helper.np_dtype_to_tensor_dtype(dtype), shape)

    def extents(self, value: str) -> list[tuple[int, int]]:
        """The extents of each dimension, in the graph and in the variant."""
        return list(zip(self.graph.values[value].shape, self.variant.graph.values[value].shape,
                        strict=True))

    def both(self, node: Node, name: str) -> list[tuple[int, int]]:
        """The numbers of an attribute, in the graph and in the variant."""
        return list(zip(node.attrs[name], self.others[node.outputs[0]].attrs[name], strict=True))

    def _written(self, node: Node) -> bool:
        rule = RULES.get(node.op)
        return rule is not None and rule(self, node) is not False

    def function(self, key: tuple, stem: str) -> str:
        """The name of a function of the model, which nodes share."""
        return self.functions.setdefault(key, f"{stem}_{len(self.functions) + 1}")

    def types(self, node: Node) -> list[TensorType]:
        return [self.graph.values[value] for value in node.inputs]

    def fresh(self, stem: str) -> str:
        name, count = stem, 1
        while name in self.taken:
            name, count = f"{stem}_{count}", count + 1
        self.taken.add(name)
        return name

    def constant(self, node: Node, role: str, array: Any, dtype: Any = np.int64) -> str:
        name = self.fresh(f"{node.name}.{role}")
        self.tensors[name] = np.asarray(array, dtype)
        return name

    def add(self, node: Node, op: str, inputs: Sequence[str] | None = None,
            **attributes: Any) -> None:
        """The ONNX node that makes the node's result."""
        self.nodes.append(helper.make_node(
            op, list(node.inputs if inputs is None else inputs), list(node.outputs), node.name,
            **attributes))

    def before(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """An ONNX node on the way to the node's result; the name of its first result."""
        name = self.fresh(f"{node.name}.{op}")
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name


Rule = Callable[[_Writer, Node], bool | None]


def _quantized(node: Node) -> tuple[str, ...]:
    """The values of a node that are quantized tensors."""
    return {"quantizelinear": node.outputs, "dequantizelinear": node.inputs[:1]}.get(node.op, ())


def _of_floats(node: Node) -> tuple[tuple[str, str], ...]:
    """The value of a node that holds codes of floats of 8 bits, with the type of these."""
    values = {"encodefloat": node.outputs, "decodefloat": node.inputs[:1]}.get(node.op, ())
    return tuple((value, node.attrs["dtype"]) for value in values)


def _plain(op: str, **names: str) -> Rule:
    """A rule that writes operator `op`, with attributes under these names."""
    def rule(w: _Writer, node: Node) -> None:
        w.add(node, op, **{names[name]: value for name, value in node.attrs.items()
                           if name in names})
    return rule


def _logical(of_bools: str, of_integers: str) -> Rule:
    def rule(w: _Writer, node: Node) -> None:
        w.add(node, of_bools if w.types(node)[0].dtype == "bool" else of_integers)
    return rule


def _window(node: Node, kernel: Sequence[int]) -> Attributes:
    """Attributes of a window that ONNX has under the same names."""
    named = ("strides", "pads", "dilations", "group", "output_padding")
    return {"kernel_shape": kernel, **{name: value for name, value in node.attrs.items()
                                       if name in named}}


def _convolution(op: str) -> Rule:
    def rule(w: _Writer, node: Node) -> None:
        w.add(node, op, **_window(node, w.types(node)[1].shape[2:]))
    return rule


def _maxpool(w: _Writer, node: Node) -> None:
    w.add(node, "MaxPool", **_window(node, node.attrs["kernel"]))


def _avgpool(w: _Writer, node: Node) -> None:
    w.add(node, "AveragePool", count_include_pad=node.attrs["include_pad"],
          **_window(node, node.attrs["kernel"]))


def _pool_sum(w: _Writer, node: Node) -> bool | None:
    """Writes a sum as the mean times the number of elements of the window."""
    attributes = _window(node, node.attrs["kernel"])
    if any(step != 1 for step in attributes.pop("dilations", ())):
        return False
    mean = w.before(node, "AveragePool", node.inputs, count_include_pad=1, **attributes)
    count = w.constant(node, "count", prod(node.attrs["kernel"]), w.types(node)[0].dtype)
    w.add(node, "Mul", [mean, count])


def _clip(w: _Writer, node: Node) -> None:
    bounds = ["" if isinf(node.attrs[name]) else
              w.constant(node, name, node.attrs[name], np.float32) for name in ("lo", "hi")]
    w.add(node, "Clip", [*node.inputs, *bounds])


def _upsample(w: _Writer, node: Node) -> None:
    scales = w.constant(node, "scales", (1, 1, *node.attrs["factors"]), np.float32)
    w.add(node, "Resize", [*node.inputs, "", scales], mode="nearest", nearest_mode="floor",
          coordinate_transformation_mode="asymmetric")


def _reshape(w: _Writer, node: Node) -> None:
    """An open extent is that of the input in the same place, or, once, what is left."""
    before = w.extents(node.inputs[0])
    shape = [extent[0] if extent[0] == extent[1] else 0 if before[axis:axis + 1] == [extent] else -1
             for axis, extent in enumerate(w.both(node, "shape"))]
    if shape.count(-1) > 1:
        raise _Fixed
    w.add(node, "Reshape", [*node.inputs, w.constant(node, "shape", shape)])


def _expand(w: _Writer, node: Node) -> None:
    """Expands by 1 where the input has the extent, open or not."""
    target = w.both(node, "shape")
    before = w.extents(node.inputs[0])
    before = [(1, 1)] * (len(target) - len(before)) + before
    if any(extent != had and extent[0] != extent[1]
           for extent, had in zip(target, before, strict=True)):
        raise _Fixed
    shape = [1 if extent == had and extent[0] != extent[1] else extent[0]
             for extent, had in zip(target, before, strict=True)]
    w.add(node, "Expand", [*node.inputs, w.constant(node, "shape", shape)])


def _slice(w: _Writer, node: Node) -> None:
    """Writes a slice without the axes that are whole."""
    extents = w.extents(node.inputs[0])
    sides = [w.both(node, name) for name in ("begin", "end", "step")]
    cut = []
    for axis, (extent, begin, end, step) in enumerate(zip(extents, *sides, strict=True)):
        if (begin, end, step) == ((0, 0), extent, (1, 1)):
            continue
        if begin[0] != begin[1] or step[0] != step[1] or end[0] != end[1] and end != extent:
            raise _Fixed
        cut.append((axis, begin[0], np.iinfo(np.int64).max if end == extent else end[0], step[0]))
    axes, begin, end, step = zip(*(cut or [(0, 0, np.iinfo(np.int64).max, 1)]), strict=True)
    w.add(node, "Slice", [*node.inputs, *(w.constant(node, role, numbers) for role, numbers in
                                          zip(("starts", "ends", "axes", "steps"),
                                              (begin, end, axes, step), strict=True))])


def _reverse(w: _Writer, node: Node) -> None:
    axes = node.attrs["axes"]
    sides = {"starts": [-1] * len(axes), "ends": [np.iinfo(np.int64).min] * len(axes),
             "axes": axes, "steps": [-1] * len(axes)}
    w.add(node, "Slice", [*node.inputs, *(w.constant(node, *side) for side in sides.items())])


def _pad(w: _Writer, node: Node) -> bool | None:
    if any(node.attrs.get("between", ())):
        return False
    pads = w.constant(node, "pads", (*node.attrs["before"], *node.attrs["after"]))
    w.add(node, "Pad", [node.inputs[0], pads, *node.inputs[1:]], mode=node.attrs["mode"])


def _reduction(op: str) -> Rule:
    def rule(w: _Writer, node: Node) -> None:
        axes = w.constant(node, "axes", node.attrs["axes"])
        w.add(node, op, [*node.inputs, axes], keepdims=node.attrs["keepdims"],
              noop_with_empty_axes=1)
    return rule


def _running(op: str) -> Rule:
    def rule(w: _Writer, node: Node) -> None:
        axis = w.constant(node, "axis", node.attrs["axis"])
        w.add(node, op, [*node.inputs, axis], exclusive=node.attrs["exclusive"],
              reverse=node.attrs["reverse"])
    return rule


def _sorted_places(w: _Writer, node: Node) -> None:
    count = w.constant(node, "k", [node.attrs["count"]])
    values = w.fresh(f"{node.name}.values")
    w.nodes.append(helper.make_node(
        "TopK", [*node.inputs, count], [values, *node.outputs], node.name,
        axis=node.attrs["axis"], largest=node.attrs["largest"], sorted=1))


def _resample(w: _Writer, node: Node) -> None:
    """Taps of every new element, their products with the weights, the sums."""
    x, places, weights = node.inputs
    axis, (x_type, _, weight) = node.attrs["axis"], w.types(node)
    behind = len(x_type.shape) - axis - 1
    shape = w.constant(node, "shape", (*weight.shape, *(1,) * behind))
    taps = w.before(node, "Gather", [x, places], axis=axis)
    factors = w.before(node, "Reshape", [weights, shape])
    products = w.before(node, "Mul", [taps, factors])
    w.add(node, "ReduceSum", [products, w.constant(node, "axes", [axis + 1])], keepdims=0)


def _cast(w: _Writer, node: Node) -> None:
    w.add(node, "Cast", to=helper.np_dtype_to_tensor_dtype(np.dtype(node.attrs["to"])))


def _linear(op: str) -> Rule:
    """The axis is that of the scales, if there are several."""
    def rule(w: _Writer, node: Node) -> None:
        axis = {"axis": node.attrs["axis"]} if w.types(node)[1].shape else {}
        w.add(node, op, **axis)
    return rule


def _of_scale(op: str) -> Rule:
    """Writes a conversion of floats of 8 bits, whose zero point says their type."""
    def rule(w: _Writer, node: Node) -> bool | None:
        shape, dtype = w.types(node)[1].shape, node.attrs["dtype"]
        if dtype not in SMALL:
            return False
        zero = w.constant(node, "zero", np.zeros(shape, dtype), dtype)
        w.add(node, op, (*node.inputs, zero), **({"axis": node.attrs["axis"]} if shape else {}))
    return rule


def _shift(direction: str) -> Rule:
    """ONNX shifts integers without a sign alone."""
    def rule(w: _Writer, node: Node) -> bool | None:
        if not w.types(node)[0].dtype.startswith("uint"):
            return False
        w.add(node, "BitShift", direction=direction)
    return rule


def _pool_place(w: _Writer, node: Node) -> None:
    """The second result of a pool."""
    values = w.fresh(f"{node.name}.values")
    w.nodes.append(helper.make_node("MaxPool", list(node.inputs), [values, *node.outputs],
                                    node.name, **_window(node, node.attrs["kernel"])))


def _put_place(w: _Writer, node: Node) -> None:
    """A choice of one place."""
    x, row, position = node.inputs
    axis, shape = node.attrs["axis"], w.types(node)[0].shape
    if w.extents(x)[axis][0] != w.extents(x)[axis][1]:
        raise _Fixed
    places = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    at = w.before(node, "Equal", [w.constant(node, "places", places), position])
    w.add(node, "Where", [at, row, x])


def _named(w: _Writer, node: Node, places: str, extent: int) -> str:
    """Which of the extents [a,extent,m,b] each of the places [a,m,b] is."""
    counted = w.before(node, "Add", [places, w.constant(node, "extent", extent)])
    below = w.before(node, "Less", [places, w.constant(node, "first", 0)])
    place = w.before(node, "Where", [below, counted, places])
    apart = w.before(node, "Unsqueeze", [place, w.constant(node, "axes", [1])])
    numbers = w.constant(node, "places", np.arange(extent).reshape(-1, 1, 1))
    return w.before(node, "Equal", [apart, numbers])


def _last_places(w: _Writer, node: Node) -> None:
    """The greatest number of a place that is named."""
    at = w.types(node)[0]
    named = _named(w, node, _wide(w, node, node.inputs[0]), node.attrs["extent"])
    numbers = w.constant(node, "numbers", np.arange(at.shape[1]).reshape(-1, 1))
    chosen = w.before(node, "Where", [named, numbers, w.constant(node, "none", -1)])
    w.add(node, "ReduceMax", [chosen, w.constant(node, "over", [2])], keepdims=0)


def _wide(w: _Writer, node: Node, places: str) -> str:
    return w.before(node, "Cast", [places], to=onnx.TensorProto.INT64)


def _scatter_reduced(w: _Writer, node: Node) -> None:
    """The total of the updates that name a place, joined with what stands there."""
    x, places, updates = node.inputs
    type_, op = w.types(node)[0], node.attrs["reduction"]
    reduce, join = {"add": ("Sum", "Add"), "mul": ("Prod", "Mul"), "max": ("Max", "Max"),
                    "min": ("Min", "Min")}[op]
    dtype = np.dtype(type_.dtype)
    neutral = {"add": 0, "mul": 1, "max": _end(dtype, low=True), "min": _end(dtype, low=False)}[op]
    named = _named(w, node, _wide(w, node, places), type_.shape[1])
    apart = w.before(node, "Unsqueeze", [updates, w.constant(node, "axis", [1])])
    chosen = w.before(node, "Where", [named, apart, w.constant(node, "neutral", neutral, dtype)])
    total = w.before(node, f"Reduce{reduce}", [chosen, w.constant(node, "over", [2])], keepdims=0)
    w.add(node, join, [x, total])


def _end(dtype: np.dtype, low: bool) -> float:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if low else info.max
    return -np.inf if low else np.inf


def _quantized_map(w: _Writer, node: Node) -> None:
    """Maps that are the same share a function of the model."""
    key = function_of, node.attrs["function"], tuple(type_.dtype for type_ in w.types(node))
    w.add(node, w.function(key, QUANTIZED_MAP), domain=OWN, function=node.attrs["function"])


def _quantized_terms(w: _Writer, node: Node) -> None:
    if node.attrs["bias"]:
        raise ImportRefused(f"{node.name}: the bias of quantized_terms must be 0 in ONNX, not "
                            f"{node.attrs['bias']!r}")
    term, *numbers = (node.attrs[name] for name in TERM_ATTRIBUTES)
    key = summing_function, term, tuple(numbers), w.types(node)[0].dtype
    w.add(node, w.function(key, QUANTIZED_TERMS), domain=OWN,
          **dict(zip(TERM_ATTRIBUTES, (term, *numbers), strict=True)))


_BITWISE = {"and": "And", "or": "Or", "xor": "Xor", "not": "Not"}
RULES: dict[str, Rule] = {
    **{op: _plain(name) for name, op in (PLAIN | ROUNDED).items() if op not in _BITWISE},
    **{op: _logical(name, f"Bitwise{name}") for op, name in _BITWISE.items()},
    "minimum": _plain("Min"), "maximum": _plain("Max"), "pow": _plain("Pow"),
    "mod": _plain("Mod"), "fmod": lambda w, node: w.add(node, "Mod", fmod=1),
    "where": _plain("Where"), "cast": _cast, "identity": _plain("Identity"),
    "relu": _plain("Relu"), "leakyrelu": _plain("LeakyRelu", alpha="alpha"), "clip": _clip,
    "conv2d": _convolution("Conv"), "conv": _convolution("Conv"),
    "convtranspose2d": _convolution("ConvTranspose"),
    "dense": _plain("Gemm", trans_b="transB"), "matmul": _plain("MatMul"),
    "einsum": _plain("Einsum", equation="equation"),
    "maxpool": _maxpool, "pool_max": _maxpool, "avgpool": _avgpool, "pool_sum": _pool_sum,
    "globalavgpool": _plain("GlobalAveragePool"),
    "concat": _plain("Concat", axis="axis"), "transpose": _plain("Transpose", perm="perm"),
    "reshape": _reshape, "expand": _expand, "slice": _slice,
    "reverse": _reverse, "pad": _pad, "upsample": _upsample, "resample": _resample,
    "gather": _plain("Gather", axis="axis"), "put_place": _put_place,
    "gather_elements": _plain("GatherElements", axis="axis"),
    "gather_nd": _plain("GatherND", batch_dims="batch_dims"),
    **{f"reduce_{op}": _reduction(f"Reduce{op.title()}") for op in ("sum", "max", "min", "prod")},
    "mean": _reduction("ReduceMean"),
    **{f"arg{op}": _plain(f"Arg{op.title()}", axis="axis", keepdims="keepdims",
                          last="select_last_index") for op in ("max", "min")},
    "last_places": _last_places, "scatter_reduced": _scatter_reduced,
    "sorted_places": _sorted_places, "cumsum": _running("CumSum"), "cumprod": _running("CumProd"),
    "quantizelinear": _linear("QuantizeLinear"), "dequantizelinear": _linear("DequantizeLinear"),
    "encodefloat": _of_scale("QuantizeLinear"), "decodefloat": _of_scale("DequantizeLinear"),
    "quantized_map": _quantized_map, "quantized_terms": _quantized_terms,
    "shl": _shift("LEFT"), "shr": _shift("RIGHT"), "pool_place": _pool_place,
}
OPEN = ("reshape", "expand", "slice")
"""Operators whose attributes may depend on open dimensions."""
