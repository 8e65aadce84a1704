"""Float graphs as ONNX models: for what takes ONNX, the quantizer among them.

Nodes and values keep their names. An operator of the graph becomes one of ONNX's, a few become
several; those of integers (`qconv2d` ...) have no form here, since QDQ models have theirs.
"""

from collections.abc import Callable, Sequence
from math import isinf, prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.frontend.refusal import ImportRefused
from compiler.frontend.onnx_ops.elementwise import PLAIN, ROUNDED
from compiler.graph.graph import Graph, Node, TensorType

__all__ = ["OPSET", "exported_model"]

OPSET = 18              # the first in which all reductions take their axes as an input
IR_VERSION = 8

Attributes = dict[str, Any]


def exported_model(graph: Graph) -> onnx.ModelProto:
    """The model. Raises ImportRefused with every node that ONNX has no operator for."""
    return _Writer(graph).model()


class _Writer:
    """Nodes and constants of the model, in order; rules call `add` and `constant`."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.tensors = dict(graph.constants)
        self.taken = {*graph.values, *(node.name for node in graph.nodes)}

    def model(self) -> onnx.ModelProto:
        refused = [f"{node.name} ({node.op}): ONNX has no such operator"
                   for node in self.graph.nodes if not self._written(node)]
        if refused:
            raise ImportRefused(f"{self.graph.name}: cannot be written as ONNX: "
                                f"{'; '.join(refused)}; replace these in the network")
        graph = helper.make_graph(
            self.nodes, self.graph.name, list(map(self._info, self.graph.inputs)),
            list(map(self._info, self.graph.outputs)),
            [numpy_helper.from_array(array, name) for name, array in self.tensors.items()])
        return helper.make_model(graph, ir_version=IR_VERSION, producer_name="lockstep",
                                 opset_imports=[helper.make_opsetid("", OPSET)])

    def _info(self, value: str) -> onnx.ValueInfoProto:
        type_ = self.graph.values[value]
        return helper.make_tensor_value_info(
            value, helper.np_dtype_to_tensor_dtype(np.dtype(type_.dtype)), type_.shape)

    def _written(self, node: Node) -> bool:
        rule = RULES.get(node.op)
        return rule is not None and rule(self, node) is not False

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


def _plain(op: str, **names: str) -> Rule:
    """The same operator, with attributes under other names."""
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
    """As many times the mean as the window has elements."""
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


def _shaped(op: str) -> Rule:
    def rule(w: _Writer, node: Node) -> None:
        w.add(node, op, [*node.inputs, w.constant(node, "shape", node.attrs["shape"])])
    return rule


def _slice(w: _Writer, node: Node) -> None:
    """Axes that are whole are left out."""
    shape, sides = w.types(node)[0].shape, [node.attrs[one] for one in ("begin", "end", "step")]
    cut = [(axis, *one) for axis, one in enumerate(zip(*sides, strict=True))
           if one != (0, shape[axis], 1)] or [(0, 0, shape[0], 1)]
    axes, begin, end, step = zip(*cut, strict=True)
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


def _cumsum(w: _Writer, node: Node) -> None:
    axis = w.constant(node, "axis", node.attrs["axis"])
    w.add(node, "CumSum", [*node.inputs, axis], exclusive=node.attrs["exclusive"],
          reverse=node.attrs["reverse"])


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
    "reshape": _shaped("Reshape"), "expand": _shaped("Expand"), "slice": _slice,
    "reverse": _reverse, "pad": _pad, "upsample": _upsample, "resample": _resample,
    "gather": _plain("Gather", axis="axis"),
    "gather_elements": _plain("GatherElements", axis="axis"),
    "gather_nd": _plain("GatherND", batch_dims="batch_dims"),
    **{f"reduce_{op}": _reduction(f"Reduce{op.title()}") for op in ("sum", "max", "min", "prod")},
    **{f"arg{op}": _plain(f"Arg{op.title()}", axis="axis", keepdims="keepdims",
                          last="select_last_index") for op in ("max", "min")},
    "sorted_places": _sorted_places, "cumsum": _cumsum,
}
