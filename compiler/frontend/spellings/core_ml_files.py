"""The signs of Core ML's files: operators of programs with the types of what they dequantize, and
the widths of weights of neural networks.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiler.frontend import kinds
from compiler.frontend.core_ml.files import NEURAL_NETWORKS, message_of
from compiler.frontend.core_ml.messages import messages
from compiler.frontend.spellings.signs import FileSigns, Sign

WRITERS = "com.github.apple.coremltools."


def read(path: Path) -> FileSigns:
    spec = message_of(path)
    kind = spec.WhichOneof("Type")
    signs = _of_program(spec.mlProgram) if kind == "mlProgram" else (
        _of_layers(getattr(spec, kind)) if kind in NEURAL_NETWORKS else ())
    return FileSigns.of(kinds.CORE_ML_PACKAGE if path.is_dir() else kinds.CORE_ML,
                        _producers(spec), signs)


def _producers(spec: Any) -> Iterator[str]:
    told = spec.description.metadata.userDefined
    if version := told.get(f"{WRITERS}version"):
        yield f"coremltools {version}"
    yield told.get(f"{WRITERS}source", "")


def _of_program(program: Any) -> Iterator[Sign]:
    types = messages("MIL").DataType
    for function in program.functions.values():
        for block in function.block_specializations.values():
            kinds_of = {output.name: types.Name(output.type.tensorType.dataType).lower()
                        for operation in block.operations for output in operation.outputs}
            for operation in block.operations:
                yield Sign(operation.type, _types(operation, kinds_of, types))


def _types(operation: Any, known: dict[str, str], types: Any) -> str:
    """The types of its integer arguments, values and names, in order."""
    found: dict[str, None] = {}
    given = [*operation.attributes.values(), *(
        argument.value for inputs in operation.inputs.values() for argument in inputs.arguments
        if argument.WhichOneof("binding") == "value")]
    for value in given if operation.type != "const" else ():
        found[types.Name(value.type.tensorType.dataType).lower()] = None
    for inputs in operation.inputs.values():
        for argument in inputs.arguments:
            found[known.get(argument.name, "")] = None
    return ", ".join(name for name in found if name.startswith(("int", "uint"))
                     and name not in ("int32", "int64"))


def _of_layers(network: Any) -> Iterator[Sign]:
    for layer in network.layers:
        yield Sign(layer.WhichOneof("layer") or "layer")
