"""Parallel loops: iterations shared out among a team of threads.

The threads are libgomp's. It is where GCC is, its pool starts threads once and keeps them, it may
be entered from several threads of the host at a time, and C programs that use OpenMP share it. The
body of the loop becomes a function of its own, and each thread runs one piece of consecutive
iterations. A parallel loop inside another runs on the thread that meets it.

The annotation ``num_threads`` of a loop says how many threads it wants; else OpenMP does
(``OMP_NUM_THREADS``, or `compiler.cpu_gpu_backends.llvm.pool.set_threads`). WebAssembly has no
threads: the loop is an ordinary one.
"""

from typing import TYPE_CHECKING

from compiler.ir import For, free_variables, reads, walk_stmts, writes
from compiler.ir import expressions as expressions_of
from compiler.te import INDEX, Symbol, Var

from .frame import framed
from .writer import Kind, Value, Writer

if TYPE_CHECKING:
    from .statements import Statements

__all__ = ["write"]

_SLOT = 8               # bytes of a value in the context


def write(outer: "Statements", loop: For) -> None:
    """Write the loop, and the functions that its threads run."""
    if outer.function.machine.architecture.startswith("wasm"):
        outer.iterate(loop, "0", outer.extent(loop.extent))
        return
    captured = _captured(outer, loop)
    number = sum(".team." in name for name in outer.w.module.functions)
    body = f"{outer.function.name}.body.{number}"
    team = f"{outer.function.name}.team.{number}"
    functions = outer.w.module.functions
    functions[team] = ""                    # the name is taken, whatever the body holds
    functions[body] = _body(outer, loop, body)
    functions[team] = _team(outer.w, team, body, [kind for kind, _ in captured])
    context = _context(outer, [("i64", outer.extent(loop.extent)), *captured])
    threads = dict(loop.annotations).get("num_threads", 0)
    outer.w.call_void("GOMP_parallel", ("ptr", f"@{team}"), ("ptr", context),
                      ("i32", str(threads)), ("i32", "0"))
    _leave_if_failed(outer, context)


def _buffers(outer: "Statements", loop: For) -> list[str]:
    touched = {b.name for s in writes(loop) for b in s.buffers}
    touched |= {read.buffer.name for read in reads(loop)}
    return [name for name in outer.buffers if name in touched]


def _variables(outer: "Statements", loop: For) -> list[Var]:
    used = {v for s in walk_stmts(loop) for e in expressions_of(s) for v in free_variables(e)}
    used |= {v for s in writes(loop) for v in getattr(s, "axes", ())}
    return [var for var in outer.variables
            if (var in used or isinstance(var, Symbol)) and var != loop.var]


def _captured(outer: "Statements", loop: For) -> list[tuple[str, str]]:
    """Types and values of what the body needs from outside."""
    return ([("ptr", outer.buffers[name]) for name in _buffers(outer, loop)]
            + [("i64", outer.variables[var].text) for var in _variables(outer, loop)])


def _body(outer: "Statements", loop: For, name: str) -> str:
    """``i32 body(captured..., begin, end)``: a piece of the loop."""
    w = Writer(outer.w.module)
    buffers = {name: f"%{w.name(name)}" for name in _buffers(outer, loop)}
    variables = {var: Value(f"%{w.name(var.name)}", Kind(INDEX))
                 for var in _variables(outer, loop)}
    inner = type(outer)(outer.function, w, buffers, variables)
    inner.begun, inner.on_team = outer.begun, True
    w.label("start")
    inner.iterate(loop, "%begin", "%end")
    parameters = [f"ptr noalias {name}" for name in buffers.values()]
    parameters += [f"i64 {value.text}" for value in variables.values()]
    return framed(f"define internal i32 @{name}({', '.join(parameters)}, i64 %begin, i64 %end) "
                  f"noinline nounwind", inner)


def _team(outer: Writer, name: str, body: str, captured: list[str]) -> str:
    """``void team(context)``: what every thread does."""
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
    begin, end = (w.op(f"sdiv i64 {w.op(f'mul i64 {one}, {extent}')}, {threads}")
                  for one in (thread, following))
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


def _context(outer: "Statements", captured: list[tuple[str, str]]) -> str:
    """The status of the team (0: all is well), the extent, and what is captured."""
    w = outer.w
    context = f"%{w.name('context')}"
    w.entry.append(f"  {context} = alloca [{_SLOT * (1 + len(captured))} x i8], align {_SLOT}")
    w.do(f"store i32 0, ptr {context}")
    for place, (kind, value) in enumerate(captured, 1):
        pointer = w.op(f"getelementptr i8, ptr {context}, i64 {_SLOT * place}")
        w.do(f"store {kind} {value}, ptr {pointer}")
    return context


def _leave_if_failed(outer: "Statements", context: str) -> None:
    w = outer.w
    status = w.op(f"load i32, ptr {context}")
    failed, done = w.name("failed"), w.name("done")
    w.branch(w.op(f"icmp eq i32 {status}, 0"), done, failed)
    w.label(failed)
    w.do(f"store i32 {status}, ptr %status")
    w.jump("leave")
    w.label(done)
    outer.leaves = True
