"""Instruction selection: an element's expression, computed by a composition of declared bodies.

``cover`` finds, among all compositions of `Intrinsic.value` that compute an integer expression to
the bit, the cheapest. Every sub-expression of the bodies' type, that of ``acc``, may be computed by
an instruction of its own, into the scope ``acc``, and is computed once however often it is read. ::

    requantize(max(x0, x1) - 3)      t0 = max(x0, x1)      by max
                                     y  = requantize(t0)   by requantize, with a bias of -3

What is read are *leaves*, tensors without dimensions: `leaf` makes one of a value of the layer in
an on-chip buffer, ``acc`` among them, or of a constant of each channel (in ``par``). A `table` (in
``tab``) has one dimension, and is read at a place that an expression of other leaves gives.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from compiler.ir.printer import expr_text
from compiler.te import INDEX, Buffer, Cast, Const, Expr, Read, Reduce, Var, rewrite, walk

from .intrinsic import Intrinsic, Operand
from .ranges import fits, narrowed, widened
from .unify import Bound, Unifier

COMPUTED, CONSTANTS, IMMEDIATE, TABLES = "acc", "par", "imm", "tab"


def leaf(name: str, dtype: str, scope: str) -> Read:
    """A value that the element reads, wherever it lies in its tensor."""
    return Read(Buffer(name, (), dtype, scope), ())


def leaf_of(expr: Expr) -> Read | None:
    """The leaf that an expression is, up to conversions that keep its value."""
    while isinstance(expr, Cast) and fits(expr.value, expr.dtype):
        expr = expr.value
    return expr if isinstance(expr, Read) else None


def table(name: str, size: int, dtype: str, place: Expr) -> Read:
    """The element of a table at a computed place."""
    return Read(Buffer(name, (size,), dtype, TABLES), (place,))


def name_of(expr: Expr) -> str:
    """The name of the leaf, or of the table, that an expression is."""
    read = leaf_of(expr)
    assert read is not None
    return read.buffer.name


@dataclass(frozen=True, slots=True)
class CoverStep:
    """One instruction of a cover: `intrinsic` computes `value`, with its operands and immediates
    bound to leaves, constants, or values that earlier steps compute.
    """

    intrinsic: Intrinsic
    value: Expr
    bound: tuple[tuple[str, Expr], ...]

    @property
    def operands(self) -> Iterator[tuple[Operand, Expr, str]]:
        """Each operand with what it is bound to, and the scope that it reads that from."""
        bound = dict(self.bound)
        for operand in self.intrinsic.operands:
            yield operand, bound[operand.name], _scope(operand, bound[operand.name])

    @property
    def computed(self) -> tuple[Expr, ...]:
        """The values of other steps that this one reads."""
        return tuple(expr for _, expr, scope in self.operands
                     if scope == COMPUTED and not _is_given(expr))

    def body(self, operand: Callable[[Operand, Expr, str], Expr]) -> Expr:
        """The intrinsic's value, with `operand` in the place of what it reads. Of a table `operand`
        gives any element, and the body reads the one that it means.
        """
        places = {found.name: operand(found, expr, scope) for found, expr, scope in self.operands}
        tables = {found.name for found, _, scope in self.operands if scope == TABLES}
        constants = {immediate.var: dict(self.bound)[immediate.name]
                     for immediate in self.intrinsic.immediates}

        def put(node: Expr) -> Expr | None:
            match node:
                case Read(Buffer(name), indices) if name in tables:
                    return _element(places[name], indices, node.dtype)
                case Read(buffer, _): return places[buffer.name]
                case Var() if node in constants: return constants[node]
            return None
        return rewrite(_body(self.intrinsic), put)


def _element(table: Expr, indices: tuple[Expr, ...], dtype: str) -> Expr:
    assert isinstance(table, Read)
    return Cast(replace(table, indices=tuple(Cast(place, INDEX) for place in indices)), dtype)


class Uncovered(Exception):
    """No composition computes the expression; `value` is a part that no body computes."""

    def __init__(self, value: Expr):
        super().__init__(plain_text(value))
        self.value = value


Mismatch = tuple[int, Expr, Expr, str]
"""How deep two expressions differ, that of a body, the other, and the reason if it is told."""


class Unmatched(Exception):
    """A body computes no part of an expression; `mismatch` is the deepest difference, if any."""

    def __init__(self, mismatch: Mismatch | None):
        super().__init__()
        self.mismatch = mismatch


def plain_text(value: Expr) -> str:
    """The expression without conversions that keep a leaf's value."""
    def strip(node: Expr) -> Expr | None:
        match node:
            case Read(buffer, ()): return Var(buffer.name, buffer.dtype)
            case Cast(Var() as var, dtype) if fits(var, dtype): return Var(var.name, dtype)
        return None
    return expr_text(rewrite(value, strip))


