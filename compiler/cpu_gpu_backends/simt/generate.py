"""Generates text from programs: the front door of the back end."""

from collections import Counter
from collections.abc import Sequence

from compiler.errors import ArgumentError
from compiler.ir import Program, Update
from compiler.ir.visit import buffers_of, expressions, walk_stmts
from compiler.te import HELD, Binary, Call, walk

from .code import Code, Launch
from .dialects import DIALECT, HELPERS, PAIR_OPERATORS
from .kernels import AXES, SimtProgram, refuse
from .lowering import lower
from .statements import Printer


def generate(program: Program, dialect: str = "cuda") -> Code:
    """Kernels of one program in ``cuda``, ``opencl`` or ``metal``. Raises SimtError, see `lower`;
    another dialect is an ArgumentError.
    """
    return generate_all([program], dialect)[0]


def generate_all(programs: Sequence[Program], dialect: str = "cuda") -> tuple[Code, ...]:
    """Kernels of several programs, whose names differ, in one text that is compiled once."""
    if dialect not in DIALECT:
        raise ArgumentError(f"dialect must be one of {', '.join(DIALECT)}, not {dialect!r}")
    for program in programs:
        _require_types(program, dialect)
        _require_names(program)
    cuda = dialect == "cuda"
    lowered = [lower(program, shuffles=cuda, asynchronous=cuda, intrinsics=cuda)
               for program in programs]
    symbols = Counter(kernel.name for program in lowered for kernel in program.kernels)
    for name in (name for name, count in symbols.items() if count > 1):
        raise ArgumentError(f"names of programs must differ, in ASCII letters, digits and _: "
                            f"{symbols[name]} have a kernel {name}")
    text = text_of(lowered, dialect)
    return tuple(Code(program.program.name, dialect, text,
                      tuple(Launch(kernel.name, kernel.grid, kernel.block, kernel.buffers, numbers,
                                   kernel.maps, kernel.shared_bytes)
                            for kernel, numbers in program.launches()),
                      program.program.inputs, program.program.outputs, program.temporaries,
                      program.program.parameters)
                 for program in lowered)


def _require_names(program: Program) -> None:
    places = {var.name for var in AXES.values()}
    for name in sorted(places & buffers_of(program).keys()):
        refuse(f"buffer {name} must have another name: places of threads and blocks are called "
               f"{', '.join(sorted(places))}", program)


def _require_types(program: Program, dialect: str) -> None:
    """Refuses types of values in between that the dialect lacks. The printer refuses those of
    buffers, by name.
    """
    own = {buffer.dtype for buffer in buffers_of(program).values()}
    types = {node.dtype for stmt in walk_stmts(program.body) for expr in expressions(stmt)
             for node in walk(expr)}
    for dtype in sorted((own | types) & HELD.keys()):
        refuse(f"types must be those that processors have, not {dtype}", program)
    spelled = DIALECT[dialect]
    for dtype in sorted(types - own - spelled.types.keys()):
        refuse(f"types must be those that {dialect} has, not {dtype}", program)
    for buffer in (*program.inputs, *program.outputs):
        if buffer.dtype in spelled.between:
            raise ValueError(f"Type of {buffer.name} must be one that {dialect} has, not "
                             f"{buffer.dtype}")
    for name in sorted(_functions(program, spelled.between) - PAIR_OPERATORS):
        refuse(f"{name} must be of a type that {dialect} has, not {spelled.between[0]}", program)


def _functions(program: Program, types: Sequence[str]) -> set[str]:
    """The functions that compute with values of these types."""
    found = {{"sum": "add"}.get(s.op, s.op) for s in walk_stmts(program.body)
             if isinstance(s, Update) and s.buffer.dtype in types}
    for stmt in walk_stmts(program.body):
        for node in (node for expr in expressions(stmt) for node in walk(expr)):
            match node:
                case Binary(op, a) if a.dtype in types: found.add(op)
                case Call(function, (a, *_)) if a.dtype in types: found.add(function)
    return found


def text_of(programs: Sequence[SimtProgram], dialect: str) -> str:
    """The text: helpers that are called, then the kernels."""
    spelled = DIALECT[dialect]
    printers = [Printer(spelled, kernel) for program in programs for kernel in program.kernels]
    used = dict.fromkeys(name for printer in printers for name in printer.used)
    helpers = [helper.spelled(spelled) for name, helper in HELPERS.items() if name in used]
    return "\n".join(filter(None, [spelled.begin, *helpers,
                                   *(printer.text for printer in printers)]))
