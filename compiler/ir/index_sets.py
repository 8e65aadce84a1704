"""Index sets: which iterations run, which elements they touch. The arithmetic is isl's.

A `Domain` is a box of loops with conditions. Expressions that isl cannot take (a read inside an
index, a product of variables) are treated as unknown: a condition of that kind is left out, an
index of that kind may be anything. That errs on the side of larger sets.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from compiler.te import (INDEX, Binary, Buffer, Const, Expr, Extent, Read, Select, Symbol, Var,
                         buffers_read, children, free_variables)

from .affine import Linear, from_linear, interval, is_index, linear
from .nodes import Combine, For, If, Stmt, Store, Update
from .simplify import compared, conjuncts
from .visit import names_below, stmt_children

KEPT = 4096                         # answers of each kind: schedules ask the same again and again
_RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "!="}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Domain:
    """Iterations of nested loops, outermost first, in which all conditions hold."""

    loops: tuple[tuple[Var, Extent], ...] = ()
    conditions: tuple[Expr, ...] = ()

    def inside(self, loop: For) -> "Domain":
        return Domain((*self.loops, (loop.var, loop.extent)), self.conditions)

    def where(self, condition: Expr) -> "Domain":
        return Domain(self.loops, (*self.conditions, *conjuncts(condition)))

    @property
    def vars(self) -> tuple[Var, ...]:
        return tuple(var for var, _ in self.loops)

    @property
    def extents(self) -> dict[Var, int]:
        """Loops whose extent is a number."""
        return {var: extent for var, extent in self.loops if isinstance(extent, int)}


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of a buffer, with the iterations in which it happens.

    `stmt` is the store or update; `kind` is ``read``, ``store`` or ``update``.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    kind: str
    domain: Domain
    stmt: Stmt

    @property
    def is_write(self) -> bool:
        return self.kind != "read"


@dataclass(frozen=True, slots=True)
class Witness:
    """Two instances of accesses that touch one element: values of the loops around each.

    A dimension of `element` is None where neither index is known: then the two *may* touch one.
    """

    first: tuple[tuple[Var, int], ...]
    second: tuple[tuple[Var, int], ...]
    element: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """Elements ``lower[d] <= index[d] < lower[d] + extents[d]``."""

    lower: tuple[Expr, ...]
    extents: tuple[Extent, ...]


def loop_domain(path: Iterable[Stmt]) -> Domain:
    """Iterations in which the last statement of a path runs, that statement included."""
    domain = Domain()
    for stmt in path:
        match stmt:
            case For(): domain = domain.inside(stmt)
            case If(): domain = domain.where(stmt.condition)
    return domain


def accesses(stmt: Stmt, domain: Domain = Domain(), of: frozenset[Buffer] | None = None
             ) -> list[Access]:
    """Every access that `stmt` makes, or those of some buffers, in order. A read under a `Select`
    has its condition.
    """
    found: list[Access] = []
    _note(stmt, domain, found, of)
    return found


def _note(stmt: Stmt, domain: Domain, found: list[Access], of: frozenset[Buffer] | None) -> None:
    if of is not None and of.isdisjoint(names_below(stmt)):
        return
    match stmt:
        case For():
            _note(stmt.body, domain.inside(stmt), found, of)
        case If(condition, body):
            _note_reads(condition, domain, stmt, found, of)
            _note(body, domain.where(condition), found, of)
        case Store() | Update() | Combine():
            for expr in (*stmt.values, *stmt.indices):
                _note_reads(expr, domain, stmt, found, of)
            kind = "store" if isinstance(stmt, Store) else "update"
            found += [Access(buffer, stmt.indices, kind, domain, stmt) for buffer in stmt.buffers
                      if of is None or buffer in of]
        case _:
            for child in stmt_children(stmt):
                _note(child, domain, found, of)


def _note_reads(expr: Expr, domain: Domain, stmt: Stmt, found: list[Access],
                of: frozenset[Buffer] | None) -> None:
    buffers = buffers_read(expr)
    if not buffers or of is not None and of.isdisjoint(buffers):
        return
    if isinstance(expr, Select):
        _note_reads(expr.condition, domain, stmt, found, of)
        _note_reads(expr.a, domain.where(expr.condition), stmt, found, of)
        _note_reads(expr.b, domain.where(negated(expr.condition)), stmt, found, of)
        return
    if isinstance(expr, Read) and (of is None or expr.buffer in of):
        found.append(Access(expr.buffer, expr.indices, "read", domain, stmt))
    for child in children(expr):
        _note_reads(child, domain, stmt, found, of)


def widest(found: Iterable[Access]) -> list[Access]:
    """The accesses without those that another makes to the same element whenever they do: of an
    expression that stands in many places of a statement, one.
    """
    kept: dict[tuple, list[tuple[frozenset[Expr], Access]]] = {}
    for access in found:
        same = kept.setdefault((access.buffer, access.indices, access.kind, access.domain.loops,
                                id(access.stmt)), [])
        conditions = frozenset(access.domain.conditions)
        if not any(others <= conditions for others, _ in same):
            same[:] = [other for other in same if not conditions <= other[0]]
            same.append((conditions, access))
    return [access for same in kept.values() for _, access in same]


def negated(condition: Expr) -> Expr:
    """The condition that holds where this one does not; true, no restriction, if unknown."""
    match condition:
        case Binary(op, a, b) if op in _NEGATED and a.dtype != "bool":
            return Binary(_NEGATED[op], a, b)
        case Binary("and" | "or" as op, a, b) if condition.dtype == "bool":
            return Binary("or" if op == "and" else "and", negated(a), negated(b))
        case _:
            return Const(True, "bool")


class _Text:
    """isl text of expressions; each variable stands under a short name of its own. Symbols are
    parameters of the set, under theirs."""

    def __init__(self, variables: Iterable[Var], prefix: str = "v"):
        self.names = {var: f"{prefix}{i}" for i, var in enumerate(variables)}
        self.symbols: dict[str, None] = {}

    def expr(self, expr: Expr) -> str | None:
        match expr:
            case Const(value) if expr.dtype == INDEX:
                return str(value)
            case Symbol(name):
                self.symbols[f"p_{name}"] = None
                return f"p_{name}"
            case Var():
                return self.names.get(expr)
            case Binary(op, a, b) if is_index(expr):
                return self._binary(op, self.expr(a), self.expr(b), a, b)
        return None

    def _binary(self, op: str, a: str | None, b: str | None, left: Expr, right: Expr):
        if a is None or b is None:
            return None
        match op:
            case "add": return f"({a} + {b})"
            case "sub": return f"({a} - ({b}))"
            case "mul" if isinstance(left, Const): return f"{a}*({b})"
            case "mul" if isinstance(right, Const): return f"{b}*({a})"
            case "floordiv" if isinstance(right, Const) and right.value > 0:
                return f"floor(({a})/{b})"
            case "mod" if isinstance(right, Const) and right.value > 0: return f"(({a}) mod {b})"
            case "min" | "max": return f"{op}({a}, {b})"
        return None

    def condition(self, condition: Expr) -> str | None:
        match condition:
            case Const(value): return "true" if value else "false"
            case Binary(op, a, b) if op in _RELATIONS:
                left, right = self.expr(a), self.expr(b)
                return left and right and f"({left} {_RELATIONS[op]} {right})"
            case Binary("and" | "or" as op, a, b):
                left, right = self.condition(a), self.condition(b)
                if left is None or right is None:
                    return (left or right) if op == "and" else None
                return f"({left} {op} {right})"
        return None

    def extent(self, extent: Extent) -> str:
        return self.expr(extent) or "infty" if isinstance(extent, Expr) else str(extent)

    def within(self, name: str, extent: Extent) -> str:
        if isinstance(extent, Expr) and self.expr(extent) is None:
            return f"0 <= {name}"               # a product of symbols: unknown
        return f"0 <= {name} < {self.extent(extent)}"

    def domain(self, domain: Domain) -> list[str]:
        parts = [self.within(self.names[var], extent) for var, extent in domain.loops]
        return parts + [text for text in map(self.condition, domain.conditions) if text]


def _set(text: "_Text", tuples: str, parts: Iterable[str]) -> str:
    """isl text of a set or a map; every symbol is at least 1."""
    symbols = list(text.symbols)
    where = _where([*(f"{name} >= 1" for name in symbols), *parts])
    return f"{_tuple(symbols)} -> {{ {tuples} : {where} }}"


def _tuple(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _where(parts: Iterable[str]) -> str:
    return " and ".join(parts) or "true"


def bounds(expr: Expr, domain: Domain) -> tuple[int, int] | None:
    """Least and greatest value of an index over a domain; None when it is empty or unknown."""
    form = linear(expr, domain.extents)
    relevant = _relevant(free_variables(expr), domain)
    if not relevant.conditions and all(isinstance(atom, Var) for atom, _ in form.terms) and (
            len(relevant.extents) == len(relevant.loops)):
        return interval(form, domain.extents)
    text = _Text(relevant.vars)
    value = text.expr(expr)
    if value is None:
        return None
    parts = text.domain(relevant)
    names = ", ".join(text.names.values())
    return _ends(_set(text, "[x]", [f"(exists {names} : {_where([f'x = {value}', *parts])})"
                                    if names else f"x = {value}"]))


@lru_cache(KEPT)
def _ends(image: str) -> tuple[int, int] | None:
    """Least and greatest value of a set of numbers; None when it is empty or has no end."""
    numbers = isl.Set(image)
    if numbers.is_empty():
        return None
    ends = numbers.dim_min_val(0), numbers.dim_max_val(0)
    return (ends[0].to_python(), ends[1].to_python()) if all(e.is_int() for e in ends) else None


def _relevant(variables: frozenset[Var], domain: Domain) -> Domain:
    """The part of the domain that is connected with `variables`: the rest only costs time."""
    conditions = [(c, free_variables(c)) for c in domain.conditions]
    known, grown = set(variables), True
    while grown:
        grown = False
        for _, used in conditions:
            if used & known and not used <= known:
                known, grown = known | used, True
    return Domain(tuple(loop for loop in domain.loops if loop[0] in known),
                  tuple(c for c, used in conditions if used & known))


def is_implied(condition: Expr, domain: Domain) -> bool:
    """True if the condition holds in every iteration of the domain. Unknown means no."""
    if isinstance(condition, Binary) and condition.op in _RELATIONS and (
            is_index(condition.a) and is_index(condition.b)):
        sure = compared(condition.op, condition.a, condition.b, domain.extents)
        if sure is not None and sure.value:
            return True                     # by the ends of its sides, without isl
    relevant = _relevant(free_variables(condition), domain)
    text = _Text(relevant.vars)
    wanted = text.condition(condition)
    if wanted is None or any(text.condition(c) is None for c in conjuncts(condition)):
        return False
    names, parts = _tuple(text.names.values()), text.domain(relevant)
    return _is_subset(_set(text, names, parts), _set(text, names, [wanted]))


@lru_cache(KEPT)
def _is_subset(part: str, whole: str) -> bool:
    """True if a set is part of another."""
    return isl.Set(part).is_subset(isl.Set(whole))


def covers(touching: Iterable[Access], around: Domain, shape: tuple[Extent, ...]) -> bool:
    """True if the accesses touch every element, in every iteration of the loops `around`."""
    touching = list(touching)
    if any(_fills(access, around, shape) for access in touching):
        return True
    touched = footprint(touching, around.vars)
    text = _Text(around.vars)
    parts = text.domain(around) + [text.within(f"e{d}", e) for d, e in enumerate(shape)]
    targets = _tuple(f"e{d}" for d in range(len(shape)))
    whole = isl.Map(_set(text, f"{_tuple(text.names.values())} -> {targets}", parts))
    return touched is not None and whole.is_subset(touched)


def _fills(access: Access, around: Domain, shape: tuple[Extent, ...]) -> bool:
    """True if an access touches every element, as far as this is plainly seen: its indices are sums
    of loops of their own as numbers are of digits.
    """
    if not {*access.domain.conditions} <= {*around.conditions}:
        return False
    extents, used = access.domain.extents, {*around.vars}
    for index, size in zip(access.indices, shape, strict=True):
        form, weight = linear(index), 1
        for atom, factor in sorted(form.terms, key=lambda term: term[1]):
            if factor != weight or not isinstance(atom, Var) or (
                    atom not in extents or atom in used):
                return False
            used.add(atom)
            weight *= extents[atom]
        if form.constant or not isinstance(size, int) or weight < size:
            return False
    return True


def footprint(touching: Iterable[Access], outer: tuple[Var, ...]) -> isl.Map | None:
    """Set of elements that the accesses touch, as a map from the values of `outer`."""
    result: isl.Map | None = None
    for access in touching:
        text = _Text(access.domain.vars)
        source = [text.names[var] for var in outer]
        inner = [name for var, name in text.names.items() if var not in outer]
        parts = text.domain(access.domain)
        targets = [f"e{d}" for d in range(len(access.indices))]
        for target, index in zip(targets, access.indices):
            if (value := text.expr(index)) is not None:
                parts.append(f"{target} = {value}")
        parts += [text.within(t, extent) for t, extent in zip(targets, access.buffer.shape)]
        held = f"(exists {', '.join(inner)} : {_where(parts)})" if inner else _where(parts)
        piece = isl.Map(_set(text, f"{_tuple(source)} -> {_tuple(targets)}", [held]))
        result = piece if result is None else result.union(piece)
    return result


def hull(reads: list[Access], outer: frozenset[Var], shape: tuple[Extent, ...]) -> Box:
    """Smallest box found that holds what `reads` touch while the variables `outer` stand still.

    Its lower corner is a linear form of the outer variables, its extents are constants. A
    dimension of which no proper part is known is taken whole, from 0.
    """
    sides = [_side([(read.indices[d], read.domain) for read in reads], outer, extent)
             for d, extent in enumerate(shape)]
    return Box(tuple(low for low, _ in sides), tuple(size for _, size in sides))


def _side(indices: list[tuple[Expr, Domain]], outer: frozenset[Var],
          extent: Extent) -> tuple[Expr, Extent]:
    best = (from_linear(Linear()), extent)
    bases = [_outer_part(index, outer, domain.extents) for index, domain in indices]
    for base in dict.fromkeys((Linear(), *bases)):      # a fixed corner where nothing is smaller
        spans = [_distance(other, base, around) for other, around in indices]
        if any(span is None for span in spans):
            continue
        low = min((span[0] for span in spans if span), default=0)
        size = max((span[1] for span in spans if span), default=0) - low + 1
        if not isinstance(best[1], int) or size < best[1]:
            best = from_linear(base + Linear((), low)), size
    return best


def _outer_part(index: Expr, outer: frozenset[Var], extents: dict[Var, int]) -> Linear:
    form = linear(index, extents)
    return Linear(tuple((atom, f) for atom, f in form.terms if free_variables(atom) <= outer))


def _distance(index: Expr, base: Linear, domain: Domain) -> tuple[int, int] | None:
    if not is_index(index):
        return None
    return bounds(from_linear(linear(index, domain.extents) - base), domain)


def conflict(a: Access, b: Access, shared: tuple[Var, ...], order: str) -> bool:
    """True if some instance of `a` and some of `b` touch one element under an order condition.

    Both run inside the loops `shared`, whose variables are the same for both. `order` is an isl
    condition over ``a.<loop>`` and ``b.<loop>``, written with `{a[name]}` and `{b[name]}`.
    """
    return not _is_empty(_Conflict(a, b, shared, order).pairs)


def witness(a: Access, b: Access, shared: tuple[Var, ...], order: str) -> Witness | None:
    """The first pair of instances for which there is a `conflict`, None when there is none."""
    conflict = _Conflict(a, b, shared, order)
    return None if _is_empty(conflict.pairs) else conflict.first()


@lru_cache(KEPT)
def _is_empty(text: str) -> bool:
    return isl.Set(text).is_empty()


class _Conflict:
    """The set of pairs of instances that touch one element, over the loops around both, as isl's
    text.
    """

    def __init__(self, a: Access, b: Access, shared: tuple[Var, ...], order: str):
        first, second = _Text(a.domain.vars, "a"), _Text(b.domain.vars, "b")
        for var in shared:
            second.names[var] = first.names[var]
        parts = first.domain(a.domain) + second.domain(b.domain)
        targets = []
        for d, (left, right) in enumerate(zip(a.indices, b.indices, strict=True)):
            known = [text for text in (first.expr(left), second.expr(right)) if text is not None]
            parts += [f"e{d} = {text}" for text in known]
            parts.append(first.within(f"e{d}", a.buffer.shape[d]))
            targets.append((f"e{d}", bool(known)))
        by_name = ({v.name: n for v, n in first.names.items()},
                   {v.name: n for v, n in second.names.items()})
        parts.append(f"({order.format(a=by_name[0], b=by_name[1])})")
        self.first_names, self.second_names, self.targets = first.names, second.names, targets
        self.names = list(dict.fromkeys((*first.names.values(), *second.names.values(),
                                         *(target for target, _ in targets))))
        self.symbols = list(dict.fromkeys((*first.symbols, *second.symbols)))
        parts = [f"{name} >= 1" for name in self.symbols] + parts
        names = _tuple((*self.symbols, *self.names))
        self.pairs = f"{{ {names} : {_where(parts)} }}"

    def first(self) -> Witness:
        """The first pair, with the least values of the symbols for which there is one."""
        point = isl.Set(self.pairs).lexmin().sample_point()
        at = {name: point.get_coordinate_val(isl.dim_type.set, place).to_python()
              for place, name in enumerate((*self.symbols, *self.names))}
        known = tuple((Symbol(name.removeprefix("p_")), at[name]) for name in self.symbols)
        return Witness((*known, *((var, at[name]) for var, name in self.first_names.items())),
                       (*known, *((var, at[name]) for var, name in self.second_names.items())),
                       tuple(at[name] if known else None for name, known in self.targets))
