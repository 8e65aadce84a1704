"""Selects the recurrent layers of ONNX models that become products that can be quantized.

The importer writes a plain LSTM with one product for the inputs of all steps, and one for the state
of each (`compiler.frontend.onnx.operators.recurrent`). All others stay in float.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, helper

from compiler.quantize.networks.network import FUNCTION, LayeredNetwork

RECURRENT = ("LSTM", "GRU", "RNN")
PLAIN = {"clip": 0.0, "input_forget": 0, "layout": 0}
"""Attributes and their required values; `activations` must be ONNX's defaults."""

MOST_STEPS = 1000
"""The most steps of a layer: each has a product, which is measured by itself."""

STATES = "the state of a recurrent layer loses too much in 8 bits"
ACTIVATIONS = [b"Sigmoid", b"Tanh", b"Tanh"]


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Names of nodes; `whole` has the operators of those that stay in float."""

    arranged: frozenset[str] = frozenset()
    whole: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ModelProto, keep_float: Collection[str] = ()) -> "Recurrent":
        """Finds the recurrent layers of a model; plain LSTMs are arranged unless they stay in
        float.
        """
        constants = {tensor.name for tensor in model.graph.initializer}
        named = {node.name or f"{node.op_type}_{index}": node
                 for index, node in enumerate(model.graph.node) if node.op_type in RECURRENT}
        arranged = {name for name, node in named.items()
                    if name not in keep_float and _is_plain(node, constants)}
        return cls(frozenset(arranged), {name: node.op_type for name, node in named.items()
                                         if name not in arranged})

    def reasons(self, network: LayeredNetwork) -> dict[str, str]:
        """Why layers of the network that belong to recurrent nodes stay in float, by the layer's
        name.
        """
        gates = {layer.name: STATES for name in self.arranged for layer in parts(network, name)
                 if layer.node.op == FUNCTION}
        whole = {name: f"{op} has no integer form" for name, op in self.whole.items()}
        for name in self.arranged:
            steps = sum(layer.node.op == "matmul" for layer in parts(network, name))
            if steps > MOST_STEPS:
                whole[name] = f"it has more than {MOST_STEPS} steps"
        return gates | {layer.name: reason for name, reason in whole.items()
                        for layer in parts(network, name)}


def parts(network: LayeredNetwork, name: str) -> list:
    """The layers that a node of a model became: those that have its name, or one that begins with
    it and a dot.
    """
    return [layer for layer in network.layers
            if any(own == name or own.startswith(f"{name}.") for own in layer.names)]


def _is_plain(node: NodeProto, constants: Collection[str]) -> bool:
    attributes = {attribute.name: helper.get_attribute_value(attribute)
                  for attribute in node.attribute}
    ways = 2 if attributes.get("direction") == b"bidirectional" else 1
    return (node.op_type == "LSTM" and not any(node.input[4:])
            and all(name in constants for name in node.input[1:4] if name)
            and all(attributes.get(name, value) == value for name, value in PLAIN.items())
            and attributes.get("activations", ACTIVATIONS * ways) == ACTIVATIONS * ways)
