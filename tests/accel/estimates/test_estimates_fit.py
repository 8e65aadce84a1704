"""The fit: coefficients that are never negative, and always the same."""

import json
import tomllib
from collections.abc import Mapping

import numpy as np
import pytest

from accel.estimates import clock, model
from accel.estimates.fitting import DIGITS, fitted, quantile, rounded
from accel.estimates.gates import nand2
from accel.estimates.runs import DATA, MachineSpec, Synthesis, append, syntheses
from accel.machine.config import preset
from bench.accelerator import estimates
from bench.inputs.drawn import drawn, specs
from fpga.building import bare_core


def flat(table: Mapping, prefix: str = "") -> dict[str, float]:
    return {name: figure for key, value in table.items()
            for name, figure in (flat(value, f"{prefix}{key}.").items()
                                 if isinstance(value, Mapping) else [(prefix + key, value)])}


@pytest.mark.parametrize("fit, stored", [(estimates.fitted_area, model.COEFFICIENTS),
                                         (estimates.fitted_clock, clock.COEFFICIENTS)])
def test_a_fit_to_the_stored_runs_gives_the_stored_coefficients(fit, stored):
    """The same ones, to a step of the last digit: processors round the fit differently."""
    assert flat(tomllib.loads(fit().to_toml())) == pytest.approx(
        flat(tomllib.loads(stored.read_text())), rel=10.0 ** (1 - DIGITS), abs=0)


def test_coefficients_that_the_data_cannot_tell_from_zero_are_zero():
    coefficients = np.array([3, 0, 2, 0, 0.5, 0, 0, 1e3])
    for seed in range(200):
        rows = np.random.default_rng(seed).integers(0, 200, (30, 8)).astype(float)
        assert not fitted(rows, rows @ coefficients)[coefficients == 0].any()


def test_the_fit_has_seen_no_machine_that_is_held_back():
    runs = syntheses()
    fitted_to = {run.hash for run in runs if not run.held_back}
    assert not fitted_to & {run.hash for run in runs if run.held_back}


def test_coefficients_are_those_of_an_exact_sum():
    rows = np.array([[1.0, 2.0, 0.0], [1.0, 0.0, 3.0], [1.0, 5.0, 1.0], [1.0, 7.0, 4.0]])
    assert fitted(rows, rows @ [3.0, 0.0, 2.0]) == pytest.approx([3, 0, 2], abs=1e-9)


def test_coefficients_are_never_negative():
    """Without the bound the second would be -1; with it the first is the mean."""
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert fitted(rows, np.array([3.0, 2.0, 1.0])) == pytest.approx([2, 0], abs=1e-9)


def test_nearly_negative_coefficients_leave_and_others_take_their_place():
    random = np.random.default_rng(1)
    rows = random.uniform(0, 1, (30, 6))
    values = rows @ [1.0, 0.0, 2.0, 0.0, 0.5, 3.0] + random.normal(0, 0.3, 30)
    found = fitted(rows, values)
    gradient = rows.T @ (values - rows @ found)
    assert (found >= 0).all()                               # the conditions of the optimum
    assert np.abs(gradient[found > 0]).max() < 1e-6 and gradient[found == 0].max(initial=0) < 1e-6


def test_an_interval_holds_nine_of_ten():
    assert quantile([float(n) for n in range(1, 20)]) == 18     # of 19 the 18th
    assert quantile([3.0, 1.0]) == 3                            # too few to say so
    assert rounded(12345.678) == 12350 and rounded(0.00123456) == 0.001235


@pytest.mark.parametrize("cell, gates", [
    ("$_NAND_", 1), ("$_NOT_", 0.5), ("$_XOR_", 3), ("$_MUX_", 3), ("$_DFF_P_", 4),
    ("TRELLIS_FF", 4), ("$_DFFE_PP_", 7), ("$_SDFF_PP0_", 5.5), ("$_SDFFE_PP0P_", 8.5)])
def test_gates_count_by_their_transistors(cell, gates):
    assert nand2(cell) == gates


def test_a_memory_is_no_gate():
    with pytest.raises(KeyError):
        nand2("$mem_v2")


def test_runs_are_read_as_they_were_written(tmp_path):
    spec = MachineSpec(preset("tiny-1x4x4").values(), "argmax.py", ("lookup",))
    run = Synthesis(spec, "hash", True, {"load.front": {"LUT4": 3}}, "yosys 1", "load")
    path = tmp_path / "data" / "area.jsonl"
    append(run, path)
    append(run, path)
    assert syntheses(path) == (run, run)
    assert {one.name for one in spec.machine.declarations} >= {"argmax", "gemm"}
    assert "lookup" not in {one.name for one in spec.machine.declarations}


def test_machines_are_drawn_alike_each_time():
    assert drawn(3) == drawn(3) != drawn(4)
    held_back = [spec for spec, held in specs() if held]
    assert len(held_back) == 13
    assert sum(bool(spec.declared) for spec in held_back) >= 3


def test_cells_count_for_the_parts_that_they_are_named_after(tmp_path):
    path = tmp_path / "top.json"
    cells = {"core.load.front": "$scopeinfo", "core.load": "$scopeinfo", "core.inp": "$scopeinfo",
             "core.inp.slice0": "$scopeinfo", "core.load.front.nest.a": "LUT4",
             "core.load.b": "CCU2C", "core.inp.slice0.c": "DP16KD", "core.d": "TRELLIS_FF",
             "chain": "TRELLIS_FF", "base_LUT4_Z": "LUT4", "core.load.front.e": "PFUMX"}
    path.write_text(json.dumps({"modules": {"top": {"cells": {
        name: {"type": kind} for name, kind in cells.items()}}}}))
    assert {part: dict(found) for part, found in bare_core.parts_of(path).items()} == {
        "load.front": {"LUT4": 1}, "load": {"CCU2C": 1}, "inp": {"DP16KD": 1},
        "core": {"TRELLIS_FF": 1, "LUT4": 1}}


def test_wrong_requests(capsys):
    assert estimates.BENCH.main(["--only", "gates", "--machine", "pynq-1x16x16"]) == 2
    assert capsys.readouterr().err == (
        "bench accelerator.estimates: Machine pynq-1x16x16 must be one of the runs in "
        f"{DATA / 'area.jsonl'}\n")
