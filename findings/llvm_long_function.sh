#!/bin/sh
# LLVM: what a function costs that only calls others, thousands, one after the other.
#
# It loads 4,000 addresses from a table and passes each to a call whose status may end it: code that
# is written once and has no loop. The code generator takes time that grows with the square of its
# length: many times what the same calls take as 125 functions of 32.
# Exit status: 0 as seen, 1 something has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'llvmlite==0.50.0'
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import time

import llvmlite
import llvmlite.binding as llvm

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
MACHINE = llvm.Target.from_default_triple().create_target_machine(opt=3)
CALLS = 4000


def text(each: int) -> str:
    """Functions of so many calls."""
    lines = ["declare i32 @f(ptr)"]
    for first in range(0, CALLS, each):
        lines += [f"define i32 @g{first}(ptr %table) {{"]
        numbers = range(first, first + each)
        for i in numbers:
            lines += [f"%p{i} = getelementptr ptr, ptr %table, i64 {i}",
                      f"%a{i} = load ptr, ptr %p{i}"]
        for i in numbers:
            lines += [f"%s{i} = call i32 @f(ptr %a{i})", f"%e{i} = icmp ne i32 %s{i}, 0",
                      f"br i1 %e{i}, label %x{i}, label %d{i}",
                      f"x{i}:", f"ret i32 %s{i}", f"d{i}:"]
        lines += ["ret i32 0", "}"]
    return "\n".join(lines)


def seconds(each: int) -> float:
    module = llvm.parse_assembly(text(each))
    begin = time.process_time()
    MACHINE.emit_object(module)
    return time.process_time() - begin


seconds(CALLS // 100)
one, many = seconds(CALLS), seconds(32)
print(f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}")
print(f"{CALLS} calls: {one:.1f} s of processor time as one function, {many:.1f} s as "
      f"{CALLS // 32}: {one / many:.0f} times")
sys.exit(one < 4 * many)
PYTHON
