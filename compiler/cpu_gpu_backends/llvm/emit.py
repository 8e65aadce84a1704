"""A program as the text of an LLVM module."""

from compiler.ir import Program

from .statements import Statements
from .writer import Writer

__all__ = ["FUNCTION", "OUT_OF_MEMORY", "emit"]

FUNCTION = "kernel"
OUT_OF_MEMORY = 1
"""What the function returns when it cannot allocate its local buffers; otherwise 0."""


def emit(program: Program) -> str:
    """LLVM IR of ``i32 kernel(ptr input..., ptr output...)``.

    The arrays are dense, in row-major order, and do not overlap.
    """
    w = Writer()
    buffers = {buffer.name: f"%{w.name(buffer.name)}"
               for buffer in (*program.inputs, *program.outputs)}
    statements = Statements(w, buffers)
    w.label("start")
    statements.write(program.body)
    for pointer in statements.allocated:
        w.do(f"call void @free(ptr {pointer})")
    w.do("ret i32 0")
    parameters = [f"ptr noalias readonly {buffers[b.name]}" for b in program.inputs]
    parameters += [f"ptr noalias {buffers[b.name]}" for b in program.outputs]
    lines = [f"; {program.name!r}", f"define i32 @{FUNCTION}({', '.join(parameters)}) nounwind {{",
             "entry:", *_entry(w, statements.allocated), *w.lines, "}"]
    return "\n".join([*lines, *sorted(w.declared), ""])


def _entry(w: Writer, allocated: list[str]) -> list[str]:
    """Local buffers. Without memory for all of them nothing runs."""
    if not allocated:
        return [*w.entry, "  br label %start"]
    w.declared.add("declare void @free(ptr)")
    lines, missing = list(w.entry), "false"
    for number, pointer in enumerate(allocated):
        lines += [f"  %null.{number} = icmp eq ptr {pointer}, null",
                  f"  %missing.{number} = or i1 {missing}, %null.{number}"]
        missing = f"%missing.{number}"
    return [*lines, f"  br i1 {missing}, label %fail, label %start", "fail:",
            *(f"  call void @free(ptr {pointer})" for pointer in allocated),
            f"  ret i32 {OUT_OF_MEMORY}"]
