"""Nodes of an integer graph as layers of the accelerator: operator, constants, connections."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.mapping.forms import Forms, Part, is_of_rows, is_view, joins_rows, slices_rows
from accel.mapping.grouping import Grouped, grouped
from accel.mapping.layout import (blocks_of, least_bits, pack_elements, pack_params,
                                  pack_pixel_params, pack_weights, pack_windows, stored_bytes)
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.operators import blocked, convolutions, elementwise, places, products
from accel.mapping.operators import rows as row_functions
from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Quantization,
                                             Window)
from accel.mapping.operators.convolutions import ConvolutionForm
from accel.mapping.operators.products import Planes
from accel.mapping.operators.transposed import Phases, phases
from accel.mapping.row_selection import is_row_function, select_rows
from accel.mapping.schedules import Tiles, cost_of, schedule, shape_of, tiles_of
from accel.mapping.sums import require_sums
from accel.mapping.selection import Selection, is_elementwise, note_of, select
from accel.mapping.views import Stored, View, images, rows
from accel.mapping.weights import in_entries, multipliers_of, products_of
from compiler.graph.graph import Graph, Node
from compiler.graph.passes.pads import sides_of
from compiler.ir import Tensorized, walk_stmts
from compiler.ops.arithmetic import PARAM
from compiler.schedule import ScheduleError
from compiler.te import bits, numpy_dtype
from compiler.tensorize import Intrinsic

__all__ = ["LAYERS", "MappedLayer", "build_layers", "forms_of", "refusal"]


@dataclass(frozen=True)
class MappedLayer:
    """One node, or a part of it that writes some of its result, ready to be scheduled.

    Parameters
    ----------
    operator : the stages that compute it.
    inputs : the role of each activation that it reads, with the value's name in the graph.
    constants : the role of each constant, with its packed bytes.
    macs : useful multiply-accumulates.
    part : which part; "" when the layer is the whole node.
    offset, pitches : where a part writes: elements from the start of the result, and the distance
        in elements of neighbours in each dimension of the operator's output.
    bounds : where the written channels or rows end within a block, as in `TensorPlacement`.
    views : strides, by role, of inputs that are neither images nor rows.
    note : what the user should know about how it is computed.
    """

    node: Node
    operator: BlockedOperator
    inputs: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    result: Stored
    macs: int = 0
    part: str = ""
    offset: int = 0
    pitches: tuple[int, ...] = ()
    bounds: tuple[tuple[int, int, int], ...] = ()
    views: Mapping[str, View] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.node.name}:{self.part}" if self.part else self.node.name

    def size(self, *roles: str) -> int:
        """The bytes of these tensors in memory."""
        stages, bits = self.operator.stages, self.operator.weight_bits
        return sum(stages[role].buffer.size_bytes * (bits if role == "w" else 8) // 8
                   for role in roles)

    def stored(self, role: str) -> np.ndarray:
        """The bytes of a constant in memory."""
        array, bits = self.constants[role], self.operator.weight_bits
        return pack_elements(array, bits) if role == "w" and bits < 8 else stored_bytes(array)


Builder = Callable[[Node, Graph, Forms, Blocks], MappedLayer | tuple[MappedLayer, ...]]


def forms_of(graph: Graph, blocks: Blocks) -> Forms:
    """The memory forms of the graph's values where the accelerator computes all that it can."""
    return Forms(graph, blocks, (*LAYERS, *{node.op for node in graph.nodes
                                            if is_elementwise(node) or is_row_function(node)}))


def refusal(graph: Graph, node: Node, forms: Forms) -> str | None:
    """None when the accelerator may run the node, else the reason why not; what instructions
    compute, and what fits the buffers, `build_layers` and tiles say.
    """
    x = graph.values[node.inputs[0]]
    if is_view(graph, node) or slices_rows(graph, node):
        return forms.refused.get(node.name) or forms.idle_copy(node)
    if is_elementwise(node):
        return _elementwise_refusal(graph, node, forms.blocks.element)
    if is_row_function(node):
        return _row_function_refusal(graph, node, forms)
    if node.op not in LAYERS:
        return f"the accelerator has no operator {node.op}"
    if len(x.shape) not in (2, 4) and (node.op not in ANY_RANK or len(x.shape) < 2):
        return f"its input has {len(x.shape)} dimensions; the accelerator takes NCHW or NC"
    if x.dtype != forms.blocks.element:
        return f"its input is {x.dtype}; the accelerator takes {forms.blocks.element}"
    other = REFUSALS[node.op](graph, node) if node.op in REFUSALS else None
    return other or (None if node.op == "qmatmul" else forms.misfit(node))


def _quantization(node: Node) -> Quantization:
    return Quantization(node.attrs["zp"], node.attrs["lo"], node.attrs["hi"])


