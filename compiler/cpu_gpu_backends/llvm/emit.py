"""A program as the text of an LLVM module."""

from collections.abc import Mapping

from compiler.ir import Program
from compiler.te import INDEX, Var

from .frame import OUT_OF_MEMORY, framed
from .machine import Machine, host
from .statements import Function, Statements
from .writer import Kind, Module, Value, Writer

__all__ = ["FUNCTION", "OUT_OF_MEMORY", "emit", "emit_all"]

FUNCTION = "kernel"


def emit(program: Program, machine: Machine | None = None, contract: bool = False) -> str:
    """LLVM IR of ``i32 kernel(ptr input..., ptr output..., i64 parameter...)``, for this computer
    or another.

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
    if machine.architecture == "riscv64":           # else the object says that it has no floats
        number = len(module.metadata)
        module.metadata += [f"!llvm.module.flags = !{{!{number}}}",
                            f'!{number} = !{{i32 1, !"target-abi", !"lp64d"}}']
    return module.text()


def _function(module: Module, name: str, program: Program, machine: Machine,
              contract: bool) -> str:
    w = Writer(module)
    buffers = {buffer.name: f"%{w.name(buffer.name)}"
               for buffer in (*program.inputs, *program.outputs)}
    symbols: dict[Var, Value] = {symbol: Value(f"%{w.name(symbol.name)}", Kind(INDEX))
                                 for symbol in program.parameters}
    statements = Statements(Function(module, name, machine, contract), w, buffers, symbols)
    w.label("start")
    statements.write(program.body)
    parameters = [f"ptr noalias readonly {buffers[b.name]}" for b in program.inputs]
    parameters += [f"ptr noalias {buffers[b.name]}" for b in program.outputs]
    parameters += [f"i64 {value.text}" for value in symbols.values()]
    return "\n".join([f"; {program.name!r}",
                      framed(f"define i32 @{name}({', '.join(parameters)}) nounwind", statements)])
