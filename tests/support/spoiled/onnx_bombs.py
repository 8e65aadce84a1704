"""Tiny ONNX models that ask for all memory or all time, or for just little enough to run.

A bomb is a function of a random generator that gives the bytes of a model: from x to y, both
small, with something large between.
"""

from collections.abc import Callable, Sequence

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, TensorProto, helper

from tests.support.spoiled.onnx_mutations import Made

__all__ = ["BOMBS", "Bomb"]

Rng = np.random.Generator
Bomb = Callable[[Rng], bytes]
BOMBS: dict[str, Bomb] = {}
SIZES = (0, 1, 2, 3, 5, 9, 1000, 1 << 17, 1 << 24, 1 << 28, 1 << 31, 1 << 36, 1 << 40, 10**15,
         (1 << 62) + 1, (1 << 63) - 1, -1)
DEPTHS = (0, 1, 2, 3, 5, 9, 17, 33, 60, 100, 400)


def _bomb(make: Bomb) -> Bomb:
    BOMBS[make.__name__] = make
    return make


def _size(rng: Rng, limit: int = 1 << 63) -> int:
    """A random extent, small half of the time, so that some models run."""
    few = [size for size in SIZES if 0 < size < 10]
    sizes = few if rng.random() < 0.3 else [size for size in SIZES if size < limit]
    return int(sizes[int(rng.integers(len(sizes)))])


def _depth(rng: Rng) -> int:
    return int(rng.choice(DEPTHS))


def _bytes(made: Made, value: str, opset: int = 17, shape: Sequence[int] = (2, 3),
           functions: Sequence[FunctionProto] = ()) -> bytes:
    """The bytes of a model whose y is x plus the mean of the value."""
    made.node("Cast", value, to=TensorProto.FLOAT, y="as_float")
    made.node("ReduceMean", "as_float", keepdims=0, y="mean")
    made.node("Add", "x", "mean", y="y")
    return made.model(tuple(shape), opset, functions).SerializeToString()


def _source(rng: Rng, made: Made, *shape: int) -> str:
    """The input, or a constant."""
    return "x" if rng.random() < 0.5 else made.weight(*(shape or (2, 3)))


@_bomb
def range_(rng: Rng) -> bytes:
    made = Made()
    step = int(rng.choice([1, 1, 2, -1]))
    made.node("Range", *(made.constant(np.array(one, np.int64)) for one in (0, _size(rng), step)),
              y="a")
    return _bytes(made, "a")


@_bomb
def chain(rng: Rng) -> bytes:
    """A chain of nodes, each of which doubles or squares the result of the one before."""
    made, last = Made(), ""
    last = _source(rng, made) if rng.random() < 0.7 else made.numbers(1, 2)
    operator = str(rng.choice(["Concat", "Tile", "Sequence", "Add", "Pad"]))
    for place in range(_depth(rng)):
        new = f"v{place}"
        match operator:
            case "Concat": made.node("Concat", last, last, axis=-1, y=new)
            case "Tile": made.node("Tile", last, made.numbers(*[2] * (1 if last[0] == "?" else 2)),
                                   y=new)
            case "Add": made.node("Add", last, last, y=new)
            case "Pad": made.node("Pad", last, made.numbers(0, 0, 0, 1 << min(place, 62)), y=new)
            case "Sequence":
                made.node("SequenceConstruct", last, last, y=f"s{place}")
                made.node("ConcatFromSequence", f"s{place}", axis=0, y=new)
        last = new
    return _bytes(made, last)


@_bomb
def strings(rng: Rng) -> bytes:
    made = Made()
    last = made.constant(np.array(["ab"], object))
    for place in range(_depth(rng)):
        made.node("StringConcat", last, last, y=f"v{place}")
        last = f"v{place}"
    made.node("Shape", last, y="shape")
    return _bytes(made, "shape", 20)


@_bomb
def calls(rng: Rng) -> bytes:
    """Functions that call each other twice; some call themselves in the end."""
    depth, kind, made = _depth(rng), rng.random(), Made()
    functions = []
    for place in range(depth + 1):
        below = f"f{place + 1}" if place < depth else ""
        if place == depth and kind < 0.3:
            below = str(rng.choice(["f0", f"f{place}"]))
        nodes = [helper.make_node(below or "Relu", ["a"], ["b"], domain="own" if below else ""),
                 helper.make_node(below or "Relu", ["b"], ["c"], domain="own" if below else "")]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"f{place}", ["a"], ["c"], nodes, imports))
    made.node("f0", "x", y="a", domain="own")
    return _bytes(made, "a", functions=functions)


def _constant_sizes(rng: Rng, count: int) -> list[int]:
    return [_size(rng) if rng.random() < 0.5 else 1 for _ in range(count)]