def _convolution(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x, weights = known[node.inputs[0]], graph.constants[node.inputs[1]]
    window = Window(weights.shape[2:], node.attrs["strides"], node.attrs["pads"],
                    node.attrs.get("dilations", (1, 1)))
    whole = grouped(weights, node.attrs.get("group", 1), blocks)
    pad_value, channels = node.attrs["pad_value"], len(weights)
    if whole.groups == 1:
        dense = whole.weights[0, :channels, :x.c]
        layer = _products(node, graph, x, dense, window, pad_value, blocks)
    else:
        bias = graph.constants[node.inputs[2]]
        layer = _of_form(node, graph, x, window, blocks, [(whole, bias)], (1, 1))
    macs = x.n * int(np.prod(window.outputs(x))) * weights.size
    return replace(layer, macs=macs, note=whole.note)


def _of_form(node: Node, graph: Graph, x: Activation, window: Window, blocks: Blocks,
             kernels: Sequence[tuple[Grouped, np.ndarray]], phases: tuple[int, int]) -> MappedLayer:
    """Maps a convolution with groups or phases, each with its weights and its bias."""
    mult, shift = (graph.constants[value] for value in node.inputs[3:5])
    channels, first = len(mult), kernels[0][0]
    form = ConvolutionForm(first.groups, first.diagonal, phases)
    weights, blocks = in_entries(np.stack([weights.packed(blocks) for weights, _ in kernels]),
                                 blocks)
    operator = convolutions.convolution(
        _stage(node), x, channels, window, node.attrs["pad_value"], _quantization(node), blocks,
        form)
    params = np.array([pack_params(bias, mult, shift, channels, blocks) for _, bias in kernels],
                      numpy_dtype(PARAM))
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"w": weights, "params": params},
                       Activation(x.n, channels, *window.outputs(x)))


def _transposed_convolution(node: Node, graph: Graph, known: Forms,
                            blocks: Blocks) -> tuple[MappedLayer, ...]:
    """One layer for each pair of row phases and column phases that see one window."""
    sizes = graph.values[node.outputs[0]].shape[2:]
    kernel = graph.constants[node.inputs[1]].shape[2:]
    rows, columns = (phases(*axis) for axis in zip(
        sizes, kernel, node.attrs["strides"], node.attrs["pads"][:2],
        node.attrs.get("dilations", (1, 1)), strict=True))
    first, *others = (_part(node, graph, known[node.inputs[0]], sizes, down, across, blocks)
                      for down, across in product(rows, columns))
    return (first, *others) if others else (replace(first, part=""),)


def _part(node: Node, graph: Graph, x: Activation, sizes: tuple[int, ...], down: Phases,
          across: Phases, blocks: Blocks) -> MappedLayer:
    """Maps some phases of a transposed convolution to one convolution."""
    weights, bias = (graph.constants[value] for value in node.inputs[1:3])
    outputs = (down.outputs, across.outputs)
    window = Window((down.kernel, across.kernel), (1, 1), (down.before, across.before, 0, 0),
                    (down.dilation, across.dilation))
    after = (extent - 1 + reach - size - before for extent, reach, size, before
             in zip(outputs, window.reach, (x.h, x.w), window.pads[:2], strict=True))
    window = replace(window, pads=(*window.pads[:2], *after))
    kernels, taps = [], 0
    for tall, wide in product(down.taps, across.taps):
        kernel = np.zeros((*weights.shape[:2], *window.kernel), weights.dtype)
        if tall and wide:
            kernel[...] = weights[:, :, tall][..., wide]
            taps += len(tall) * len(wide)
        whole = grouped(kernel, node.attrs.get("group", 1), blocks)
        kernels.append((whole, _bias_of_phase(node, weights, bias, kernel)))
    layer = _of_form(node, graph, x, window, blocks, kernels, (len(down.taps), len(across.taps)))
    result = Activation(x.n, len(weights), sizes[0], sizes[1])
    pixels = x.n * down.outputs * across.outputs
    return replace(layer, result=result, part=f"{down.first},{across.first}",
                   macs=pixels * taps * len(weights) * weights.shape[1],
                   note=kernels[0][0].note, **_pitches(node, layer.operator, result, down, across,
                                                     blocks))


def _bias_of_phase(node: Node, weights: np.ndarray, bias: np.ndarray,
                   kernel: np.ndarray) -> np.ndarray:
    """The bias, plus the products of the other phases' taps with the padding between pixels."""
    total, mine = (w.sum(axis=(1, 2, 3), dtype=np.int64) for w in (weights, kernel))
    total_bias = bias + node.attrs["pad_value"] * (total - mine)
    if np.any(total_bias != total_bias.astype(np.int32)):
        raise LoweringError("Bias of every phase must fit int32")
    return total_bias.astype(np.int32)


def _pitches(node: Node, operator: BlockedOperator, result: Activation, down: Phases,
             across: Phases, blocks: Blocks) -> dict[str, Any]:
    """Offset and pitches of the phases' pixels among those of the result."""
    (sh, sw), (*_, batch, channels) = node.attrs["strides"], result.stored_shape(blocks)
    column = batch * channels
    row = result.w * column
    block = operator.output.shape[-2] * blocks.block_out
    apart = {"n": result.h * row, "y": sh * row, "p": row, "x": sw * column, "q": column,
             "b": channels, "g": block, "c": blocks.block_out, "o": 1}
    return {"offset": down.first * row + across.first * column,
            "pitches": tuple(apart[axis] for axis in operator.axes["output"])}


