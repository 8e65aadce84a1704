"""Emitted Verilog, written so that Verilator's model of it is faster; it says the same.

A RAM with a write enable for each byte comes out of the emitter as one assignment a byte. Verilator
keeps address, data and a flag of every one until the end of the time step: in every cycle it looks
at as many flags as a row of the buffers has bytes, most of which are not written in most cycles.
`whole_words` makes one assignment a word of them.
"""

import re
from functools import partial

__all__ = ["whole_words"]

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


def _joined(module: str, found: re.Match[str]) -> str:
    writes = _BYTE.findall(found[1])
    enables, words, names, highs, lows, values = zip(*writes, strict=True)
    word, name = words[0], names[0]
    width = re.search(rf"^  reg \[(\d+):0\] {re.escape(name)} \[", module, re.MULTILINE)
    ports = len(re.findall(rf"^ +{re.escape(name)}\[.+\] <= ", module, re.MULTILINE))
    ends = ["-1", *highs]
    in_order = all(int(low) == int(end) + 1 for low, end in zip(lows, ends))
    if not (width and highs[-1] == width[1] and in_order and set(words) == {word}
            and ports == len(writes)):
        return found[0]
    parts = [f"({enable}) ? {value} : {word}[{high}:{low}]"
             for enable, value, high, low in zip(enables, values, highs, lows, strict=True)]
    any_of = " | ".join(f"({enable})" for enable in enables)
    return (f"\n  always @(posedge clk) begin\n    if ({any_of})\n"
            f"      {word} <= {{ {', '.join(reversed(parts))} }};\n  end\n")
