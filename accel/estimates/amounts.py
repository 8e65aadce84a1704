"""Amounts of operators and registers in a datapath, in bits, read from its plan.

Amounts follow `accel.hw.compute.datapath`. Multipliers and registers are meant to be exact; the
bits of operators become LUTs by coefficients that are fitted (`accel.estimates.fitting`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from accel.datapath.array import SystolicArray
from accel.datapath.dataflow import DataflowNode
from accel.datapath.placement import CONSTANTS, FACTOR_BITS, Operation, factor_bits
from accel.datapath.plan import DatapathPlan
from accel.hw.parts import GROUP

VIEWS = ("wrap", "lsl", "asr", "every", "drop", "pad", "take", "across", "cat")
"""Kinds that are wires: what they show has the registers of their arguments."""

CARRIES = ("add", "sub", "round", "abs")
COMPARISONS = ("lt", "le", "gt", "ge", "min", "max")
LOGIC = ("and", "or", "xor", "eq", "ne")


@dataclass(frozen=True)
class Amounts:
    """Operators, registers and multipliers of a datapath.

    Parameters
    ----------
    multipliers : multiplier blocks.
    registers : bits of registers outside of these.
    bits : bits of operators by kind: `carry`, `compress`, `compare`, `choice`, `gather`, `shift`,
        `logic`, and `soft` of products that are made of adders.
    products : bits of products in blocks: those of both factors, multiplied.
    """

    multipliers: int
    registers: int
    bits: Counter[str]
    products: int


def amounts(plan: DatapathPlan, dsp_multipliers: int = 1 << 16) -> Amounts:
    """Counts a datapath; `dsp_multipliers` as in `accel.hw.compute.datapath.Datapath`."""
    if plan.array:
        return _of_array(plan.array, dsp_multipliers)
    bits: Counter[str] = Counter()
    multipliers = registers = products = 0
    compressed = _compressed(plan)
    for operation in plan.operations:
        count = plan.copies(operation)
        if operation.node.kind == "mul":
            wide, narrow = map(factor_bits, operation.node.args)
            soft = max(count - dsp_multipliers, 0)
            blocks, kept, carried = _multiplier(wide, narrow)
            multipliers += (count - soft) * blocks
            registers += (count - soft) * kept
            bits["carry"] += (count - soft) * carried
            kept, carried = _soft_multiplier(wide, narrow)
            registers += soft * kept
            products += (count - soft) * wide * narrow
            bits["soft"] += soft * carried
        elif operation in compressed:
            bits["compress"] += operation.node.interval.width * count
        else:
            for kind, width in _operators(operation.node):
                bits[kind] += width * count
    return Amounts(multipliers, registers + _registers(plan) + _selects(plan), bits, products)


def _of_array(array: SystolicArray, dsp_multipliers: int) -> Amounts:
    """Counts a systolic array, of which blocks have the registers of products and factors."""
    count = array.batch * array.block_in * array.block_out
    if array.dot is not None:
        elements = array.batch * array.block_out
        each = amounts(array.dot, dsp_multipliers // elements)
        bits = Counter({kind: elements * width for kind, width in each.bits.items()})
        bits["carry"] += elements * array.bits
        return Amounts(elements * each.multipliers, array.moving_bits + elements * each.registers,
                       bits, elements * each.products)
    wide, narrow = sorted((one.width + (not one.signed) for one in (array.a, array.b)),
                          reverse=True)
    blocks = min(count, dsp_multipliers)
    kept, carried = _soft_multiplier(wide, narrow)
    added = array.batch * array.block_out * sum(one.width for one in array.sums[1:])
    bits = Counter(carry=added, choice=array.block_in * array.block_out * array.b.width)
    bits["soft"] = (count - blocks) * carried
    return Amounts(blocks, array.moving_bits + (count - blocks) * kept, bits,
                   blocks * wide * narrow)


def _compressed(plan: DatapathPlan) -> set[Operation]:
    """Sums of sums within a stage, of which synthesis makes compressors."""
    found = set()
    for operation in plan.operations:
        for arg in operation.node.args:
            pair = operation, plan.placed[arg]
            if all(one.node.kind == "fold" and one.node.attr[0] == "sum" for one in pair) \
                    and pair[1].stage == operation.stage:
                found.update(pair)
    return found


def fits_blocks(wide: int, narrow: int) -> bool:
    """True if a product of factors of so many bits fits `accel.hw.parts.Multiplier`.

    That has registers on either side; synthesis cuts wider products into blocks without."""
    return wide < 2 * FACTOR_BITS and narrow <= FACTOR_BITS


def _multiplier(wide: int, narrow: int) -> tuple[int, int, int]:
    """Blocks, registers and bits of adders of a product of factors of so many bits, in blocks."""
    if wide <= FACTOR_BITS:
        return 1, 0, 0
    if fits_blocks(wide, narrow):
        return 2, wide + narrow, wide + narrow
    blocks = -(-wide // (FACTOR_BITS - 1)) * -(-narrow // (FACTOR_BITS - 1))
    return blocks, 2 * (wide + narrow), (blocks - 1) * (wide + narrow)


def _soft_multiplier(wide: int, narrow: int) -> tuple[int, int]:
    """Registers and bits of carry chains of a product that is made of adders."""
    pairs = -(-narrow // 2)
    halves = -(-pairs // 2)
    return (wide + narrow + halves * (wide + 4) + wide + narrow,
            pairs * (wide + 2) + (pairs - halves) * (wide + 4) + (halves - 1) * (wide + narrow))


def _operators(node: DataflowNode) -> Iterator[tuple[str, int]]:
    """The operators of a node by kind, with their bits."""
    width, args = node.interval.width, node.args
    widest = max((arg.interval.width for arg in args), default=0)
    match node.kind:
        case "fold":
            yield ("carry", width) if node.attr[0] == "sum" else ("compare", widest + 1)
            if node.attr[0] != "sum":
                yield "choice", width
        case kind if kind in CARRIES:
            yield "carry", width
            if kind == "abs":
                yield "choice", width
        case kind if kind in COMPARISONS:
            yield "compare", widest + 1
            if kind in ("min", "max"):
                yield "choice", width
        case "mux" if len(args) == 2:
            constant = any(arg.kind in CONSTANTS for arg in args)
            yield ("logic" if constant else "choice"), min(width, widest)
        case "mux":
            yield "gather", width * len(args)
        case "pick":
            yield "gather", width * node.attr[0]
        case "select":
            yield "choice", width
        case "limit":
            yield "choice", 2 * width
        case "element":
            yield "choice", width * (len(args) - 2)
        case "stick" | "left" if args[1].kind not in CONSTANTS:
            yield "shift", width
        case "zeros":
            yield "logic", 2 * args[0].interval.width
        case "clip":
            yield "logic", width + (widest - width) // 2
        case kind if kind in LOGIC and not any(arg.kind in CONSTANTS for arg in args):
            yield "logic", width


def _registers(plan: DatapathPlan) -> int:
    """Bits of data registers between stages, those inside of multipliers and memories left out."""
    needed: dict[Operation, list[tuple[int, int]]] = {}     # root: (last stage, bits)
    for operation in plan.operations:
        if operation.node.kind in VIEWS:
            continue
        taken = operation.stage - (operation.node.kind in ("mul", "lookup"))
        for arg in operation.node.args:
            for root, width in _roots(plan, arg):
                needed.setdefault(root, []).append((taken, width))
    for root, width in _roots(plan, plan.value.node):
        needed.setdefault(root, []).append((plan.latency, width))
    total = 0
    for root, uses in needed.items():
        count = _copies(plan, root)
        total += sum(count * max(width for last, width in uses if last > stage)
                     for stage in range(root.available, max(last for last, _ in uses)))
        if root.node.kind == "imm":
            total += count * root.node.interval.width       # on its way in
    return total


def _roots(plan: DatapathPlan, node: DataflowNode) -> Iterator[tuple[Operation, int]]:
    """The operations whose registers hold a value, and how many of their bits."""
    if node.kind in CONSTANTS:
        return
    if node.kind not in VIEWS:
        yield plan.placed[node], node.interval.width
        return
    for arg in node.args:
        for root, width in _roots(plan, arg):
            low = node.kind == "wrap"
            yield root, min(width, node.interval.width) if low else width


def _copies(plan: DatapathPlan, operation: Operation) -> int:
    """Copies of an operation; each group of lanes has its own of what all lanes share."""
    node = operation.node
    if node.kind in ("imm", "mux") and not node.axes and plan.shape:
        return -(-plan.shape[-1] // GROUP)
    return plan.copies(operation)


def _selects(plan: DatapathPlan) -> int:
    """Registers that say in each stage whether the element is of the bodies of some case."""
    groups = -(-plan.shape[-1] // GROUP) if plan.shape else 1
    last: dict[tuple[int, ...], set[int]] = {}
    for operation in plan.operations:
        node = operation.node
        if node.kind == "mux":
            cases = node.attr if len(node.args) > 2 else node.attr[1:]
        elif node.kind == "pick":
            cases = {bodies for row in node.attr[1] for bodies, _, _ in row}
        else:
            continue
        for bodies in cases:
            last.setdefault(tuple(bodies), set()).add(operation.stage)
    return sum(max(stages) + 1 + (groups - 1) * len(stages) for stages in last.values())
