"""Groups of operators as programs: the expressions composed, and what of them is inlined.

A group's program reads ``x0, x1, ...``, the group's inputs in order, and writes ``y``. The result
of its n-th operator is called ``t<n>``, but the last one's ``y``; what an operator computes on the
way is called after its result. Expressions of injective operators are inlined; so is everything
between a sum and the result. What stays is scheduled by the back end.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from compiler import te
from compiler.graph.fusion import Group, overwritable
from compiler.graph.graph import Attrs, Graph, TensorType
from compiler.ir import Alloc, For, Program, Store, Write, lower, path_to, reads, walk_stmts
from compiler.ops.records.operator import Kind
from compiler.ops.registry import expression, find
from compiler.plans import PlanRefused
from compiler.schedule import compute_inline
from compiler.te import Buffer, Tensor, is_float, numpy_dtype

MANY = 16               # results for each of which a map is not computed again


@dataclass(frozen=True, slots=True)
class GroupOperation:
    """`inputs` number the group's inputs from 0 up, its results from -1 down."""

    op: str
    attrs: Attrs
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The computation of a group, whatever its values are called: groups with one recipe share
    code.

    `types` are those of the inputs; `overwritable` numbers those that may lie where the result
    does.
    """

    operations: tuple[GroupOperation, ...]
    types: tuple[TensorType, ...]
    result: TensorType
    overwritable: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} of {', '.join(map(str, self.types))}"

    @property
    def name(self) -> str:
        return "_".join(operation.op for operation in self.operations)

    def text(self) -> str:
        """As JSON, which `recipe_from` reads."""
        return json.dumps({
            "operations": [{"op": operation.op, "attrs": operation.attrs.json(),
                            "inputs": operation.inputs} for operation in self.operations],
            "types": [[type_.dtype, *type_.shape] for type_ in (*self.types, self.result)],
            "overwritable": self.overwritable}, sort_keys=True)


def recipe_from(text: str) -> Recipe:
    """Reads what `Recipe.text` wrote. Raises PlanRefused for any other text."""
    try:
        entry = json.loads(text)
        operations = tuple(GroupOperation(each["op"], Attrs.from_json(each["attrs"]),
                                          tuple(map(int, each["inputs"])))
                           for each in entry["operations"])
        *types, result = (TensorType(tuple(shape), dtype) for dtype, *shape in entry["types"])
        recipe = Recipe(operations, tuple(types), result, tuple(map(int, entry["overwritable"])))
        for operation in operations:
            find(operation.op)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise PlanRefused(f"Task must be a group of operators as JSON: {error}") from None
    return recipe


def recipe_of(graph: Graph, group: Group) -> Recipe:
    numbers = {value: place for place, value in enumerate(group.inputs)}
    numbers |= {node.outputs[0]: -1 - place for place, node in enumerate(group.nodes)}
    operations = tuple(GroupOperation(node.op, Attrs(node.attrs),
                                      tuple(numbers[value] for value in node.inputs))
                       for node in group.nodes)
    return Recipe(operations, tuple(graph.values[value] for value in group.inputs),
                  graph.values[group.output],
                  tuple(map(group.inputs.index, overwritable(graph, group))))


def sample(buffer: Buffer, rng: np.random.Generator) -> np.ndarray:
    """Values like those of networks: small ones."""
    dtype = numpy_dtype(buffer.dtype)
    if is_float(buffer.dtype):
        return rng.standard_normal(buffer.shape).astype(dtype)
    return rng.integers(0, 2 if buffer.dtype == "bool" else 100, buffer.shape).astype(dtype)


def unscheduled(recipe: Recipe) -> Program:
    """The program that plans schedule."""
    recipe = flat_pixels(recipe)
    inputs = [te.placeholder(type_.shape, type_.dtype, f"x{place}")
              for place, type_ in enumerate(recipe.types)]
    program = replace(lower([_composed(recipe, inputs)], recipe.name),
                      inputs=tuple(tensor.buffer for tensor in inputs))
    return _inlined(program)


def _composed(recipe: Recipe, inputs: Sequence[Tensor]) -> Tensor:
    results: list[Tensor] = []
    for place, operation in enumerate(recipe.operations):
        operands = [inputs[number] if number >= 0 else results[-1 - number]
                        for number in operation.inputs]
        last = place == len(recipe.operations) - 1
        results.append(expression(operation.op, operation.attrs, operands,
                                      "y" if last else f"t{place}"))
    return results[-1]


def _inlined(program: Program) -> Program:
    """Inlines the stages that are an operator's result, except sums, and except what would be
    computed again beside them: for several stages, or for every element of a row. What an operator
    computes on the way to its result stays.
    """
    writes = [s for s in walk_stmts(program.body) if isinstance(s, Write)]
    mapped = {s.buffer for s in writes if isinstance(s, Store)}
    stages = [s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)]
    readers = {stage: {write.buffers[0] for write in writes
                       if any(read.buffer == stage for read in reads(write))} for stage in stages}
    for stage in reversed(stages):
        if stage not in mapped or "_" in stage.name:
            continue
        seen = readers[stage]
        if len(mapped) < len(writes) and (len(seen) > 1 or any(
                prod(one.shape) > prod(stage.shape) for one in seen)):
            continue
        if any(_is_repeated(program, write, stage) for write in writes):
            continue
        program = compute_inline(program, stage.name)
        for of in readers.values():
            if stage in of:
                of.remove(stage)
                of |= seen
    return program


def _is_repeated(program: Program, write: Write, stage: Buffer) -> bool:
    """True if the sum of a product reads each element of the stage for many results."""
    if isinstance(write, Store) or not any(read.buffer == stage for read in reads(write)):
        return False
    loops = [loop for loop in path_to(program.body, lambda one: one is write)
             if isinstance(loop, For)]
    return prod(loop.extent for loop in loops) >= MANY * prod(stage.shape)


def flat_pixels(recipe: Recipe) -> Recipe:
    """The recipe with all pixels of an image in one row, where every operator treats each pixel by
    itself, or sums up all of them: long rows fill vectors, short ones may not.
    """
    rank = len(recipe.result.shape)
    place = slice(-2, rank) if rank == 4 else slice(-3, -1)         # of images in blocks
    images = [type_.shape for type_ in (*recipe.types, recipe.result)
              if 2 < len(type_.shape) <= rank]
    pixels = max((shape[place] for shape in images), key=prod, default=(1, 1))
    # Axis 1 is that of channels where there is one of batches before it.
    by_axis = any("axis" in operation.attrs for operation in recipe.operations)
    if not (rank in (4, 5) and pixels[0] > 1
            and not (by_axis and any(len(shape) < rank for shape in images))
            and all(shape[place] in (pixels, (1, 1)) for shape in images)
            and all(_is_pixelwise(operation, recipe.types) for operation in recipe.operations)):
        return recipe
    types = [_flat(type_, place, pixels) if len(type_.shape) <= rank else type_
             for type_ in (*recipe.types, recipe.result)]
    return replace(recipe, types=tuple(types[:-1]), result=types[-1])


def _is_pixelwise(operation: GroupOperation, types: Sequence[TensorType]) -> bool:
    """True if the operator does the same to every pixel, wherever it is. Vectors are allowed where
    they are parameters of channels.
    """
    operator = find(operation.op)
    shapes = [types[number].shape if number >= 0 else None for number in operation.inputs]
    if operator.pixelwise is not None:
        return operator.pixelwise(operation.attrs, shapes)
    return operator.kind is Kind.ELEMENTWISE and all(
        shape is None or len(shape) not in (1, 2) for shape in shapes)


def _flat(type_: TensorType, place: slice, pixels: tuple[int, ...]) -> TensorType:
    """The type with its pixels in one row, if it has all of them."""
    shape = list(type_.shape)
    if len(shape) > 2 and tuple(shape[place]) == pixels:
        shape[place] = 1, prod(pixels)
    return TensorType(tuple(shape), type_.dtype)
