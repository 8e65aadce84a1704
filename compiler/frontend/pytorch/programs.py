"""PyTorch programs as graphs: what `torch.export` gives, operator by operator of ATen.

Parameters and buffers are shared, not copied: a constant of the graph lies where torch has it, and
must not change there while the graph, or what was compiled from it, is in use. Shapes are
constants: symbolic dimensions are bound on import, as for ONNX. Nothing of the program is executed.
Operators that are not in our table are decomposed by torch, as are those that change a tensor in
place.

torch is imported where it is used.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import compiler.frontend.pytorch.aten           # noqa: F401 - registers the operators
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.values import NodeRefused, Tracer, Value, frozen
from compiler.frontend.pytorch.aten import registry, symbols
from compiler.frontend.pytorch.files import quiet, read, require_torch
from compiler.frontend.pytorch.sizes import Sizes, open_dimensions
from compiler.graph.graph import DTYPES, Graph, Node, TensorType
from compiler.graph.rewrite import Builder, eliminate_dead_code

UNKNOWN = object()
"""The result of a node that is refused, where it is no tensor."""

IGNORED = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "generator")
"""Arguments that change where a tensor lies, not what it is."""

CONTRADICTIONS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
                  AssertionError, MemoryError, RecursionError)


def graph_of(model: Any, shapes: Mapping[str, int] | None = None, example_inputs: Any = None,
             arrays: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph of what `program_of` takes; that of a file is named after it. Dimensions that
    `shapes` leave open have the extents of `arrays`, by the name of the input.

    Load what you trust alone: see `read`.
    """
    return _graph(program_of(model, example_inputs), _place(model), shapes, arrays or {})


def _place(model: Any) -> str | None:
    return str(model) if isinstance(model, str | PathLike) else None


def _graph(program: Any, place: str | None, shapes: Mapping[str, int] | None,
           arrays: Mapping[str, np.ndarray]) -> Graph:
    extents = {where: np.shape(array)[axis] for where, name, axis in _open_places(program)
               if (array := arrays.get(name)) is not None and axis < np.ndim(array)}
    return convert(program, Path(place or "model").stem, {**extents, **(shapes or {})}, place)


def _open_places(program: Any) -> list[tuple[str, str, int]]:
    """INPUT.AXIS of open dimensions, and its parts."""
    parts = [(where, *where.rpartition(".")[::2]) for where in open_dimensions(program)]
    return [(where, name, int(axis)) for where, name, axis in parts]


def exported(module: Any, inputs: Any) -> Any:
    """The ExportedProgram of an nn.Module for example inputs: a tuple, or one tensor."""
    torch = require_torch()
    if inputs is None:
        raise ImportRefused(f"{type(module).__name__}: must come with example inputs, or as the "
                            "program that torch.export.export made of it")
    inputs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(module, inputs)
    except Exception as error:      # the module's own code runs, and may do anything
        raise ImportRefused(f"{type(module).__name__}: {_why_not(module, error)}") from error


QUANTIZED = ("must hold no quantized tensors or packed weights (quantized::* operators), which "
             "torch.export does not take; quantize by torchao's convert_pt2e, or call torch.ao."
             "quantization.quantize_fx._convert_to_reference_decomposed_fx in place of convert_fx")


def _why_not(module: Any, error: Exception) -> str:
    """Why a module cannot be exported."""
    packed = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if reason.startswith("quantized nyi") or any(
            type(part).__module__.startswith(packed) for part in module.modules()):
        return QUANTIZED
    return f"torch.export.export refuses it: {reason}"


def program_of(model: Any, example_inputs: Any = None) -> Any:
    """The ExportedProgram of a .pt2 file, of an nn.Module, or itself."""
    if isinstance(model, str | PathLike):
        return read(model)
    if isinstance(model, require_torch().nn.Module):
        return exported(model, example_inputs)
    return model


