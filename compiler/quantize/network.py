"""A float ONNX network as layers: constants known, batch norms folded, activations with what they
bound.

Everything that the quantizer does not know stays as it is in the model and passes through.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorShapeProto, helper, numpy_helper

from compiler.graph.graph import Graph
from compiler.quantize.affine import Affine, as_convolution, fold, read_affine
from compiler.quantize.calibration import converted
from compiler.quantize.nodes import Names, attribute, read_by, rewired
from compiler.quantize.recurrent import unrolled
from compiler.frontend.onnx_import import ImportRefused, check_functions
from compiler.quantize.refusal import QuantizeRefused
from compiler.quantize.single import Meaning, Types, meaning
from compiler.quantize.weights import WEIGHTED
from compiler.te import numpy_dtype

__all__ = ["Layer", "Network", "bounds", "layers_after", "model_of", "plain",
           "prepare"]

OLDEST_OPSET = 13       # the first with a scale for each channel
OPSET = 17              # what older models become
IR_VERSION = 8          # the one that opset 17 came with
CLAMPED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Concat", "AveragePool",
           "GlobalAveragePool")
INTEGER_FORMS = (*CLAMPED, "Relu", "Clip", "LeakyRelu", "MaxPool", "Slice", "Split", "Transpose",
                 "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Resize", "Upsample")
QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv",
             "QLinearMatMul", "ConvInteger", "MatMulInteger")

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A node, and the Relu or Clip behind it where that alone reads it.

    A MatMul may have a bias as a third input, which ONNX writes as an Add behind it: `nodes` does.
    `names` are those of the model's nodes that became this layer, the node's own first.
    """

    node: NodeProto
    names: tuple[str, ...]
    clamp: NodeProto | None = None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def value(self) -> str:
        """What the layer makes."""
        return (self.clamp or self.node).output[0]

    @property
    def inner(self) -> str:
        """What the node makes, before the clamp."""
        return self.node.output[0]

    @property
    def core(self) -> str:
        """What the first of `nodes` makes."""
        return self.nodes()[0].output[0]

    @property
    def made(self) -> tuple[str, ...]:
        """Every value that other layers may read."""
        return tuple(self.clamp.output if self.clamp else self.node.output)

    @property
    def read(self) -> tuple[str, ...]:
        """Values, constants included; a clamp's bounds are not."""
        return tuple(dict.fromkeys(read_by(self.node)))

    def nodes(self) -> tuple[NodeProto, ...]:
        return (*plain(self.node), *([] if self.clamp is None else [self.clamp]))


def plain(node: NodeProto) -> list[NodeProto]:
    """The nodes that ONNX has for a MatMul with a bias; any other node alone."""
    if node.op_type != "MatMul" or len(node.input) < 3:
        return [node]
    product = f"{node.output[0]}_product"
    return [rewired(node, node.input[:2], [product]),
            helper.make_node("Add", [product, node.input[2]], node.output, f"{node.name}_bias")]


@dataclass(slots=True)
class Network:
    """Layers in topological order and constants by name. `model` has what else a model has:
    inputs, outputs, versions. The layers' weights and biases may be replaced in place.
    """

    model: ModelProto
    layers: list[Layer]
    tensors: dict[str, Array]
    names: Names
    place: str

    @property
    def inputs(self) -> list[onnx.ValueInfoProto]:
        return [value for value in self.model.graph.input if value.name not in self.tensors]

    @property
    def outputs(self) -> list[str]:
        return [value.name for value in self.model.graph.output]

    def readers(self) -> dict[str, list[Layer]]:
        """The layers that read each value."""
        found: dict[str, list[Layer]] = {}
        for layer in self.layers:
            for value in layer.read:
                found.setdefault(value, []).append(layer)
        return found

    def float_model(self) -> ModelProto:
        """The float network that the layers are."""
        nodes = [node for layer in self.layers for node in layer.nodes()]
        return model_of(self.model, nodes, self.tensors, self.inputs, self.model.graph.output)


def model_of(header: ModelProto, nodes: Sequence[NodeProto], tensors: Mapping[str, Array],
             inputs: Iterable[onnx.ValueInfoProto], outputs: Iterable[onnx.ValueInfoProto]
             ) -> ModelProto:
    """A model with the constants that its nodes read or that it gives out."""
    outputs = list(outputs)
    wanted = dict.fromkeys((*(value for node in nodes for value in read_by(node)),
                            *(value.name for value in outputs)))
    graph = helper.make_graph(
        list(nodes), header.graph.name, list(inputs), outputs,
        [numpy_helper.from_array(tensors[name], name) for name in wanted if name in tensors])
    made = helper.make_model(graph, opset_imports=header.opset_import,
                             ir_version=header.ir_version, producer_name=header.producer_name)
    made.functions.extend(header.functions)
    return made


def bounds(clamp: NodeProto, tensors: Mapping[str, Array]) -> tuple[float, float] | None:
    """What a Relu or Clip lets through, None where that is not constant, or for other nodes."""
    if clamp.op_type == "Relu":
        return 0.0, inf
    if clamp.op_type != "Clip":
        return None
    found = [-inf, inf]
    for place, name in enumerate(clamp.input[1:]):
        if name and (name not in tensors or tensors[name].size != 1):
            return None
        if name:
            found[place] = float(tensors[name].reshape(()))
    return found[0], found[1]


