"""``lockstep isa``: the instructions of a machine, straight from their declarations."""

import argparse

from accel.machine.config import MACHINE
from lockstep.commands._arguments import add_machine
from lockstep.lines import say

__all__ = ["add_parser", "run"]

_MEANING = 26       # where the last column begins


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "isa", help="list instructions, what they compute, and their words",
        description="List every instruction with its opcode, unit and meaning, then the fields of "
                    "the words; or, with --status, the codes that a run can end with.")
    add_machine(parser, f"(default {MACHINE})", MACHINE)
    parser.add_argument("--status", action="store_true", help="status codes instead")
    return parser


def run(args: argparse.Namespace) -> int:
    from accel.machine.loading import load_machine

    lines = _status() if args.status else _instructions(load_machine(args.machine))
    for line in lines:
        say(line, indent=_MEANING)
    return 0


def _status():
    from accel.machine.status import REPORTERS, STALLS, Status

    for status in Status:
        yield f"{status.value}  {status.text}"
    yield f"reported units: {', '.join(f'{i} {unit}' for i, unit in enumerate(REPORTERS))}"
    yield f"a unit that does not work waits for: {', '.join(STALLS)}"


def _instructions(machine):
    from accel.machine import isa
    from accel.machine.machine import FINISH

    yield f"machine {machine.hash[:12]} ({machine.config.name}), words of {isa.WORD_BITS} bits"
    yield f"{FINISH:3}  {'finish':12} {'fetch':7} wait until all units are idle, then stop"
    for name, forms in machine.forms.items():
        for form in forms:
            yield f"{machine.opcodes[name]:3}  {name:12} {form.unit:7} {_meaning(form)}"
    for unit in ("load", "gemm", "vector", "store"):
        yield from ("", f"{unit} word:")
        yield from (f"  {text}" for text in _fields(isa.FORMATS[unit]))


def _meaning(form) -> str:
    """The meaning in one line: destination, update, value, and where operands live."""
    from compiler.ir import expr_text

    sign = {"assign": "=", "sum": "+=", "max": "max=", "min": "min="}[form.update]
    places = [f"{operand.name} in {'|'.join(operand.scopes)}"
              for operand in (form.dst, *form.operands)]
    value = form.value.value if form.reduce_axes else form.value
    over = "".join(f" summed over {var.name} < {extent}" for var, extent in form.reduce_axes)
    return f"dst {sign} {expr_text(value)}{over}; {', '.join(places)}"


def _fields(layout, path: str = "", base: int = 0):
    """The offset, width and name of every field; only the first of equal loops."""
    from amaranth import Shape
    from amaranth.lib import data

    for key, field in layout:
        name, offset = f"{path}{key}", base + field.offset
        shape = field.shape
        if isinstance(shape, data.ArrayLayout):
            width = Shape.cast(shape.elem_shape).width
            yield f"{offset:3} +{width}*{shape.length:<4} {name}[0..{shape.length}], each:"
            yield from (f"      {text}" for text in _fields(shape.elem_shape, f"{name}[i]."))
        elif isinstance(shape, data.StructLayout):
            yield from _fields(shape, f"{name}.", offset)
        else:
            cast = Shape.cast(shape)
            yield f"{offset:3} +{cast.width:<6} {name}{' (signed)' if cast.signed else ''}"
