"""Begins a machine of one's own: ``lockstep intrinsic new``."""

import keyword
import os
from pathlib import Path

from accel.machine.config import preset
from accel.machine.intrinsics import IMMEDIATES, SHIPPED, vector_op
from accel.machine.machine import Machine
from compiler import te
from compiler.errors import RequestError
from compiler.files import is_stream, write_text
from compiler.tensorize import UPDATES
from lockstep.printing.lines import say
from lockstep.options.paths import output_file

TEMPLATE = '''\
"""A machine with one instruction of its own: {name}.

Hardware, simulators, checks and the compiler's matcher follow from this file. After every change:

    lockstep check --machine {file}                     # do RTL and simulators still agree?
    lockstep intrinsic show {name} --machine {file}     # word, time and hardware
    lockstep intrinsic diff {file}                      # what it adds to the shipped machine
    lockstep intrinsic bench --machine {file}           # what networks make of it
"""

import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler import te

# The value of one lane: an int32 expression. Its parameters say what the instruction takes:
#   a, b               tiles, read as int32: from acc, or from res, whose int8 is extended;
#                      b also from the bias of a channel (par), or from the immediate imm
#   bias, mult, shift  parameters of a channel
#   table              a table of 256 int8 values: table[a & 255] is one of them
#                      (two of b, parameters and table may stand beside each other)
#   {immediates}
#                      numbers in the instruction's word; write imm.astype("int32") for another type
# Operators: + - * & | ^ << >> and comparisons, te.abs, te.maximum, te.minimum, te.clamp, te.select.
# The result goes to acc, or to out, which keeps its low eight bits.
{name} = lockstep.vector_op(
    "{name}", lambda a, b: te.abs(a - b),
    update="assign",            # or {updates}: then it accumulates in acc
    lanes=None,                 # or "sum", "max", "min": of a row's lanes, which each of them gets
)

# The geometry: a preset, or load("mine.toml") of accel.machine.config; dataclasses.replace changes
# one field, such as bus_bytes. Opcodes follow the order of the instructions, so append.
machine = lockstep.Machine(lockstep.preset("{preset}"), (*SHIPPED, {name}))
'''


def template(name: str, geometry: str, file: str) -> str:
    """The text of the file. Raises RequestError and ConfigError for what no machine could have."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise RequestError(f"NAME must be an identifier of Python, not {name!r}")
    if name in ("lockstep", "machine", "te", "SHIPPED"):
        raise RequestError(f"NAME must not be {name!r}: the file uses that name itself")
    Machine(preset(geometry), (*SHIPPED, vector_op(name, lambda a, b: te.abs(a - b))))
    return TEMPLATE.format(name=name, file=file, preset=geometry, immediates=", ".join(IMMEDIATES),
                           updates=", ".join(update for update in UPDATES if update != "assign"))


def new(name: str, geometry: str, output: Path | None) -> int:
    text = template(name, geometry, str(output or f"{name}.py"))
    path = output or output_file(f"{name}.py")
    if os.path.lexists(path) and not is_stream(path):
        raise RequestError(f"{str(path)!r} must not exist yet: what is there is not overwritten; "
                           f"name another file by -o")
    write_text(path, text)
    if is_stream(path):
        return 0
    say(f"{path}: {geometry} with the instruction {name}. Next:")
    for what in (f"isa --machine {path}", f"intrinsic show {name} --machine {path}",
                 f"check --machine {path}", f"intrinsic diff {path}"):
        say(f"  lockstep {what}")
    return 0