def prepare(model: ModelProto, place: str = "model", kept: Iterable[str] = (),
            shapes: Mapping[str, int] | None = None) -> Network:
    """The network of a float model, which stays as it is. LSTMs are unrolled, but for those whose
    name is in `kept`. The importer judges the whole model first, open dimensions bound by `shapes`:
    what comes after it relies on weights that fit. Raises QuantizeRefused, with `place` before the
    reason.
    """
    try:
        check_functions(model, place)
    except ImportRefused as error:
        raise QuantizeRefused(str(error)) from None
    model = _modern(model, place)
    _require_float(model, place)
    _correct_types(model, converted(model, place, shapes, every=True))
    model = unrolled(model, _extents(_types(model)), tuple(kept))
    tensors = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    values = {value.name for value in model.graph.input}
    values.update(value for node in model.graph.node for value in node.output)
    network = Network(model, [], tensors, Names((*tensors, *values)), place)
    types = _types(model)
    _Preparation(network, types, _extents(types)).run()
    return network


def _require_float(model: ModelProto, place: str) -> None:
    for node in model.graph.node:
        if node.op_type in QUANTIZED:
            raise QuantizeRefused(f"{place}: is quantized already: {node.name or node.op_type} is "
                                  f"a {node.op_type}; give the float model")


def _modern(model: ModelProto, place: str) -> ModelProto:
    versions = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if not model.graph.output:
        raise QuantizeRefused(f"{place}: is not an ONNX model with a graph; "
                              "give a model in .onnx format")
    made = ModelProto()
    made.CopyFrom(model)
    made.ir_version = max(made.ir_version, IR_VERSION)
    if max(versions, default=1) < OLDEST_OPSET:
        try:
            return onnx.version_converter.convert_version(made, OPSET)
        except (onnx.version_converter.ConvertError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[-1:]
            raise QuantizeRefused(
                f"{place}: opset must be at least {OLDEST_OPSET}, not {max(versions, default=1)}, "
                f"and onnx.version_converter cannot change it: {''.join(reason)}") from None
    return made


def _correct_types(model: ModelProto, judged: Graph) -> None:
    """Takes back what the model tells wrongly of its values' types and shapes. What it leaves out
    has as many dimensions as there are.
    """
    for value in (*model.graph.value_info, *model.graph.output):
        real, kind = judged.values.get(value.name), value.type.WhichOneof("value")
        if real is None or kind not in ("tensor_type", None):
            continue
        tensor = value.type.tensor_type
        tensor.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(numpy_dtype(real.dtype)))
        extents = [dim.dim_value for dim in tensor.shape.dim]
        if not tensor.HasField("shape") or len(extents) != len(real.shape) or any(
                told > 0 and told != extent
                for told, extent in zip(extents, real.shape, strict=True)):
            tensor.shape.CopyFrom(TensorShapeProto(dim=[{}] * len(real.shape)))


