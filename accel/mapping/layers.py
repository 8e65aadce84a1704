"""Nodes of an integer graph as layers of the accelerator: which there are, what is refused, and
which way takes the fewest cycles. `accel.mapping.builders` makes them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.mapping.builders import (float_products, movement, pools, products, row_layers,
                                    vector_layers)
from accel.mapping.builders.channel_parts import channel_parts
from accel.mapping.builders.grouped import product_of_groups
from accel.mapping.builders.joined import Joined, joined_layer
from accel.mapping.builders.layer import Builder, MappedLayer, leading_refusal
from accel.mapping.builders.residuals import PRODUCT, product_with_residual
from accel.mapping.builders.stream_layers import streamed
from accel.mapping.builders.terms import terms
from accel.mapping.joining import joined
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.deciding import decided
from accel.mapping.memory.forms import Forms, PartForm
from accel.mapping.memory.layout import blocks_of, least_bits
from accel.mapping.memory.misfits import idle_copy, misfit, other_type
from accel.mapping.memory.nodes import is_view
from accel.mapping.memory.weights import multipliers_of, products_of
from accel.mapping.operators.blocked import Blocks, Product
from accel.mapping.operators.windows import sharings
from accel.mapping.plans.choices import Choices
from accel.mapping.schedules import (Tiles, cost_of, cost_together, fits, schedule, shape_of,
                                     tiles_of)
from accel.mapping.selecting.row_selection import is_row_function
from accel.mapping.selecting.selection import is_elementwise
from accel.mapping.selecting.sums import require_sums, weight_of
from accel.mapping.spreading import sharers
from compiler.graph.graph import Graph, Node
from compiler.ops.records.planes import are_planes
from compiler.ir import Tensorized, walk_stmts
from compiler.tensorize import Intrinsic

PRODUCTS = ("qconv2d", "qconvtranspose2d", "qdense", "qmatmul", *PRODUCT)
"""Operators that gemm computes."""

THREADS = 2
"""Virtual threads for which products are compared."""

ANY_RANK = ("qdense", "qdense_add", "qterms", "qmatmul", "qmean", "qconcat", "fdense")
"""Operators that take the rows of matrices as well as images."""

LAYERS: dict[str, Builder] = {
    "qconv2d": products.convolution,
    "qconvtranspose2d": products.transposed_convolution,
    "qdense": products.dense,
    "fconv2d": float_products.convolution,
    "fdense": float_products.dense,
    "qmaxpool": pools.max_pool,
    "qavgpool": pools.average_pool,
    "qglobalavgpool": pools.global_average_pool,
    "qmean": pools.mean,
    "qmatmul": products.matrix_product,
    "upsample": movement.upsample,
    "slice": movement.cut,
    "pad": movement.pad,
    "qconcat": movement.concat,
    "qput": movement.put,
    "qargmax": vector_layers.place_layer,
    "qargmin": vector_layers.place_layer,
}
"""How the nodes of each operator become layers."""

REFUSALS: dict[str, Callable[[Graph, Node], str | None]] = {
    "slice": movement.cut_refusal,
    "pad": movement.pad_refusal,
    "qmatmul": leading_refusal,
    "qmean": pools.mean_refusal,
    "qargmax": vector_layers.place_refusal,
    "qargmin": vector_layers.place_refusal,
}
"""Cases of a supported operator that the accelerator refuses."""


@lru_cache(2)
def forms_of(graph: Graph, blocks: Blocks) -> Forms:
    """The memory forms of the graph's values where the accelerator computes all that it can. They
    are kept for a graph and its last segment, about which targets ask node after node.
    """
    return decided(graph, blocks, (*LAYERS, *PRODUCT, "qterms", *(node.op for node in graph.nodes
                                              if is_elementwise(node) or is_row_function(node))))


def refusal(graph: Graph, node: Node, forms: Forms) -> str | None:
    """None when the accelerator may run the node, else the reason why not; what instructions
    compute, and what fits the buffers, `build_layers` and tiles say.
    """
    x = graph.values[node.inputs[0]]
    by_strides = node.name in forms.by_strides
    mistyped = None if x.dtype == forms.blocks.carried else (
        other_type("input", x.dtype, forms.blocks.element))
    if is_view(graph, node) or by_strides and node.op == "slice":
        return mistyped or forms.of(node).refused or idle_copy(forms, node)
    if node.op == "qput":
        return forms.of(node).refused or leading_refusal(graph, node)
    if is_elementwise(node):
        return vector_layers.elementwise_refusal(graph, node, forms.blocks.element)
    if is_row_function(node):
        return row_layers.row_function_refusal(graph, node, forms)
    if node.op not in (*LAYERS, *PRODUCT, "qterms"):
        return f"the accelerator has no operator {node.op}"
    if node.op in float_products.OPERATORS and (
            reason := float_products.refusal(node, forms.blocks)):
        return reason
    if mistyped:
        return mistyped
    if {"twice", "scale"} & node.attrs.keys() or node.op in PRODUCTS and len(node.inputs) == 4:
        return "it scales as LiteRT does; the accelerator has multipliers of 16 bits"
    if len(x.shape) not in (2, 4) and (node.op not in ANY_RANK or len(x.shape) < 2):
        return f"its input has {len(x.shape)} dimensions; the accelerator takes NCHW or NC"
    other = REFUSALS[node.op](graph, node) if node.op in REFUSALS else None
    if by_strides:
        other = leading_refusal(graph, node)
    return other or misfit(forms, node)


def build_layers(node: Node, graph: Graph, known: Forms, machine: Machine
                 ) -> tuple[MappedLayer, ...]:
    """The layers of a node: one for most, several that write parts of one result for some, none for
    a view, and for what the layer of a later node computes as well.
    """
    def others(one: Node) -> int:
        return _cycles(_layers(one, graph, known, machine), machine)

    layers = streamed(node, graph, known, machine, others)
    if layers is None:
        layers = joined(node, graph, known, machine, lambda one: _layers(
            one, graph, known, machine), lambda pair: _joined(pair, graph, known, machine),
            lambda some: _in_turn(some, machine))
    if layers is None:
        layers = _layers(node, graph, known, machine)
    part = known.of(node).part
    if part is None or known.moves_nothing(node):
        return layers
    own = known.blocks.padded(known[node.outputs[0]].c)
    return tuple(_among(layer, part, own) for layer in layers)


def _layers(node: Node, graph: Graph, known: Forms, machine: Machine) -> tuple[MappedLayer, ...]:
    """The layers of a node without instructions of stream units, as if all its result were its own.
    """
    form, blocks = known.of(node), blocks_of(machine.config)
    _require_products(node, graph, machine.config)
    require_sums(node, graph, machine.config.accumulator)
    if form.copy:
        return (movement.copy(node, graph, known, blocks),)
    if known.moves_nothing(node):
        return ()
    if is_elementwise(node):
        layers = _packed(vector_layers.elementwise_layer(node, graph, known, machine), machine)
    elif is_row_function(node):
        layers = _row_function(node, graph, known, machine)
    elif node.op == "qterms":
        layers = (terms(node, graph, known, machine),)
    elif node.op in PRODUCTS and (products_of(machine) != (None,)
                                  or _multipliers(node, graph, machine)):
        layers = _cheapest(node, graph, known, machine)
    elif node.op in PRODUCTS:
        layers = tuple(map(_told, _packed(_in_form(node, graph, known, machine, blocks), machine)))
    else:
        layers = _packed(LAYERS[node.op](node, graph, known, blocks), machine)
    return tuple(_shared(_reduced(layer, machine), machine) for layer in layers)


def _joined(pair: Joined, graph: Graph, known: Forms, machine: Machine) -> tuple[MappedLayer, ...]:
    """The layer of a product and its reader, by the product of the machine that takes the fewest
    cycles."""
    build = LAYERS[pair.product.op]
    ways = [_packed(_of_forms(machine, replace(blocks_of(machine.config), product=form),
                              lambda blocks: joined_layer(pair, graph, known, blocks, build)),
                    machine) for form in products_of(machine)]
    return tuple(_shared(layer, machine) for layer in min(
        ways, key=lambda layers: _cycles(layers, machine)))


def _shared(layer: MappedLayer, machine: Machine) -> MappedLayer:
    """The layer with the number of units of vector that take its tiles in turn."""
    count = sharers(machine)
    return layer if count == 1 else replace(layer, operator=replace(
        layer.operator, sharers=count))


def _in_form(node: Node, graph: Graph, known: Forms, machine: Machine, blocks: Blocks
             ) -> tuple[MappedLayer, ...]:
    """The layers of a product."""
    return _of_forms(machine, blocks, lambda form: _product(node, graph, known, machine, form))


def _of_forms(machine: Machine, blocks: Blocks,
              build: Callable[[Blocks], MappedLayer | tuple[MappedLayer, ...]]
              ) -> tuple[MappedLayer, ...]:
    """The layers of a product as `build` makes them. Where windows that are packed, or all phases
    of a transposed convolution at once, are more than buffers hold, windows are not packed, and
    fewer phases are computed together.
    """
    forms = (blocks, *(replace(blocks, packs=False, phases=most) for most in (16, 8, 4, 2, 1)))
    return _first_that_fits(machine, *(lambda form=form: build(form) for form in forms))


def _product(node: Node, graph: Graph, known: Forms, machine: Machine, blocks: Blocks
             ) -> MappedLayer | tuple[MappedLayer, ...]:
    grouped = product_of_groups(node, graph, known, machine, blocks)
    if grouped is not None:
        return grouped
    if node.op not in PRODUCT:
        built = LAYERS[node.op](node, graph, known, blocks)
        return (_in_parts(node, graph, known, machine, blocks, built)
                or _sharing(node, graph, known, machine, blocks, built))
    return product_with_residual(node, graph, known, machine, blocks, LAYERS[PRODUCT[node.op]])


def _sharing(node: Node, graph: Graph, known: Forms, machine: Machine, blocks: Blocks,
             built: MappedLayer | tuple[MappedLayer, ...]
             ) -> MappedLayer | tuple[MappedLayer, ...]:
    """A convolution whose windows share entries, where that takes fewer cycles than the layers that
    are built of it, as tiles are priced; else these."""
    if node.op != "qconv2d" or are_planes(node) or node.attrs.get("group", 1) > 1:
        return built
    x, channels = known[node.inputs[0]], len(graph.constants[node.inputs[1]])
    ways = [products.shared_windows(node, graph, x, blocks, pixels) for pixels in sharings(
        x, channels, products.window_of(node, graph), machine.config.bus_bytes, blocks)]
    ways = [way for way in ways if fits(machine.config, shape_of(way.operator))]
    if not ways or not isinstance(built, MappedLayer):
        return built
    return min((built, *ways), key=lambda way: _cycles((way,), machine))


def _in_parts(node: Node, graph: Graph, known: Forms, machine: Machine, blocks: Blocks,
              built: MappedLayer | tuple[MappedLayer, ...]) -> tuple[MappedLayer, ...]:
    """The layers of blocks of channels with different numbers of passes, where these take fewer
    cycles than the whole, as tiles are priced; else none."""
    if (not isinstance(built, MappedLayer) or shape_of(built.operator).passes == 1
            or are_planes(node) or node.attrs.get("group", 1) > 1 or known.of(node).part):
        return ()

    def part(cut: Graph) -> MappedLayer:
        layer = LAYERS[node.op](node, cut, known, blocks)
        assert isinstance(layer, MappedLayer)
        return layer

    parts = channel_parts(node, graph, built, blocks, part)
    try:
        return parts if parts and _cycles(parts, machine) < _cycles((built,), machine) else ()
    except LoweringError:
        return ()


def _first_that_fits(machine: Machine, *ways: Callable[[], MappedLayer | tuple[MappedLayer, ...]]
                     ) -> tuple[MappedLayer, ...]:
    """The layers of the first way whose tiles fit the machine, or else of the first."""
    first: tuple[MappedLayer, ...] = ()
    for way in ways:
        built = way()
        layers = built if isinstance(built, tuple) else (built,)
        if all(fits(machine.config, shape_of(layer.operator)) for layer in layers):
            return layers
        first = first or layers
    return first


def _row_function(node: Node, graph: Graph, known: Forms, machine: Machine
                  ) -> tuple[MappedLayer, ...]:
    """The first way that fits, or of rows across lanes the one of the fewest cycles. Refuses rows
    that take as many cycles as more than twice of them.
    """
    ways = row_layers.row_function_ways(node, graph, known, machine)
    first = next(ways)
    if not any(layer.operator.across for layer in first):
        return _first_that_fits(machine, lambda: first, lambda: next(ways))
    cycles, best = min(((_cycles(way, machine), way) for way in (first, *ways)),
                       key=lambda one: one[0])
    if few := row_layers.few_rows(node, known, blocks_of(machine.config)):
        raise LoweringError(f"its rows are {few} that are computed at once, in about {cycles:.0f} "
                            "cycles; the host computes fewer than half of them for less")
    return best


def _require_products(node: Node, graph: Graph, config: AccelConfig) -> None:
    """Refuses an operator with products of other types than gemm takes and vector writes."""
    if node.op not in (*PRODUCTS, "qterms", *float_products.OPERATORS):
        return
    if config.operand != config.output:
        raise LoweringError(f"gemm takes {config.operand} and vector writes {config.output}; "
                            f"a layer has one type of activations")
    if node.op in float_products.OPERATORS:
        return
    weights = graph.values[weight_of(node)].dtype
    computed = weight_of(node) not in graph.constants
    if weights != config.weight and (computed or {weights, config.weight} != {"int8", "int16"}):
        raise LoweringError(f"its {'second factor' if computed else 'weight'} is {weights}; gemm "
                            f"takes {config.weight}")


def _cheapest(node: Node, graph: Graph, known: Forms, machine: Machine
              ) -> tuple[MappedLayer, ...]:
    """The layers of a node by the product of the machine, or the instruction of vector, that takes
    the fewest cycles for its weights, as tiles are priced; of equal ones by that with the fewest
    bytes of constants."""
    forms = products_of(machine)
    if node.op == "qmatmul":
        if None not in forms:
            raise LoweringError("no instruction of gemm multiplies two computed matrices")
        forms = (None,)
    found: list[tuple[tuple[int, int], tuple[MappedLayer, ...]]] = []
    refused = LoweringError("")
    for _, way in _ways(node, graph, known, machine, forms):
        try:
            layers = tuple(map(_told, _packed(way(), machine)))
            found.append(((_cycles(layers, machine), sum(layer.size(*layer.constants)
                                                         for layer in layers)), layers))
        except LoweringError as error:
            refused = error
    if not found:
        raise refused
    return min(found, key=lambda priced: priced[0])[1]


def _ways(node: Node, graph: Graph, known: Forms, machine: Machine,
          forms: Sequence[Product | None]
          ) -> Iterator[tuple[str, Callable[[], MappedLayer | tuple[MappedLayer, ...]]]]:
    """The ways to compute a product, each with the instruction; "" is the one that takes a matrix
    as it is."""
    blocks = blocks_of(machine.config)
    for form in forms:
        yield form.body.name if form else "", lambda form=form: _in_form(
            node, graph, known, machine, replace(blocks, product=form))
    for body in _multipliers(node, graph, machine):
        yield body.name, lambda body=body: products.depthwise(node, graph, known, blocks, body)


def product_cycles(node: Node, graph: Graph, known: Forms, machine: Machine
                   ) -> dict[str, int | str]:
    """The cycles that a product takes by each instruction that might compute it, as tiles are
    priced, or why it cannot; "" is the one that takes a matrix as it is."""
    cycles: dict[str, int | str] = {}
    for name, way in _ways(node, graph, known, machine, products_of(machine)):
        try:
            cycles[name] = int(_cycles(_packed(way(), machine), machine))
        except LoweringError as error:
            cycles[name] = str(error)
    return cycles


def _multipliers(node: Node, graph: Graph, machine: Machine) -> tuple[Intrinsic, ...]:
    """The instructions of vector that may compute a convolution of each channel alone."""
    if node.op != "qconv2d" or are_planes(node) or node.attrs.get("group", 1) == 1:
        return ()
    weights = graph.constants[node.inputs[1]]
    alone = weights.shape[1] == 1 and len(weights) == node.attrs["group"]
    return multipliers_of(machine) if alone and least_bits(weights, (8, 16)) == 8 else ()


def _told(layer: MappedLayer) -> MappedLayer:
    """Say by which product of its own a layer is computed, and in how many passes."""
    passes = shape_of(layer.operator).passes
    by = (f"by {layer.operator.by['acc']}" if layer.operator.weights else "",
          f"in {passes} passes" if passes > 1 else "")
    return replace(layer, note="; ".join(filter(None, (layer.note, " ".join(filter(None, by))))))


def _cycles(layers: Sequence[MappedLayer], machine: Machine) -> int:
    return sum(cost_of(machine.config, shape_of(layer.operator),
                       *tiles_of(machine, layer.operator, THREADS, only=False)).cycles
               for layer in layers)


def _in_turn(layers: Sequence[MappedLayer], machine: Machine) -> int:
    """The cycles of layers that follow each other, two at the same time where that takes fewer."""
    cycles = 0
    for group in Choices(machine, THREADS).groups(layers, whole=False):
        shapes, tiles = zip(*((shape_of(part.layer.operator), part.tiles) for part in group))
        cycles += group[0].cost.cycles if len(group) == 1 else cost_together(
            machine.config, shapes, tiles, THREADS).cycles
    return int(cycles)


def _reduced(layer: MappedLayer, machine: Machine) -> MappedLayer:
    """A layer that reduces over lanes with the note which own instructions do; refuses one that no
    instructions of the machine perform."""
    if "w" in layer.operator.stages or "lanes" not in layer.operator.reduced:
        return layer
    try:
        steps = schedule(machine, layer.operator, Tiles(1, 1, 1, 1), 1)
    except LoweringError:
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


def _among(layer: MappedLayer, part: PartForm, own: int) -> MappedLayer:
    """Let a layer write its pixels, of `own` channels, among wider ones."""
    output, wide = layer.operator.output, part.strides[-1]
    pitches = tuple(pitch if axis in "gco" else pitch // own * wide
                    for axis, pitch in zip(layer.operator.axes["output"],
                                           layer.pitches or output.buffer.pitches, strict=True))
    lanes = output.shape[-2] * output.shape[-1]
    bounds = ((-2, -1, part.writable),) if part.writable < lanes else ()
    return replace(layer, pitches=pitches, bounds=layer.bounds or bounds,
                   offset=part.offset + layer.offset // own * wide + layer.offset % own)
