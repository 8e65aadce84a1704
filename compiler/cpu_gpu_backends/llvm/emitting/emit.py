"""A program as the text of an LLVM module."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from compiler.ir import Program
from compiler.te import INDEX, Var

from compiler.cpu_gpu_backends.llvm.machine import Processor, host
from .frame import OUT_OF_MEMORY
from .statements import FunctionContext, Statements
from .writer import LlvmModule, LlvmType, LlvmValue, Writer

__all__ = ["FUNCTION", "OUT_OF_MEMORY", "LlvmFunction", "emit", "emit_all", "emit_functions"]

FUNCTION = "kernel"


@dataclass(frozen=True, slots=True)
class LlvmFunction:
    """A function's computation, and the ways in which it may be done: see `emit`."""

    program: Program
    contract: bool = False
    in_place: tuple[str, ...] = ()


def emit(program: Program, machine: Processor | None = None, contract: bool = False,
         in_place: Collection[str] = ()) -> str:
    """LLVM IR of ``i32 kernel(ptr input..., ptr output..., i64 parameter...)``, for this computer
    or another.

    The arrays are dense, in row-major order, and do not overlap. Only an input that is `in_place`
    may be the array of the first output, where each of its elements is read only to write the
    element at the same place, or overlap it, where none is written before it is read for the last
    time in the order of the program. With `contract` a product may be fused with a sum that it is
    part of (see `floats`).
    """
    return emit_all({FUNCTION: program}, machine, contract, in_place)


def emit_all(programs: Mapping[str, Program], machine: Processor | None = None,
             contract: bool = False, in_place: Collection[str] = ()) -> str:
    """LLVM IR of several programs, each as the function of its name."""
    return emit_functions({name: LlvmFunction(program, contract, tuple(in_place))
                           for name, program in programs.items()}, machine or host()).text()


def emit_functions(functions: Mapping[str, LlvmFunction], machine: Processor,
                   linkage: str = "") -> LlvmModule:
    """The module of these functions. With the `linkage` "internal" only it can call them, and they
    allocate nothing but what threads have for themselves.
    """
    module = LlvmModule(frozenset(machine.features), machine.rounds, machine.floats,
                        machine.fuses)
    for name, function in functions.items():
        module.functions[name] = _function(module, name, function, machine, linkage)
    if machine.architecture == "riscv64":           # else the object declares that it has no floats
        number = len(module.metadata)
        module.metadata += [f"!llvm.module.flags = !{{!{number}}}",
                            f'!{number} = !{{i32 1, !"target-abi", !"lp64d"}}']
    return module


def _function(module: LlvmModule, name: str, function: LlvmFunction, machine: Processor,
              linkage: str) -> str:
    program, in_place = function.program, function.in_place
    w = Writer(module)
    buffers = {buffer.name: f"%{w.name(buffer.name)}"
               for buffer in (*program.inputs, *program.outputs)}
    symbols: dict[Var, LlvmValue] = {symbol: LlvmValue(f"%{w.name(symbol.name)}", LlvmType(INDEX))
                                     for symbol in program.parameters}
    context = FunctionContext(module, name, machine, function.contract, heap=not linkage)
    statements = Statements(context, w, buffers, symbols)
    w.label("start")
    statements.write(program.body)
    shared = {*in_place, program.outputs[0].name} if in_place else set()
    parameters = [f"ptr {'' if b.name in shared else 'noalias '}readonly {buffers[b.name]}"
                  for b in program.inputs]
    parameters += [f"ptr {'' if b.name in shared else 'noalias '}{buffers[b.name]}"
                   for b in program.outputs]
    parameters += [f"i64 {value.text}" for value in symbols.values()]
    return "\n".join([f"; {program.name!r}",
                      statements.frame.text(
                          " ".join(["define", *([linkage] if linkage else []),
                                    f"i32 @{name}({', '.join(parameters)})",
                                    *(["noinline"] if linkage else []), "nounwind"]))])
