"""Writes the folder from which Vivado makes a bitstream for PYNQ-Z1 or PYNQ-Z2 (docs/fpga.md)."""

import argparse
import sys
from pathlib import Path

from accel.machine.config import ConfigError
from accel.machine.loading import load_machine
from fpga.zynq.export import export

LOWEST_MHZ, HIGHEST_MHZ = 10, 250       # that the processor's PLLs give the logic


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fpga.zynq", description=__doc__)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16", help="preset or file")
    parser.add_argument("--clock-mhz", type=int, metavar="N",
                        help="of the core (default: that of the configuration)")
    parser.add_argument("-o", dest="folder", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    try:
        machine = load_machine(args.machine)
        clock_mhz = machine.config.clock_mhz if args.clock_mhz is None else args.clock_mhz
        if not LOWEST_MHZ <= clock_mhz <= HIGHEST_MHZ:
            parser.error(f"--clock-mhz must be {LOWEST_MHZ} to {HIGHEST_MHZ}, not {clock_mhz}")
        export(machine, clock_mhz, args.folder)
    except (ConfigError, OSError) as error:
        print(f"fpga.zynq: {error}", file=sys.stderr)
        return 2
    print(f"{args.folder}: {machine.config.name} at {clock_mhz} MHz; in that folder run "
          f"`vivado -mode batch -source build.tcl`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