def _is_given(expr: Expr) -> bool:
    """True if a value is in ``acc`` before the first step."""
    read = leaf_of(expr)
    return read is not None and read.buffer.scope == COMPUTED


def _scope(operand: Operand, expr: Expr) -> str:
    """The scope in which an operand finds an expression; a scope that it may not live in means that
    an instruction must bring it to one.
    """
    read = leaf_of(expr)
    if isinstance(expr, Const):
        wanted = (IMMEDIATE, CONSTANTS)
    else:
        wanted = (read.buffer.scope,) if read is not None else ()
    return next((scope for scope in wanted if scope in operand.scopes), COMPUTED)


class _Binder(Unifier):
    """Unifies bodies with expressions of leaves: an operand in ``acc`` may be any value of
    its type."""

    def _is_unknown(self, node: Expr) -> bool:
        if isinstance(node, Read) and node.buffer.name in self.operands:
            operand = self.operands[node.buffer.name]
            return IMMEDIATE in operand.scopes or operand.scopes == (CONSTANTS,)
        return super()._is_unknown(node)

    def _operand(self, pattern: Read, expr: Expr, bound: Bound) -> Iterator[Bound]:
        operand = self.operands[pattern.buffer.name]
        scope = _scope(operand, expr)
        read = leaf_of(expr)
        if expr.dtype != operand.dtype or scope not in operand.scopes or (
                isinstance(expr, Const) and not fits(expr, "int32")):
            return
        if scope == TABLES and read is not None and read.buffer.shape == operand.shape:
            whole = Cast(replace(read, indices=(Const(0, INDEX),)), expr.dtype)
            if bound.get(operand.name, whole) == whole:
                yield from self._places(pattern, read, {**bound, operand.name: whole})
        elif scope != TABLES and bound.get(operand.name, expr) == expr:
            yield {**bound, operand.name: expr}


StepCost = Callable[[CoverStep], tuple[int, ...]]
"""What a step costs, for comparison from the left; costs of steps add up. The first number is at
least 1."""


def cover(value: Expr, intrinsics: Sequence[Intrinsic], scope: str, cost: StepCost,
          total: str = "", lanes: bool = True) -> tuple[CoverStep, ...]:
    """The cheapest steps, in order, of which the last writes an integer expression of leaves to
    `scope`, and all others to ``acc``. Where `scope` keeps fewer bits than ``acc``, these are the
    low ones, and the expression must be of that many bits.

    With `total`, ``sum``, ``max`` or ``min``, the last step reduces the expression over the lanes
    of a row, or without `lanes` that of each lane alone, and goes on with what `scope` has.

    Raises `Uncovered` with a part that no body computes.
    """
    search = _Search.over(intrinsics, cost)
    return search.steps(_whole(value, search.word), _last(intrinsics, scope, total, lanes))


