"""Barriers: where one thread needs what another has done, and nowhere else.

The body of a kernel is walked in order with the accesses since the last barrier. A statement that
touches an element which one of these touches too, from another thread, one of both writing, gets a
barrier before it. In a loop, what is left at the end of one iteration meets the beginning of the
next. Whether two accesses meet is decided by isl. A barrier stands outside of loops where it can.
"""

from dataclasses import dataclass, replace

from compiler import te
from compiler.ir import (Access, Alloc, Barrier, Domain, For, If, Program, Seq, Stmt, accesses,
                         conflict, rewrite_stmts, stmt_text, walk_stmts)
from compiler.te import Expr, Extent, Read, Var, free_variables

from .kernels import OWN, THREADS, is_of_warps, refuse, sequence

Accesses = list[Access]


def place_barriers(program: Program, body: Stmt, ranges: dict[Var, Extent]) -> Stmt:
    """`body` with barriers; `ranges` are the extents of blocks and threads.

    Refuses what no barrier can help: threads that meet within one statement, or under a condition
    that holds for some of them only.
    """
    done = _Walk(program, ranges).go(body, Domain(tuple(ranges.items())), [])[0]
    return rewrite_stmts(done, _joined)


def is_uniform(condition: Expr) -> bool:
    """True if all threads of a block agree on it."""
    return not (free_variables(condition) & set(THREADS)) and not any(
        isinstance(node, Read) for node in te.walk(condition))


@dataclass(frozen=True, slots=True)
class _Walk:
    program: Program
    ranges: dict[Var, Extent]

    def go(self, stmt: Stmt, domain: Domain, pending: Accesses) -> tuple[Stmt, Accesses]:
        """The statement with barriers, and the accesses since the last one."""
        match stmt:
            case Seq(stmts):
                done: list[Stmt] = []
                for child in stmts:
                    new, pending = self.go(child, domain, pending)
                    done.append(new)
                return sequence(done), pending
            case Alloc():
                new, pending = self.go(stmt.body, domain, pending)
                return replace(stmt, body=new), pending
            case If(condition, body) if is_uniform(condition):
                new, after = self.go(body, domain.where(condition), [])
                if self._any_meet(pending, _until_barrier(new, domain.where(condition))[0]):
                    return Seq((Barrier(), If(condition, new))), after
                return If(condition, new), [*pending, *after]
            case For():
                return self._loop(stmt, domain, pending)
            case _:
                return self._whole(stmt, domain, pending)

    def _whole(self, stmt: Stmt, domain: Domain, pending: Accesses) -> tuple[Stmt, Accesses]:
        """A statement with no barrier inside; conditions that threads differ in move inwards to
        make room for one.
        """
        own = _accesses(stmt, domain)
        if raced := next((a for i, a in enumerate(own) if self._any_meet([a], own[i:])), None):
            if isinstance(stmt, If) and (inner := _pushed(stmt.condition, stmt.body)):
                return self.go(inner, domain, pending)
            refuse(f"threads must not meet in {raced.buffer.name} where no barrier can part "
                   f"them:\n{stmt_text(stmt)}", self.program)
        if self._any_meet(pending, own):
            return Seq((Barrier(), stmt)), own
        return stmt, [*pending, *own]

    def _loop(self, loop: For, domain: Domain, pending: Accesses) -> tuple[Stmt, Accesses]:
        inside = domain.inside(loop)
        body, left = self.go(loop.body, inside, [])
        if loop.extent != 1:
            name = loop.var.name
            step = f"{{b[{name}]}} = {{a[{name}]}} + 1" if _parts(body) else (
                f"{{b[{name}]}} > {{a[{name}]}}")
            body = self._before_first(body, inside, left, f" and {step}")[0]
        new: Stmt = replace(loop, body=body)
        if self._any_meet(pending, _until_barrier(body, inside)[0]):
            return Seq((Barrier(), new)), _after_barrier(body, inside)
        after = _after_barrier(body, inside)
        return new, after if _parts(body) else [*pending, *after]

    def _before_first(self, stmt: Stmt, domain: Domain, left: Accesses,
                      order: str) -> tuple[Stmt, bool]:
        """A barrier before the first statement that meets `left`, unless one stands before it;
        and whether there is nothing more to look at.
        """
        match stmt:
            case Barrier():
                return stmt, True
            case Seq(stmts):
                for place, child in enumerate(stmts):
                    new, done = self._before_first(child, domain, left, order)
                    if done:
                        return sequence([*stmts[:place], new, *stmts[place + 1:]]), True
                return stmt, False
            case Alloc():
                new, done = self._before_first(stmt.body, domain, left, order)
                return replace(stmt, body=new), done
            case _:
                own, done = _until_barrier(stmt, domain)
                if self._any_meet(left, own, order):
                    return Seq((Barrier(), stmt)), True
                return stmt, done

    def _any_meet(self, first: Accesses, second: Accesses, order: str = "") -> bool:
        return any(self._meet(a, b, order) for a in first for b in second)

    def _meet(self, a: Access, b: Access, order: str = "") -> bool:
        """True if different threads of a block touch one element, one of them writing."""
        if a.buffer != b.buffer or not (a.is_write or b.is_write):
            return False
        apart = self._apart(a, b)
        return bool(apart) and conflict(a, b, _common(a, b, order), f"({apart}){order}")

    def _apart(self, a: Access, b: Access) -> str:
        """The condition that different threads make the accesses; a warp's threads run together."""
        if isinstance(a, WarpAccess) or isinstance(b, WarpAccess):
            if a.stmt is not b.stmt:
                return "1 = 1"
            threads = THREADS[1:]
        else:
            threads = THREADS
        return " or ".join(f"{{a[{var.name}]}} != {{b[{var.name}]}}" for var in threads
                           if self.ranges[var] != 1)


