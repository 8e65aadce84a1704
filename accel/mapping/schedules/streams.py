"""Rows of a tile by an instruction of a stream unit."""

from accel.machine.machine import Machine
from accel.mapping.operators.blocked import BlockedOperator
from compiler.ir import Binding, For, Program, Tensorized, walk_stmts
from compiler.ir.visit import writes
from compiler.schedule.analysis.place import swap
from compiler.te import INDEX, Const, Expr, Extern, Read


def streamed(machine: Machine, program: Program, operator: BlockedOperator) -> Program:
    """The program in which an instruction makes the entries of ``quantized``; it runs the loops
    around them itself, the innermost over the entries of a row."""
    stream, name = operator.stream, operator["quantized"].name
    assert stream is not None
    form = machine.intrinsic(stream.name)
    nest = next(stmt for stmt in walk_stmts(program.body)
                if isinstance(stmt, For) and stmt.var.name == f"{name}_b")
    write, = writes(nest)
    value, = write.values
    assert isinstance(value, Extern)
    reads = {operand.name: _entry(read, len(operand.shape))
             for operand, read in zip(form.operands, value.args, strict=True)}
    dst = _entry(Read(write.buffers[0], write.indices), len(form.dst.shape))
    binding = Binding((("dst", dst), *reads.items()), tuple(
        (field.name, Const(stream.fields[field.name], field.dtype)) for field in form.immediates))
    return swap(program, nest, Tensorized(form, binding, nest))


def _entry(element: Expr, dimensions: int) -> Read:
    """The first element of the entry that an element is in."""
    assert isinstance(element, Read)
    outer = element.indices[:len(element.indices) - dimensions]
    return Read(element.buffer, (*outer, *(Const(0, INDEX),) * dimensions))
