"""The search for a PLL's settings."""

from fractions import Fraction

import pytest

from fpga.gateware.pll import DIVIDERS, Pll, search
from tests.support.effort import Effort

MHZ = 1_000_000


@pytest.mark.parametrize("input_mhz", [12, 25, 48, 100])
def test_all_limits_hold(input_mhz):
    for wanted in range(4, 201, 7 if Effort.quick else 1):
        pll = search(input_mhz * MHZ, wanted * MHZ)
        assert 10 * MHZ <= pll.detector_hz <= 400 * MHZ
        assert 400 * MHZ <= pll.vco_hz <= 800 * MHZ
        assert {pll.reference, pll.feedback, pll.output} <= set(DIVIDERS)
        assert 0.96 * wanted * MHZ < pll.clock_hz <= wanted * MHZ


@pytest.mark.parametrize("wanted", [50.0, 63.3, 80.0, 97.1, 110.0])
def test_no_setting_comes_closer(wanted):
    """All of them, one by one."""
    best = max(clock for reference in (1, 2) for feedback in range(1, 129)
               for output in range(1, 129)
               if 400 <= (vco := Fraction(25 * feedback, reference)) <= 800
               and (clock := vco / output) <= Fraction(wanted))
    assert search(25 * MHZ, wanted * MHZ).clock_hz == pytest.approx(float(best * MHZ))


def test_clocks_of_common_boards():
    assert search(25 * MHZ, 80 * MHZ) == Pll(25 * MHZ, reference=1, feedback=16, output=5)
    assert search(100 * MHZ, 80 * MHZ) == Pll(100 * MHZ, reference=1, feedback=4, output=5)


def test_a_lead_is_a_phase_that_comes_later():
    pll = Pll(25 * MHZ, reference=1, feedback=16, output=5)         # 12.5 ns, in 40 steps
    assert pll.lead(0) == (0, 0)
    assert pll.lead(12.5e-9 / 2) == (2, 4)
    assert pll.lead(12.5e-9 / 40) == (4, 7)
    for picoseconds in range(0, 12_500, 100):
        whole, eighths = pll.lead(picoseconds * 1e-12)
        later = (8 * whole + eighths) * pll.lead_step
        off = (later + picoseconds * 1e-12) % 12.5e-9
        assert min(off, 12.5e-9 - off) <= pll.lead_step / 2 + 1e-15


def test_phases_fit_their_field():
    for wanted in range(4, 201):
        pll = search(25 * MHZ, wanted * MHZ)
        later, _ = pll.lead(3.5e-9)
        assert 0 <= pll.phase(later) < 128
        assert (pll.phase(later) - pll.phase(0)) % pll.output == later
    assert search(25 * MHZ, 80 * MHZ).phase(3) == 7         # as Lattice's tools count


@pytest.mark.parametrize("input_mhz, wanted, message", [
    (25, 3, "Clock must be from 3.125 to 400 MHz, not 3 MHz"),
    (25, 500, "Clock must be from 3.125 to 400 MHz, not 500 MHz"),
    (5, 50, "Input of a PLL must be from 8 to 400 MHz, not 5 MHz"),
    (8, 50, "Clock must be one that a PLL makes of 8 MHz, not 50 MHz"),
])
def test_wrong_clocks(input_mhz, wanted, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        search(input_mhz * MHZ, wanted * MHZ)
