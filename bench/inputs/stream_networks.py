"""Float networks that gain from units of one's own, with seeded weights and samples.

- `tagger`: tags for each byte of a text, from the embeddings of the bytes around it: the window
  approach of R. Collobert et al., Natural Language Processing (Almost) from Scratch, 2011.
- `ranker`: the best of many items for a user, and which they are: the last layers of a network that
  recommends, as P. Covington et al. have them: Deep Neural Networks for YouTube, 2016.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WINDOW, WIDTH, HIDDEN, TAGS, BEST = 5, 32, 64, 16, 5
SAMPLES = 8

Feeds = dict[str, np.ndarray]


class Net:
    """A float network of ONNX, layer by layer, with seeded weights of He's scale."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        return name

    def add(self, op: str, name: str, *inputs: str, outputs: int = 1, **attributes) -> str:
        results = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, results, name, **attributes))
        return name

    def dense(self, name: str, x: str, depth: int, width: int) -> str:
        weight = self.rng.normal(size=(depth, width)) / np.sqrt(depth / 2)
        return self.add("MatMul", name, x, self.constant(f"{name}.w", weight.astype(np.float32)))

    def model(self, x: tuple[int, tuple[int, ...]], *results: tuple[str, int, tuple[int, ...]]
              ) -> onnx.ModelProto:
        """The network; its input is ``x``."""
        return helper.make_model(helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("x", *x)],
            [helper.make_tensor_value_info(*result) for result in results],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()]),
            opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def tagger(places: int = 256, words: int = 256, seed: int = 0) -> tuple[onnx.ModelProto, Feeds]:
    """Tags for so many bytes, and samples."""
    net = Net(seed)
    table = net.constant("table", net.rng.normal(size=(words, WIDTH)).astype(np.float32))
    shape = net.constant("shape", np.array([places, WINDOW * WIDTH], np.int64))
    x = net.add("Reshape", "windows", net.add("Gather", "embed", table, "x", axis=0), shape)
    x = net.add("Relu", "relu", net.dense("hidden", x, WINDOW * WIDTH, HIDDEN))
    net.dense("tags", x, HIDDEN, TAGS)
    model = net.model((TensorProto.INT64, (places, WINDOW)),
                      ("tags", TensorProto.FLOAT, (places, TAGS)))
    return model, {"x": net.rng.integers(0, words, (SAMPLES, places, WINDOW))}


def ranker(items: int = 1000, seed: int = 0) -> tuple[onnx.ModelProto, Feeds]:
    """The best of so many items, and samples."""
    net = Net(seed)
    x = net.add("Relu", "relu", net.dense("hidden", "x", HIDDEN, HIDDEN))
    best = net.constant("best", np.array([BEST], np.int64))
    net.add("TopK", "top", net.dense("scores", x, HIDDEN, items), best, outputs=2, axis=-1)
    model = net.model((TensorProto.FLOAT, (1, HIDDEN)), ("top", TensorProto.FLOAT, (1, BEST)),
                      ("top.1", TensorProto.INT64, (1, BEST)))
    return model, {"x": net.rng.normal(size=(SAMPLES, HIDDEN)).astype(np.float32)}
