"""The page that says what is in a folder of Verilog: ports, memories, waivers, how to check it."""

from collections.abc import Iterable

from accel.machine.machine import Machine

from .lint import WAIVERS
from .memories import VerilogMemory
from .ports import VerilogPort

_PAGE = """# {name}

Machine {machine}, hash `{hash}`. The top is the module `{top}` of `{top}.v`: Verilog-2005,
one clock, one reset. Registers and memories have no initial values: the reset alone brings the
core into its state.
{bus}

## Check

```
verilator --lint-only -Wall {top}.vlt {top}.v --top-module {top}
yosys -p "read_verilog {top}.v; hierarchy -check -top {top}; proc; check -assert"
iverilog -g2012 -o bench bench.v {top}.v && ./bench
verilator --binary -Wno-fatal -Wno-lint bench.v {top}.v --top-module bench && obj_dir/Vbench
```

The test bench runs one program, which has every instruction of the machine, and compares the memory
with what the functional simulator leaves. It ends with `PASS` or `FAIL`. `memory.hex` is the memory
before the run, with the program in it, `expected.hex` the memory after it.

## Ports

| port | bits | direction | what it does |
|---|--:|---|---|
{ports}

## Memories

{count} memories hold {bits:,} bits, {macros:,} of them in memories whose reads are all clocked:
those are what macros can replace. `memories.csv` has the same columns. Each memory is a `reg` of
its module. A write changes the bits of its mask; a row that is read in the cycle in which it is
written may be anything. *Clocked* reads give a row in the cycle after its address, *direct* ones in
the same cycle.

| module | name | rows | bits | writes | mask | clocked | direct | what it holds |
|---|---|--:|--:|--:|--:|--:|--:|---|
{memories}

## Waivers

`{top}.vlt` turns these rules of Verilator off for `{top}.v`, and no others:

{waivers}
"""

_ABOUT = {
    "native": "The memory port is described in docs/machine.md of Lockstep, \"Memory port\".",
    "axi4": "Registers lie behind AXI4-Lite, a word every four bytes, in the order of "
            "fpga/link/registers.py of\nLockstep; docs/driver.md says how a run is started. "
            "Memory is behind AXI4."}


def page(machine: Machine, top: str, bus: str, ports: list[VerilogPort],
         memories: list[VerilogMemory]) -> str:
    return _PAGE.format(
        name=f"{machine.config.name} as Verilog", machine=machine.config.name, hash=machine.hash,
        top=top, bus=_ABOUT[bus], count=len(memories), bits=sum(m.bits for m in memories),
        macros=sum(m.bits for m in memories if not m.direct_reads),
        ports=_rows((f"`{p.name}`", p.width, p.direction, p.text) for p in ports),
        memories=_rows((f"`{m.module}`", f"`{m.name}`", m.depth, m.width, m.writes, m.mask_bits,
                        m.clocked_reads, m.direct_reads, m.holds) for m in memories),
        waivers="\n".join(f"- `{rule}`: {why}" for rule, why in WAIVERS.items()))


def _rows(rows: Iterable[tuple]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)