@_bomb
def filled(rng: Rng) -> bytes:
    made = Made()
    made.node("ConstantOfShape", made.numbers(*_constant_sizes(rng, int(rng.integers(1, 4)))),
              y="a")
    return _bytes(made, "a")


@_bomb
def expanded(rng: Rng) -> bytes:
    made = Made()
    made.node("Expand", _source(rng, made), made.numbers(*_constant_sizes(rng, 2), 2, 3), y="a")
    return _bytes(made, "a")


@_bomb
def tiled(rng: Rng) -> bytes:
    made = Made()
    made.node("Tile", _source(rng, made), made.numbers(*_constant_sizes(rng, 2)), y="a")
    return _bytes(made, "a")


@_bomb
def padded(rng: Rng) -> bytes:
    made = Made()
    made.node("Pad", _source(rng, made), made.numbers(*_constant_sizes(rng, 4)), y="a",
              mode=str(rng.choice(["constant", "reflect", "edge"])))
    return _bytes(made, "a")


@_bomb
def resized(rng: Rng) -> bytes:
    made = Made()
    sizes = made.numbers(*_constant_sizes(rng, 2))
    made.node("Resize", _source(rng, made), "", "", sizes, y="a",
              mode=str(rng.choice(["nearest", "linear", "cubic"])))
    return _bytes(made, "a")


@_bomb
def one_hot(rng: Rng) -> bytes:
    made = Made()
    made.node("OneHot", made.numbers(0, 1, 7), made.numbers(_size(rng)), made.floats(0, 1), y="a",
              axis=int(rng.choice([-1, 0, 1, 2, -3])))
    return _bytes(made, "a")


@_bomb
def outer(rng: Rng) -> bytes:
    """Large broadcasts and products of small factors."""
    made, size = Made(), _size(rng, 1 << 18)
    size = max(size, 0)
    left = made.constant(np.zeros((min(size, 1 << 15), 1), np.float32))
    right = made.constant(np.zeros((1, min(size, 1 << 15)), np.float32))
    operator = str(rng.choice(["Add", "MatMul", "Einsum", "Max", "Equal"]))
    extra = {"equation": "ij,jk->ik"} if operator == "Einsum" else {}
    made.node(operator, left, right, y="a", **extra)
    return _bytes(made, "a")


@_bomb
def wide_window(rng: Rng) -> bytes:
    """Large attributes: kernels, paddings, strides, blocks."""
    made, size = Made(), _size(rng)
    operator = str(rng.choice(["MaxPool", "AveragePool", "Conv", "ConvTranspose", "LpPool",
                               "DepthToSpace", "SpaceToDepth", "Col2Im"]))
    names = {"kernel_shape": 2, "pads": 4, "strides": 2, "dilations": 2}
    if operator in ("DepthToSpace", "SpaceToDepth"):
        made.node(operator, "x", blocksize=size, y="a")
        return _bytes(made, "a", shape=(1, 4, 4, 4))
    attributes = {name: [1] * count for name, count in names.items()}
    chosen = str(rng.choice(list(names)))
    attributes[chosen] = [size, *attributes[chosen][1:]]
    if operator == "Col2Im":
        del attributes["kernel_shape"]
        made.node(operator, "x", made.numbers(size, 4), made.numbers(1, 1), y="a", **attributes)
        return _bytes(made, "a", 18, (1, 4, 16))
    inputs = ("x", made.weight(4, 4, 1, 1)) if operator.startswith("Conv") else ("x",)
    if operator == "LpPool":
        del attributes["dilations"]
    made.node(operator, *inputs, y="a", **attributes)
    return _bytes(made, "a", 17 if operator != "AveragePool" else 19, (1, 4, 4, 4))


@_bomb
def generated(rng: Rng) -> bytes:
    """Operators that make large tensors of a number."""
    made, size = Made(), _size(rng)
    number = made.constant(np.array(size, np.int64))
    match int(rng.integers(5)):
        case 0: made.node("HannWindow", number, y="a")
        case 1: made.node("MelWeightMatrix", number, made.constant(np.array(16, np.int64)),
                          made.constant(np.array(8000, np.int64)), made.floats(0.0),
                          made.floats(4000.0), y="a")
        case 2: made.node("RandomNormal", shape=[size, 2], y="a")
        case 3: made.node("DFT", _source(rng, made, 1, 3, 1), number, axis=1, y="a")
        case 4:
            made.node("TopK", _source(rng, made), made.numbers(size), y="a")
            made.nodes[-1].output.append("places")
    return _bytes(made, "a", shape=(1, 3, 1))


