"""ONNX models as graphs.

Shapes are constants: symbolic dimensions are bound by name on import. Everything that a user can
get wrong raises ImportRefused, whose message is one line: what, where and what to do.
"""

import warnings
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

import compiler.frontend.onnx.operators       # noqa: F401 - registers the operators
from compiler.frontend.building.binding import dimensions, open_dimensions, real_inputs
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.training import InTraining
from compiler.frontend.building.values import MOST_STEPS, NodeRefused, dtype_name
from compiler.frontend.onnx.nodes.functions import expanded
from compiler.frontend.onnx.nodes.importer import CONTRADICTIONS, Importer, element_type
from compiler.graph.graph import Graph, TensorType
from compiler.graph.notes import UNUSED, UNUSED_PART, Note

__all__ = ["ImportRefused", "check_functions", "check_model", "convert", "load", "read_model"]

OLDEST_OPSET = 1
"""Before 7 many operators had attributes that they lack today; those are refused one by one."""

PAGE = "docs/onnx.md"

UNUSED_KEY = f"lockstep.{UNUSED_PART}"

UNREAD = ("doc_string", "metadata_props")


def load(path: str | PathLike[str], shapes: Mapping[str, int] | None = None) -> Graph:
    """The graph of an ONNX file, named after it; `shapes` binds symbolic dimensions by name."""
    path = Path(path)
    model = read_model(path)
    return convert(model, path.stem, shapes, place=str(path))