def cover_with(chosen: Intrinsic, value: Expr, intrinsics: Sequence[Intrinsic], scope: str,
               cost: StepCost, total: str = "") -> tuple[CoverStep, ...]:
    """Steps as those of `cover`, one of them by `chosen`; the cheapest, but for what its operands
    and the rest could share.

    Raises `Unmatched` where `chosen` computes no part of the expression, or `Uncovered` with what
    nothing computes beside it.
    """
    search, whole, last = _explored(value, tuple(intrinsics), scope, cost, total)
    ways, left, nearest = list[tuple[CoverStep, ...]](), list[Uncovered](), list[Mismatch]()
    for part in (whole, *[*search.found]):
        if chosen in (last if part is whole else search.inner):
            steps = min(search.through(chosen, part, nearest), key=search._total, default=None)
            try:
                if steps is not None:
                    ways.append(steps if part is whole else
                                steps + _rest(whole, part, search, last))
            except Uncovered as error:
                left.append(error)
    if ways:
        return min(ways, key=search._total)
    if left:
        raise left[0]
    raise Unmatched(max(nearest, key=lambda one: one[0], default=None))


@lru_cache(256)
def _explored(value: Expr, intrinsics: tuple[Intrinsic, ...], scope: str, cost: StepCost,
              total: str) -> "tuple[_Search, Expr, list[Intrinsic]]":
    """A search that has looked at all parts of an expression; the whole, and what may be last."""
    search = _Search.over(intrinsics, cost)
    whole, last = _whole(value, search.word), _last(intrinsics, scope, total)
    search._best(whole, last)
    return search, whole, last


def _rest(whole: Expr, part: Expr, search: "_Search", last: Sequence[Intrinsic]
          ) -> tuple[CoverStep, ...]:
    """The steps that are left of an expression when a part of it is in ``acc``."""
    known = leaf("part", search.word, COMPUTED)
    rest = rewrite(whole, lambda node: known if node == part else None)
    return replace(search, found=dict(search.found), open=[], refused=[]).steps(rest, last)


def _whole(value: Expr, word: str) -> Expr:
    """The expression in the type of ``acc``."""
    whole = widened(value, word)
    if isinstance(whole, Cast) and whole.dtype != word:
        whole = whole.value
    return widened(Cast(whole, word), word)


def _last(intrinsics: Sequence[Intrinsic], scope: str, total: str, lanes: bool = True
          ) -> list[Intrinsic]:
    """The instructions that may write a result to a scope, or reduce it to a total."""
    def may(one: Intrinsic) -> bool:
        return _is_total(one, total) if total and lanes else is_lanewise(one, total or "assign")
    return [one for one in intrinsics if scope in one.dst.scopes and may(one)]


def is_lanewise(intrinsic: Intrinsic, update: str = "assign") -> bool:
    """True if it assigns each element, or updates it by, what it computes from those at the same
    place."""
    return (intrinsic.update == update and not intrinsic.reduce_axes
            and _reads_at(intrinsic, tuple(axis.var for axis in intrinsic.axes)))


def _is_total(intrinsic: Intrinsic, op: str) -> bool:
    """True if it reduces an expression of the elements of a row by `op`, and accumulates."""
    value, over = intrinsic.value, intrinsic.reduce_axes
    return (isinstance(value, Reduce) and (value.op, intrinsic.update) == (op, op)
            and len(over) == 1 and over[0][1] == intrinsic.axes[-1].extent
            and _reads_at(intrinsic, (*(axis.var for axis in intrinsic.axes[:-1]), over[0][0])))


def _reads_at(intrinsic: Intrinsic, lanes: tuple[Var, ...]) -> bool:
    """True if the body reads its operands at these lanes alone, but for tables."""
    tables = {operand.name for operand in intrinsic.operands if TABLES in operand.scopes}
    return all(
        node.buffer.name in tables or node.indices == lanes[len(lanes) - len(node.indices):]
        if isinstance(node, Read) else node not in lanes for node in _leaves(_body(intrinsic)))


def _body(intrinsic: Intrinsic) -> Expr:
    """The expression of the elements, before any reduction."""
    value = intrinsic.value
    return value.value if isinstance(value, Reduce) else value


@lru_cache(256)
def _pattern(intrinsic: Intrinsic) -> Expr:
    return widened(_body(intrinsic), intrinsic.dst.dtype)


def _leaves(expr: Expr) -> Iterator[Expr]:
    """The reads and variables of a body; the indices of reads do not count."""
    inside = [node for read in walk(expr) if isinstance(read, Read) for node in read.indices]
    return (node for node in walk(expr)
            if isinstance(node, Read) or isinstance(node, Var) and node not in inside)


