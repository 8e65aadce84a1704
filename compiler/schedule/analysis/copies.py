"""Copies of buffers that iterations of a loop use in turns."""

from dataclasses import replace

from compiler.ir import (For, If, Program, Stmt, Write, block, map_exprs, path_of, rebuilt,
                         replace_stmt, rewrite_stmts, unblock)
from compiler.te import Buffer, Expr, Read, rewrite

__all__ = ["allocated_around", "copies_of", "in_turns"]


def copies_of(buffer: Buffer, count: int) -> Buffer:
    """The buffer with a leading dimension of `count` copies."""
    if count == 1:
        return buffer
    strides = None if buffer.strides is None else (buffer.size, *buffer.strides)
    return replace(buffer, shape=(count, *buffer.shape), strides=strides)


def in_turns(stmt: Stmt, copies: dict[Buffer, tuple[Buffer, Expr]]) -> Stmt:
    """The statement with copy ``turn % count`` of each buffer."""
    def place(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        new, turn = copies[buffer]
        return new, indices if new is buffer else (turn % new.shape[0], *indices)

    def read(node: Expr) -> Expr | None:
        return Read(*place(node.buffer, node.indices)) if (
            isinstance(node, Read) and node.buffer in copies) else None

    def write(node: Stmt) -> Stmt | None:
        if isinstance(node, Write) and any(buffer in copies for buffer in node.buffers):
            new = tuple(copies[buffer][0] for buffer in node.buffers)
            return rebuilt(node, buffers=new, indices=place(node.buffers[0], node.indices)[1])
        return None

    return rewrite_stmts(map_exprs(stmt, lambda expr: rewrite(expr, read)), write)


def allocated_around(program: Program, old: Stmt, new: Stmt, buffers: tuple[Buffer, ...]) -> Stmt:
    """The program's body with `new` in place of `old`, and the buffers allocated in its block."""
    path = path_of(program.body, old)
    owner = next((s for s in reversed(path[:-1]) if isinstance(s, For | If)), None)
    whole = program.body if owner is None else owner.body
    present, stmts = unblock(replace_stmt(whole, old, new))
    return replace_stmt(program.body, whole, block((*present, *buffers), stmts))