def of_samples(program: Any, samples: Mapping[str, np.ndarray] | np.ndarray, place: str,
               shapes: Mapping[str, int], arrays: Mapping[str, np.ndarray]) -> Graph:
    """The graph of an ExportedProgram for one sample at a time of arrays by the name of the input,
    or of the only input: [count, ...], or as the input is, with samples along the first axis.
    Open dimensions are those of `shapes`, else of `arrays`, else of the samples.
    """
    ranks = {node.name: len(node.meta["val"].shape) for node in program.graph.nodes
             if node.op == "placeholder" and hasattr(node.meta.get("val"), "shape")}
    if not isinstance(samples, Mapping):
        samples = dict.fromkeys(ranks, samples)
    single = {name: array[:1] if 0 < np.ndim(array) <= ranks.get(name, 0) else np.asarray(array)[0]
              for name, array in samples.items() if np.ndim(array)}
    return _graph(program, place, shapes, single | dict(arrays))


def convert(program: Any, name: str = "model", shapes: Mapping[str, int] | None = None,
            place: str | None = None) -> Graph:
    """The graph of an ExportedProgram; `place` stands before every refusal (the name unless told).

    `shapes` binds symbolic dimensions, each as INPUT.AXIS or by torch's symbol.
    """
    torch, place = require_torch(), place or name
    with quiet():
        program = _decomposed(torch, program, place)
        sizes = Sizes(program, dict(shapes or {}), place)
        return _Importer(torch, program, name, sizes, place).graph()


def _decomposed(torch: Any, program: Any, place: str) -> Any:
    """The program when it is functional and of known operators, else as torch decomposes it."""
    calls = [node.target for module in program.graph_module.modules() if hasattr(module, "graph")
             for node in module.graph.nodes if node.op == "call_function"]
    of_aten = [call for call in calls if isinstance(call, torch._ops.OpOverload)]
    if not any(map(_must_be_decomposed, of_aten)):
        return program
    table = torch.export.default_decompositions()
    for call in list(table):
        if registry.find(_name_of(call)) is not None:
            table.pop(call)
    try:
        return program.run_decompositions(table)
    except Exception as error:      # torch says in many ways that it cannot
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ImportRefused(f"{place}: torch cannot decompose it: {reason}") from error


def _must_be_decomposed(call: Any) -> bool:
    name = _name_of(call)
    return registry.find(name) is None or (
        call._schema.is_mutable and name.partition(".")[0] not in registry.UNCHANGING)


def _name_of(target: Any) -> str:
    """``add.Tensor`` of ATen; operators of others with their namespace, ``my::op.default``."""
    text = str(target)
    return text[len("aten."):] if text.startswith("aten.") else text.replace(".", "::", 1)


