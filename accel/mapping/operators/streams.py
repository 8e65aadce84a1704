"""Functions of rows that one instruction of a stream unit computes: it takes whole rows."""

from collections.abc import Mapping
from dataclasses import replace

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Streamed, Window,
                                             written)
from accel.mapping.operators.rows import rows_along
from accel.mapping.selecting.stream_selection import StreamSelection
from compiler import te
from compiler.te import Expr, Extern


def stream_function(name: str, x: Activation, selection: StreamSelection,
                    buffers: Mapping[str, str], blocks: Blocks) -> BlockedOperator:
    """The function of rows that lie as channels of `x`; `buffers` are those of the stages that the
    instruction reads and writes. Where it `repeats` its input, each entry of a row of the result
    reads the first entry of a row.

    Stages: ``x``, ``input`` (blocked), ``table`` [entries][...] where there is one, ``quantized``
    and ``output``.
    """
    source, _, rows = rows_along(name, x, 0, blocks)
    shape = (*rows.shape[:3], selection.entries, *rows.shape[4:])
    stages, known, table = {"x": source, "input": rows}, tuple[Expr, ...](), selection.table
    if table is not None:
        stages["table"] = te.placeholder(table.shape, table.dtype.name, f"{name}_table")
        known = (stages["table"][(0,) * table.ndim],)
    form = selection.form
    whole = written(name, stages, Window((1, 1)), shape, lambda n, y, x, c, b, o: Extern(
        form.name, (rows[n, y, x, 0 if selection.repeats else c, b, o], *known), "int8"))
    return replace(whole, by={"quantized": form.name}, stream=Streamed(
        form.name, buffers, selection.fields, selection.cycles, selection.repeats))