def _body(nodes, last: str, depth: int) -> GraphProto:
    """The body of a loop that carries one value."""
    return helper.make_graph(
        [*nodes, helper.make_node("Identity", [f"more{depth}"], [f"still{depth}"])],
        f"body{depth}",
        [helper.make_tensor_value_info(f"n{depth}", TensorProto.INT64, []),
         helper.make_tensor_value_info(f"more{depth}", TensorProto.BOOL, []),
         helper.make_tensor_value_info(f"c{depth}", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(f"still{depth}", TensorProto.BOOL, []),
         helper.make_tensor_value_info(last, TensorProto.FLOAT, None)])


@_bomb
def loops(rng: Rng) -> bytes:
    """Nested loops; the innermost may grow its value."""
    made, depth = Made(), int(rng.choice([1, 1, 2, 3, 5, 20, 30]))
    trips = made.constant(np.array(_size(rng), np.int64))
    always = made.constant(np.array(True))
    operator = str(rng.choice(["Tanh", "Concat", "Add"]))
    inner = [f"c{depth}"] * (1 if operator == "Tanh" else 2)
    nodes, last = [helper.make_node(operator, inner, [f"o{depth}"])], f"o{depth}"
    if operator == "Concat":
        nodes[0].attribute.append(helper.make_attribute("axis", 0))
    for place in range(depth, 0, -1):
        body = _body(nodes, last, place)
        source = f"c{place - 1}" if place > 1 else _source(rng, made)
        nodes = [helper.make_node("Loop", [trips, always, source], [f"o{place - 1}"], body=body)]
        last = f"o{place - 1}"
    made.nodes += nodes
    return _bytes(made, last)


@_bomb
def choices(rng: Rng) -> bytes:
    """Nested Ifs."""
    made, depth = Made(), int(rng.choice([1, 3, 10, 20, 30]))
    always = made.constant(np.array(bool(rng.random() < 0.5)))
    last = "x"
    graphs = [helper.make_graph([helper.make_node(op, [last], ["o"])], "leaf", [],
                                [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)])
              for op in ("Relu", "Neg")]
    for _ in range(depth):
        node = helper.make_node("If", [always], ["o"], then_branch=graphs[0],
                                else_branch=graphs[1] if rng.random() < 0.5 else graphs[0])
        if node.ByteSize() > 1 << 17:
            break
        graphs[0] = helper.make_graph(
            [node], "g", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)])
    made.nodes.append(helper.make_node("If", [always], ["a"], then_branch=graphs[0],
                                       else_branch=graphs[1]))
    return _bytes(made, "a")


@_bomb
def sequences(rng: Rng) -> bytes:
    made = Made()
    source = _source(rng, made)
    made.node("SequenceConstruct", source, y="s0")
    count = int(rng.choice([1, 3, 9, 100, 1000]))
    for place in range(count):
        made.node("SequenceInsert", f"s{place}", source, y=f"s{place + 1}")
    match int(rng.integers(3)):
        case 0: made.node("ConcatFromSequence", f"s{count}", axis=0, y="a")
        case 1: made.node("SequenceLength", f"s{count}", y="a")
        case 2: made.node("SequenceAt", f"s{count}", made.constant(np.array(_size(rng), np.int64)),
                          y="a")
    return _bytes(made, "a")


@_bomb
def split(rng: Rng) -> bytes:
    made = Made()
    source = _source(rng, made)
    if rng.random() < 0.5:
        made.node("SplitToSequence", source, made.numbers(*_constant_sizes(rng, 2)), axis=1, y="s")
        made.node("SequenceLength", "s", y="a")
    else:
        made.node("Split", source, axis=1, num_outputs=_size(rng), y="a")
    return _bytes(made, "a", 18)


@_bomb
def no_data(rng: Rng) -> bytes:
    """A constant of huge dimensions with little data, or with data elsewhere."""
    made, sizes = Made(), _constant_sizes(rng, int(rng.integers(1, 5)))
    name = made.weight(2, 3)
    tensor = made.constants[-1]
    if rng.random() < 0.5:
        del tensor.dims[:]
        tensor.dims.extend(sizes)
    if rng.random() < 0.3:
        tensor.ClearField("raw_data")
    if rng.random() < 0.3:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", str(rng.choice(
                ["model.onnx", "a" * 5000, "a/" * 3000, "/proc/self/mem", "/dev/zero", "x\ny"]))),
                           ("offset", str(_size(rng))), ("length", str(_size(rng)))):
            if rng.random() < 0.8:
                tensor.external_data.add(key=key, value=value)
    if rng.random() < 0.3:
        made.nodes.append(helper.make_node("Constant", [], ["k"], value=made.constants.pop()))
        name = "k"
    return _bytes(made, name)


