"""The clock that a machine's core reaches on an ECP5, without place and route.

The period is a sum of three terms with coefficients that are never negative, fitted to runs of
nextpnr: one of every core (the control of its units, which all machines have alike), one for each
thousand LUTs (wires grow with the design), and one for what the slowest stage of the datapaths
takes longer than that control (`accel.estimates.paths`).
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from accel.datapath.plan import plan
from accel.estimates.area import area
from accel.estimates.estimate import Estimate
from accel.estimates.fitting import fitted, quantile, rounded
from accel.estimates.paths import longest_path
from accel.estimates.runs import DATA, Routing
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind

COEFFICIENTS = DATA / "clock.toml"

TERMS = ("control", "size", "datapath")

CONTROL_NS = 9.0            # of a stage that takes no longer than control does

LARGEST = 22_000.0          # LUTs; of larger machines too few were built, and long ago

SEED_SPREAD = 0.05          # that the clock of one seed differs from the next, at least


@dataclass(frozen=True)
class ClockModel:
    """Coefficients, and how far off they were.

    Parameters
    ----------
    nanoseconds : of each of `TERMS`.
    error : half the interval, relative.
    largest : LUTs of the largest machine of the fit, those above `LARGEST` left out.
    """

    nanoseconds: Mapping[str, float]
    error: float
    largest: float

    def mhz(self, machine: Machine) -> float:
        """The clock that a machine's core reaches."""
        return 1e3 / sum(self.nanoseconds[term] * amount
                         for term, amount in period_terms(machine).items())

    def to_toml(self) -> str:
        """The text that `clock` reads."""
        terms = "".join(f"{term} = {value!r}\n" for term, value in self.nanoseconds.items())
        return f"error = {self.error!r}\nlargest = {self.largest!r}\n\n[nanoseconds]\n{terms}"


def period_terms(machine: Machine) -> dict[str, float]:
    """The amounts that a period grows with."""
    plans = [plan(machine, unit.name) for kind in (UnitKind.GEMM, UnitKind.VECTOR)
             for unit in machine.structure.of_kind(kind)]
    plans += [planned.meeting for planned in plans if planned.meeting]
    slowest = max(map(longest_path, plans))
    return {"control": 1.0, "size": area(machine).luts.value / 1e3,
            "datapath": max(slowest - CONTROL_NS, 0.0)}


def clock(machine: Machine) -> Estimate:
    """Estimates the clock in MHz of a machine's core on an ECP5-85F, speed grade 6.

    A machine that is larger than `ClockModel.largest` is marked as extrapolated.
    """
    model = read_clock()
    mhz = model.mhz(machine)
    return Estimate(round(mhz, 1), round(mhz * (1 - model.error), 1),
                    round(mhz * (1 + model.error), 1),
                    area(machine).luts.value > model.largest)


@cache
def read_clock() -> ClockModel:
    """The stored coefficients."""
    return ClockModel(**tomllib.loads(COEFFICIENTS.read_text()))


def fit_clock(runs: Sequence[Routing]) -> ClockModel:
    """Fits the coefficients to all runs, and the error to each run by the fit to the others."""
    terms = [period_terms(run.spec.machine) for run in runs]
    errors = [abs(error) for error in left_out(runs)]
    luts = [amounts["size"] * 1e3 for amounts in terms]
    return ClockModel(_solved(terms, runs), rounded(max(quantile(errors), SEED_SPREAD)),
                      max((one for one in luts if one <= LARGEST), default=0.0))


def left_out(runs: Sequence[Routing]) -> list[float]:
    """The relative error of each run by a fit to the others."""
    terms = [period_terms(run.spec.machine) for run in runs]
    errors = []
    for number, run in enumerate(runs):
        others = [at for at in range(len(runs)) if at != number]
        model = ClockModel(_solved([terms[at] for at in others], [runs[at] for at in others]), 0, 0)
        errors.append(model.mhz(run.spec.machine) / _best(run) - 1)
    return errors


def _solved(terms: Iterable[Mapping[str, float]], runs: Iterable[Routing]) -> dict[str, float]:
    """Coefficients by the relative errors of periods. That a nanosecond of logic takes one counts
    like one more run, of ten times that."""
    mhz = np.array([_best(run) for run in runs])
    rows = np.array([[amounts[term] for term in TERMS] for amounts in terms]) * mhz[:, None] / 1e3
    logic = np.array([[float(term == "datapath") / 10 for term in TERMS]])
    found = fitted(np.vstack((rows, logic)), np.append(np.ones(len(mhz)), 0.1))
    return {term: rounded(value) for term, value in zip(TERMS, found.tolist(), strict=True)}


def _best(run: Routing) -> float:
    return max(run.seeds.values())
