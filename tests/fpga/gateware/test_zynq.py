"""A network on the core for a Zynq, between AXI4-Lite and AXI4 of others."""

import pytest

from tests.support.machines import TINY


@pytest.mark.slow
def test_digits(tmp_path):
    """All bytes of memory as the functional simulator leaves them, with pauses everywhere."""
    find_libpython = pytest.importorskip("find_libpython")
    if find_libpython.find_libpython() is None:
        pytest.skip("this Python has no shared library, which cocotb embeds")
    from bench.fpga.boards import network

    found = network(TINY, "digits", 1, 2, tmp_path)
    assert found["axi4_digits_runs"] == 1
    assert found["axi4_digits_cycles"] > 8000 and found["axi4_digits_bursts"] > 1000
