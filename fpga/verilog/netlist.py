"""Emitted Verilog, made ready for any simulator and synthesizer; it says the same.

- Registers and memories have no initial values: `rst` alone brings the core into its state. So
  simulation begins as silicon does, and the test bench shows that nothing else is needed. A memory
  that nothing writes keeps its contents.
- The emitter's ``always @*`` blocks read a register that only its declaration sets, so that they
  run once where nothing else wakes them. Icarus, in its SystemVerilog modes, sets it before any
  block waits. Here an assignment sets it after all of them do.
- Wires of no bits, which Verilog has not, are left out.
"""

import re

from amaranth.back import verilog

from accel.hw.core import Core
from accel.machine.machine import Machine

WAKES = "wakes_blocks"
"""The register that ``always @*`` blocks read."""

_START = re.compile(r"^(?=module )", re.MULTILINE)
MODULE = re.compile(r"module (\S+?) ?\(")
"""The name at the start of a module's text."""

_INITIAL = re.compile(r"^(  reg (?:\[\d+:0\] )?\S+) += \d+'[hd][0-9a-f]+;$", re.MULTILINE)
_CONTENTS = re.compile(r"^  initial begin\n(?:    (\S+)\[\d+\] = \d+'[hd][0-9a-f]+;\n)+  end\n",
                       re.MULTILINE)
_WAKING = re.compile(r"^  reg (\\\$auto\$\S+) += 0;$", re.MULTILINE)
_INIT = re.compile(r"^  \(\* init = \d+'[hd][0-9a-f]+ \*\)\n", re.MULTILINE)
_EMPTY = re.compile(r"^  wire \[-1:0\] (\S+) ?;\n", re.MULTILINE)


def core_verilog(machine: Machine) -> str:
    """The module `core` and those that it is made of."""
    text = verilog.convert(Core(machine), name="core", emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    return tidied(text)


def tidied(text: str) -> str:
    """The text of all modules, as the docstring of this file says."""
    return "".join(_tidied(module) for module in modules(text))


def modules(text: str) -> list[str]:
    """The text before the first module, and that of each module."""
    return _START.split(text)


def _tidied(module: str) -> str:
    module = _INIT.sub("", module)
    module = _INITIAL.sub(r"\1 ;", module)
    module = _CONTENTS.sub(lambda match: "" if _is_written(match[1], module) else match[0], module)
    for name in _WAKING.findall(module):
        module = module.replace(f"reg {name}  = 0;", f"reg {WAKES};\n  initial {WAKES} <= 1'b0;")
        module = module.replace(f"if ({name} ) begin end", f"if ({WAKES}) begin end")
    for name in _EMPTY.findall(module):
        if len(re.findall(rf"(?<![\w.\\$]){re.escape(name)}(?![\w.$])", module)) == 1:
            module = re.sub(rf"^  wire \[-1:0\] {re.escape(name)} ?;\n", "", module,
                            flags=re.MULTILINE)
    return module


def _is_written(memory: str, module: str) -> bool:
    return bool(re.search(rf"^ +{re.escape(memory)}\[.+ <= ", module, re.MULTILINE))
