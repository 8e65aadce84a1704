"""Shows an instruction: ``lockstep intrinsic show``."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accel.datapath.plan import plan
from accel.machine.loading import load_machine
from accel.machine.machine import FINISH, Machine
from accel.machine.program import disassemble
from accel.machine.structure import UnitKind
from compiler.errors import RequestError
from compiler.files import write_text
from compiler.ir.printer import expr_text
from lockstep.printing.lines import say
from lockstep.manual import Facts
from lockstep.manual.examples import example, hexadecimal
from lockstep.manual.instructions import facts
from lockstep.manual.resources import added_by, resources_of, used_by
from lockstep.manual.text import (flags_text, immediates_text, loops_text, timing_text,
                                  update_text)
from lockstep.manual.words import meaning_of


def show(name: str, machine_name: str, report: Path | None, verilog: Path | None) -> int:
    machine = load_machine(machine_name)
    if name not in machine.opcodes:
        raise RequestError(f"NAME must be an instruction of {machine.config.name}: "
                           f"{', '.join(machine.opcodes)}, not {name!r}")
    found = next(one for one in facts(machine) if one.name == name)
    if verilog and not _computes(machine, found):
        raise RequestError(f"--verilog must be left out for {name}: {found.unit} has no datapath")
    figures = _figures(machine, found)
    if report:
        write_text(report, json.dumps(figures, indent=1) + "\n")
    if verilog:
        write_text(verilog, _verilog(machine, found.unit))
    for line in _lines(machine, found, figures):
        say(line, indent=4)
    return 0


def _figures(machine: Machine, found: Facts) -> dict[str, Any]:
    """All that is shown; JSON-serializable."""
    examples = [example(machine, found.name, form) for form in range(len(found.forms))]
    figures = {"machine": machine.config.name, "machine_hash": machine.hash, **asdict(found),
               "flags": list(found.flags),
               "examples": [{"text": disassemble(one), "word": hexadecimal(machine, one)}
                            for one in examples]}
    if not _computes(machine, found):
        return figures
    datapath, added = plan(machine, found.unit), added_by(machine, found.name)
    return figures | {"datapath": {
        **asdict(resources_of(datapath)), "bodies": [body.name for body in datapath.bodies],
        "registers": datapath.registers(), "used": used_by(machine, found.name),
        "without": asdict(added[0]) if added else None, "plan": str(datapath)}}


def _computes(machine: Machine, found: Facts) -> bool:
    """True if its unit has a datapath."""
    kind = machine.structure.kind(found.unit)
    return kind in (UnitKind.GEMM, UnitKind.VECTOR)


def _verilog(machine: Machine, unit: str) -> str:
    from amaranth.back import verilog

    from accel.hw.compute.datapath import Datapath
    from accel.hw.compute.systolic import systolic

    made = plan(machine, unit)
    part = systolic(made.array, machine.config.dsp_multipliers) if made.array else Datapath(made)
    text = verilog.convert(part, name=f"{unit}_datapath", emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    return text


def _lines(machine: Machine, found: Facts, figures: Mapping[str, Any]) -> Iterator[str]:
    yield (f"{found.name}: opcode {found.opcode}, unit {found.unit}, of machine "
           f"{machine.hash[:12]} ({machine.config.name})")
    for number, form in enumerate(found.forms):
        yield f"form {number + 1}:" if len(found.forms) > 1 else "meaning:"
        yield f"  {form.formula}"
        yield from (f"  {place}" for place in form.places)
        if form.immediates:
            yield f"  immediates: {immediates_text(form)}"
    for pattern in machine.patterns:
        if pattern.name == found.name:
            names = " and ".join(constant.name for constant in pattern.constants)
            sums = "sums of " * (machine.structure.kind(found.unit) is UnitKind.GEMM)
            yield (f"stands for {sums}{expr_text(pattern.real)} in float networks"
                   + (f", {names} of each channel" if names else "")
                   + (f", up to {pattern.tolerance:g}" if pattern.tolerance else ""))
    if found.opcode != FINISH:
        yield f"{loops_text(found)}; {update_text(found)}; {flags_text(found)}"
    yield "time:" if found.timing else ""
    yield from (f"  {sentence}" for sentence in timing_text(found, machine.config.bus_bytes))
    yield "fields of its word:"
    for field in found.fields:
        path = field.path.replace("loops.", "loops[i].")
        more = f" + {field.stride} i" if field.count > 1 else ""
        yield f"  {field.bits}{more}  {path}: {meaning_of(field)}"
    for one in figures["examples"]:
        yield f"example: {one['text']}"
        yield f"  {' '.join(one['word'])}"
    if "datapath" in figures:
        yield from _datapath(found, figures["datapath"])


def _datapath(found: Facts, datapath: Mapping[str, Any]) -> Iterator[str]:
    yield (f"datapath of {found.unit}, of {len(datapath['bodies'])} bodies: {datapath['stages']} "
           f"stages, {datapath['register_bits']:,} bits of registers")
    for kind, widths in datapath["operators"].items():
        used = sum(datapath["used"].get(kind, {}).values())
        yield (f"  {kind}: {sum(widths.values())}, of which {found.name} uses {used}; by width "
               + ", ".join(f"{width}: {count}" for width, count in widths.items()))
    if without := datapath["without"]:
        more = datapath["register_bits"] - without["register_bits"]
        counts = {kind: sum(widths.values()) - sum(without["operators"].get(kind, {}).values())
                  for kind, widths in datapath["operators"].items()}
        yield (f"  without {found.name}: {without['stages']} stages, {more:+,} bits of registers "
               f"with it, " + ", ".join(f"{count:+} {kind}" for kind, count in counts.items()))
