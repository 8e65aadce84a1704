"""Float functions of two to four tensors, or of one of int16, as expressions of integers: what
`integerize` makes of elementwise operators that have no integer form of their own.

Every value on the way is an integer times a real scale; the operators' own expressions say what is
done to it. Sums and comparisons of unequal scales go to a common finer scale, rounded; a bound of
the error is carried along.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, ldexp
from typing import cast

from compiler import te
from compiler.graph.graph import Node, TensorType
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.integerize.regions import Region
from compiler.graph.reference import evaluate_node
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.integers.integer_text import INT8, IntegerRange, operands, range_of
from compiler.ops.records.broadcasting import broadcast, broadcast_shape
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, StaysFloat, Stored, clamp_to,
                                                multiplier_of)
from compiler.ops.registry import expression, find

INPUTS = ("x0", "x1", "x2", "x3")
FINEST = {INT8: 15, limits_of("int16"): 14}
"""By how many bits at most a common scale is finer than the coarser one: less a zero point numbers
of 16 bits have 17, and machines multiply by 16."""
MOST = 2**31 - 1
HALF = 15               # bits of each factor where a product of both would take more than 31
LONGEST = 2000          # characters


def mapped(view: QuantizedView, region: Region, core: Node, out: Stored, bounds: Bounds
           ) -> IntegerNode:
    """The `qmap` of a region with few sources, at most 1 step from its float meaning.
    Behind `core` come activations, which leave what is within `bounds`, and the quantization to
    `out`.

    Raises StaysFloat with the reason where integers of 32 bits cannot compute it.
    """
    names, term = term_of(view, region, core)
    return IntegerNode("qmap", names, {"function": requantized(term, out, bounds)})


def term_of(view: QuantizedView, region: Region, core: Node) -> tuple[tuple[str, ...], "Scaled"]:
    """The inputs of a map, and what it computes of them up to `core`. Raises StaysFloat."""
    if len(region.sources) > len(INPUTS):
        raise StaysFloat(f"it computes with {len(region.sources)} quantized values")
    shapes = [view.shape(source) for source in region.sources]
    if broadcast_shape(*shapes) != view.shape(region.nodes[-1].outputs[0]):
        raise StaysFloat("a constant gives it more dimensions than its inputs have")
    whole = view.shape(region.nodes[-1].outputs[0])
    constants = {node.outputs[0]: view.operand(node.outputs[0], whole) for node in region.nodes
                if node.inputs[0] in region.sources and node.inputs[0] in view.graph.constants}
    values = {node.inputs[0]: constants[node.outputs[0]].value for node in region.nodes
              if node.outputs[0] in constants}
    names = {values.get(source) or view.stored[source]: name
             for source, name in zip(region.sources, INPUTS, strict=False)}
    known: dict[str, Term] = {value: _leaf(names[stored.value], stored)
                              for value, stored in constants.items()}
    for node in region.nodes[:region.nodes.index(core) + 1]:
        if node.outputs[0] not in known:
            known[node.outputs[0]] = _value(view, node, known, names)
    term = known[core.outputs[0]]
    if not isinstance(term, Scaled) or operands(term.text) != {*names.values()}:
        raise StaysFloat("it does not depend on all of its quantized inputs")
    return tuple(names), term


def _value(view: QuantizedView, node: Node, known: Mapping[str, "Term"],
           names: Mapping[str, str]) -> "Term":
    """The value of a node for tensors and numbers."""
    constants = view.graph.constants
    if all(value in constants for value in node.inputs):
        return float(evaluate_node(node, [constants[value] for value in node.inputs]).item())
    if node.op == "dequantizelinear":
        stored = view.activation(node.outputs[0])
        return _leaf(names[stored.value], stored)
    if not {*node.inputs} <= {*known, *constants}:
        raise StaysFloat(f"{node.op} reads a quantized tensor as the integers that it holds")
    terms = {value: float(constants[value].item()) for value in node.inputs if value in constants}
    slope = find(node.op).slope
    if slope and (part := slope(node.attrs)) is not None:
        x = {**known, **terms}[node.inputs[0]]
        return _chosen("max")(x, _product(x, part))
    return _result(view, node, {**known, **terms})


# Integers with a scale


@dataclass(frozen=True, slots=True)
class Scaled:
    """real = integer * scale, at most `error` off; the integer is `text` and lies in `range`. Where
    it is another integer and a zero point, `stored` is that integer and `zp` the number to add.
    Tensors lie within `limits`.
    """

    text: str
    scale: float
    range: IntegerRange
    error: float = 0.0
    stored: str = ""
    zp: int = 0
    limits: tuple[int, int] = INT8

    @property
    def greatest(self) -> int:
        return max(-self.range.low, self.range.high)

    def times(self, factor: int) -> "Scaled":
        """This number in steps that are finer by a factor."""
        return self if factor == 1 else self.made(f"({self.text} * {factor})", self.scale / factor,
                                                  self.error)

    def made(self, text: str, scale: float, error: float) -> "Scaled":
        """Another number of the same tensors."""
        return _made(text, scale, error, self.limits)


def _made(text: str, scale: float, error: float, limits: tuple[int, int]) -> Scaled:
    if len(text) > LONGEST:
        raise StaysFloat(f"its expression would have more than {LONGEST} characters")
    if not 0 < scale < float("inf"):
        raise StaysFloat(f"its scale would be {scale:g}")
    try:
        range_ = range_of(text, [limits] * len(INPUTS))
    except ValueError as reason:
        raise StaysFloat(str(reason)) from None
    return Scaled(text, scale, range_, error, limits=limits)


def _leaf(name: str, stored: Stored) -> Scaled:
    moved = _made(_moved(name, -stored.zp), stored.scale, 0.0, limits_of(stored.dtype))
    return replace(moved, stored=name, zp=-stored.zp) if stored.zp else moved


def _moved(text: str, number: int) -> str:
    """The sum of an integer and a number."""
    if number == 0:
        return text
    return f"({text} + {number})" if number > 0 else f"({text} - {-number})"


Term = Scaled | float


def _alike(a: Scaled, b: Scaled) -> tuple[Scaled, Scaled]:
    """Both with one scale, at which their sum fits int32."""
    if a.scale < b.scale:
        second, first = _alike(b, a)
        return first, second
    for finer in range(FINEST[a.limits], -1, -1):
        ma, mb = 1 << finer, round(b.scale / a.scale * 2**finer)
        if not mb:
            break
        common = gcd(ma, mb)
        ma, mb = ma // common, mb // common
        if a.greatest * ma + b.greatest * mb <= MOST:
            fine = a.times(ma)
            rounded = abs(mb * fine.scale - b.scale) * b.greatest
            return fine, replace(b.times(mb), scale=fine.scale, error=b.error + rounded)
    if a.scale >= b.scale * 2**(FINEST[a.limits] + 1):
        raise StaysFloat(f"its scales on the way, {a.scale:g} and {b.scale:g}, are too far apart")
    raise StaysFloat(f"its results on the way must fit int32, not reach "
                     f"{a.greatest + b.greatest}")


def _number_alike(a: Scaled, number: float) -> tuple[Scaled, Scaled]:
    """A number in steps of a tensor."""
    for finer in range(FINEST[a.limits], -1, -1):
        factor, integer = 1 << finer, round(number / a.scale * 2**finer)
        common = gcd(factor, integer)
        factor, integer = factor // common, integer // common
        if a.greatest * factor + abs(integer) <= MOST:
            fine = a.times(factor)
            return fine, a.made(str(integer), fine.scale, abs(integer * fine.scale - number))
    if a.greatest >> HALF + 1:              # finer than a tensor: products on the way made it so
        return _number_alike(coarser(a, 1), number)
    raise StaysFloat(f"{number:g} is more than int32 holds of its steps of {a.scale:g}")


def _common(a: Term, b: Term) -> tuple[Scaled, Scaled]:
    if isinstance(a, Scaled) and isinstance(b, Scaled):
        return _alike(a, b)
    if isinstance(a, Scaled):
        return _number_alike(a, cast(float, b))
    second, first = _number_alike(cast(Scaled, b), a)
    return first, second


def _sum(sign: str) -> Callable[[Term, Term], Term]:
    def of(a: Term, b: Term) -> Term:
        left, right = _common(a, b)
        texts = (left.stored, right.stored) if sign == "-" and _have_one_zero(left, right) else (
            left.text, right.text)
        return left.made(f"({texts[0]} {sign} {texts[1]})", left.scale, left.error + right.error)
    return of


def _have_one_zero(a: Scaled, b: Scaled) -> bool:
    """True if stored integers compare, and differ, as the numbers do."""
    return bool(a.stored and b.stored) and a.zp == b.zp


def _chosen(name: str) -> Callable[[Term, Term], Term]:
    """The greater or the smaller one. A number that is always or never chosen is not compared."""
    better = max if name == "max" else min

    def of(a: Term, b: Term) -> Term:
        number, tensor = (b, a) if isinstance(a, Scaled) else (a, b)
        if not isinstance(number, Scaled) and isinstance(tensor, Scaled):
            ends = [end * tensor.scale for end in tensor.range]
            if all(better(number, end) == end for end in ends):
                return tensor
            if all(better(number, end) == number for end in ends):
                return number
        left, right = _common(a, b)
        error = max(left.error, right.error)
        if _have_one_zero(left, right):
            stored = f"{name}({left.stored}, {right.stored})"
            return replace(left.made(_moved(stored, left.zp), left.scale, error), stored=stored,
                           zp=left.zp)
        return left.made(f"{name}({left.text}, {right.text})", left.scale, error)
    return of


def _product(a: Term, b: Term) -> Term:
    if isinstance(a, Scaled) and isinstance(b, Scaled):
        wide = a.greatest * b.greatest > MOST
        if wide and a.limits != INT8:
            return _by_halves(*sorted((a, b), key=lambda factor: factor.greatest))
        return _times(*_that_fit(a, b))
    number, tensor = (b, a) if isinstance(a, Scaled) else (a, cast(Scaled, b))
    number = cast(float, number)
    if number == 0:
        return 0.0
    text = tensor.text if number > 0 else f"(0 - {tensor.text})"
    return tensor.made(text, tensor.scale * abs(number), tensor.error * abs(number))


def _times(a: Scaled, b: Scaled) -> Scaled:
    """The product of numbers of which that of the integers fits int32."""
    return a.made(f"({a.text} * {b.text})", a.scale * b.scale, _times_error(a, b))


def _by_halves(a: Scaled, b: Scaled) -> Scaled:
    """The product where int32 does not hold that of the integers: a times the high bits of b, and
    times the low ones, both in steps that are as fine as they can be; so the product of 16 bits
    loses nothing to speak of."""
    a = coarser(a, max(a.greatest.bit_length() - HALF - 1, 0))
    b = coarser(b, max(b.greatest.bit_length() - 2 * HALF, 0))
    bits = max(b.greatest.bit_length() - HALF, 1)
    high = f"({b.text} >> {bits})"
    low = f"clamp({b.text} - ({high} * {1 << bits}), 0, {(1 << bits) - 1})"
    text = (f"(((({a.text} * {high}) + 1) >> 1) + "
            f"((({a.text} * {low}) + {1 << bits}) >> {bits + 1}))")
    step = a.scale * b.scale * 2**(bits + 1)
    return a.made(text, step, _times_error(a, b) + step)


def _times_error(a: Scaled, b: Scaled) -> float:
    """By how much a product of numbers may be off, as these are."""
    return a.error * b.greatest * b.scale + b.error * a.greatest * a.scale + a.error * b.error


def _that_fit(a: Scaled, b: Scaled) -> tuple[Scaled, Scaled]:
    """Both as coarse as their product must be to fit int32."""
    while a.greatest * b.greatest > MOST:
        bits = (a.greatest * b.greatest).bit_length() - 31
        first = min(max(a.greatest.bit_length() - HALF, 0), bits)
        a, b = coarser(a, first), coarser(b, bits - first)
    return a, b


def coarser(x: Scaled, bits: int) -> Scaled:
    """The number in steps that are coarser by a power of two."""
    if not bits:
        return x
    step = x.scale * 2**bits
    return x.made(f"(({x.text} + {1 << bits - 1}) >> {bits})", step, x.error + step / 2)


def _magnitude(x: Term) -> Term:
    return x.made(f"abs({x.text})", x.scale, x.error) if isinstance(x, Scaled) else abs(x)


_BINARY: Mapping[str, Callable[[Term, Term], Term]] = {
    "add": _sum("+"), "sub": _sum("-"), "mul": _product, "min": _chosen("min"),
    "max": _chosen("max")}


# Expressions


def is_arithmetic(node: Node, types: Sequence[TensorType]) -> bool:
    """True if the node computes nothing but what `mapped` has: sums, products, minima, maxima and
    magnitudes of single floats.
    """
    if any(type_.dtype != "float32" for type_ in types):
        return False
    given = [te.placeholder(type_.shape, "float32", f"x{place}")
             for place, type_ in enumerate(types)]
    body = expression(node.op, node.attrs, given, "y").body
    return isinstance(body, te.Expr) and _is_term(body)


def compares(node: Node, types: Sequence[TensorType]) -> bool:
    """True if the node is the difference, the smaller or the greater of two tensors: with one scale
    and one zero point for both, it is the same of the stored integers.
    """
    if len(types) != 2 or any(type_.dtype != "float32" for type_ in types):
        return False
    given = [te.placeholder(type_.shape, "float32", f"x{place}")
             for place, type_ in enumerate(types)]
    match expression(node.op, node.attrs, given, "y").body:
        case te.Binary("sub" | "min" | "max", te.Read(), te.Read()):
            return True
    return False


def _is_term(element: te.Expr) -> bool:
    match element:
        case te.Read() | te.Const(_, "float32"):
            return True
        case te.Binary(op, a, b):
            return op in _BINARY and _is_term(a) and _is_term(b)
        case te.Call("abs", (a,)):
            return _is_term(a)
    return False


def _result(view: QuantizedView, node: Node, known: Mapping[str, Term]) -> Term:
    """The value of the node's own expression for its inputs."""
    tensors = [te.placeholder(view.shape(value), view.graph.values[value].dtype, f"x{place}")
               for place, value in enumerate(node.inputs)]
    made = expression(node.op, node.attrs, tensors, "y")
    if not isinstance(made.body, te.Expr) or made.dtype != "float32":
        raise StaysFloat(f"{node.op} is no function of single floats")
    indices = tuple(axis.var for axis in made.axes)
    reads: dict[te.Expr, Term] = {}
    for tensor, value in zip(tensors, node.inputs, strict=True):
        reads[broadcast(tensor, indices)] = known[value]
        if tensor.shape == made.shape:
            reads[tensor[indices]] = known[value]
    return _term(made.body, reads, node)