class _Importer(Tracer):
    """A graph built from a program's nodes. What is refused is collected; the results of a refused
    node are taken to be of the types that torch found, and its readers are judged by that.
    """

    opset, depth, outputs = 22, 0, ()           # what functions of ONNX operators ask for

    def __init__(self, torch: Any, program: Any, name: str, sizes: Sizes, place: str):
        self.torch, self.program, self.sizes, self.place = torch, program, sizes, place
        signature = program.graph_signature
        named = [spec.target for spec in signature.input_specs if spec.target is not None]
        given = [node.name for node in program.graph.nodes if node.op == "placeholder"]
        results = _result_names(torch, program, {*named, *given})
        super().__init__(Builder(name, (*named, *given, *results)))
        self.results = results
        self.names_of_constants.update(named)
        self.items: dict[Any, Any] = {}
        self.refusals: list[str] = []
        self.layers = _layer_names(program.graph.nodes)

    def graph(self) -> Graph:
        nodes = list(self.program.graph.nodes)
        specs = iter(self.program.graph_signature.input_specs)
        for node in nodes:
            match node.op:
                case "placeholder": self._define(node, next(specs))
                case "get_attr":
                    self.items[node] = self._attribute(self.program.graph_module, node)
                case "call_function": self._add(node)
        self._refuse_changes()
        if self.refusals:
            raise ImportRefused(f"{self.place}: cannot import {'; '.join(self.refusals)}; replace "
                                "these in the module (docs/torch.md says what is supported)",
                                self.refusals)
        outputs = next(node for node in nodes if node.op == "output").args[0]
        try:
            results = [self._result(name, self._item(node)) for name, node
                       in zip(self.results, outputs, strict=True) if node is not None]
        except NodeRefused as error:
            raise ImportRefused(f"{self.place}: {error}") from None
        return eliminate_dead_code(self.builder.finish(results))

    # ---- what is given -------------------------------------------------------------------------

    def _define(self, node: Any, spec: Any) -> None:
        kind = spec.kind.name
        try:
            if kind == "USER_INPUT":
                self.items[node] = self._input(node, spec.arg)
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                self.items[node] = self.constant(self._shared(spec.target), spec.target)
            elif kind == "TOKEN":               # of the order of effects
                self.items[node] = UNKNOWN
            else:
                raise NodeRefused(f"inputs of kind {kind} are not supported")
        except (NodeRefused, *CONTRADICTIONS) as error:
            self.refusals.append(f"{spec.target or node.name} (input): {error}")
            self.items[node] = UNKNOWN

    def _input(self, node: Any, argument: Any) -> Any:
        value = node.meta.get("val")
        if hasattr(argument, "value"):                  # a number or None, which export fixed
            return argument.value
        if not isinstance(value, self.torch.Tensor):
            return self.sizes.of(value)
        return self.input(node.name, self._type(value))

    def _type(self, tensor: Any) -> TensorType:
        """The type of a fake tensor."""
        return TensorType(tuple(map(self.sizes.of, tensor.shape)), dtype_name(tensor.dtype))

    def _shared(self, target: str) -> np.ndarray:
        state, constants = self.program.state_dict, self.program.constants
        return shared(state[target] if target in state else constants[target])

    def _attribute(self, module: Any, node: Any) -> Any:
        """An attribute of a module: the constant where it is a tensor, else what it is, the body of
        an operator of higher order.
        """
        for part in node.target.split("."):
            module = getattr(module, part)
        tensor = isinstance(module, self.torch.Tensor)
        return self.constant(shared(module), node.target) if tensor else module

    def body(self, module: Any, operands: Sequence[Any]) -> list[Any]:
        """The results of a program within the current node for these operands."""
        layer, given, results = self.current, iter(operands), None
        for node in module.graph.nodes:
            match node.op:
                case "placeholder": self.items[node] = next(given)
                case "get_attr": self.items[node] = self._attribute(module, node)
                case "call_function":
                    self.current = self.builder.fresh_node(f"{layer}.{node.name}")
                    try:
                        self.items[node] = self._converted(node)
                    except (NodeRefused, *CONTRADICTIONS) as error:
                        reason = _reason(error, self.current)
                        raise NodeRefused(f"{node.name} ({_operator(node.target)}): {reason}"
                                          ) from error
                case "output": results = self._item(node.args[0])
        self.current = layer
        return results if isinstance(results, list) else [results]

    # ---- nodes ---------------------------------------------------------------------------------

    def _add(self, node: Any) -> None:
        layer = self.builder.fresh_node(self.layers[node])
        self.current = layer
        start = len(self.builder.nodes)
        try:
            self.items[node] = self._converted(node)
            self._name(self.items[node], layer, start)
        except (NodeRefused, *CONTRADICTIONS) as error:
            self.refusals.append(f"{layer} ({_operator(node.target)}): {_reason(error, layer)}")
            self.items[node] = self._guessed(node.meta.get("val"))

    def _converted(self, node: Any) -> Any:
        """The results of a node; UNKNOWN where an argument is."""
        arguments, options = self._arguments(node)
        if _has_unknown((arguments, options)):
            return UNKNOWN
        results = self._rule(node)(*arguments, **options)
        self._check(results, node.meta.get("val"))
        return results

    def _rule(self, node: Any) -> Any:
        """The function that converts the node: a function of its arguments."""
        if node.target in symbols.FUNCTIONS:
            return lambda *arguments, **options: _of_sizes(node.target, arguments, options)
        if getattr(node.target, "__module__", "").startswith("torch.fx.experimental.sym_node"):
            return node.target
        ops = self.torch._ops
        known = isinstance(node.target, ops.OpOverload | ops.HigherOrderOperator)
        rule = registry.find(_name_of(node.target)) if known else None
        if rule is None:
            raise NodeRefused("operator is not supported")
        return lambda *arguments, **options: rule(self, *arguments, **options)

    def _arguments(self, node: Any) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments, as the operator's schema has them."""
        positional = [self._item(argument) for argument in node.args]
        options = {name: self._item(argument) for name, argument in node.kwargs.items()
                   if name not in IGNORED}
        schema = getattr(node.target, "_schema", None)
        if schema is not None:
            for formal in schema.arguments[len(positional):]:
                if formal.kwarg_only or formal.name not in options:
                    break
                positional.append(options.pop(formal.name))
        return positional, {name: argument for name, argument in options.items()
                            if argument is not None}

    def _item(self, argument: Any) -> Any:
        torch = self.torch
        match argument:
            case torch.fx.Node(): return self.items[argument]
            case torch.dtype(): return dtype_name(argument)
            case list() | tuple(): return [self._item(element) for element in argument]
            case torch.device() | torch.layout() | torch.memory_format(): return None
        return argument

    def _check(self, result: Any, example: Any) -> None:
        """Refuses results of other types than torch found."""
        if isinstance(example, list | tuple):
            for element, expected in zip(result, example, strict=False):
                self._check(element, expected)
        elif isinstance(result, Value) and isinstance(example, self.torch.Tensor):
            wanted = tuple(map(self.sizes.of, example.shape)), dtype_name(example.dtype)
            if (result.shape, result.dtype) != wanted:
                raise NodeRefused(f"its result must be {wanted[1]}{list(wanted[0])}, and we make "
                                  f"{result.dtype}{list(result.shape)} of it")

    def _guessed(self, example: Any) -> Any:
        if isinstance(example, list | tuple):
            return tuple(map(self._guessed, example))
        try:
            return self.input(self.builder.fresh("refused"), self._type(example))
        except (NodeRefused, *CONTRADICTIONS):
            return UNKNOWN

    def _name(self, result: Any, layer: str, start: int) -> None:
        """Names the graph's node that makes the first result, and the result, after the layer.
        """
        item = result[0] if isinstance(result, tuple) and result else result
        new = {node.outputs[0]: node.name for node in self.builder.nodes[start:]}
        if isinstance(item, Value) and item.name in new:
            value = self.builder.fresh(layer)
            self.builder.rename(start, {item.name: value}, {new[item.name]: layer})
            item.name = item.role = value

    # ---- results -------------------------------------------------------------------------------

    def _refuse_changes(self) -> None:
        """Refuses a program that changes buffers or inputs: a graph has no state."""
        signature = self.program.graph_signature
        changes = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate,
                   **getattr(signature, "parameters_to_mutate", {})}
        self.refusals += [
            f"{target} (changed by {node}): a graph keeps no state from one run to the next; call "
            "eval() before export, or make it an input and an output" for node, target
            in changes.items()]

    def _result(self, name: str, item: Any) -> str:
        if item is None:
            raise NodeRefused(f"output {name!r} must be a result that inference needs, not places "
                              "of maxima or statistics")
        if not isinstance(item, Value):
            raise NodeRefused(f"output {name!r} must be a tensor, not {item!r}")
        if item.name is None:
            assert item.array is not None
            try:
                return self.builder.add_constant(name, item.array)
            except ValueError as error:
                raise NodeRefused(f"output {name!r} cannot be used: {error}") from None
        is_computed = any(item.name in node.outputs for node in self.builder.nodes)
        if is_computed and item.name not in self.results:
            self.builder.rename(0, {item.name: name}, {})
            item.name = name
            return name
        self.builder.add(Node("identity", self.builder.fresh_node(name), (item.name,), (name,)))
        return name


