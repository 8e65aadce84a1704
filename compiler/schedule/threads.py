"""Virtual threads: loops whose iterations may overlap in time."""

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir import (Access, Alloc, For, Program, Stmt, accesses, conflict, loop_domain,
                         walk_stmts)

from .place import find_loop, refuse, require_serial, swap

__all__ = ["require_threads_independent", "virtual_thread"]


def virtual_thread(program: Program, loop: str) -> Program:
    """Mark a loop whose iterations may overlap: ``for i in 0..2 (virtual_thread):``.

    Buffers that are allocated inside belong to one iteration each.

    1. The loop is not marked already, and neither inside nor around another virtual thread.
    2. No iteration writes an element of a buffer allocated outside that another one reads or
       writes.
    """
    path = find_loop(program, loop, "virtual_thread")
    node = path[-1]
    assert isinstance(node, For)
    require_serial(program, node, "virtual_thread")
    for stmt in (*path[:-1], *walk_stmts(node)):
        if isinstance(stmt, For) and stmt.kind == "virtual_thread":
            refuse("virtual_thread", f"{loop} must not share iterations with the virtual thread "
                                     f"{stmt.var.name}", program, node)
    _require_independent(program, path, "virtual_thread")
    return swap(program, node, replace(node, kind="virtual_thread"))


def require_threads_independent(program: Program, primitive: str):
    """Requirement 2 of `virtual_thread` for every loop that is marked."""
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, For) and stmt.kind == "virtual_thread":
            _require_independent(program, find_loop(program, stmt.var.name, primitive), primitive)


def _require_independent(program: Program, path: tuple[Stmt, ...], primitive: str):
    node = path[-1]
    assert isinstance(node, For)
    for write in _carried(path, node):
        refuse(primitive, f"iterations of {node.var.name} must not depend on each other through "
                          f"{write.buffer.name}, which is allocated outside", program, write.stmt)


def _carried(path: tuple[Stmt, ...], node: For) -> Iterator[Access]:
    """Writes that meet another access of an outer buffer in another iteration."""
    local = {stmt.buffer for stmt in walk_stmts(node) if isinstance(stmt, Alloc)}
    around = loop_domain(path)
    outside = [a for a in accesses(node.body, around) if a.buffer not in local]
    order = f"{{a[{node.var.name}]}} != {{b[{node.var.name}]}}"
    for write in (access for access in outside if access.is_write):
        for other in outside:
            if other.buffer == write.buffer and conflict(write, other, around.vars[:-1], order):
                yield write
