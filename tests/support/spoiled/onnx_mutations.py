"""Small realistic ONNX models, and ways to spoil their files.

A mutation is a function of a random generator and a folder that holds ``model.onnx``, and beside it
``weights.bin`` where the model has external data. It changes the files in place.
"""

from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from lockstep.testing.models import DIGITS

__all__ = ["MODEL", "MODELS", "MUTATIONS", "Made", "Mutation", "WEIGHTS", "write"]

MODEL, WEIGHTS = "model.onnx", "weights.bin"
OPSET = 17

Rng = np.random.Generator
Mutation = Callable[[Rng, Path], None]


# ---- models --------------------------------------------------------------------------------------


def convolutions() -> ModelProto:
    """Convolutions (one of them with groups), a batch norm, pools, a dense layer, softmax."""
    made = Made()
    made.node("Conv", "x", made.weight(8, 3, 3, 3), made.weight(8), pads=[1, 1, 1, 1], y="a")
    made.node("BatchNormalization", "a", *(made.positive(8) for _ in range(4)), y="b")
    made.node("Relu", "b", y="c")
    made.node("MaxPool", "c", kernel_shape=[2, 2], strides=[2, 2], y="d")
    made.node("Conv", "d", made.weight(8, 2, 3, 3), pads=[1, 1, 1, 1], group=4, y="e")
    made.node("Add", "d", "e", y="f")
    made.node("AveragePool", "f", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER", y="g")
    made.node("Concat", "g", "g", axis=1, y="h")
    made.node("Flatten", "h", y="i")
    made.node("Gemm", "i", made.weight(10, 256), made.weight(10), transB=1, y="j")
    made.node("Softmax", "j", y="y")
    return made.model((1, 3, 16, 16))


def quantized() -> ModelProto:
    """The int8 digits network, in QDQ form."""
    return onnx.load(DIGITS)


def attention() -> ModelProto:
    """Attention of two heads with shape arithmetic, layer norm and the error function's Gelu."""
    made = Made()
    for name in "qkv":
        made.node("MatMul", "x", made.weight(16, 16), y=name)
        made.node("Reshape", name, made.numbers(0, -1, 2, 8), y=f"{name}_cut")
        made.node("Transpose", f"{name}_cut", y=f"{name}_heads",
                  perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
    made.node("MatMul", "q_heads", "k_heads", y="scores")
    made.node("Mul", "scores", made.floats(0.35), y="scaled")
    made.node("Softmax", "scaled", axis=-1, y="weights")
    made.node("MatMul", "weights", "v_heads", y="mixed")
    made.node("Transpose", "mixed", perm=[0, 2, 1, 3], y="turned")
    made.node("Shape", "x", y="shape")
    made.node("Reshape", "turned", "shape", y="joined")
    made.node("Add", "x", "joined", y="sum")
    made.node("LayerNormalization", "sum", made.positive(16), made.weight(16), y="normed")
    made.node("Gather", "normed", made.numbers(0), axis=1, y="first")
    made.node("Slice", "first", made.numbers(0), made.numbers(1), made.numbers(0), y="cut")
    made.node("Erf", "cut", y="erf")
    made.node("Expand", "erf", made.numbers(2, 1, 16), y="y")
    return made.model((1, 6, 16))


def recurrent() -> ModelProto:
    """An LSTM, a loop of constant length around a part, and a choice with a known condition."""
    made = Made()
    made.node("LSTM", "x", made.weight(1, 32, 6), made.weight(1, 32, 8), made.weight(1, 64),
              hidden_size=8, y="states")
    made.node("Squeeze", "states", made.numbers(1), y="s")
    body = helper.make_graph(
        [helper.make_node("Tanh", ["carried"], ["t"]),
         helper.make_node("Add", ["t", "s"], ["next"]),
         helper.make_node("Identity", ["more"], ["still"])], "body",
        [helper.make_tensor_value_info("n", TensorProto.INT64, []),
         helper.make_tensor_value_info("more", TensorProto.BOOL, []),
         helper.make_tensor_value_info("carried", TensorProto.FLOAT, [5, 1, 8])],
        [helper.make_tensor_value_info("still", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, [5, 1, 8])])
    trips = made.constant(np.array(3, np.int64))
    always = made.constant(np.array(True))
    made.node("Loop", trips, always, "s", body=body, y="looped")
    branches = {name: helper.make_graph(
        [helper.make_node(op, ["looped"], [name])], name, [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 1, 8])])
        for name, op in (("then", "Sigmoid"), ("else", "Neg"))}
    made.node("If", always, then_branch=branches["then"], else_branch=branches["else"], y="z")
    made.node("ReduceMean", "z", axes=[0], y="y")
    return made.model((5, 1, 6))


