"""The longest path of logic in a stage of a datapath, from its operators.

Delays are those of an ECP5 at speed grade 6 as nextpnr's database has them, rounded, and a wire's
is that of a typical one; what wires really take grows with the design and is fitted
(`accel.estimates.clock`).
"""

from accel.datapath.dataflow import COMPARISONS, DataflowNode
from accel.datapath.placement import CONSTANTS, factor_bits
from accel.datapath.plan import DatapathPlan
from accel.estimates.amounts import fits_blocks

WIRE, LUT = 0.9, 0.24
BEGIN = 0.53                # from the clock to a register's output
CHAIN, BIT = 0.89, 0.036    # into a carry chain and out of it; along a bit
PRODUCT = 3.93              # through a multiplier block without registers
RIPPLE = 8                  # bits by which a sum follows the one that it adds to

_WIRES = ("read", "imm", "wrap", "lsl", "asr", "every", "drop", "pad", "take", "across", "cat",
          *CONSTANTS)
_CHAINS = ("add", "sub", "round", "abs", "fold", "min", "max", *COMPARISONS)
_SELECTING = ("min", "max", "abs", "fold")


def longest_path(plan: DatapathPlan) -> float:
    """Nanoseconds from a register to the end of the slowest stage's logic, of a systolic array of
    a sum's."""
    if plan.array:
        dot = longest_path(plan.array.dot) if plan.array.dot else 0.0
        return max(dot, BEGIN + WIRE + CHAIN + BIT * plan.array.sums[-1].width)
    arrival: dict[DataflowNode, float] = {}
    products = [0.0]
    for operation in plan.operations:
        node = operation.node
        here = [arrival[arg] for arg in node.args
                if plan.placed[arg].available == operation.stage and arg.kind not in CONSTANTS]
        began = max(here, default=BEGIN)
        arrival[node] = (BEGIN if node.kind in ("mul", "lookup")
                         else began + _delay(node, began > BEGIN))
        if node.kind == "mul":
            products.append(_product(*map(factor_bits, node.args)))
    return max(*arrival.values(), *products)


def _product(wide: int, narrow: int) -> float:
    """The path through a multiplier, whose factors come from registers."""
    if fits_blocks(wide, narrow):
        return 0.0                          # that of its own registers, or a sum after them
    return BEGIN + WIRE + PRODUCT + WIRE + LUT + WIRE + CHAIN + BIT * (wide + narrow)


def _delay(node: DataflowNode, follows: bool) -> float:
    """The delay that an operation adds to a path that begins at a register, or `follows` logic."""
    if node.kind in _WIRES:
        return 0.0
    masks = any(arg.kind in CONSTANTS for arg in node.args)
    if node.kind in _CHAINS:
        width = max(value.interval.width for value in (node, *node.args))
        whole = not follows or node.kind in COMPARISONS or node.kind in ("min", "max")
        selects = node.kind in _SELECTING and node.attr[:1] != ("sum",)
        return WIRE + CHAIN + BIT * (width if whole else RIPPLE) + selects * (WIRE + LUT)
    match node.kind:
        case "and" | "or" | "xor" if masks:
            return 0.0
        case "stick" | "left":
            return 0.0 if node.args[1].kind in CONSTANTS else WIRE + 2 * LUT
        case "mux":
            return (WIRE + LUT) * (1 if len(node.args) <= 2 else 2)
        case "pick" | "zeros" | "clip" | "element" | "limit":
            return 2 * (WIRE + LUT)
        case _:
            return WIRE + LUT
