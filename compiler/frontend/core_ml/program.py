"""An ML program as an ONNX model, operation by operation.

Programs of float16 are computed in float32, from weights as they are stored: what Core ML rounds
after each operation is not rounded. Inputs and outputs have the types of the file.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

import compiler.frontend.core_ml.elementwise
import compiler.frontend.core_ml.movement
import compiler.frontend.core_ml.quantization
import compiler.frontend.core_ml.reductions
import compiler.frontend.core_ml.windows        # noqa: F401 - these register the operations
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.messages import messages
from compiler.frontend.core_ml.quantization import ScaledSteps
from compiler.frontend.core_ml.registry import OPERATIONS
from compiler.frontend.core_ml.weights import DTYPES, elements
from compiler.frontend.onnx.nodes.writer import Loaded, OnnxWriter, typed

CONTRADICTIONS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
MISSING = object()
FIELDS = ("floats", "ints", "bools", "longInts", "doubles", "bytes", "strings")


class MilOperation:
    """The view that functions of operations have: arguments by name, and what the converter
    writes."""

    def __init__(self, program: "ProgramConverter", proto: Any):
        self.program, self.proto, self.write = program, proto, program.write

    @property
    def type(self) -> str:
        return self.proto.type

    @property
    def outputs(self) -> list[str]:
        return [output.name for output in self.proto.outputs]

    def names(self, argument: str) -> list[str]:
        """The program's names of an argument's values."""
        bindings = self.proto.inputs[argument].arguments if argument in self.proto.inputs else ()
        return [self.program.named(binding) for binding in bindings]

    def has(self, argument: str) -> bool:
        return argument in self.proto.inputs or argument in self.proto.attributes

    def value(self, argument: str) -> str:
        """The ONNX name of an argument."""
        names = self.names(argument)
        if len(names) != 1:
            raise NodeRefused(f"its {argument} must be given")
        return self.program.value(names[0])

    def values(self, argument: str) -> list[str]:
        return [self.program.value(name) for name in self.names(argument)]

    def known(self, argument: str, default: Any = MISSING) -> Any:
        """A constant argument: an array, a string where it is text; the default where it is left
        out.
        """
        found = self.constant(argument, default)
        return found.floats if isinstance(found, ScaledSteps) else found

    def constant(self, argument: str, default: Any = MISSING) -> Any:
        """A constant argument as `known` gives it, or integers with their scales."""
        if argument in self.proto.attributes:
            return self.program.decoded(self.proto.attributes[argument])
        names = self.names(argument)
        if not names:
            if default is MISSING:
                raise NodeRefused(f"its {argument} must be given")
            return default
        found = self.program.constants.get(names[0])
        if found is None:
            raise NodeRefused(f"its {argument} must be a constant")
        return found

    def integers(self, argument: str, default: Any = MISSING) -> list[int]:
        found = self.known(argument, default)
        return [int(number) for number in np.asarray(found).reshape(-1)]

    def integer(self, argument: str, default: Any = MISSING) -> int:
        return self.integers(argument, default)[0]

    def number(self, argument: str, default: Any = MISSING) -> float:
        return float(np.asarray(self.known(argument, default)).reshape(()))

    def flag(self, argument: str, default: bool = False) -> bool:
        return bool(np.asarray(self.known(argument, default)).reshape(()))

    def shape(self, argument: str) -> tuple[int, ...]:
        """The extents of an argument, which must be known."""
        name = next(iter(self.names(argument)), "")
        if name in self.program.constants:
            return np.shape(self.program.constants[name])
        shape = self.program.shapes.get(name)
        known = tuple(extent for extent in shape or () if extent is not None)
        if shape is None or len(known) < len(shape):
            raise NodeRefused(f"its {argument} must have no open dimension")
        return known

    def rank(self, argument: str) -> int:
        return len(self.program.shapes[self.names(argument)[0]])

    def dtype(self, argument: str) -> np.dtype:
        """The element type of an argument."""
        name = self.names(argument)[0]
        known = self.program.constants.get(name)
        return self.program.types[name] if known is None else known.dtype

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.write.node(op, inputs, **attributes)

    def scalar(self, number: float, like: str = "") -> str:
        """A constant of float32, or of the type of the argument `like`."""
        dtype = self.program.types.get(self.names(like)[0], np.float32) if like else np.float32
        return self.write.constant(np.asarray(number, computed_in(dtype)))


class ProgramConverter:
    """`constants` are the known values by the program's names, `stored` the ONNX names of all."""

    def __init__(self, spec: Any, name: str, weights: Any):
        self.kinds, self.spec, self.weights = messages("MIL").DataType, spec, weights
        functions = spec.mlProgram.functions
        if len(functions) != 1:
            raise ImportRefused("must have one function, not "
                                f"{len(functions)}; save each as a model of its own")
        self.function = next(iter(functions.values()))
        self.block = self.function.block_specializations[self.function.opset]
        self.write = OnnxWriter(name)
        self.constants: dict[str, Any] = {}
        self.stored: dict[str, str] = {}
        self.shapes: dict[str, tuple[int | None, ...]] = {}
        self.types: dict[str, Any] = {}
        self.anonymous = 0

    def run(self) -> Loaded:
        extents: dict[str, int] = {}
        for given in self.function.inputs:
            extents.update(self._input(given))
        for proto in self.block.operations:
            self._convert(proto)
        for name in self.block.outputs:
            self._output(name)
        return Loaded(self.write.model(), extents)

    def _input(self, given: Any) -> dict[str, int]:
        self._note(given)
        dtype, shape = self.types[given.name], self.shapes[given.name]
        name = self.write.fresh(given.name)
        self.write.add_input(name, dtype, shape)
        self.write.begin(f"{name}.float")
        self.stored[given.name] = name if computed_in(dtype) == dtype else self.write.node(
            "Cast", [name], to=onnx.TensorProto.FLOAT)
        return {f"{name}.0": 1} if shape and shape[0] is None else {}

    def _output(self, name: str) -> None:
        self.write.begin(name)
        if name not in self.stored and name not in self.constants:
            return                                      # made by what is refused
        made, dtype = self.value(name), self.types.get(name, np.float32)
        called = self.write.fresh(name)
        if computed_in(dtype) != np.dtype(dtype):
            self.write.node("Cast", [made], called,
                            to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        elif made != called:
            self.write.node("Identity", [made], called)
        self.write.add_output(called, dtype, self.shapes[name])

    def _note(self, told: Any) -> None:
        """Keeps what the file says of a value."""
        tensor = told.type.tensorType
        kind = self.kinds.Name(tensor.dataType)
        self.types[told.name] = np.dtype(DTYPES.get(kind, np.float32))
        self.shapes[told.name] = tuple(
            dimension.constant.size if dimension.HasField("constant") else None
            for dimension in tensor.dimensions)

    def _convert(self, proto: Any) -> None:
        for output in proto.outputs:
            self._note(output)
        self.write.begin(proto.outputs[0].name if proto.outputs else proto.type)
        kept = len(self.write.nodes)
        try:
            if proto.type == "const":
                self.constants[proto.outputs[0].name] = self.decoded(proto.attributes["val"])
                return
            rule = OPERATIONS.get(proto.type)
            if rule is None:
                raise NodeRefused("operation is not supported")
            made = rule(MilOperation(self, proto))
            results = made if isinstance(made, list) else [made]
            for output, result in zip(proto.outputs, results, strict=True):
                self._keep(output.name, result)
        except (NodeRefused, *CONTRADICTIONS) as error:
            del self.write.nodes[kept:]
            self._refuse(proto, error)

    def _keep(self, name: str, result: Any) -> None:
        """Keeps a result: the ONNX name of what is computed, or a constant."""
        if isinstance(result, str):
            self.stored[name] = result
            return
        self.constants[name] = result
        if isinstance(result, ScaledSteps):
            self.stored[name] = self.dequantized(result)

    def _refuse(self, proto: Any, error: Exception) -> None:
        reason = str(error) if isinstance(error, NodeRefused) else (
            f"its arguments contradict each other ({type(error).__name__}: {error})")
        told = []
        for output in proto.outputs:
            self.stored[output.name] = name = self.write.fresh(output.name)
            told.append(typed(name, computed_in(self.types[output.name]),
                              self.shapes[output.name]))
        self.write.refuse(proto.type, [], told, reason)

    def named(self, binding: Any) -> str:
        """The name of a binding; a constant that stands in the place of one gets one."""
        if binding.WhichOneof("binding") == "name":
            return binding.name
        self.anonymous += 1
        name = f"\0{self.anonymous}"
        self.constants[name] = self.decoded(binding.value)
        return name

    def value(self, name: str) -> str:
        """The ONNX name of a value of the program; constants come with their first reader."""
        if name not in self.stored:
            array = self.constants.get(name)
            if not isinstance(array, np.ndarray):
                raise NodeRefused(f"its input {name!r} must be a tensor that is defined before "
                                  "its use")
            self.stored[name] = self.write.constant(array.astype(computed_in(array.dtype)),
                                                    name.strip("\0"))
        return self.stored[name]

    def dequantized(self, constant: ScaledSteps) -> str:
        """The ONNX name of a constant of integers."""
        inputs = [self.write.constant(array) for array in (
            constant.steps, constant.scale, constant.zero)]
        return self.write.beside("DequantizeLinear", inputs, axis=constant.axis)

    def decoded(self, value: Any) -> Any:
        """A constant of the file: an array, or a string."""
        tensor = value.type.tensorType
        kind = self.kinds.Name(tensor.dataType)
        shape = tuple(dimension.constant.size for dimension in tensor.dimensions)
        if kind != "STRING" and kind not in DTYPES:
            raise NodeRefused(f"constants of {kind} are not supported")
        if value.WhichOneof("value") == "blobFileValue":
            blob = value.blobFileValue
            return self.weights.array(blob.fileName, blob.offset, kind, shape)
        field = value.immediateValue.tensor.WhichOneof("value")
        if field not in FIELDS:
            raise NodeRefused("a constant must be a tensor")
        told = getattr(value.immediateValue.tensor, field).values
        if field == "strings":
            return told[0] if len(told) == 1 else list(told)
        if field == "bytes":
            return elements(told, kind, shape)
        return np.array(list(told), DTYPES[kind]).reshape(shape)


def computed_in(dtype: Any) -> np.dtype:
    """The type that values of a type are computed in."""
    return np.dtype(np.float32) if np.dtype(dtype) == np.float16 else np.dtype(dtype)