def resized() -> ModelProto:
    """Sizes that depend on constants: padding, resampling, tiling, filling, expanding, ranges."""
    made = Made()
    made.node("Pad", "x", made.numbers(0, 0, 1, 2, 0, 0, 1, 2), y="a")
    made.node("Resize", "a", "", made.floats(1, 1, 2, 2), mode="linear", y="b")
    made.node("Tile", "b", made.numbers(1, 2, 1, 1), y="c")
    made.node("ConstantOfShape", made.numbers(4, 1, 1), y="d",
              value=numpy_helper.from_array(np.array([0.5], np.float32)))
    made.node("Add", "c", "d", y="e")
    made.node("Range", *(made.constant(np.array(one, np.int64)) for one in (0, 16, 2)), y="f")
    made.node("Gather", "e", "f", axis=2, y="g")
    made.node("DepthToSpace", "g", blocksize=2, y="h")
    made.node("Expand", "h", made.numbers(3, 1, 1, 1), y="i")
    made.node("TopK", "i", made.numbers(4), axis=3, y="y")
    made.nodes[-1].output.append("places")
    return made.model((1, 2, 6, 6))


class Made:
    """Builds a model node by node, with seeded weights."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def node(self, op: str, *inputs: str, y: str, **attributes) -> None:
        self.nodes.append(helper.make_node(op, inputs, [y], f"{op.lower()}_{y}", **attributes))

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape, np.float32) * np.float32(0.3))

    def positive(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def floats(self, *values: float) -> str:
        return self.constant(np.array(values, np.float32))

    def model(self, shape: tuple[int, ...], opset: int = OPSET,
              functions: Sequence[FunctionProto] = ()) -> ModelProto:
        """The model from an input x of this shape to y."""
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], self.constants)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        return helper.make_model(graph, ir_version=8 if opset == OPSET else 10,
                                 functions=functions,
                                 opset_imports=imports[:2 if functions else 1])


MODELS: Mapping[str, Callable[[], ModelProto]] = {
    "convolutions": convolutions, "quantized": quantized, "attention": attention,
    "recurrent": recurrent, "resized": resized, "external": convolutions}
"""The last one has its weights in a file of their own."""


def write(name: str, folder: Path) -> Path:
    """The model's files in the folder; gives the path of the model."""
    path = folder / MODEL
    if name == "external":
        onnx.save(MODELS[name](), path, save_as_external_data=True, location=WEIGHTS,
                  size_threshold=0)
    else:
        onnx.save(MODELS[name](), path)
    return path


# ---- mutations of bytes --------------------------------------------------------------------------


def flip(rng: Rng, folder: Path) -> None:
    """Changes 1 to 8 bytes."""
    path = _file(rng, folder)
    data = bytearray(path.read_bytes())
    for place in rng.integers(len(data), size=int(rng.integers(1, 9))):
        data[place] ^= int(rng.integers(1, 256))
    path.write_bytes(data)


def cut(rng: Rng, folder: Path) -> None:
    """Cuts off the end of a file, or cuts out a piece."""
    path = _file(rng, folder)
    data = path.read_bytes()
    begin, end = sorted(int(one) for one in rng.integers(len(data), size=2))
    path.write_bytes(data[:begin] + (data[end:] if rng.random() < 0.5 else b""))