def read_model(path: Path) -> onnx.ModelProto:
    """An ONNX file with its external data, as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # unknown keys of external data are of no account
            return onnx.load(path, format="protobuf")
    except FileNotFoundError:
        raise ImportRefused(f"{path}: no such file; give the path of an ONNX model") from None
    except DecodeError:
        raise ImportRefused(f"{path}: is not an ONNX file; give a model in .onnx format") from None
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read: {error.strerror or error}") from None
    except RuntimeError as error:       # what the checker finds on the way to external data
        raise ImportRefused(f"{path}: its external data cannot be read: {str(error)[:200]}; export "
                            f"it again") from None
    except (onnx.checker.ValidationError, *CONTRADICTIONS) as error:
        reason = str(error) or type(error).__name__
        raise ImportRefused(f"{path}: is not a valid ONNX model: {reason}; export it again"
                            ) from None


def convert(model: onnx.ModelProto, name: str = "model",
            shapes: Mapping[str, int] | None = None, place: str | None = None,
            arranged: Collection[str] = (), page: str = PAGE,
            training: InTraining | None = None) -> Graph:
    """The graph of a model in memory; `place` stands before every refusal (the name unless told).
    Nodes in `arranged` are LSTMs that get the form that can be quantized. `page` says what is
    supported of the model's kind. With `training`, which then has what it found, norms and dropouts
    are as in training.
    """
    place = place or name
    check_model(model, place)
    importer = Importer(model, name)
    importer.arranged, importer.extents = arranged, dict(shapes or {})
    importer.training = training
    importer.define_initializers(model.graph)
    for value, type_ in _input_types(model.graph, dict(shapes or {}), place):
        importer.names[value] = importer.input(value, type_) if isinstance(type_, TensorType) \
            else importer.constant(type_, value)
    for index, proto in enumerate(model.graph.node):
        importer.add(proto, index)
    return _finished(importer, place, page)


def _finished(importer: Importer, place: str, page: str) -> Graph:
    if importer.refusals:
        raise ImportRefused(f"{place}: cannot import {'; '.join(importer.refusals)}; replace "
                            f"these in the model ({page} says what is supported)",
                            importer.refusals)
    for output in importer.model.graph.output:
        if output.name not in importer.names:
            raise ImportRefused(f"{place}: output {output.name!r} is made by no node; "
                                "export the model again")
    names = dict.fromkeys(output.name for output in importer.model.graph.output)
    importer.builder.notes.extend(unused_notes(importer.model))
    try:
        return importer.builder.finish([importer.result(name) for name in names])
    except NodeRefused as error:
        raise ImportRefused(f"{place}: {error}") from None


def unused_notes(model: onnx.ModelProto) -> list[str]:
    """Notes of the quantizer that wrote the model on instructions that no layer uses."""
    return [str(Note(entry.key.removeprefix(UNUSED_KEY), "instruction", UNUSED, entry.value))
            for entry in model.metadata_props if entry.key.startswith(UNUSED_KEY)]


def check_model(model: onnx.ModelProto, place: str) -> None:
    if not model.HasField("graph"):
        raise ImportRefused(f"{place}: is not an ONNX model with a graph; "
                            "give a model in .onnx format")
    if not model.graph.output:
        raise ImportRefused(f"{place}: has no outputs; export the model again")
    newest = onnx.defs.onnx_opset_version()
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    version = max(versions, default=newest)
    if not OLDEST_OPSET <= version <= newest:
        raise ImportRefused(f"{place}: opset must be {OLDEST_OPSET} to {newest}, not {version}; "
                            "convert the model with onnx.version_converter")
    if model.graph.sparse_initializer:
        raise ImportRefused(f"{place}: sparse initializers are not supported; store "
                            f"{model.graph.sparse_initializer[0].values.name!r} as a dense tensor")
    check_names(model, place)
    check_functions(model, place)


def check_names(message: Message, place: str) -> None:
    """Refuses names that are no text: protobuf gives these as bytes."""
    for field, value in _fields(message):
        for item in value if field.is_repeated else (value,):
            if isinstance(item, Message):
                check_names(item, place)
            elif isinstance(item, bytes):
                raise ImportRefused(f"{place}: names must be UTF-8, not {item!r}; export the "
                                    f"model again")


def _fields(message: Message) -> list[tuple[Any, Any]]:
    """Texts and messages in a message; of a tensor the name alone, its data may be large."""
    if isinstance(message, onnx.TensorProto):
        return [(message.DESCRIPTOR.fields_by_name["name"], message.name)]
    return [(field, value) for field, value in message.ListFields() if field.name not in UNREAD
            and field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE)]


def check_functions(model: onnx.ModelProto, place: str) -> None:
    """Refuses functions that stand for too many operators, or for themselves: before ONNX's own
    inference, which puts them in one by one.
    """
    try:
        count = expanded(model)
    except NodeRefused as error:
        raise ImportRefused(f"{place}: {error}; export the model again") from None
    if count > MOST_STEPS:
        raise ImportRefused(f"{place}: must have {MOST_STEPS:,} operators at most with its "
                            f"functions put in, not {count:,}; make it smaller")


def _input_types(graph: onnx.GraphProto, shapes: dict[str, int],
                 place: str) -> list[tuple[str, TensorType | np.ndarray]]:
    """Name and type of every input that has no initializer, symbolic dimensions bound; the array of
    one without elements, which is known.
    """
    inputs = real_inputs(graph)
    _check_bindings(open_dimensions(inputs), shapes, place)
    return [(value.name, _input_type(value, shapes, place)) for value in inputs]


def _check_bindings(places: Mapping[str, str], shapes: Mapping[str, int], place: str) -> None:
    names = dict.fromkeys(places.values())
    for name, extent in shapes.items():
        if name not in names and name not in places:
            raise ImportRefused(f"{place}: --shape {name}={extent} names no dimension of the "
                                f"inputs; the symbolic ones are: {', '.join(names) or 'none'}")
        if type(extent) is not int or extent < 1:
            raise ImportRefused(f"{place}: --shape {name}=N must have an integer N of at least 1, "
                                f"not {extent!r}")
    unbound = {name: where for where, name in list(places.items())[::-1]
               if name not in shapes and where not in shapes}
    if unbound:
        unbound = {name: unbound[name] for name in names if name in unbound}
        listed = ", ".join(f"{name!r} of input {where.rpartition('.')[0]!r}"
                           for name, where in unbound.items())
        example = " ".join(f"--shape {name}=1" for name in unbound)
        raise ImportRefused(f"{place}: no value for dimension {listed}; bind each with "
                            f"--shape NAME=N, for example {example}")


def _input_type(value: onnx.ValueInfoProto, shapes: Mapping[str, int], place: str
                ) -> TensorType | np.ndarray:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not tensor.elem_type:
        raise ImportRefused(f"{place}: input {value.name!r} must be a tensor with a shape; "
                            "declare its type and shape in the model")
    shape = tuple(shapes.get(f"{value.name}.{axis}") or shapes[dim] if isinstance(dim, str)
                  else dim for axis, dim in enumerate(dimensions(value)))
    try:
        dtype = element_type(tensor.elem_type)
        return np.empty(shape, dtype) if 0 in shape else TensorType(shape, dtype_name(dtype))
    except (ValueError, KeyError, TypeError) as error:
        raise ImportRefused(f"{place}: input {value.name!r} cannot be used: {error}; "
                            "change its type in the model") from None
