"""The memories of an emitted netlist, for whoever puts macros in their place."""

import re
from dataclasses import dataclass

from .netlist import MODULE, modules

_DECLARED = re.compile(r"^  reg \[(\d+):0\] (\S+) \[(\d+):0\];$", re.MULTILINE)


@dataclass(frozen=True)
class VerilogMemory:
    """A memory: `name` in `module`, of `depth` rows of `width` bits.

    Parameters
    ----------
    writes : write ports; 0 for one whose contents are fixed.
    mask_bits : bits that are written together; `width` where a write takes the whole row.
    clocked_reads : read ports that give a row in the cycle after its address.
    direct_reads : those that give it in the same cycle, as distributed RAM or registers do.
    holds : what lies in it.
    """

    module: str
    name: str
    depth: int
    width: int
    writes: int
    mask_bits: int
    clocked_reads: int
    direct_reads: int
    holds: str

    @property
    def bits(self) -> int:
        return self.depth * self.width


def memories_of(text: str) -> list[VerilogMemory]:
    """Every memory, the largest first."""
    found = [memory for module in modules(text) if (named := MODULE.match(module))
             for memory in _memories(named[1].removeprefix("\\"), module)]
    return sorted(found, key=lambda memory: (-memory.bits, memory.module, memory.name))


def _memories(path: str, module: str) -> list[VerilogMemory]:
    return [_memory(path, module, name, int(high) + 1, int(last) + 1)
            for high, name, last in _DECLARED.findall(module)]


def _memory(path: str, module: str, name: str, width: int, depth: int) -> VerilogMemory:
    row = rf"{re.escape(name)}\[(.+?)\]"
    written = re.findall(rf"^ +{row}(?:\[(\d+):(\d+)\]|\[(\d+)\])? <= ", module, re.MULTILINE)
    parts = [1 if bit else int(high) - int(low) + 1 if high else width
             for _, high, low, bit in written]
    clocked = re.findall(rf"^ +\S+ +<= {row};$", module, re.MULTILINE)
    direct = re.findall(rf"^  assign \S+ += {row};$", module, re.MULTILINE)
    mask_bits = min(parts, default=width)
    return VerilogMemory(path, name, depth, width, len(parts) * mask_bits // width, mask_bits,
                  len(clocked), len(direct), _held(path, name))


_HELD = {
    r"acc\.bank(\d)_(\d+)": "accumulators, bank {0}, part {1}: what gemm sums up and vector reads",
    r"inp\.slice\d+": "buffer inp: activations for gemm",
    r"wgt\.slice\d+": "buffer wgt: weights for gemm",
    r"res\.slice\d+": "buffer res: operands of vector",
    r"par\.slice\d+": "buffer par: parameters of vector, a record a channel",
    r"out\.slice\d+": "buffer out: results of vector, for store",
    r"tab\.copy(\d+)\.slice\d+": "buffer tab: look-up tables, copy {0} of as many as read at once",
    r"(\w+)\.bank(\d)_(\d+)": "buffer {0}: accumulators, bank {1}, part {2}",
    r"(\w+)\.slice\d+": "buffer {0}",
    r"(\w+)\.copy(\d+)\.slice\d+": "buffer {0}: tables, copy {1} of as many as read at once",
    r"fetch\.buffer": "beats of instruction words that have come early",
    r"fetch\.requests": "requests for instruction words, on their way",
    r"(\w+)\.requests": "requests of {0}, on their way",
    r"(\w+)\.incoming": "runs of {0}, on their way",
    r"queue_(\w+)\.words": "instructions that wait for {0}",
    r"queue_(\w+)\.indexes": "positions of these instructions",
    r"arbiter\.owners": "for each open read its unit and its beats",
    r"arbiter\.arbiter(\d)\.owners": "for each open read of channel {0} its unit and its beats",
    r"arbiter\.(\w+)\.order": "for each burst of {0} whose beats are to move its channel and beats",
    r"arbiter\.(\w+)\.answers": "for each open write of {0} its channel",
    r"arbiter\.(\w+)\.beats(\d)": "beats between {0} and channel {1}",
    r"arbiter\.(\w+)\.acks(\d)": "acknowledgements of channel {1} for {0}",
    r"counters kept_(\w+)": "counters of {0}: cycles of each activity",
    r"(\w+)\.issue\.records": "instructions that {0} has begun: position and signals",
    r"(\w+)\.ahead\.queue": "iterations of loops that {0} has computed early",
    r"(\w+)\.front\.ahead\.queue": "runs of bytes that {0} has computed early",
    r"(\w+)\.front\.held": "instructions that {0} has begun: position and signals",
    r"(\w+)\.front\.complete": "which of them are complete",
    r"(\w+)\.runs": "runs that {0} has requested",
    r"(\w+)\.beats (even|odd)": "beats that have come, for {0}: those at {1} places",
    r"(\w+)\.writer\.beats": "beats that {0} has ready to write",
    r"(\w+)\.writer\.bursts": "bursts that {0} has ready to request",
    r"(\w+)\.writer\.answers": "for each open write whether it ends an instruction's run",
    r"(\w+)\.entering": "entries that {0} has read, for its components",
    r"(\w+)\.later": "instructions of {0} whose results are not written yet: places and loops",
    r"(\w+)\.component_(\w+)(?:\..+)?": "what the component of {1} keeps",
    r"registers": "the record of the machine, which hosts read",
    r"memory\.lengths": "beats of each write burst on AXI4",
    r"memory\.answers": "for each write burst whether another of its request follows",
}
"""What memories hold, by patterns of their modules within the core, and their names."""


def _held(path: str, name: str) -> str:
    place = re.sub(r"^(?:lockstep\.)?(?:core|lockstep)\.", "", path)
    for pattern, text in _HELD.items():
        if match := (re.fullmatch(pattern, place) or re.fullmatch(pattern, f"{place} {name}")):
            return text.format(*match.groups())
    raise ValueError(f"VerilogMemory must have a meaning in {__name__}, not {name!r} of {path!r}")
