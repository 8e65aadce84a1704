"""A program as the text of an LLVM module."""

from collections.abc import Mapping

from compiler.ir import Program

from .machine import Machine, host
from .statements import Statements
from .writer import Module, Writer

__all__ = ["FUNCTION", "OUT_OF_MEMORY", "emit", "emit_all"]

FUNCTION = "kernel"
OUT_OF_MEMORY = 1
"""What the function returns when it cannot allocate its local buffers; otherwise 0."""


def emit(program: Program, machine: Machine | None = None, contract: bool = False) -> str:
    """LLVM IR of ``i32 kernel(ptr input..., ptr output...)``, for this computer or another.

    The arrays are dense, in row-major order, and do not overlap. With `contract` a product may be
    fused with a sum that it is part of (see `floats`).
    """
    return emit_all({FUNCTION: program}, machine, contract)


def emit_all(programs: Mapping[str, Program], machine: Machine | None = None,
             contract: bool = False) -> str:
    """LLVM IR of several programs, each as the function of its name."""
    module, machine = Module(), machine or host()
    for name, program in programs.items():
        module.functions[name] = _function(module, name, program, machine, contract)
    lines = [*module.functions.values(), *sorted(module.declared)]
    if machine.architecture == "riscv64":           # else the object says that it has no floats
        lines += ["!llvm.module.flags = !{!0}", '!0 = !{i32 1, !"target-abi", !"lp64d"}']
    return "\n".join([*lines, ""])


def _function(module: Module, name: str, program: Program, machine: Machine,
              contract: bool) -> str:
    w = Writer(module)
    buffers = {buffer.name: f"%{w.name(buffer.name)}"
               for buffer in (*program.inputs, *program.outputs)}
    statements = Statements(w, buffers, machine, contract)
    w.label("start")
    statements.write(program.body)
    for pointer in statements.allocated:
        w.call_void("free", ("ptr", pointer))
    w.do("ret i32 0")
    parameters = [f"ptr noalias readonly {buffers[b.name]}" for b in program.inputs]
    parameters += [f"ptr noalias {buffers[b.name]}" for b in program.outputs]
    return "\n".join([f"; {program.name!r}",
                      f"define i32 @{name}({', '.join(parameters)}) nounwind {{",
                      "entry:", *_entry(w, statements.allocated), *w.lines, "}"])


def _entry(w: Writer, allocated: list[str]) -> list[str]:
    """Local buffers. Without memory for all of them nothing runs."""
    if not allocated:
        return [*w.entry, "  br label %start"]
    lines, missing = list(w.entry), "false"
    for number, pointer in enumerate(allocated):
        lines += [f"  %null.{number} = icmp eq ptr {pointer}, null",
                  f"  %missing.{number} = or i1 {missing}, %null.{number}"]
        missing = f"%missing.{number}"
    return [*lines, f"  br i1 {missing}, label %fail, label %start", "fail:",
            *(f"  call void @free(ptr {pointer})" for pointer in allocated),
            f"  ret i32 {OUT_OF_MEMORY}"]
