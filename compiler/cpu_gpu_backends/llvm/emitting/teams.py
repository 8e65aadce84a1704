"""Parallel loops: a team of threads shares the iterations.

The threads are libgomp's. It comes with GCC, its pool starts threads once and keeps them, several
threads of the host may use it at a time, and C programs with OpenMP share it. The body of the loop
becomes a function of its own, and each thread runs one piece of consecutive iterations. A parallel
loop inside another runs on the thread that meets it.

The annotation ``num_threads`` of a loop says how many threads it wants; else OpenMP does
(``OMP_NUM_THREADS``, or `compiler.cpu_gpu_backends.llvm.objects.pool.set_threads`). WebAssembly has
no threads: the loop is an ordinary one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compiler.ir import For, expressions, free_variables, reads, walk_stmts, writes
from compiler.te import INDEX, Symbol, Var

from .writer import LlvmType, LlvmValue, Writer

_SLOT = 8               # bytes of a value in the context


@dataclass(frozen=True, slots=True)
class Captured:
    """The outer values that a loop's body uses: pointers by the buffer's name, variables."""

    buffers: dict[str, str]
    variables: dict[Var, LlvmValue]

    @property
    def values(self) -> list[tuple[str, str]]:
        """Types and values, in the order of parameters."""
        return ([("ptr", pointer) for pointer in self.buffers.values()]
                + [("i64", value.text) for value in self.variables.values()])

    def renamed(self, w: Writer) -> "Captured":
        """The captured values, under the names of the parameters of the function that `w` writes.
        """
        return Captured({name: f"%{w.name(name)}" for name in self.buffers},
                        {var: LlvmValue(f"%{w.name(var.name)}", LlvmType(INDEX))
                         for var in self.variables})


def captured(loop: For, buffers: Mapping[str, str], variables: Mapping[Var, LlvmValue]) -> Captured:
    touched = {buffer.name for stmt in writes(loop) for buffer in stmt.buffers}
    touched |= {read.buffer.name for read in reads(loop)}
    used = {var for stmt in walk_stmts(loop) for expr in expressions(stmt)
            for var in free_variables(expr)}
    used |= {var for stmt in writes(loop) for var in getattr(stmt, "axes", ())}
    return Captured({name: pointer for name, pointer in buffers.items() if name in touched},
                    {var: value for var, value in variables.items()
                     if (var in used or isinstance(var, Symbol)) and var != loop.var})


def write(w: Writer, function: str, loop: For, extent: str, captured: Captured,
          write_piece: Callable[[str], str]) -> str:
    """Writes the loop of `function` as a call of a team, and the functions that its threads run.
    ``write_piece(name)`` gives the text of the function for a piece, see `piece_head`. Returns the
    status of the team: 0 for success.
    """
    functions = w.module.functions
    number = sum(".team." in name for name in functions)
    piece, team = f"{function}.body.{number}", f"{function}.team.{number}"
    functions[team] = ""                    # the name is taken, whatever the body holds
    functions[piece] = write_piece(piece)
    functions[team] = _team(w, team, piece, [kind for kind, _ in captured.values])
    context = _context(w, [("i64", extent), *captured.values])
    threads = dict(loop.annotations).get("num_threads", 0)
    w.call_void("GOMP_parallel", ("ptr", f"@{team}"), ("ptr", context), ("i32", str(threads)),
                ("i32", "0"))
    return w.op(f"load i32, ptr {context}")


def piece_head(name: str, captured: Captured) -> str:
    """The head of ``i32 name(captured..., begin, end)``."""
    parameters = [f"ptr noalias {pointer}" for pointer in captured.buffers.values()]
    parameters += [f"i64 {value.text}" for value in captured.variables.values()]
    return (f"define internal i32 @{name}({', '.join(parameters)}, i64 %begin, i64 %end) "
            f"noinline nounwind")


def _team(outer: Writer, name: str, body: str, captured: list[str]) -> str:
    """``void team(context)``: the work of one thread."""
    w = Writer(outer.module)
    kinds, values = ["i64", *captured], []
    for place, kind in enumerate(kinds, 1):
        pointer = w.op(f"getelementptr i8, ptr %context, i64 {_SLOT * place}")
        values.append(w.op(f"load {kind}, ptr {pointer}"))
    extent, *arguments = values
    passed = "".join(f"{kind} {value}, " for kind, value in zip(captured, arguments))
    threads, thread = (w.op(f"zext i32 {w.call(function, 'i32')} to i64") for function in
                       ("omp_get_num_threads", "omp_get_thread_num"))
    following = w.op(f"add i64 {thread}, 1")
    begin, end = (w.op(f"sdiv i64 {w.op(f'mul i64 {share}, {extent}')}, {threads}")
                  for share in (thread, following))
    w.branch(w.op(f"icmp slt i64 {begin}, {end}"), "some", "done")
    w.label("some")
    status = w.op(f"call i32 @{body}({passed}i64 {begin}, i64 {end})")
    w.branch(w.op(f"icmp eq i32 {status}, 0"), "done", "failed")
    w.label("failed")
    w.do(f"store atomic i32 {status}, ptr %context monotonic, align 4")
    w.jump("done")
    w.label("done")
    return "\n".join([f"define internal void @{name}(ptr %context) nounwind {{", *w.lines,
                      "  ret void", "}"])


def _context(w: Writer, values: list[tuple[str, str]]) -> str:
    """Writes the team's context: its status, then the extent and the captured values."""
    context = f"%{w.name('context')}"
    w.entry.append(f"  {context} = alloca [{_SLOT * (1 + len(values))} x i8], align {_SLOT}")
    w.do(f"store i32 0, ptr {context}")
    for place, (kind, value) in enumerate(values, 1):
        pointer = w.op(f"getelementptr i8, ptr {context}, i64 {_SLOT * place}")
        w.do(f"store {kind} {value}, ptr {pointer}")
    return context
