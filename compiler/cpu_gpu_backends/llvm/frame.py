"""What stands around the statements of a function: local buffers, ways out."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .statements import Statements

__all__ = ["OUT_OF_MEMORY", "framed"]

OUT_OF_MEMORY = 1
"""What a function returns when it cannot allocate its local buffers; otherwise 0."""


def framed(head: str, statements: "Statements") -> str:
    """The text of a function. Without memory for all its local buffers nothing of it runs."""
    w = statements.w
    if statements.leaves:
        w.entry += ["  %status = alloca i32", "  store i32 0, ptr %status"]
        w.jump("leave")
        w.label("leave")
    for pointer in statements.allocated:
        w.call_void("free", ("ptr", pointer))
    w.do(f"ret i32 {w.op('load i32, ptr %status') if statements.leaves else 0}")
    return "\n".join([f"{head} {{", "entry:", *_entry(w.entry, statements.allocated), *w.lines,
                      "}"])


def _entry(lines: list[str], allocated: list[str]) -> list[str]:
    if not allocated:
        return [*lines, "  br label %start"]
    lines, missing = list(lines), "false"
    for number, pointer in enumerate(allocated):
        lines += [f"  %null.{number} = icmp eq ptr {pointer}, null",
                  f"  %missing.{number} = or i1 {missing}, %null.{number}"]
        missing = f"%missing.{number}"
    return [*lines, f"  br i1 {missing}, label %fail, label %start", "fail:",
            *(f"  call void @free(ptr {pointer})" for pointer in allocated),
            f"  ret i32 {OUT_OF_MEMORY}"]