@_bomb
def rank(rng: Rng) -> bytes:
    """Tensors of many axes."""
    made, count = Made(), int(rng.choice([1, 5, 8, 16, 30, 31, 32, 33, 60, 63, 64, 65, 70, 1000]))
    match int(rng.integers(4)):
        case 0: made.node("Reshape", _source(rng, made), made.numbers(*[1] * count, 2, 3), y="a")
        case 1: made.node("Unsqueeze", _source(rng, made), made.numbers(*range(count)), y="a")
        case 2: made.node("Expand", _source(rng, made), made.numbers(*[1] * count, 2, 3), y="a")
        case 3:
            made.node("Identity", "x", y="a")
            return _bytes(made, "a", shape=[1] * count)
    return _bytes(made, "a")


@_bomb
def gathered(rng: Rng) -> bytes:
    """Indices within and out of range."""
    made = Made()
    places = made.numbers(0, int(rng.choice([0, 1, 2, 3, -1, -2, -3, -4, 99, 1 << 40, -1 << 63])))
    source, axis = _source(rng, made), int(rng.choice([0, 1, -1, 2, -3]))
    match str(rng.choice(["Gather", "GatherElements", "GatherND", "ScatterND", "Slice"])):
        case "Gather": made.node("Gather", source, places, axis=axis, y="a")
        case "GatherElements":
            made.node("Reshape", places, made.numbers(1, 2), y="p")
            made.node("GatherElements", source, "p", axis=axis, y="a")
        case "GatherND": made.node("GatherND", source, places, y="a")
        case "ScatterND":
            made.node("Unsqueeze", places, made.numbers(0), y="p")
            made.node("ScatterND", source, "p", made.floats(1.0), y="a")
        case "Slice": made.node("Slice", source, made.numbers(_size(rng)), made.numbers(_size(rng)),
                                made.numbers(axis), made.numbers(_size(rng)), y="a")
    return _bytes(made, "a")


@_bomb
def blocks(rng: Rng) -> bytes:
    """int4 and int8 weights with a scale for each block, which may not divide."""
    made = Made()
    code = int(rng.choice([TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8]))
    count = int(rng.choice([1, 6, 7, 8, 9]))
    block = int(rng.choice([0, 1, 2, 3, 4, 8, -2, 1 << 40]))
    tensor = helper.make_tensor("w", code, [3, count], [int(one) for one in
                                                        rng.integers(0, 7, size=3 * count)])
    made.constants.append(tensor)
    scales = made.positive(3, int(rng.choice([1, 2, 3, -(-count // max(block, 1))])))
    made.node("DequantizeLinear", "w", scales, axis=int(rng.choice([1, 1, 0, -1, 5])),
              block_size=block, y="w_float")
    made.node("MatMul", "x", "w_float", y="a")
    return _bytes(made, "a", 21)


@_bomb
def recurrent(rng: Rng) -> bytes:
    """Many steps of a recurrent network, which are unrolled."""
    made, steps = Made(), max(_size(rng, 1 << 20), 1)
    made.node("Expand", "x", made.numbers(steps, 1, 3), y="long")
    hidden = int(rng.choice([1, 4, _size(rng)]))
    made.node(str(rng.choice(["LSTM", "GRU", "RNN"])), "long", made.weight(1, 16, 3),
              made.weight(1, 16, 4), hidden_size=hidden, y="a")
    return _bytes(made, "a", shape=(1, 1, 3))


@_bomb
def scanned(rng: Rng) -> bytes:
    made, steps = Made(), max(_size(rng, 1 << 20), 1)
    made.node("Expand", "x", made.numbers(steps, 3), y="long")
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["u"])],
        "body", [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "se"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "tu"])
    made.nodes.append(helper.make_node("Scan", [made.weight(3), "long"], ["a", "all"], body=body,
                                       num_scan_inputs=1))
    return _bytes(made, "all", shape=(1, 3))


@_bomb
def attribute(rng: Rng) -> bytes:
    """A graph, or a long list, in place of another attribute."""
    made = Made()
    made.node("Softmax", "x", y="a")
    one = AttributeProto(name="axis")
    match int(rng.integers(4)):
        case 0:
            one.type, one.i = AttributeProto.INT, _size(rng)
        case 1:
            one.type = AttributeProto.GRAPH
            one.g.CopyFrom(_body([], "c0", 0))
        case 2:
            one.type = AttributeProto.INTS
            one.ints.extend([1] * 10000)
        case 3:
            one.type, one.s = AttributeProto.STRING, b"\xff" * 3000
    made.nodes[-1].attribute.append(one)
    return _bytes(made, "a")


@_bomb
def names(rng: Rng) -> bytes:
    """Names that are long, strange or empty."""
    made = Made()
    name = str(rng.choice(["a" * 100000, "", "a/b", "../a", "a\nb", "é", "\x00", "%s", "a.npy"]))
    made.node("Relu", "x", y=name)
    made.nodes[-1].name = name
    if rng.random() < 0.5:
        made.nodes[-1].op_type = name
    return _bytes(made, name)


