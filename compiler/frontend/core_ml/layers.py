"""The neural networks that Core ML had before ML programs, as ONNX models, layer by layer.

Only networks whose arrays have the ranks that they are declared with are read, as coremltools
writes them since version 4; older ones put every array into five dimensions.
"""

from typing import Any

import numpy as np

import compiler.frontend.core_ml.layer_rules     # noqa: F401 - registers the layers
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.registry import LAYERS
from compiler.frontend.core_ml.weights import decoded
from compiler.frontend.onnx.nodes.writer import Loaded, OnnxWriter, typed

CONTRADICTIONS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
EXACT = 1
TYPES = {"FLOAT32": np.float32, "DOUBLE": np.float64, "INT32": np.int32, "FLOAT16": np.float32}
CHANNELS = {"GRAYSCALE": 1, "RGB": 3, "BGR": 3}


class MlLayer:
    """The view that functions of layers have: inputs, parameters, and what the converter writes."""

    def __init__(self, network: "NetworkConverter", proto: Any):
        self.network, self.proto, self.write = network, proto, network.write
        self.kind = proto.WhichOneof("layer") or "nothing"
        self.told = getattr(proto, self.kind, None)

    def value(self, place: int = 0) -> str:
        """The ONNX name of an input."""
        name = self.proto.input[place]
        if name not in self.network.stored:
            raise NodeRefused(f"its input {name!r} must be defined before its use")
        return self.network.stored[name]

    def values(self) -> list[str]:
        return [self.value(place) for place in range(len(self.proto.input))]

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        return self.write.node(op, inputs, **attributes)

    def scalar(self, number: float) -> str:
        return self.write.constant(np.float32(number))

    def constant(self, weights: Any, *shape: int, outputs: int = 0) -> str:
        """Weights of the file, which have outputs along this axis."""
        return self.write.constant(decoded(weights, shape, outputs), f"{self.write.current}.weight")


class NetworkConverter:
    """`stored` has the ONNX names of the network's values."""

    def __init__(self, spec: Any, network: Any, name: str):
        self.spec, self.network = spec, network
        self.write, self.stored = OnnxWriter(name), {}

    def run(self) -> Loaded:
        if self.network.preprocessing:
            raise ImportRefused("has preprocessing of images outside of its layers; convert the "
                                "network with arrays as its inputs")
        for given in self.spec.description.input:
            self._input(given)
        for proto in self.network.layers:
            self._convert(proto)
        for name in self._outputs():
            self._output(name)
        return Loaded(self.write.model())

    def _input(self, given: Any) -> None:
        kind = given.type.WhichOneof("Type")
        if kind == "imageType":
            image = given.type.imageType
            channels = CHANNELS.get(type(image).ColorSpace.Name(image.colorSpace), 0)
            shape, dtype = (1, channels, image.height, image.width), np.float32
        elif kind == "multiArrayType" and self.network.arrayInputShapeMapping == EXACT:
            array = given.type.multiArrayType
            shape = tuple(array.shape)
            dtype = TYPES.get(type(array).ArrayDataType.Name(array.dataType))
        else:
            raise ImportRefused(f"input {given.name!r} must be an array of the rank that it is "
                                "declared with; convert the network again with coremltools 4 or "
                                "newer")
        if dtype is None or not all(shape):
            raise ImportRefused(f"input {given.name!r} must have a type and a shape")
        self.stored[given.name] = self.write.fresh(given.name)
        self.write.add_input(self.stored[given.name], dtype, shape)

    def _outputs(self) -> list[str]:
        """Names of what layers make: of a classifier the probabilities."""
        made = [name for proto in self.network.layers for name in proto.output]
        told = [value.name for value in self.spec.description.output if value.name in made]
        label = getattr(self.network, "labelProbabilityLayerName", "")
        return told or ([label] if label in made else made[-1:])

    def _output(self, name: str) -> None:
        self.write.begin(name)
        called = self.write.fresh(name)
        if self.stored[name] != called:
            self.write.node("Identity", [self.stored[name]], called)
        self.write.add_output(called, np.float32, None)

    def _convert(self, proto: Any) -> None:
        read = MlLayer(self, proto)
        self.write.begin(proto.name or read.kind)
        kept = len(self.write.nodes)
        try:
            rule = LAYERS.get(read.kind)
            if rule is None:
                raise NodeRefused("layer is not supported")
            made = rule(read)
            results = made if isinstance(made, list) else [made]
            self.stored.update(zip(proto.output, results, strict=True))
        except (NodeRefused, *CONTRADICTIONS) as error:
            del self.write.nodes[kept:]
            reason = str(error) if isinstance(error, NodeRefused) else (
                f"its parameters contradict each other ({type(error).__name__}: {error})")
            names = {name: self.write.fresh(name) for name in proto.output}
            shapes = [tuple(told.dimValue) if told.rank and len(told.dimValue) == told.rank
                      and min(told.dimValue) > 0 else None for told in proto.outputTensor]
            self.stored.update(names)
            self.write.refuse(read.kind, [], [
                typed(name, np.float32, shapes[place] if place < len(shapes) else None)
                for place, name in enumerate(names.values())], reason)
