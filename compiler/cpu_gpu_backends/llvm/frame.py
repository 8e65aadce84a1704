"""What stands around the statements of a function: local buffers, preparations, ways out."""

from typing import TYPE_CHECKING

from .amx import begin_amx, end_amx
from .writer import Module, Writer

if TYPE_CHECKING:
    from .statements import Statements

__all__ = ["OUT_OF_MEMORY", "PREPARATIONS", "framed"]

OUT_OF_MEMORY = 1
"""What a function returns when it cannot allocate its local buffers; otherwise 0."""
PREPARATIONS = {"amx": (begin_amx, end_amx)}
"""What instructions need done before a function's statements, and undone after them, by name."""


def framed(head: str, statements: "Statements") -> str:
    """The text of a function. Without memory for all its local buffers nothing of it runs."""
    w = statements.w
    before = _prepared(w.module, statements)
    if statements.leaves:
        w.entry += ["  %status = alloca i32", "  store i32 0, ptr %status"]
        w.jump("leave")
        w.label("leave")
    for name in sorted(statements.prepared):
        PREPARATIONS[name][1](w)
    for pointer in statements.allocated:
        w.call_void("free", ("ptr", pointer))
    w.do(f"ret i32 {w.op('load i32, ptr %status') if statements.leaves else 0}")
    return "\n".join([f"{head} {{", "entry:", *_entry(w.entry, statements.allocated, before),
                      *w.lines, "}"])


def _prepared(module: Module, statements: "Statements") -> list[str]:
    """The preparations, before the label ``start``; the first that fails ends the function."""
    w = Writer(module)
    for name in sorted(statements.prepared):
        status = PREPARATIONS[name][0](w)
        fine, refused = w.name(name), w.name(f"no.{name}")
        w.branch(w.op(f"icmp eq i32 {status}, 0"), fine, refused)
        w.label(refused)
        for pointer in statements.allocated:
            w.call_void("free", ("ptr", pointer))
        w.do(f"ret i32 {status}")
        w.label(fine)
    return [line.replace("%v.", "%prepared.") for line in w.lines]


def _entry(lines: list[str], allocated: list[str], before: list[str]) -> list[str]:
    if not allocated:
        return [*lines, *before, "  br label %start"]
    lines, missing = list(lines), "false"
    for number, pointer in enumerate(allocated):
        lines += [f"  %null.{number} = icmp eq ptr {pointer}, null",
                  f"  %missing.{number} = or i1 {missing}, %null.{number}"]
        missing = f"%missing.{number}"
    return [*lines, f"  br i1 {missing}, label %fail, label %prepare", "fail:",
            *(f"  call void @free(ptr {pointer})" for pointer in allocated),
            f"  ret i32 {OUT_OF_MEMORY}", "prepare:", *before, "  br label %start"]
