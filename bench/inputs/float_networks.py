"""Float networks to measure on the host: those of the zoo, and DenseNet-121 as ONNX ships it."""

from pathlib import Path

import numpy as np
import onnx

from compiler.frontend.onnx.importing import convert
from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import optimize
from lockstep.testing import zoo

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = (*(name for name in zoo.NETWORKS if not name.endswith("_step")), "densenet121")


def float_model(name: str, size: int = 224) -> onnx.ModelProto:
    """A float network with seeded random weights. DenseNet-121's weights are all the same, and its
    size is 224. Speech and sequences have sizes of their own.
    """
    if name == "densenet121":
        return onnx.load(LIGHT / "light_densenet121.onnx")
    net = zoo.network(name, None if name in ("keywords", "lstm") else size)
    return zoo.float_model(net, zoo.fill(net))


def float_graph(name: str, size: int = 224) -> Graph:
    """The network's graph as the host compiles it, batch norms folded."""
    return optimize(convert(float_model(name, size), name))


def image(graph: Graph) -> dict[str, np.ndarray]:
    """A random input."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(graph.values[name].shape, np.float32)
            for name in graph.inputs}
