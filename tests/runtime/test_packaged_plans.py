"""Plans that come with Lockstep: shipped examples are compiled by them, in as many cycles as they
say, and in fewer than without.
"""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import lockstep
from accel.machine.loading import load_machine
from accel.sim.timed import cycle
from compiler.plans import OWN, Plans, Recorder
from compiler.tune.best import PACKAGED, packaged
from compiler.tune.record import read_lines
from compiler.tune.records import Records
from lockstep.testing import zoo
from lockstep.cli import main
from lockstep.options.compilation import plans_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
MACHINES = ("pynq-1x16x16", "ecp5-1x8x8")
MOST_BYTES = 200_000
LEAST_GAIN = 0.005


def cycles(model: Path | onnx.ModelProto, machine: str, plans: Plans | None = None) -> int:
    module = lockstep.compile(model, f"accel:{machine}", cache=False, plans=plans)
    return sum(cycle.measure(one.device.machine, one.program).cycles for one in module.accelerated)


def values(machine: str) -> set[float | None]:
    """The cycles of all packaged streams of a machine."""
    return {record.result.value for record in read_lines(PACKAGED)
            if record.task.fingerprint == load_machine(machine).hash}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("machine", MACHINES)
def test_digits_take_the_cycles_of_their_packaged_plan(machine: str) -> None:
    """A compiler that refuses it, or makes something else of it, needs a new one."""
    tuned = cycles(DIGITS, machine)
    assert tuned in values(machine) and tuned <= (1 - LEAST_GAIN) * cycles(DIGITS, machine, OWN)


def test_a_plan_of_the_users_comes_first(tmp_path: Path) -> None:
    recorder, machine = Recorder(), MACHINES[0]
    own = cycles(DIGITS, machine, recorder)
    recorder.write(tmp_path / "plans.json")
    output, report = tmp_path / "m.lockstep", tmp_path / "r.json"
    assert main(["compile", str(DIGITS), "--target", f"accel:{machine}", "--no-cache", "--plans",
                 str(tmp_path / "plans.json"), "-o", str(output)]) == 0
    assert main(["run", str(output), "--no-values", "--json", str(report)]) == 0
    assert json.loads(report.read_text())["cycles"] == own > cycles(DIGITS, machine)


def test_a_record_of_the_users_comes_first(tmp_path: Path) -> None:
    packed = next(iter(read_lines(PACKAGED)))
    with Records(tmp_path / "r.db") as records:
        records.add(replace(packed, plan="mine"))
    plans = plans_of(Namespace(plans=str(tmp_path / "r.db")))
    assert plans.find(packed.task, lambda: "") == "mine" and plans.binds(packed.task)
    assert plans_of(Namespace(plans=None)).find(packed.task, lambda: "") == packed.plan
    assert plans_of(Namespace(plans="own")) is OWN


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_every_packaged_plan_is_that_of_an_example(machine: str) -> None:
    known = values(machine)
    found = {cycles(DIGITS, machine)} | {cycles(zoo.build(name, int8=True), machine)
                                         for name in ("keywords", "squeezenet", "mobilenet_v1")}
    assert known <= found


def test_the_file_is_small() -> None:
    records = read_lines(PACKAGED)
    assert PACKAGED.stat().st_size < MOST_BYTES and len(packaged().plans) == len(records) > 0
    assert {record.result.unit for record in records} == {"cycles"}     # exact everywhere


def test_the_command_takes_them_and_leaves_them(tmp_path: Path) -> None:
    sizes = []
    for plans in ((), ("--plans", "own")):
        output = tmp_path / "m.lockstep"
        assert main(["compile", str(DIGITS), "--target", "accel:ecp5-1x8x8", "--no-cache", "-o",
                     str(output), *plans]) == 0
        sizes.append(output.read_bytes())
    assert sizes[0] != sizes[1]
