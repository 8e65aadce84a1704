"""``lockstep isa``: the instructions of a machine, straight from their declarations."""

import argparse
from collections.abc import Iterator

from accel.machine.config import MACHINE
from compiler.errors import RequestError
from compiler.files import write_text
from lockstep.options.arguments import add_machine
from lockstep.printing.lines import say
from lockstep.options.paths import output_file

_MEANING = 26       # where the last column begins


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "isa", help="list instructions, what they compute, and their words",
        description="List every instruction with its opcode, unit and meaning, then the fields of "
                    "the words with loops and times of each unit; or, with --status, the codes "
                    "that a run can end with; or, with --proved, what is known of each: whether "
                    "`lockstep prove` has proved it for this machine, and how often programs of "
                    "`lockstep check` ran it.")
    add_machine(parser, f"(default {MACHINE})", MACHINE)
    parser.add_argument("--status", action="store_true", help="status codes instead")
    parser.add_argument("--proved", action="store_true",
                        help="what is known of each instruction instead: proved, tested or neither")
    parser.add_argument("--html", type=output_file, metavar="FILE.html",
                        help="write the manual: words bit by bit, every instruction with operands, "
                             "fields, time and an example")
    return parser


def run(args: argparse.Namespace) -> int:
    from accel.machine.loading import load_machine

    if args.html and args.status:
        raise RequestError("--html must be left out with --status: the manual has instructions")
    if args.html:
        from lockstep.manual.page import page

        machine = load_machine(args.machine)
        write_text(args.html, page(machine))
        say(f"{args.html}: the {len(machine.opcodes)} instructions of {machine.config.name}")
        return 0
    if args.proved:
        if args.status:
            raise RequestError("--proved must be left out with --status: codes are not proved")
        _show_known(load_machine(args.machine))
        return 0
    for line in list(_status() if args.status else _instructions(load_machine(args.machine))):
        say(line, indent=_MEANING)
    return 0


def _show_known(machine) -> None:
    from accel.formal.known import known

    say(f"machine {machine.hash[:12]} ({machine.config.name})")
    for name, one in known(machine).items():
        proof = f"proved by {one.proved}" if one.proved else (
            f"REFUTED: {one.refuted}" if one.refuted else "not proved")
        say(f"{name:16} {proof}; " + (f"ran {one.ran:,} times in checks" if one.ran else
                                      "not tested here"), indent=17)


def _status() -> Iterator[str]:
    from accel.machine.status import REPORTERS, STALLS, Status

    for status in Status:
        yield f"{status.value}  {status.text}"
    yield f"reported units: {', '.join(f'{i} {unit}' for i, unit in enumerate(REPORTERS))}"
    yield f"a unit that does not work waits for: {', '.join(STALLS)}"


def _instructions(machine) -> Iterator[str]:
    from accel.machine import isa
    from accel.machine.machine import FINISH
    from lockstep.manual import facts_of
    from lockstep.manual.text import loops_text, timing_text
    from lockstep.manual.words import fields_of

    yield f"machine {machine.hash[:12]} ({machine.config.name}), words of {isa.WORD_BITS} bits"
    yield f"{FINISH:3}  {'finish':12} {'fetch':7} wait until all units are idle, then stop"
    for name, forms in machine.forms.items():
        for form in forms:
            yield f"{machine.opcodes[name]:3}  {name:12} {machine.unit_of(name):7} {_meaning(form)}"
    for unit in machine.structure.names:
        longest = max((facts_of(machine, form.name) for form in machine.of_unit(unit)),
                      key=lambda facts: len(facts.timing.waits) if facts.timing else 0)
        yield from ("", f"{unit}: {loops_text(longest)}. "
                    f"{' '.join(timing_text(longest, machine.config.bus_bytes))}", f"{unit} word:")
        yield from map(_field, fields_of(machine.formats[unit], machine, unit))
        for name, field in machine.immediates.get(unit, {}).items():
            takers = ", ".join(form.name for form in machine.of_unit(unit)
                               if name in [one.name for one in form.immediates])
            yield f"  {field.offset:3} +{field.width:<6} {name}, in words of {takers}"


def _meaning(form) -> str:
    """The meaning in one line: destination, update, value, and where operands live."""
    from compiler.ir import expr_text
    from accel.machine.streams import StreamForm
    from lockstep.manual.instructions import UPDATE, formula

    if isinstance(form, StreamForm):
        return formula(form)
    places = [f"{operand.name} in {'|'.join(operand.scopes)}"
              for operand in (form.dst, *form.operands)]
    value = form.value.value if form.reduce_axes else form.value
    how = {"sum": "summed", "max": "maximum", "min": "minimum"}
    over = "".join(f" {how[form.value.op]} over {var.name} < {extent}"
                   for var, extent in form.reduce_axes)
    reset = "; flag reset" if form.reads_destination else ""
    return f"dst {UPDATE[form.update]} {expr_text(value)}{over}; {', '.join(places)}{reset}"


def _field(field) -> str:
    """The offset, width and name of a field; of loops those of the first one."""
    path, more = field.path.replace("loops.", "loops[i]."), ""
    if field.count > 1:
        more = f", i < {field.count}, + {field.stride} i"
    stored = "".join(f" ({how})" for how in (
        "stored minus one" if field.minus_one else "", "signed" if field.signed else "",
        ", ".join(f"{code} {name}" for code, name in enumerate(field.codes))) if how)
    return f"  {field.offset:3} +{field.width:<6} {path}{stored}{more}"