def shared(tensor: Any) -> np.ndarray:
    """The elements where torch has them, read-only; copied only where they are not dense. Raises
    NodeRefused for a tensor that is not in the host's memory, or of a type that graphs lack.
    """
    dtype = dtype_name(tensor.dtype)
    if dtype not in DTYPES:
        raise NodeRefused(f"its element type must be one of {', '.join(DTYPES)}, not {dtype}")
    if tensor.device.type != "cpu":
        raise NodeRefused(f"it must be in the host's memory, not on {tensor.device}; move the "
                          "module with .cpu()")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if dtype == "bfloat16":                     # NumPy's DLPack knows no such type
        import torch  # pyright: ignore[reportMissingImports]

        array = np.from_dlpack(tensor.view(torch.int16)).view(ml_dtypes.bfloat16)
    else:
        array = np.from_dlpack(tensor)
    view = array.view()
    view.flags.writeable = False
    return frozen(view)


def dtype_name(dtype: Any) -> str:
    """``float32`` of torch.float32."""
    return str(dtype).removeprefix("torch.")


def _layer_names(nodes: Sequence[Any]) -> dict[Any, str]:
    """The module's path where it has one node alone, with the node's own name where it has more."""
    calls = [node for node in nodes if node.op == "call_function"]
    paths = {node: _path(node) for node in calls}
    whole = [node for node in calls if not _is_part(node)]
    counts: dict[str, int] = {}
    for node in whole:
        counts[paths[node]] = counts.get(paths[node], 0) + 1
    return {node: path if path and counts.get(path) == 1 and not _is_part(node)
            else f"{path}.{node.name}" if path else node.name for node, path in paths.items()}