@dataclass
class _Search:
    """Dynamic programming over sub-expressions; steps that two operands share count once."""

    inner: Sequence[Intrinsic]
    cost: StepCost
    word: str
    found: dict[Expr, tuple[CoverStep, ...] | None] = field(default_factory=dict)
    open: list[Expr] = field(default_factory=list)
    refused: list[Expr] = field(default_factory=list)

    @classmethod
    def over(cls, intrinsics: Sequence[Intrinsic], cost: StepCost) -> "_Search":
        return cls([one for one in intrinsics if is_lanewise(one) and COMPUTED in one.dst.scopes],
                   cost, intrinsics[0].dst.dtype)

    def through(self, chosen: Intrinsic, value: Expr, nearest: list[Mismatch]
                ) -> Iterator[tuple[CoverStep, ...]]:
        """The ways to compute a value of which `chosen` is the last step; where there is none
        `nearest` gets the difference.
        """
        self.open = [*dict.fromkeys((value, narrowed(value, self.word)))]
        for form in self.open:
            for step in self._matches(chosen, form, value, nearest):
                if steps := self._with_operands(step):
                    yield steps
        self.open = []

    def steps(self, value: Expr, last: Sequence[Intrinsic]) -> tuple[CoverStep, ...]:
        best = self._best(value, last)
        if best is None:
            # a part that was refused in an earlier search is not refused again
            raise Uncovered(min(self.refused, default=value, key=lambda part: (
                isinstance(part, Const), sum(1 for _ in walk(part)))))
        return best

    def _inner(self, value: Expr) -> tuple[CoverStep, ...] | None:
        if value not in self.found:
            if value in self.open:
                return None
            self.found[value] = self._best(value, self.inner)
        return self.found[value]

    def _best(self, value: Expr, intrinsics: Sequence[Intrinsic]) -> tuple[CoverStep, ...] | None:
        forms = tuple(dict.fromkeys((value, narrowed(value, self.word))))
        self.open += forms
        steps = dict.fromkeys(step for intrinsic in intrinsics for form in forms
                              for step in self._matches(intrinsic, form, value))
        if not steps:
            self.refused.append(forms[-1])
        best = self._cheapest(sorted(steps, key=lambda step: len(step.computed)))
        del self.open[-len(forms):]
        return best

    def _cheapest(self, candidates: Iterable[CoverStep]) -> tuple[CoverStep, ...] | None:
        best: tuple[CoverStep, ...] | None = None
        for step in candidates:
            least = self.cost(step)[0] + len(set(step.computed))
            if best and least > self._total(best)[0]:
                continue
            whole = self._with_operands(step)
            if whole and (best is None or self._total(whole) < self._total(best)):
                best = whole
        return best

    def _matches(self, intrinsic: Intrinsic, form: Expr, value: Expr,
                 nearest: list[Mismatch] | None = None) -> Iterator[CoverStep]:
        """The ways to compute a value, in this form; it is no operand of itself."""
        binder, fits_it = _Binder(intrinsic, {}), False
        for bound in binder.unify(_pattern(intrinsic), form, {}):
            step = CoverStep(intrinsic, value, tuple(
                (name, widened(expr, self.word)) for name, expr in bound.items()))
            if not any(expr in self.open for expr in step.computed):
                fits_it = True
                yield step
        if nearest is not None and binder.mismatch and not fits_it:
            nearest.append(binder.mismatch)

    def _with_operands(self, step: CoverStep) -> tuple[CoverStep, ...] | None:
        """The step after those that compute its operands."""
        before: dict[CoverStep, None] = {}
        for expr in step.computed:
            steps = self._inner(expr)
            if steps is None:
                return None
            before |= dict.fromkeys(steps)
        return (*before, step)

    def _total(self, steps: tuple[CoverStep, ...]) -> tuple[int, ...]:
        return (*map(sum, zip(*map(self.cost, steps), strict=True)), len(steps))
