"""Gradients of operators of ONNX that are several of graphs, against central differences."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import convert
from compiler.gradients import grad, mean_squared_error
from compiler.graph import Graph
from tests.support.central_differences import directional, in_float64, slope

IMAGE, ROWS = (2, 4, 5, 6), (3, 4)


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# operator, inputs that are shapes or constants, attributes, results
CASES = [
    ("Sigmoid", [ROWS], {}, 1), ("HardSigmoid", [ROWS], {"alpha": 0.3}, 1),
    ("HardSwish", [ROWS], {}, 1), ("Softplus", [ROWS], {}, 1), ("Softsign", [ROWS], {}, 1),
    ("Gelu", [ROWS], {}, 1), ("Gelu", [ROWS], {"approximate": "tanh"}, 1), ("Mish", [ROWS], {}, 1),
    ("Elu", [ROWS], {"alpha": 0.7}, 1), ("Selu", [ROWS], {}, 1), ("Celu", [ROWS], {}, 1),
    ("PRelu", [ROWS, (4,)], {}, 1), ("ThresholdedRelu", [ROWS], {"alpha": 0.3}, 1),
    ("Softmax", [ROWS], {"axis": 0}, 1), ("LogSoftmax", [ROWS], {}, 1),
    ("LayerNormalization", [ROWS, (4,), (4,)], {}, 1),
    ("GroupNormalization", [IMAGE, (4,), (4,)], {"num_groups": 2}, 1),
    ("InstanceNormalization", [IMAGE, (4,), (4,)], {}, 1),
    ("RMSNormalization", [ROWS, (4,)], {}, 1),
    ("BatchNormalization", [IMAGE, (4,), (4,), (4,), (4,)], {"training_mode": 1}, 3),
    ("LpNormalization", [ROWS], {"p": 2}, 1), ("LRN", [IMAGE], {"size": 3}, 1),
    ("ReduceLogSumExp", [ROWS], {"keepdims": 0}, 1), ("ReduceL2", [ROWS], {}, 1),
    ("ReduceMean", [ROWS, whole(1)], {}, 1), ("CumSum", [ROWS, np.int64(1)], {"reverse": 1}, 1),
    ("Gemm", [ROWS, (5, 4), (5,)], {"alpha": 0.5, "beta": 2.0, "transB": 1}, 1),
    ("Einsum", [ROWS, (4, 5)], {"equation": "ij,jk->ki"}, 1),
    ("Split", [ROWS], {"axis": 1, "num_outputs": 2}, 2), ("Tile", [ROWS, whole(2, 3)], {}, 1),
    ("Expand", [(1, 4), whole(2, 3, 4)], {}, 1), ("Concat", [ROWS, (2, 4)], {"axis": 0}, 1),
    ("Pad", [ROWS, whole(1, 2, 0, 1)], {"mode": "reflect"}, 1),
    ("Slice", [ROWS, whole(3), whole(0), whole(1), whole(-2)], {}, 1),
    ("Resize", [IMAGE, "", "", whole(2, 4, 8, 9)], {"mode": "linear"}, 1),
    ("Resize", [IMAGE, "", "", whole(2, 4, 10, 12)], {"mode": "nearest"}, 1),
    ("Gather", [ROWS, whole(2, 0, 2)], {}, 1), ("DepthToSpace", [IMAGE], {"blocksize": 2}, 1),
    ("ScatterElements", [ROWS, whole(1, 2)[None], (1, 2)], {}, 1),
    ("ScatterND", [ROWS, whole(2, 0)[:, None], (2, 4)], {}, 1),
    ("TopK", [ROWS, whole(2)], {}, 2), ("Trilu", [ROWS], {}, 1),
    ("ConvTranspose", [IMAGE, (4, 1, 3, 2)], {"group": 4, "strides": [2, 3]}, 1),
    ("Conv", [(2, 3, 9), (4, 3, 2)], {"strides": [2], "pads": [1, 0]}, 1),
    ("LpPool", [IMAGE], {"kernel_shape": [2, 3]}, 1),
    ("GRU", [(3, 2, 4), (1, 9, 4), (1, 9, 3)], {"hidden_size": 3}, 1),
    ("RNN", [(3, 2, 4), (1, 3, 4), (1, 3, 3)], {"hidden_size": 3}, 1),
]


def network(op: str, inputs: list, attrs: dict, results: int) -> Graph:
    """The squares of the first result, at a distance from 0."""
    infos, constants, names = [], [], []
    for place, given in enumerate(inputs):
        name = "" if isinstance(given, str) else f"x{place}"
        names.append(name)
        if isinstance(given, tuple):
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, given))
        elif name:
            constants.append(numpy_helper.from_array(np.asarray(given), name))
    made = [f"y{place}" for place in range(results)]
    nodes = [helper.make_node(op, names, made, "it", **attrs)]
    end = helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, op, infos, [end], constants)
    model: onnx.ModelProto = helper.make_model(
        graph, ir_version=11, opset_imports=[helper.make_opsetid("", 23)])
    return mean_squared_error(convert(model, op), "y0")


@pytest.mark.parametrize(("op", "inputs", "attrs", "results"), CASES,
                         ids=[f"{case[0]}{place}" for place, case in enumerate(CASES)])
def test_the_gradient_is_the_slope(op: str, inputs: list, attrs: dict, results: int,
                                   rng: np.random.Generator) -> None:
    graph = network(op, inputs, attrs, results)
    given = {name: rng.standard_normal(graph.values[name].shape).astype(np.float32)
             for name in graph.inputs}
    wrt = [name for name in graph.inputs if name != "target"]
    gradients = list(in_float64(grad(graph, "loss", wrt), given).values())[1:]
    for name, gradient in zip(wrt, gradients, strict=True):
        direction = {name: rng.standard_normal(gradient.shape)}
        assert directional({name: gradient}, direction) == pytest.approx(
            slope(graph, "loss", given, direction), rel=1e-6, abs=1e-7), name
