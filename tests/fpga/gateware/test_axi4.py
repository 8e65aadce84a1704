"""The AXI4 master against a memory that others wrote."""

import pytest

from fpga.gateware.axi4 import Axi4Master
from tests.support.machines import MACHINES


@pytest.mark.parametrize("name", ["2x8x8"])
def test_random_transfers(name, tmp_path):
    """With pauses on every channel and bursts over boundaries of 4 KiB."""
    find_libpython = pytest.importorskip("find_libpython")
    if find_libpython.find_libpython() is None:
        pytest.skip("this Python has no shared library, which cocotb embeds")
    from tests.support.cocotb_verilator import run_bench

    config = MACHINES[name].config
    run_bench(Axi4Master(config), "tests.fpga.gateware.axi4_transfers", tmp_path,
              TRANSFERS=300, BUS_BYTES=config.bus_bytes, SEED=1)