def insert(rng: Rng, folder: Path) -> None:
    """Inserts random bytes, or a copy of a piece of the file."""
    path = _file(rng, folder)
    data = path.read_bytes()
    place, begin = (int(one) for one in rng.integers(len(data), size=2))
    count = int(rng.integers(1, 200))
    more = rng.bytes(count) if rng.random() < 0.5 else data[begin:begin + count]
    path.write_bytes(data[:place] + more + data[place:])


def _file(rng: Rng, folder: Path) -> Path:
    found = sorted(path for path in folder.iterdir() if path.stat().st_size)
    return found[int(rng.integers(len(found)))]


# ---- mutations of a model's content --------------------------------------------------------------


def spoils(change: Callable[[Rng, ModelProto], None]) -> Mutation:
    """Makes a mutation of a function that changes the model without its external data."""
    def mutate(rng: Rng, folder: Path) -> None:
        model = onnx.load(folder / MODEL, load_external_data=False)
        change(rng, model)
        (folder / MODEL).write_bytes(model.SerializeToString())
    mutate.__name__, mutate.__doc__ = change.__name__, change.__doc__
    return mutate


def drop(rng: Rng, model: ModelProto) -> None:
    """Drops a node, an initializer, an input or an output."""
    graph = model.graph
    lists = [graph.node, graph.node, graph.initializer, graph.input, graph.output]
    _remove(rng, lists[int(rng.integers(len(lists)))])


def cycle(rng: Rng, model: ModelProto) -> None:
    """Lets a node read a later node's result or its own, or exchanges nodes."""
    nodes = model.graph.node
    first, last = sorted(int(one) for one in rng.integers(len(nodes), size=2))
    if rng.random() < 0.3 and first != last:
        one, other = NodeProto(), NodeProto()
        one.CopyFrom(nodes[first])
        other.CopyFrom(nodes[last])
        nodes[first].CopyFrom(other)
        nodes[last].CopyFrom(one)
    elif nodes[first].input:
        nodes[first].input[int(rng.integers(len(nodes[first].input)))] = nodes[last].output[0]


def rewire(rng: Rng, model: ModelProto) -> None:
    """Changes, removes or adds an input of a node, or lets two nodes make one value."""
    nodes = model.graph.node
    node = _one(rng, nodes)
    names = [value for other in nodes for value in (*other.input, *other.output)] + ["", "nothing"]
    ends = node.input if rng.random() < 0.7 else node.output
    action = rng.integers(3)
    if action == 0 and ends:
        _remove(rng, ends)
    elif action == 1:
        ends.append(_one(rng, names))
    elif ends:
        ends[int(rng.integers(len(ends)))] = _one(rng, names)


def contradict(rng: Rng, model: ModelProto) -> None:
    """Declares a wrong shape."""
    graph = model.graph
    if rng.random() < 0.5:
        dims = _one(rng, graph.initializer).dims
        if dims and rng.random() < 0.7:
            dims[int(rng.integers(len(dims)))] = int(rng.choice([0, 1, 2, 5, 7, 64, -1]))
        elif dims and rng.random() < 0.5:
            _remove(rng, dims)
        else:
            dims.append(int(rng.choice([1, 2])))
        return
    value = _one(rng, [*graph.input, *graph.output])
    shape = value.type.tensor_type.shape
    if shape.dim and rng.random() < 0.8:
        _one(rng, shape.dim).dim_value = int(rng.choice([0, 1, 2, 5, 7, 64, -1]))
    else:
        shape.dim.add().dim_value = int(rng.choice([1, 2, 3]))


def enlarge(rng: Rng, model: ModelProto) -> None:
    """Makes a dimension, an attribute or an element of an integer constant huge."""
    graph = model.graph
    huge = int(rng.choice(HUGE))
    places: list[Callable[[], None]] = []
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            places.append(lambda dim=dim: setattr(dim, "dim_value", huge))
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.INT64 and tensor.HasField("raw_data"):
            places += [lambda tensor=tensor: _set_element(rng, tensor, huge)] * 3
        places += [lambda tensor=tensor, axis=axis: tensor.dims.__setitem__(axis, huge)
                   for axis in range(len(tensor.dims))]
    for attribute in _attributes(graph.node):
        places += [lambda ints=attribute.ints, place=place: ints.__setitem__(place, huge)
                   for place in range(len(attribute.ints))]
        if attribute.type == onnx.AttributeProto.INT:
            places.append(lambda attribute=attribute: setattr(attribute, "i", huge))
    _one(rng, places)()


