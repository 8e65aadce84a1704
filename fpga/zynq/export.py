"""Files for Vivado: Verilog, and the script with its settings."""

from pathlib import Path

from amaranth.back import verilog

from accel.machine.machine import Machine
from compiler.errors import RequestError
from fpga.gateware.zynq import CONTROL, MEMORY, ZynqAccelerator

NAME = "lockstep"
PART = "xc7z020clg400-1"        # of PYNQ-Z1 and PYNQ-Z2
LOWEST_MHZ, HIGHEST_MHZ = 10, 250       # that the processor's PLLs give the logic

MEMORY_BYTES = 64 << 20
"""Bytes that the driver allocates; PYNQ's images keep 128 MiB for such buffers."""

SCRIPT = Path(__file__).parent / "build.tcl"

ATTRIBUTES = {
    "input ap_clk": f'X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF {CONTROL}:{MEMORY}, '
                    'ASSOCIATED_RESET ap_rst_n"',
    "input ap_rst_n": 'X_INTERFACE_PARAMETER = "POLARITY ACTIVE_LOW"',
    "output irq": 'X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT", '
                        'X_INTERFACE_PARAMETER = "SENSITIVITY LEVEL_HIGH"'}
"""Attributes of ports: facts that Vivado cannot take from names."""


def zynq_verilog(machine: Machine, clock_mhz: int) -> str:
    """The module `NAME`, with Vivado's attributes."""
    text = verilog.convert(ZynqAccelerator(machine, MEMORY_BYTES, clock_mhz * 1_000_000), name=NAME,
                           emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    for port, attributes in ATTRIBUTES.items():
        declared = f"  {port};\n"
        assert text.count(declared) == 1
        text = text.replace(declared, f"  (* {attributes} *)\n{declared}")
    return text


def vivado_files(clock_mhz: int) -> dict[str, str]:
    """The script for Vivado with its settings, by name. Raises RequestError for a clock that the
    processor's PLLs cannot give."""
    if not LOWEST_MHZ <= clock_mhz <= HIGHEST_MHZ:
        raise RequestError(f"--clock-mhz must be {LOWEST_MHZ} to {HIGHEST_MHZ} on a Zynq, "
                           f"not {clock_mhz}")
    return {"settings.tcl": f"set name {NAME}\nset part {PART}\nset clock_mhz {clock_mhz}\n"
                            f"set control {CONTROL}\nset memory {MEMORY}\n",
            "build.tcl": SCRIPT.read_text()}