def _dense(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a dense layer to a convolution whose kernel is the whole image, so a flattened image
    keeps its layout. Images of one pixel become pixels of one image and share the weights that a
    tile loads.
    """
    x, matrix = known[node.inputs[0]], graph.constants[node.inputs[1]]
    weights = matrix.reshape(len(matrix), x.c, x.h, x.w)
    layer = _products(node, graph, _in_line(x, blocks), weights, Window((x.h, x.w)), 0, blocks)
    return replace(layer, result=Activation(x.n, len(matrix), 1, 1), macs=x.n * weights.size)


def _products(node: Node, graph: Graph, x: Activation, weights: np.ndarray, window: Window,
              pad_value: int, blocks: Blocks) -> MappedLayer:
    channels, (height, width) = len(weights), window.outputs(x)
    packed = blocked.packed_blocks(x, window, blocks) > 0
    form = blocked.packed_convolution if packed else blocked.convolution
    w = pack_windows(weights, blocks) if packed else pack_weights(weights, x, blocks)
    w, blocks = in_entries(w, blocks)
    operator = form(_stage(node), x, channels, window, pad_value, _quantization(node), blocks)
    bias, mult, shift = (graph.constants[v] for v in node.inputs[2:5])
    params = pack_params(bias, mult, shift, channels, blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"w": w, "params": params},
                       Activation(x.n, channels, height, width),
                       x.n * height * width * weights.size)


def _matrix_product(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x, y, z = (known.view(value) for value in (*node.inputs, *node.outputs))
    if x is None or y is None or z is None:
        raise LoweringError("batches of images are no rows of matrices")
    x, y, z = _one_matrix(x, y, z)
    a, b, shape, trans_b = x.shape, y.shape, z.shape, bool(node.attrs["trans_b"])
    planes = Planes(a[-1], node.attrs.get("a_zp", 0), node.attrs.get("b_zp", 0))
    _check_planes(planes, blocks)
    operator = products.matrix_product(_stage(node), a, b, trans_b, planes,
                                               _quantization(node), blocks)
    bias = node.attrs["bias"] + planes.bias(blocks)
    params = pack_params(bias, node.attrs["mult"], node.attrs["shift"], shape[-1], blocks)
    result = known.stored[node.outputs[0]]
    padded = isinstance(result, Activation) and not result.plain
    return MappedLayer(node, operator, {"x": node.inputs[0], "y": node.inputs[1]},
                       {"params": params}, result, math.prod(shape) * a[-1], views={"x": x, "y": y},
                       **_rows_within(operator, z, blocks, padded))


def _one_matrix(a: View, b: View, z: View) -> tuple[View, View, View]:
    """Merge all rows of `a` into one matrix where all meet the same `b` and strides allow it."""
    if math.prod(b.shape[:-2]) == 1 and len(a.shape) > 2:
        flat = [view.reshaped((math.prod(view.shape[:-1]), view.shape[-1])) for view in (a, z)]
        matrix = b.reshaped(b.shape[-2:])
        if flat[0] and flat[1] and matrix:
            return flat[0], matrix, flat[1]
    return a, b, z


def _check_planes(planes: Planes, blocks: Blocks) -> None:
    worst = 128 * 128 * planes.count * planes.blocks(blocks) * blocks.block_in
    most = 2**(min(bits(blocks.accumulator), 32) - 1)
    if worst + abs(planes.bias(blocks)) >= most:
        raise LoweringError(f"its accumulator could reach {worst} with the zero points "
                            f"{planes.a_zp} and {planes.b_zp}, beyond {most - 1}")


def _rows_within(operator: BlockedOperator, z: View, blocks: Blocks,
                 padded: bool) -> dict[str, Any]:
    """Pitches of the rows of matrices in memory, and where they end unless they are `padded`."""
    *around, rows, elements = z.strides
    elements = 1 if padded else elements        # padding lies beside an only element
    several = [stride for stride, extent in zip(around, z.shape, strict=False) if extent > 1]
    bounds = ((-2, -1, z.shape[-1]), (-4, -3, z.shape[-2]))
    reach = (operator.output.shape[-2] * blocks.block_out,
             operator.output.shape[-4] * blocks.batch)
    return {"pitches": (*(several or [0]), 0, rows * blocks.batch, rows,
                        elements * blocks.block_out, elements),
            "bounds": () if padded else tuple(
                bound for bound, size in zip(bounds, reach, strict=True) if bound[2] < size)}


def _leading_refusal(graph: Graph, node: Node) -> str | None:
    leading = [extent for extent in graph.values[node.outputs[0]].shape[:-2] if extent > 1]
    if len(leading) > len(blocked.AROUND):
        return (f"it has {len(leading)} leading dimensions; the accelerator takes "
                f"{len(blocked.AROUND)}")
    return None


def _copy(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a reshape, transpose or slice that strides cannot express."""
    source, target = known.copies[node.name]
    operator = products.moved(_stage(node), source.shape, blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {}, known.stored[node.outputs[0]],
                       views={"x": source}, **_rows_within(operator, target, blocks, False))


def _max_pool(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x = known[node.inputs[0]]
    window = Window(node.attrs["kernel"], node.attrs["strides"], node.attrs["pads"],
                    node.attrs.get("dilations", (1, 1)))
    operator = blocked.max_pool(_stage(node), x, window, blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {},
                       Activation(x.n, x.c, *window.outputs(x)))


def _average_pool(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x, (mult, shift) = known[node.inputs[0]], (graph.constants[v] for v in node.inputs[1:])
    window = Window(node.attrs["kernel"], node.attrs["strides"], node.attrs["pads"])
    pixelwise = mult.shape != (1, 1)
    operator = blocked.average_pool(_stage(node), x, window, node.attrs["pad_value"],
                                    _quantization(node), blocks, pixelwise)
    pack = pack_pixel_params if pixelwise else partial(pack_params, channels=x.c)
    params = pack(node.attrs["bias"], mult, shift, blocks=blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"params": params},
                       Activation(x.n, x.c, *window.outputs(x)))


def _scalars(node: Node, channels: int, blocks: Blocks) -> np.ndarray:
    bias, mult, shift = (node.attrs[k] for k in ("bias", "mult", "shift"))
    return pack_params(bias, mult, shift, channels, blocks)


def _global_average_pool(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x = known[node.inputs[0]]
    operator = blocked.global_average_pool(_stage(node), x, _quantization(node), blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]},
                       {"params": _scalars(node, x.c, blocks)}, Activation(x.n, x.c, 1, 1))


def _mean(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a mean to that of images: of one row each where it takes the rows of matrices."""
    x, shape, axes = known[node.inputs[0]], graph.values[node.inputs[0]].shape, node.attrs["axes"]
    channels = x.c
    if is_of_rows(graph, node):
        outer, count = math.prod(shape[:axes[0]]), math.prod(shape[axes[0]:-1])
        x = _in_rows(x, outer, count, blocks)
    operator = blocked.global_average_pool(_stage(node), x, _quantization(node), blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]},
                       {"params": _scalars(node, channels, blocks)},
                       known[node.outputs[0]])


def _in_rows(x: Activation, images: int, columns: int, blocks: Blocks) -> Activation:
    """Turns rows of matrices into images of one row. Rows lie one after the other whatever the
    batch, as the pixels of plain images do.
    """
    if x.plain or blocks.batch == 1:
        return Activation(images, x.c, 1, columns, x.plain)
    return Activation(images, blocks.padded(x.c), 1, columns, plain=True)


def _mean_refusal(graph: Graph, node: Node) -> str | None:
    shape, axes = graph.values[node.inputs[0]].shape, tuple(node.attrs["axes"])
    if len(graph.values[node.outputs[0]].shape) < 2:
        return "its result has 1 dimension; the accelerator takes 2 and more"
    if axes != tuple(range(axes[0], len(shape) - 1)) and (axes != (2, 3) or len(shape) != 4):
        return (f"it is a mean along axes {axes} of {len(shape)}; the accelerator takes rows and "
                "columns of images, or axes right before the last")
    return None


def _upsample(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x, factors = known[node.inputs[0]], node.attrs["factors"]
    return MappedLayer(node, blocked.upsample(_stage(node), x, factors, blocks),
                       {"x": node.inputs[0]}, {},
                       Activation(x.n, x.c, x.h * factors[0], x.w * factors[1]))


def _pad(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x, sides = known[node.inputs[0]], sides_of(graph, node)
    assert sides is not None
    value = int(graph.constants[node.inputs[1]].item())
    top, left, bottom, right = sides
    return MappedLayer(node, blocked.surrounded(_stage(node), x, sides, value, blocks),
                       {"x": node.inputs[0]}, {},
                       Activation(x.n, x.c, top + x.h + bottom, left + x.w + right))


def _pad_refusal(graph: Graph, node: Node) -> str | None:
    return None if sides_of(graph, node) else (
        "it is no pad of rows and columns with one number; the accelerator has no other")


def _slice(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x = known[node.inputs[0]]
    n, c, h, w = (*graph.values[node.outputs[0]].shape, 1, 1)[:4]
    result = Activation(n, c, h, w)
    image, channel, row, column = (*node.attrs["begin"], 0, 0)[:4]
    apart, _, down, across = (*node.attrs["step"], 1, 1)[:4]
    if (image, n) != (0, x.n) and blocks.batch > 1 and not x.plain:
        raise LoweringError(f"it takes {n} of {x.n} images; with batches of {blocks.batch} the "
                            "accelerator takes them all")
    operator = blocked.crop(_stage(node), x, result, (image, channel, row, column),
                            (apart, down, across), blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {}, result)


def _slice_refusal(graph: Graph, node: Node) -> str | None:
    step, channels = node.attrs["step"][1], graph.values[node.outputs[0]].shape[1]
    if step != 1 and channels > 1:
        return f"it takes one of {step} channels; the accelerator takes neighbours"
    return None


def _in_line(x: Activation, blocks: Blocks) -> Activation:
    """Turns images of one pixel into the pixels of one row, so a tile can hold many of them."""
    if (x.h, x.w) != (1, 1) or (x.plain and blocks.batch > 1):
        return x
    return Activation(blocks.batch, x.c, 1, -(-x.n // blocks.batch), x.plain)


def _elementwise(node: Node, graph: Graph, known: Forms, machine: Machine) -> MappedLayer:
    """Maps an operator to the instructions that compute it, a stage for each."""
    blocks, result = blocks_of(machine.config), known[node.outputs[0]]
    selection = select(machine, graph, node)
    inputs = {leaf: known[value] for leaf, value in selection.inputs.items()}
    _require_broadcast(graph, node, result, known, selection)
    whole = inputs
    if all((x.n, x.c, x.h, x.w) == (result.n, result.c, result.h, result.w)
           for x in inputs.values()):
        whole = {leaf: _in_line(x, blocks) for leaf, x in inputs.items()}
        if len({(x.n, x.w) for x in whole.values()}) > 1:
            whole = inputs
    first = next(iter(whole.values()))
    seen = replace(first, plain=False) if whole is not inputs else result
    operator = elementwise.elementwise(_stage(node), whole, seen, selection.steps, blocks)
    sources = [role for role in operator.stages if role in elementwise.SOURCES]
    return MappedLayer(node, operator, dict(zip(sources, selection.inputs.values(), strict=True)),
                       {**_parameters(graph, node, result, selection, blocks),
                        **{role: selection.tables[buffer.name] for role, buffer
                           in elementwise.tables_of(selection.steps).items()}},
                       replace(result, plain=False),
                       note=note_of(machine, graph, node, selection))


def _row_function(node: Node, graph: Graph, known: Forms, machine: Machine) -> MappedLayer:
    """Maps a function of rows to the instructions that compute it, a stage for each."""
    blocks, result = blocks_of(machine.config), known[node.outputs[0]]
    selection = select_rows(machine, graph, node, blocks.channels)
    x = _in_line(known[node.inputs[0]], blocks)
    operator = row_functions.row_function(_stage(node), x, selection, blocks)
    steps = [step for stage in selection.stages for step in stage.steps]
    constants = {name: array.reshape(-1) for name, array in selection.constants.items()}
    own = [name for name in dict.fromkeys(step.intrinsic.name for step in steps)
           if name in machine.own]
    return MappedLayer(
        node, operator, {"x": node.inputs[0]},
        {**{role: pack_params(*elementwise.record_of(step, constants), result.c, blocks)
            for step, role in elementwise.parameters_of(steps).items()},
         **{role: selection.tables[buffer.name]
            for role, buffer in elementwise.tables_of(steps).items()}},
        replace(result, plain=False),
        note=f"by {', '.join(own)} on the accelerator; without: on the host" if own else "")


def _row_function_refusal(graph: Graph, node: Node, forms: Forms) -> str | None:
    x = graph.values[node.inputs[0]]
    if node.inputs[0] in graph.constants:
        return "its input is a constant"
    if (x.dtype, forms.blocks.element) != ("int8", "int8"):
        return (f"its input is {x.dtype} on a machine of {forms.blocks.element}; functions of rows "
                "are of int8")
    lies = forms.stored.get(node.inputs[0])
    if not isinstance(lies, Activation) or replace(lies, plain=False) != rows(x.shape):
        return "its input lies in memory as images, not as rows"
    return None


def _elementwise_refusal(graph: Graph, node: Node, element: str) -> str | None:
    computed = [value for value in node.inputs if value not in graph.constants]
    if not computed:
        return "all its inputs are constants"
    for side, values in (("input", computed), ("result", node.outputs)):
        for x in (graph.values[value] for value in values):
            if x.dtype != element:
                return f"its {side} is {x.dtype}; the accelerator has {element}"
            if len(x.shape) < 2:
                return f"its {side} has {len(x.shape)} dimensions; the accelerator takes 2 and more"
    return None


def _require_broadcast(graph: Graph, node: Node, result: Activation, known: Forms,
                       selection: Selection) -> None:
    """Refuses inputs that the result's images, or rows, do not repeat as they lie in memory."""
    shape = graph.values[node.outputs[0]].shape
    for value in selection.inputs.values():
        x, own = known[value], graph.values[value].shape
        if own == shape:
            if (x.n, x.c, x.h, x.w) != (result.n, result.c, result.h, result.w):
                raise LoweringError("its inputs lie in memory as images and as rows of matrices")
            continue
        form = images if result == images(shape) else rows
        fits = (len(own) == len(shape) and replace(x, plain=False) == form(own)
                and all(mine in (1, theirs) for mine, theirs in zip(
                    (x.n, x.c, x.h, x.w), (result.n, result.c, result.h, result.w), strict=True)))
        if not fits:
            raise LoweringError(f"an input of shape {own} is repeated to {shape}; the accelerator "
                                f"repeats images, channels, rows and columns")


def _parameters(graph: Graph, node: Node, result: Activation, selection: Selection,
                blocks: Blocks) -> dict[str, np.ndarray]:
    """The records of each step that reads parameters, by role."""
    shape = graph.values[node.outputs[0]].shape
    axis = 1 if len(shape) == 4 and result == images(shape) else len(shape) - 1

    def along(array: np.ndarray) -> np.ndarray:
        if array.size != array.shape[axis]:
            raise LoweringError(f"its constant of shape {array.shape} must be one number, or one "
                                f"for each of {result.c} channels")
        return array.reshape(-1)

    constants = {leaf: along(array) for leaf, array in selection.constants.items()}
    return {role: pack_params(*elementwise.record_of(step, constants), result.c, blocks)
            for step, role in elementwise.parameters_of(selection.steps).items()}


def _concat(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> tuple[MappedLayer, ...]:
    """One layer for each input that does not lie in the result already; it writes the input's
    channels, and the last one pads the result. Along other axes each writes whole pixels.
    """
    if joins_rows(graph, node):
        return _joined_rows(node, graph, known, blocks)
    if node.attrs.get("axis", 1) != 1:
        return _joined_images(node, known, blocks)
    parts = [known[value] for value in node.inputs]
    result = replace(parts[0], c=sum(x.c for x in parts), plain=False)
    layers: list[MappedLayer] = []
    at = 0
    for index, x in enumerate(parts):
        last = index == len(parts) - 1
        channels = known.room(node.outputs[0]) - at if last else x.c
        if not known.is_written_by(node, index):
            layers.append(_piece(node, index, x, channels, blocks, result, at))
        at += x.c
    return tuple(layers)


def _concat_refusal(graph: Graph, node: Node) -> str | None:
    return _leading_refusal(graph, node) if joins_rows(graph, node) else None


def _piece(node: Node, index: int, x: Activation, channels: int, blocks: Blocks,
           result: Activation, at: int) -> MappedLayer:
    operator = blocked.rescale(f"{_stage(node)}_{index}", x, _quantization(node), blocks, channels)
    params = _params_of(node, index, operator["params"].shape[0], blocks)
    shape = result.stored_shape(blocks)
    pixels = (math.prod(shape[axis + 1:]) for axis in range(len(shape) - 1))
    return MappedLayer(node, operator, {"x": node.inputs[index]}, {"params": params}, result,
                       part=str(index), offset=at, pitches=(*pixels, blocks.block_out, 1),
                       bounds=((-2, -1, channels),))


def _joined_rows(node: Node, graph: Graph, known: Forms, blocks: Blocks
                 ) -> tuple[MappedLayer, ...]:
    """A layer for each input, which writes it among the rows of the result by strides."""
    axis, at = node.attrs.get("axis", 1), 0
    value, = node.outputs
    result = known.view(value)
    layers: list[MappedLayer] = []
    for index, source in enumerate(node.inputs):
        x = known.view(source)
        if x is None or result is None:
            raise LoweringError("batches of images are no rows of matrices")
        q = None if known.keeps_scale(node, index) else _quantization(node)
        operator = products.moved(f"{_stage(node)}_{index}", x.shape, blocks, q)
        params = {} if q is None else {"params": _params_of(
            node, index, operator["params"].shape[0], blocks)}
        target = result.part(axis, x.shape[axis])
        layers.append(MappedLayer(
            node, operator, {"x": source}, params, known.stored[value], part=str(index),
            offset=at * result.strides[axis], views={"x": x},
            **_rows_within(operator, target, blocks, False)))
        at += x.shape[axis]
    return tuple(layers)


def _joined_images(node: Node, known: Forms, blocks: Blocks) -> tuple[MappedLayer, ...]:
    """A layer for each input, which writes whole pixels of images, rows or columns."""
    axis, at = node.attrs["axis"], 0
    result = known[node.outputs[0]]
    image, height, width, lane, channels = result.stored_shape(blocks)
    column = lane * channels
    apart = {0: height * width * column // blocks.batch, 2: width * column, 3: column}[axis]
    layers: list[MappedLayer] = []
    for index, x in enumerate(map(known.__getitem__, node.inputs)):
        if axis == 0 and at % blocks.batch:
            raise LoweringError(f"image {at} of its result does not begin a batch of "
                                f"{blocks.batch}")
        operator = blocked.rescale(f"{_stage(node)}_{index}", x, _quantization(node), blocks)
        params = _params_of(node, index, operator["params"].shape[0], blocks)
        layers.append(MappedLayer(
            node, operator, {"x": node.inputs[index]}, {"params": params}, result, part=str(index),
            offset=at * apart, pitches=(height * width * column, width * column, column, channels,
                                        blocks.block_out, 1)))
        at += (x.n, x.c, x.h, x.w)[axis]
    return tuple(layers)


def _params_of(node: Node, index: int, count: int, blocks: Blocks) -> np.ndarray:
    """The records by which an input of a concatenation is requantized, for blocks of channels."""
    bias, mult, shift = (node.attrs[name][index] for name in ("bias", "mult", "shift"))
    return pack_params(bias, mult, shift, count * blocks.block_out, blocks)[:count]


def _place(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x = known[node.inputs[0]]
    operator = places.place(_stage(node), _in_line(x, blocks), node.op == "qargmax", blocks)
    numbers, shifts = places.place_numbers(x, blocks), places.byte_shifts(blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {
        "params": pack_params(numbers, 0, 0, len(numbers), blocks),
        "params_1": pack_params(shifts, 0, 0, len(shifts), blocks)},
        Activation(x.n, places.BYTES, x.h, x.w))


def _place_refusal(graph: Graph, node: Node) -> str | None:
    if node.attrs["axis"] != 1:
        return f"it is along axis {node.attrs['axis']}; the accelerator takes channels"
    x = graph.values[node.inputs[0]]
    return None if x.dtype == "int8" else f"its input is {x.dtype}; places are found in int8"


def _stage(node: Node) -> str:
    """The node's name as a prefix of identifiers."""
    return "".join(c if c.isalnum() else "_" for c in node.name)


LAYERS: dict[str, Builder] = {
    "qconv2d": _convolution,
    "qconvtranspose2d": _transposed_convolution,
    "qdense": _dense,
    "qmaxpool": _max_pool,
    "qavgpool": _average_pool,
    "qglobalavgpool": _global_average_pool,
    "qmean": _mean,
    "qmatmul": _matrix_product,
    "upsample": _upsample,
    "slice": _slice,
    "pad": _pad,
    "qconcat": _concat,
    "qargmax": _place,
    "qargmin": _place,
}


PRODUCTS = ("qconv2d", "qconvtranspose2d", "qdense", "qmatmul")
"""Operators that gemm computes."""

THREADS = 2
"""Virtual threads for which products are compared."""

ANY_RANK = ("qdense", "qmatmul", "qmean", "qconcat")
"""Operators that take the rows of matrices as well as images."""

REFUSALS: dict[str, Callable[[Graph, Node], str | None]] = {
    "slice": _slice_refusal,
    "pad": _pad_refusal,
    "qmatmul": _leading_refusal,
    "qmean": _mean_refusal,
    "qconcat": _concat_refusal,
    "qargmax": _place_refusal,
    "qargmin": _place_refusal,
}
"""Cases of a supported operator that the accelerator refuses."""


def build_layers(node: Node, graph: Graph, known: Forms, machine: Machine
                 ) -> tuple[MappedLayer, ...]:
    """The layers of a node: one for most, several that write parts of one result for some, none for
    a view.
    """
    value, blocks = node.outputs[0], blocks_of(machine.config)
    _require_products(node, graph, machine.config)
    require_sums(node, graph, machine.config.accumulator)
    if node.name in known.copies:
        return (_copy(node, graph, known, blocks),)
    if known.moves_nothing(node):
        return ()
    if is_elementwise(node):
        layers = _packed(_elementwise(node, graph, known, machine), machine)
    elif is_row_function(node):
        layers = (_row_function(node, graph, known, machine),)
    elif node.op in PRODUCTS and (products_of(machine) != (None,)
                                  or _multipliers(node, graph, machine)):
        layers = _cheapest(node, graph, known, machine)
    else:
        layers = _packed(LAYERS[node.op](node, graph, known, blocks), machine)
    layers = tuple(_reduced(layer, machine) for layer in layers)
    part = known.parts.get(value)
    if part is None:
        return layers
    return tuple(_among(layer, part, blocks.padded(known[value].c)) for layer in layers)


def _require_products(node: Node, graph: Graph, config: AccelConfig) -> None:
    """Refuses an operator with products of other types than gemm takes and vector writes."""
    if node.op not in PRODUCTS:
        return
    if config.operand != config.output:
        raise LoweringError(f"gemm takes {config.operand} and vector writes {config.output}; "
                            f"a layer has one type of activations")
    weights = graph.values[node.inputs[1]].dtype
    computed = node.inputs[1] not in graph.constants
    if weights != config.weight and (computed or (weights, config.weight) != ("int8", "int16")):
        raise LoweringError(f"its {'second factor' if computed else 'weight'} is {weights}; gemm "
                            f"takes {config.weight}")


def _cheapest(node: Node, graph: Graph, known: Forms, machine: Machine
              ) -> tuple[MappedLayer, ...]:
    """The layers of a node by the product of the machine, or the instruction of vector, that takes
    the fewest cycles for its weights, as tiles are priced; of equal ones by that with the fewest
    bytes of constants."""
    forms, blocks = products_of(machine), blocks_of(machine.config)
    if node.op == "qmatmul":
        if None not in forms:
            raise LoweringError("no instruction of gemm multiplies two computed matrices")
        forms = (None,)
    found: list[tuple[tuple[int, int], tuple[MappedLayer, ...]]] = []
    refused = LoweringError("")
    ways = [lambda form=form: LAYERS[node.op](node, graph, known, replace(blocks, product=form))
            for form in forms]
    ways += [lambda body=body: _depthwise(node, graph, known, blocks, body)
             for body in _multipliers(node, graph, machine)]
    for way in ways:
        try:
            layers = tuple(map(_told, _packed(way(), machine)))
            found.append(((_cycles(layers, machine), sum(layer.size(*layer.constants)
                                                         for layer in layers)), layers))
        except LoweringError as error:
            refused = error
    if not found:
        raise refused
    return min(found, key=lambda priced: priced[0])[1]


def _multipliers(node: Node, graph: Graph, machine: Machine) -> tuple[Intrinsic, ...]:
    """The instructions of vector that may compute a convolution of each channel alone."""
    if node.op != "qconv2d" or node.attrs.get("group", 1) == 1:
        return ()
    weights = graph.constants[node.inputs[1]]
    alone = weights.shape[1] == 1 and len(weights) == node.attrs["group"]
    return multipliers_of(machine) if alone else ()


def _depthwise(node: Node, graph: Graph, known: Forms, blocks: Blocks,
               body: Intrinsic) -> MappedLayer:
    """Maps a depthwise convolution to an instruction of vector."""
    x, (weights, bias, mult, shift) = known[node.inputs[0]], (graph.constants[value]
                                                              for value in node.inputs[1:5])
    window = Window(weights.shape[2:], node.attrs["strides"], node.attrs["pads"],
                    node.attrs.get("dilations", (1, 1)))
    operator = blocked.depthwise(_stage(node), x, window, node.attrs["pad_value"],
                                 _quantization(node), blocks, body)
    channels = len(weights)
    taps = np.array([pack_params(tap, 0, 0, channels, blocks)
                     for tap in weights.reshape(channels, -1).T], numpy_dtype(PARAM))
    taps = taps.swapaxes(0, 1).reshape(-1, *window.kernel, blocks.block_out)
    return MappedLayer(node, operator, {"x": node.inputs[0]},
                       {"params_taps": taps,
                        "params": pack_params(bias, mult, shift, channels, blocks)},
                       Activation(x.n, channels, *window.outputs(x)),
                       x.n * int(np.prod(window.outputs(x))) * weights.size,
                       note=f"by {body.name}")


def _told(layer: MappedLayer) -> MappedLayer:
    """Say by which product of its own a layer is computed, and in how many passes."""
    if not layer.operator.weights:
        return layer
    passes = shape_of(layer.operator).passes
    by = f"by {layer.operator.by['acc']}" + (f" in {passes} passes" if passes > 1 else "")
    return replace(layer, note="; ".join(filter(None, (layer.note, by))))


def _cycles(layers: Sequence[MappedLayer], machine: Machine) -> int:
    return sum(cost_of(machine.config, shape_of(layer.operator),
                       *tiles_of(machine, layer.operator, THREADS)).cycles for layer in layers)


def _reduced(layer: MappedLayer, machine: Machine) -> MappedLayer:
    """A layer that reduces over lanes with the note which own instructions do; refuses one that no
    instructions of the machine perform."""
    if "w" in layer.operator.stages or "lanes" not in layer.operator.reduced:
        return layer
    try:
        steps = schedule(machine, layer.operator, Tiles(1, 1, 1, 1), 1)
    except ScheduleError:
        raise LoweringError("no vector instructions compute its reduction over lanes") from None
    names = dict.fromkeys(node.intrinsic.name for node in walk_stmts(steps.program.body)
                          if isinstance(node, Tensorized))
    own = [name for name in names if name in machine.own]
    return replace(layer, note=f"by {', '.join(own)} on the accelerator; without: on the host"
                   ) if own else layer


def _packed(built: MappedLayer | tuple[MappedLayer, ...], machine: Machine
            ) -> tuple[MappedLayer, ...]:
    """Keep the weights in memory in the fewest bits that hold them all and that loads unpack."""
    layers = built if isinstance(built, tuple) else (built,)
    return tuple(_in_few_bits(layer, machine.config.weight_bits) for layer in layers)


def _in_few_bits(layer: MappedLayer, allowed: Sequence[int]) -> MappedLayer:
    bits = least_bits(layer.constants["w"], allowed) if len(allowed) > 1 and (
        "w" in layer.constants) else 8
    if bits == 8:
        return layer
    note = "; ".join(filter(None, (layer.note, f"weights of {bits} bits in memory")))
    return replace(layer, operator=replace(layer.operator, weight_bits=bits), note=note)


def _among(layer: MappedLayer, part: Part, own: int) -> MappedLayer:
    """Let a layer write its pixels, of `own` channels, among wider ones."""
    output, wide = layer.operator.output, part.strides[-1]
    pitches = tuple(pitch if axis in "gco" else pitch // own * wide
                    for axis, pitch in zip(layer.operator.axes["output"],
                                           layer.pitches or output.buffer.pitches, strict=True))
    lanes = output.shape[-2] * output.shape[-1]
    bounds = ((-2, -1, part.writable),) if part.writable < lanes else ()
    return replace(layer, pitches=pitches, bounds=layer.bounds or bounds,
                   offset=part.offset + layer.offset // own * wide + layer.offset % own)