def _is_part(node: Any) -> bool:
    """True if it takes one of several results, or calculates with sizes."""
    return node.target in symbols.FUNCTIONS or "sym_" in str(node.target)


def _path(node: Any) -> str:
    stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    path = stack[-1] if stack else ""
    return "" if path.startswith("_empty") else path.removeprefix("L['self']").lstrip(".")


def _result_names(torch: Any, program: Any, taken: set[str]) -> list[str]:
    """``output``, ``output_0`` and so on, or the keys of a dictionary, joined by dots; ``.out``
    follows what an input or a parameter is called.
    """
    spec = program.call_spec.out_spec
    tree = torch.utils._pytree.tree_unflatten([None] * spec.num_leaves, spec)
    paths = [path for path, _ in torch.utils._pytree.tree_flatten_with_path(
        tree, is_leaf=lambda leaf: leaf is None)[0]]
    names = map(_path_text, paths)
    return [f"{name}.out" if name in taken else name for name in names]


def _path_text(path: Sequence[Any]) -> str:
    parts = [getattr(key, "key", getattr(key, "name", getattr(key, "idx", ""))) for key in path]
    text = ".".join(map(str, parts))
    return "output" + f"_{text.replace('.', '_')}" * bool(path) if text[:1].isdigit() or not text \
        else text


def _of_sizes(function: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    if any(isinstance(argument, Value) for argument in arguments):
        raise NodeRefused("it calculates with computed elements in Python; use operators of torch")
    return function(*arguments, **options)


def _has_unknown(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return any(map(_has_unknown, item))
    if isinstance(item, dict):
        return any(map(_has_unknown, item.values()))
    return item is UNKNOWN


def _operator(target: Any) -> str:
    """The name of an operator with its overload, ``aten.add.Tensor``."""
    return getattr(target, "__name__", str(target)) if not hasattr(target, "_schema") else (
        str(target))


def _reason(error: Exception, layer: str) -> str:
    text = " ".join(str(error).split())
    for prefix in (f"{layer}: ", f"{layer}."):
        text = text.removeprefix(prefix)
    if isinstance(error, NodeRefused | ValueError) and text:
        return text
    return f"its arguments contradict each other ({type(error).__name__}: {text})"


