"""The folder for Vivado: Verilog, and the script with its settings."""

from pathlib import Path

from amaranth.back import verilog

from accel.machine.machine import Machine
from compiler.files import write_bytes, write_text
from fpga.gateware.zynq import CONTROL, MEMORY, ZynqAccelerator

__all__ = ["MEMORY_BYTES", "NAME", "PART", "export", "zynq_verilog"]

NAME = "lockstep"
PART = "xc7z020clg400-1"        # of PYNQ-Z1 and PYNQ-Z2

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


def export(machine: Machine, clock_mhz: int, folder: Path) -> None:
    """Writes the folder, and creates it if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{NAME}.v", zynq_verilog(machine, clock_mhz))
    write_text(
        folder / "settings.tcl",
        f"set name {NAME}\nset part {PART}\nset clock_mhz {clock_mhz}\n"
        f"set control {CONTROL}\nset memory {MEMORY}\n")
    write_bytes(folder / "build.tcl", SCRIPT.read_bytes())