def _types(model: ModelProto) -> Types:
    """What ONNX's shape inference finds: element type and shape, 0 for an unknown extent."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        graph = model.graph
    typed = [*graph.input, *graph.value_info, *graph.output]
    tensors = {value.name: value.type.tensor_type for value in typed}
    return {name: (tensor.elem_type, tuple(max(dim.dim_value, 0) for dim in tensor.shape.dim))
            for name, tensor in tensors.items() if tensor.HasField("shape")}


def _extents(types: Types) -> dict[str, tuple[int, ...]]:
    return {value: shape for value, (_, shape) in types.items()}


@dataclass(slots=True)
class _Preparation:
    """Goes through the model's nodes once, in order. Each is dropped, folded into the layer that
    made its input, or becomes a layer.
    """

    network: Network
    types: Types
    shapes: dict[str, tuple[int, ...]]
    readers: Counter = field(default_factory=Counter)
    captured: set[str] = field(default_factory=set)            # by subgraphs
    renamed: dict[str, str] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)     # by the value they make
    own: dict[str, str] = field(default_factory=dict)          # first name of a layer's result

    def run(self) -> None:
        graph = self.network.model.graph
        for node in graph.node:
            self.readers.update(read_by(node))
            self.captured.update(set(read_by(node)).difference(node.input))
        self.readers.update(self.network.outputs)
        taken = Names(node.name for node in graph.node if node.name)
        for index, node in enumerate(graph.node):
            node = rewired(node, [self.renamed.get(value, value) for value in node.input])
            node.name = node.name or taken.fresh(f"{node.op_type}_{index}")
            self._place(node)
        self.network.layers = list(dict.fromkeys(self.layers.values()))

    def _place(self, node: NodeProto) -> None:
        if self._is_constant(node) or self._is_dropped(node):
            return
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
        if not self._absorb_affine(node) and not self._absorb_clamp(node):
            self._add(Layer(_plain_gemm(node, self.network), (node.name,)))

    def _add(self, layer: Layer) -> None:
        for value in layer.made:
            self.layers[value] = layer
        self.own.setdefault(layer.value, layer.value)

    def _is_constant(self, node: NodeProto) -> bool:
        """Whether the node's values now stand among the constants."""
        tensors = self.network.tensors
        if not all(name in tensors for name in read_by(node)):
            return False
        made = self._meaning(node)
        if not made.constants or set(filter(None, node.output)) - made.constants.keys():
            return False
        tensors.update(made.constants)
        return True

    def _is_dropped(self, node: NodeProto) -> bool:
        """Whether the node changes nothing, and its readers now read its input. One whose result
        must keep its name becomes an Identity.
        """
        source = self._source(node)
        kept = self.captured.union(self.network.outputs)
        if not source or any(map(self.readers.get, node.output[1:])):
            return False
        if node.output[0] in kept:
            node.CopyFrom(helper.make_node("Identity", [source], node.output[:1], node.name))
            return False
        self.renamed[node.output[0]] = source
        self.readers[source] += self.readers[node.output[0]] - 1
        return True

    def _source(self, node: NodeProto) -> str:
        """The input that the node gives back unchanged; empty where it does not."""
        if node.op_type == "Identity" or node.op_type == "Dropout" and not (
                len(node.input) > 2 and self._trains(node.input[2])):
            return node.input[0]
        alike = [value for value in node.input if value and value not in self.network.tensors
                 and self.types.get(value) == self.types.get(node.output[0])]
        if not alike or node.op_type in WEIGHTED:
            return ""
        return self._meaning(node).same.get(node.output[0], "")

    def _meaning(self, node: NodeProto) -> Meaning:
        network = self.network
        alone = model_of(network.model, [node], network.tensors, [], [])
        return meaning(alone, {value: self.types[value] for value in read_by(node)
                               if value in self.types and value not in network.tensors})

    def _trains(self, mode: str) -> bool:
        return bool(mode) and not (mode in self.network.tensors
                                   and not self.network.tensors[mode].any())

    def _before(self, value: str) -> Layer | None:
        """The layer that makes the value when nobody else reads it."""
        layer = self.layers.get(value)
        return layer if layer and layer.made == (value,) and self.readers[value] == 1 else None

    def _absorb_affine(self, node: NodeProto) -> bool:
        network = self.network
        affine = read_affine(node, network.tensors, self.shapes)
        if affine is None:
            return False
        before = self._before(affine.source)
        if before is not None and before.clamp is None and self._fold(before, node, affine):
            return True
        source = self.layers.get(affine.source)
        if node.op_type != "BatchNormalization" and source and (
                source.node.op_type not in INTEGER_FORMS):
            return False            # a step between two in float, as in 1 / (1 + exp(-x))
        alone = as_convolution(node, affine, network.tensors, network.names, self.shapes)
        if alone is not None:
            self._add(Layer(alone, (node.name,)))
        return alone is not None

    def _fold(self, before: Layer, node: NodeProto, affine: Affine) -> bool:
        weight = before.node.input[1] if len(before.node.input) > 1 else ""
        made = fold(before.node, affine, self.network.tensors, self.network.names,
                    self.readers[weight] > 1, len(self.shapes.get(before.node.input[0], ())))
        if made is None:
            return False
        del self.layers[before.value]
        own = self.own.pop(before.value)
        self.own[node.output[0]] = own
        self._add(Layer(rewired(made, outputs=[node.output[0]]), (*before.names, node.name)))
        return True

    def _absorb_clamp(self, node: NodeProto) -> bool:
        """A Relu or Clip behind an operator that can clamp; the operator gets its first name back.
        """
        if bounds(node, self.network.tensors) is None:
            return False
        before = self._before(node.input[0])
        if before is None or before.clamp is not None or before.node.op_type not in CLAMPED:
            return False
        del self.layers[before.value]
        inner = self.own.pop(before.value)
        clamp = rewired(node, [inner, *node.input[1:]])
        self._add(replace(before, node=rewired(before.node, outputs=[inner]), clamp=clamp,
                          names=(*before.names, node.name)))
        return True


def _plain_gemm(node: NodeProto, network: Network) -> NodeProto:
    """A Gemm without factors where its weight and bias are constants."""
    factors = [attribute(node, name, 1.0) for name in ("alpha", "beta")]
    if node.op_type != "Gemm" or factors == [1.0, 1.0]:
        return node
    if not all(name in network.tensors for name in node.input[1:]):
        return node
    inputs = list(node.input)
    for place, factor in enumerate(factors[:len(inputs) - 1], 1):
        name = network.names.fresh(inputs[place])
        network.tensors[name] = network.tensors[inputs[place]] * np.float32(factor)
        inputs[place] = name
    made = rewired(node, inputs)
    kept = [one for one in made.attribute if one.name not in ("alpha", "beta")]
    del made.attribute[:]
    made.attribute.extend(kept)
    return made


def layers_after(network: Network, value: str) -> Iterator[Layer]:
    """Every layer that the value reaches, in order."""
    reached = {value}
    for layer in network.layers:
        if reached.intersection(layer.read):
            reached.update(layer.made)
            yield layer