def disagree(rng: Rng, model: ModelProto) -> None:
    """Changes or removes an attribute, or changes an operator or a type."""
    graph = model.graph
    action = rng.integers(4)
    if action == 0:
        node = _one(rng, graph.node)
        node.op_type = _one(rng, [*OPERATORS, *(other.op_type for other in graph.node)])
    elif action == 1:
        code = int(rng.choice([*range(24), 99]))
        tensor = _one(rng, [*graph.initializer, *graph.input])
        if isinstance(tensor, TensorProto):
            tensor.data_type = code
        else:
            tensor.type.tensor_type.elem_type = code
    elif action == 2 and (nodes := [node for node in graph.node if node.attribute]):
        _remove(rng, _one(rng, nodes).attribute)
    else:
        attributes = list(_attributes(graph.node))
        if attributes:
            _spoil(rng, _one(rng, attributes))


def misplace(rng: Rng, model: ModelProto) -> None:
    """Spoils the location of external data; without any, gives a constant such a location."""
    tensor = _one(rng, model.graph.initializer)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {one.key: one.value for one in tensor.external_data}
    key = str(rng.choice(["location", "offset", "length", "none"]))
    entries[key] = str(rng.choice([
        "", "-1", "0", "3", str(1 << 40), str((1 << 63) - 1), "x", "../weights.bin", "/dev/zero",
        "/dev/stdin", ".", "missing.bin", MODEL, "1e9", WEIGHTS]))
    del tensor.external_data[:]
    for name, value in entries.items():
        tensor.external_data.add(key=name, value=value)


HUGE = (1000, 1 << 14, 1 << 17, 1 << 20, 1 << 25, 1 << 28, (1 << 31) - 1, 1 << 31, 1 << 40,
        (1 << 62) + 1, (1 << 63) - 1)
OPERATORS = ("Relu", "Identity", "Tile", "Resize", "TopK", "NonZero", "Unknown", "Pad", "Loop",
             "ConstantOfShape", "Range", "Einsum", "GRU", "Softmax", "Split", "OneHot",
             "ConvTranspose", "DequantizeLinear", "SequenceAt", "Dropout")


def _attributes(nodes: MutableSequence[NodeProto]) -> Iterator[onnx.AttributeProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield attribute
            yield from _attributes(attribute.g.node)


def _spoil(rng: Rng, attribute: onnx.AttributeProto) -> None:
    number = int(rng.choice([-2, -1, 0, 1, 2, 3, 9, 1000]))
    match attribute.type:
        case onnx.AttributeProto.INT: attribute.i = number
        case onnx.AttributeProto.FLOAT:
            attribute.f = float(rng.choice([np.nan, np.inf, -1.0, 0.0, 1e30]))
        case onnx.AttributeProto.STRING: attribute.s = rng.bytes(4)
        case onnx.AttributeProto.INTS if attribute.ints and rng.random() < 0.7:
            attribute.ints[int(rng.integers(len(attribute.ints)))] = number
        case onnx.AttributeProto.INTS: attribute.ints.append(number)
        case onnx.AttributeProto.GRAPH: _remove(rng, attribute.g.node)
        case _: attribute.type = onnx.AttributeProto.INT


def _set_element(rng: Rng, tensor: TensorProto, value: int) -> None:
    array = numpy_helper.to_array(tensor).copy().reshape(-1)
    if array.size:
        array[int(rng.integers(array.size))] = value
        tensor.raw_data = array.tobytes()


def _one(rng: Rng, items):
    return items[int(rng.integers(len(items)))]


def _remove(rng: Rng, items) -> None:
    if items:
        del items[int(rng.integers(len(items)))]


MUTATIONS: tuple[Mutation, ...] = (
    flip, cut, insert, *map(spoils, (drop, cycle, rewire, contradict, enlarge, disagree, misplace)))
