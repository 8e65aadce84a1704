"""Is the AXI4 master right? Random transfers against the memory of cocotbext-axi.

Reads and writes of 1 to 32 beats with random masks, pauses on every channel, a third of them near
a boundary of 4 KiB, in RTL (Verilator). The rules of the specification that a master can break are
watched over, and every byte is compared. Prints ``axi4_transfers`` and ``axi4_failures``, the
configurations that broke a rule or moved a wrong byte.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from accel.config import load
from fpga.gateware.axi4 import Axi4Master
from tests.support.cocotb_verilator import run_bench


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="pynq-1x16x16")
    parser.add_argument("--transfers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    config, failures = load(args.config), 0
    with TemporaryDirectory() as folder:
        try:
            run_bench(Axi4Master(config), "tests.fpga.gateware.axi4_transfers", Path(folder),
                      TRANSFERS=args.transfers, BUS_BYTES=config.bus_bytes, SEED=args.seed)
        except AssertionError as error:
            failures = 1
            print(error)
    print("seed", args.seed)
    print("axi4_transfers", args.transfers)
    print("axi4_failures", failures)
    return failures


if __name__ == "__main__":
    sys.exit(main())
