"""Emitted Verilog, written so that Verilator's model of it is faster; it says the same.

A RAM with a write enable for each byte comes out of the emitter as one assignment a byte. Verilator
keeps address, data and a flag of every one until the end of the time step: in every cycle it looks
at as many flags as a row of the buffers has bytes, most of which are not written in most cycles.
`whole_words` makes one assignment a word of them.

What a register becomes comes out as combinational logic, with the register's own value where it is
to stay as it is, and with the reset. Verilator computes and copies that in every cycle, some of it
twice, because `rst` is an input. `clocked` puts it where the clock rises.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial

_MODULE = re.compile(r"^(?=module )", re.MULTILINE)
_BYTES = re.compile(r"""
  always @\(posedge clk\) begin
((?:    if \(.+\)
      \S+\[.+\]\[\d+:\d+\] <= .+;
){2,})  end
""")
_BYTE = re.compile(r"    if \((.+)\)\n      (([^\s\[]+)\[.+\])\[(\d+):(\d+)\] <= (.+);\n")


def whole_words(text: str) -> str:
    """Writes of the bytes of a word, each under its own condition, become one of the word.

    ::

        if (en[0]) ram[addr][7:0] <= a;     →   if (en[0] | en[1])
        if (en[1]) ram[addr][15:8] <= b;            ram[addr] <= { en[1] ? b : ram[addr][15:8],
                                                                   en[0] ? a : ram[addr][7:0] };

    What is not written is written as it was: so the other writes must not come between. A RAM
    with another write port stays as it is, and so does one whose bytes are not all there, in order.
    """
    return "".join(_BYTES.sub(partial(_joined, module), module) for module in _MODULE.split(text))


def _joined(module: str, match: re.Match[str]) -> str:
    writes = _BYTE.findall(match[1])
    enables, words, names, highs, lows, values = zip(*writes, strict=True)
    word, name = words[0], names[0]
    width = re.search(rf"^  reg \[(\d+):0\] {re.escape(name)} \[", module, re.MULTILINE)
    ports = len(re.findall(rf"^ +{re.escape(name)}\[.+\] <= ", module, re.MULTILINE))
    ends = ["-1", *highs]
    in_order = all(int(low) == int(end) + 1 for low, end in zip(lows, ends))
    if not (width and highs[-1] == width[1] and in_order and set(words) == {word}
            and ports == len(writes)):
        return match[0]
    parts = [f"({enable}) ? {value} : {word}[{high}:{low}]"
             for enable, value, high, low in zip(enables, values, highs, lows, strict=True)]
    any_of = " | ".join(f"({enable})" for enable in enables)
    return (f"\n  always @(posedge clk) begin\n    if ({any_of})\n"
            f"      {word} <= {{ {', '.join(reversed(parts))} }};\n  end\n")


_NEXT = re.compile(r"""
  always @\* begin
    if \(\S+ \) begin end
((?:    .*
)+?)  end
""".lstrip("\n"))
_REGISTER = re.compile(r"""
  always @\(posedge clk\)
    (\S+) <= (\S+) ;
""".lstrip("\n"))
_RESET = re.compile(r"    if \(rst\) begin\n      \S+ +=  ?(.+);\n    end\n$")
_ENABLED = re.compile(r"    if \((.+)\) begin\n(      .+ <= .+;\n)    end\n")
_ESCAPED = re.compile(r"\\\S+")


@dataclass(frozen=True, slots=True)
class _Clocked:
    """A register, its value after a reset (None: it has none), and statements for other cycles."""

    register: str
    init: str | None
    body: str


def clocked(text: str) -> str:
    """Registers with the statements that say what they become, in blocks of their module.

    ::

        always @* begin                         always @(posedge clk)
          next = r;                               if (rst) begin
          if (en) begin                             r <= 0;
            next = a;                       →     end else begin
          end                                       if (en) begin
          if (rst) begin                              r <= a;
            next = 0;                               end
          end                                     end
        end
        always @(posedge clk)
          r <= next;

    Registers that only differ in what they take, under the same condition, share the test. A
    register whose `next` is read by anyone else stays as it is.
    """
    return "".join(_clocked(module) for module in _MODULE.split(text))


def _clocked(module: str) -> str:
    registers = {following: register for register, following in _REGISTER.findall(module)}
    uses = Counter(_ESCAPED.findall(module))
    moved: dict[str, _Clocked] = {}

    def take(match: re.Match[str]) -> str:
        following = match[1].split(maxsplit=1)[0]
        if following not in registers:
            return match[0]
        process = _read(following, registers[following], match[1])
        # It is declared, assigned here and handed to the register, and that is all.
        if _ESCAPED.findall(match[1]).count(following) != uses[following] - 2 \
                or following in _ESCAPED.findall(process.body):
            return match[0]
        moved[following] = process
        return ""

    module = _NEXT.sub(take, module)
    if not moved:
        return module
    module = _REGISTER.sub(lambda match: "" if match[2] in moved else match[0], module)
    return module.replace("endmodule", _blocks([*moved.values()]) + "endmodule")


def _read(following: str, register: str, body: str) -> _Clocked:
    """The process that a block states, written about the register itself."""
    reset = _RESET.search(body)
    lines = body[:reset.start() if reset else None].splitlines(keepends=True)
    if re.fullmatch(rf"    {re.escape(following)} +=  ?{re.escape(register)} ?;\n", lines[0]):
        del lines[0]            # else it stays as it is
    assignment = re.compile(rf"^( +){re.escape(following)}(?: +(\[[\d:]+\]))? +=  ?")
    return _Clocked(register, reset[1] if reset else None, "".join(
        assignment.sub(lambda match: f"{match[1]}{register}{match[2] or ''} <= ", line)
        for line in lines))


def _blocks(registers: list[_Clocked]) -> str:
    """One for the registers with a reset, one for each condition of the others."""
    with_reset = [process for process in registers if process.init is not None]
    result = ""
    if with_reset:
        resets = "".join(f"      {process.register} <= {process.init};\n" for process in with_reset)
        result = (f"  always @(posedge clk)\n    if (rst) begin\n{resets}    end else begin\n"
                  f"{''.join(_bodies(with_reset))}    end\n")
    others = [process for process in registers if process.init is None]
    return result + "".join(f"  always @(posedge clk) begin\n{body}  end\n"
                            for body in _bodies(others))


def _bodies(registers: list[_Clocked]) -> list[str]:
    """Statements; those under one condition together."""
    together: dict[str, str] = {}
    bodies = []
    for process in registers:
        if match := _ENABLED.fullmatch(process.body):
            together[match[1]] = together.get(match[1], "") + match[2]
        else:
            bodies.append(process.body)
    return [f"    if ({condition}) begin\n{assignments}    end\n"
            for condition, assignments in together.items()] + bodies
