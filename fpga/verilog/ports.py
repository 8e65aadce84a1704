"""The ports of an emitted module: what they are, and what they are for."""

import re
from dataclasses import dataclass

from accel.machine.status import CLIENTS, COUNTERS, Status

from .netlist import MODULE, modules

_DECLARED = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+) ?;$", re.MULTILINE)


@dataclass(frozen=True)
class VerilogPort:
    """A port; `text` says what it does."""

    name: str
    width: int
    direction: str
    text: str


def ports_of(text: str, top: str) -> list[VerilogPort]:
    """The ports of the module `top`, clock and reset first."""
    module = next(part for part in modules(text)
                  if (named := MODULE.match(part)) and named[1] == top)
    order = re.findall(r"\w+", module[module.index("("):module.index(";")])
    known = {name: VerilogPort(name, int(high or 0) + 1, direction, _meaning(name))
             for direction, high, name in _DECLARED.findall(module)}
    first = [name for name in ("clk", "rst", "ap_clk", "ap_rst_n") if name in known]
    return [known[name] for name in (*first, *sorted(set(order) - {*first}))]


_STATUS = ", ".join(f"{status.value} {status.text}" for status in Status
                    if status is not Status.WATCHDOG)

_MEANINGS = {
    "clk|ap_clk": "clock; all registers take the rising edge",
    "rst": "reset, high, synchronous: hold it for four cycles",
    "ap_rst_n": "reset, low, synchronous: hold it for four cycles",
    "irq": "interrupt: high while the register `interrupt` is 1 and no run is on",
    "start": "a pulse of one cycle starts the program; ignored until the one before is done",
    "count": "instructions of the program; constant during a run",
    r"base_(\w+)": "byte address of the segment {0}; constant during a run",
    "done": "high from the end of a run to the next start; the outputs below hold as long",
    "status": f"how the run ended: {_STATUS}",
    "status_unit": "the unit that reports it, as `lockstep isa --status` numbers them",
    "status_index": "the instruction that reports it",
    r"(\w+)_(started|retired)": "{0}: an instruction has {1} in this cycle",
    r"(\w+)_(started|retired)_index": "which instruction of {0} has {1}",
    r"(\w+)_waiting": "after a deadlock: {0} waits for a token",
    r"(\w+)_waiting_index": "after a deadlock: the instruction that {0} waits with",
    "counter": f"number of a counter, 0 to {len(COUNTERS) - 1}: cycles of each unit's activities, "
               f"then bytes of {', '.join(CLIENTS)}",
    "counter_value": "that counter, in the same cycle",
    "mem__request__payload": "31:0 byte address, 36:32 beats less one, 37 a write",
    r"mem(\d)__request__payload": "31:0 byte address, of a block of channel {0}, 36:32 beats less "
                                  "one, 37 a write",
    r"mem\d?__wdata__payload": "a beat to write, and above it an enable for each of its bytes",
    r"mem\d?__rdata__payload": "a beat that was read, in the order of the requests; the bit above "
                               "it says that the address has no memory",
    r"mem\d?__ack__payload": "the oldest write without an answer is done; 1: it had no memory",
    r"mem\d?__(\w+)__valid": "{0}: something is offered, until `ready`",
    r"mem\d?__(\w+)__ready": "{0}: what is offered is taken at this edge",
    r"s_axi_control_(\w+)": "registers, AXI4-Lite slave: {0}",
    r"m_axi_gmem_(\w+)": "memory, AXI4 master: {0}",
}
"""What ports do, by patterns of names; the first that fits counts."""


def _meaning(name: str) -> str:
    for pattern, text in _MEANINGS.items():
        if match := re.fullmatch(pattern, name):
            return text.format(*match.groups())
    raise ValueError(f"VerilogPort must have a meaning in {__name__}, not {name!r}")