def _term(element: te.Expr, reads: Mapping[te.Expr, Term], node: Node) -> Term:
    match element:
        case te.Read() if element in reads:
            return reads[element]
        case te.Const(value, "float32"):
            return float(value)
        case te.Binary(op, a, b) if op in _BINARY:
            terms = [_term(side, reads, node) for side in (a, b)]
            if any(isinstance(term, Scaled) for term in terms):
                return _BINARY[op](*terms)
        case te.Call("abs", (a,)):
            return _magnitude(_term(a, reads, node))
    raise StaysFloat(f"{node.op} is no sum, product, minimum, maximum or magnitude of its inputs")


def requantized(term: Scaled, out: Stored, bounds: Bounds) -> str:
    """The function of integers that stores a term. Raises StaysFloat where it could be a step off.
    """
    ratio = term.scale / out.scale
    mult, shift = multiplier_of(ratio, float(term.greatest))
    farthest = max(abs(end - out.zp) for end in limits_of(out.dtype)) + 1
    off = abs(ldexp(mult, -shift) / ratio - 1)
    error = term.error / out.scale + min(farthest, term.greatest * ratio) * off
    if error >= 1:
        raise StaysFloat(f"integers of 32 bits could be off by {error:.3g} steps")
    clamp = clamp_to(out, bounds)
    return (f"requantize({term.text}, {mult}, {shift}, {clamp['zp']}, {clamp['lo']}, "
            f"{clamp['hi']})")
