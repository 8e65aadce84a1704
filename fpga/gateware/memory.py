"""The memory of a board: the controller before it, and how it looks to the core."""

from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from fpga.boards import BlockRam
from fpga.gateware.block_memory import BLOCK_MEMORY, BlockMemory
from fpga.gateware.sdram import SdramController, sdram_memory
from fpga.gateware.top import relayed
from fpga.boards.sdram import Sdram


def controller(config: AccelConfig, memory: Sdram | BlockRam, clock_hz: float
               ) -> SdramController | BlockMemory:
    """The controller of a memory. Raises ValueError for a bus or a clock that it cannot have."""
    if isinstance(memory, BlockRam):
        return BlockMemory(config, memory.size_bytes)
    return SdramController(config, memory, clock_hz)


def dram_of(config: AccelConfig, memory: Sdram | BlockRam, clock_hz: float) -> Dram:
    """The memory behind the core of a board, as simulators take it: it follows from the rules of
    the chip, the clock, and the registers on the way. Raises ValueError as `controller` does.
    """
    return relayed(BLOCK_MEMORY if isinstance(memory, BlockRam)
                   else sdram_memory(config, memory, clock_hz))
