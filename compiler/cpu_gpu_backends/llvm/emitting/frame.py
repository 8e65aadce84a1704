"""The frame around the statements of a function: local buffers, preparations, ways out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .amx import begin_amx, end_amx
from .writer import Writer

OUT_OF_MEMORY = 1
"""The status of a function that cannot allocate its local buffers; 0 is success."""
PREPARATIONS: dict[str, tuple[Callable[[Writer, Any], str], Callable[[Writer], None]]] = {
    "amx": (begin_amx, end_amx)}
"""Set-up that instructions need before a function's statements, and its undoing, by name."""


@dataclass(slots=True)
class FunctionFrame:
    """Wraps the statements in `w` into a function, with what they need before and after them.

    allocated : pointers to local buffers on the heap, which the function frees
    prepared  : names of `PREPARATIONS` and what each is told
    leaves    : whether statements may end the function early, at the label ``leave`` with the
                reason in ``%status``
    """

    w: Writer
    allocated: list[str] = field(default_factory=list)
    prepared: dict[str, object] = field(default_factory=dict)
    leaves: bool = False

    def prepare(self, name: str, told: object) -> bool:
        """True if the function is prepared like this, as it is for all statements or none."""
        return self.prepared.setdefault(name, told) == told

    def text(self, head: str) -> str:
        """The text of the function, which runs no statement unless all local buffers are allocated.
        """
        w = self.w
        before = self._preparations()
        if self.leaves:
            w.entry += ["  %status = alloca i32", "  store i32 0, ptr %status"]
            w.jump("leave")
            w.label("leave")
        for name in sorted(self.prepared):
            PREPARATIONS[name][1](w)
        self._free(w)
        w.do(f"ret i32 {w.op('load i32, ptr %status') if self.leaves else 0}")
        return "\n".join([f"{head} {{", "entry:", *_entry(w.entry, self.allocated, before),
                          *w.lines, "}"])

    def _preparations(self) -> list[str]:
        """Writes the preparations before the label ``start``; the first failure ends the function.
        """
        w = Writer(self.w.module)
        for name in sorted(self.prepared):
            status = PREPARATIONS[name][0](w, self.prepared[name])
            fine, refused = w.name(name), w.name(f"no.{name}")
            w.branch(w.op(f"icmp eq i32 {status}, 0"), fine, refused)
            w.label(refused)
            self._free(w)
            w.do(f"ret i32 {status}")
            w.label(fine)
        return [line.replace("%v.", "%prepared.") for line in w.lines]

    def _free(self, w: Writer) -> None:
        for pointer in self.allocated:
            w.call_void("free", ("ptr", pointer))


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
