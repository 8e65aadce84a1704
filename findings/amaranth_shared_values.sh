#!/bin/sh
# Amaranth writes the cells of a value once for each place that mentions it, though it is one object in Python: a barrel
# rotator, whose levels mention the one before three times, has three times as many cells with each level. With a signal
# between the levels it has one cell for each.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'amaranth==0.5.10'
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from amaranth.back import rtlil
from amaranth.hdl import Module, Mux, Signal


def cells(levels, with_signals):
    m = Module()
    x, count, y = Signal(1 << levels, name="x"), Signal(levels, name="count"), Signal(1 << levels, name="y")
    value = x
    for level in range(levels):
        rotated = Mux(count[level], value.rotate_left(1 << level), value)
        if with_signals:
            value = Signal(1 << levels, name=f"level{level}")
            m.d.comb += value.eq(rotated)
        else:
            value = rotated
    m.d.comb += y.eq(value)
    return rtlil.convert(m, ports=[x, count, y], emit_src=False).count("cell $mux")


print("amaranth", version("amaranth"))
found = [(levels, cells(levels, False), cells(levels, True)) for levels in range(1, 8)]
for levels, plain, shared in found:
    print(f"{levels} levels: {plain} multiplexers, {shared} with a signal between")
if [row[1] for row in found] != [(3 ** n - 1) // 2 for n in range(1, 8)] or any(row[2] != row[0] for row in found):
    raise SystemExit("the behaviour has changed")
PYTHON