def _pushed(condition: Expr, body: Stmt) -> Stmt | None:
    """``if c: for k: {s; t}`` as ``for k: {if c: s; if c: t}``, one level of it."""
    match body:
        case Seq(stmts): return Seq(tuple(If(condition, child) for child in stmts))
        case For() | Alloc(): return replace(body, body=If(condition, body.body))
        case If(inner, rest): return _pushed(te.all_of(condition, inner), rest)
        case _: return None


def _common(a: Access, b: Access, order: str) -> tuple[Var, ...]:
    """Loops that both accesses are in, in the same iteration; blocks are among them."""
    common = []
    for loop, other in zip(a.domain.loops, b.domain.loops):
        if loop != other or f"[{loop[0].name}]" in order:
            break
        if loop[0] not in THREADS:
            common.append(loop[0])
    return tuple(common)


@dataclass(frozen=True, slots=True)
class WarpAccess(Access):
    """An access by some thread of a warp; which one is unknown."""


def _accesses(stmt: Stmt, domain: Domain) -> Accesses:
    by_warps = {id(leaf) for s in walk_stmts(stmt) if is_of_warps(s) for leaf in walk_stmts(s)}
    return [WarpAccess(a.buffer, a.indices, a.kind, a.domain, a.stmt)
            if id(a.stmt) in by_warps else a
            for a in accesses(stmt, domain) if a.buffer.scope not in OWN]


def _parts(stmt: Stmt) -> bool:
    """True if every execution of the statement comes by a barrier."""
    match stmt:
        case Barrier(): return True
        case Seq(stmts): return any(map(_parts, stmts))
        case Alloc() | For(): return _parts(stmt.body)
        case _: return False


def _until_barrier(stmt: Stmt, domain: Domain) -> tuple[Accesses, bool]:
    """Accesses before the first barrier that stands in every way, and whether there is one."""
    match stmt:
        case Barrier():
            return [], True
        case Seq(stmts):
            before: Accesses = []
            for child in stmts:
                more, done = _until_barrier(child, domain)
                before += more
                if done:
                    return before, True
            return before, False
        case Alloc(): return _until_barrier(stmt.body, domain)
        case For(): return _until_barrier(stmt.body, domain.inside(stmt))
        case If(condition, body) if is_uniform(condition):
            return _until_barrier(body, domain.where(condition))[0], False
        case _: return _accesses(stmt, domain), False


def _after_barrier(stmt: Stmt, domain: Domain) -> Accesses:
    """Accesses after the last barrier that stands in every way."""
    match stmt:
        case Barrier():
            return []
        case Seq(stmts):
            after: Accesses = []
            for child in stmts:
                after = _after_barrier(child, domain) + ([] if _parts(child) else after)
            return after
        case Alloc(): return _after_barrier(stmt.body, domain)
        case For(): return _after_barrier(stmt.body, domain.inside(stmt))
        case If(condition, body) if is_uniform(condition):
            return _after_barrier(body, domain.where(condition))
        case _: return _accesses(stmt, domain)


def _joined(stmt: Stmt) -> Stmt | None:
    """Puts neighbours under the same condition, which they do not change, under one guard."""
    if not isinstance(stmt, Seq):
        return None
    done: list[Stmt] = []
    for child in stmt.stmts:
        match done[-1:], child:
            case [If(first, before)], If(condition, body) if first == condition and not any(
                    isinstance(node, Read) for node in te.walk(condition)):
                done[-1] = If(condition, sequence([before, body]))
            case _:
                done.append(child)
    return sequence(done)
