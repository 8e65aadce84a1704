"""Generates text from programs: the front door of the back end."""

from collections.abc import Sequence

from compiler.ir import Program

from .code import Code, Launch
from .dialects import DIALECT, HELPERS
from .kernels import SimtProgram
from .lowering import lower
from .statements import Printer

__all__ = ["generate", "generate_all"]


def generate(program: Program, dialect: str = "cuda") -> Code:
    """Kernels of one program in ``cuda`` or ``opencl``. Raises SimtError; see `lower`."""
    return generate_all([program], dialect)[0]


def generate_all(programs: Sequence[Program], dialect: str = "cuda") -> tuple[Code, ...]:
    """Kernels of several programs, whose names differ, in one text that is compiled once."""
    cuda = dialect == "cuda"
    lowered = [lower(program, shuffles=cuda, asynchronous=cuda, intrinsics=cuda)
               for program in programs]
    text = text_of(lowered, dialect)
    return tuple(Code(program.program.name, dialect, text,
                      tuple(Launch(k.name, k.grid, k.block, k.buffers) for k in program.kernels),
                      program.program.inputs, program.program.outputs, program.temporaries,
                      program.program.parameters)
                 for program in lowered)


def text_of(programs: Sequence[SimtProgram], dialect: str) -> str:
    """The text: helpers that are called, then the kernels."""
    spelled = DIALECT[dialect]
    printers = [Printer(spelled, kernel) for program in programs for kernel in program.kernels]
    used = dict.fromkeys(name for printer in printers for name in printer.used)
    helpers = [helper.spelled(spelled) for name, helper in HELPERS.items() if name in used]
    return "\n".join([*helpers, *(printer.text for printer in printers)])
