"""The example of a unit of one's own: its component, and the machine that it is part of."""

import numpy as np
import pytest

from accel.machine.streams import StreamForm
from accel.sim.checking.check import check
from accel.sim.checking.geometries import quick_simulators
from examples.machines.running_max import RunningMax, machine, running_max
from tests.support.components import rows_through

(FORM,) = machine.forms["running_max"]
assert isinstance(FORM, StreamForm)
SHAPE = FORM.shape


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0.4)])
def test_the_component_is_its_meaning(stalls) -> None:
    random = np.random.default_rng(0)
    rows = [random.integers(-128, 128, (count, *SHAPE.a[0]), np.int8) for count in (1, 5, 2, 9)]
    results, times = rows_through(RunningMax(SHAPE), SHAPE, [(row, {}) for row in rows], None,
                                  *stalls)
    for row, result in zip(rows, results, strict=True):
        assert (result == running_max(row[None])[0]).all()
    if not any(stalls):
        assert np.diff(times).tolist() == [5, 2, 9]


@pytest.mark.slow
def test_simulators_agree() -> None:
    report = check(machine, 300, 0, quick_simulators(machine))
    assert report.ok, report.difference or report.empty
