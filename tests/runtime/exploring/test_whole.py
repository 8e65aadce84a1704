"""Explorations of whole inferences: networks quantized for each machine, and the host's part."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from accel.machine.loading import load_machine
from compiler.tune.records import Records
from runtime.driver.calibrated import Calibration
from runtime.driver.quantization import quantize
from runtime.exploring import Exploration, MachineSpace, axis_of, objectives_of, run_point
from runtime.exploring.answers import answer_of
from runtime.exploring.networks import ExploredNetwork
from runtime.exploring.points import AddedInstructions
from tests.support.whole import write_case

BASE = "tiny-1x4x4"


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("case")
    write_case(folder)
    for machine in (BASE, "addrelu.py"):
        named = str(folder / machine) if machine.endswith(".py") else machine
        quantize(folder / "net.onnx", folder / "x.npz", machine=named).save(
            folder / f"for-{machine}.onnx")
    return folder


def explored(case: Path, network: ExploredNetwork, varied: Sequence[str] = (),
             added: Sequence[str] = (), **options) -> Exploration:
    space = MachineSpace(load_machine(BASE), BASE, [axis_of(text) for text in varied],
                         [AddedInstructions.of(str(case / source)) for source in added])
    with Records(case / "none.sqlite") as records:
        found = Exploration(space, [network], objectives_of(["ms", "energy"]), records,
                            table="45nm", **options)
        found.run(lambda trials: ((trial, run_point(trial)) for trial in trials))
        return found


def in_float(case: Path, **options) -> ExploredNetwork:
    return ExploredNetwork.of("net", case / "net.onnx", Calibration((case / "x.npz",), **options))


def cycles_of(found: Exploration) -> dict[str, int]:
    return {point["label"]: point["networks"]["net"]["cycles"]
            for point in answer_of(found)["points"]}


# ---- networks in float ------------------------------------------------------------------------

def test_an_added_instruction_gains_what_quantizing_for_each_machine_gives(case: Path) -> None:
    found = explored(case, in_float(case), added=["addrelu.py"])
    fair = cycles_of(found)
    for machine, label in ((BASE, "base"), ("addrelu.py", "+addrelu")):
        alone = explored(case, ExploredNetwork.of("net", case / f"for-{machine}.onnx"),
                         added=["addrelu.py"])
        assert fair[label] == cycles_of(alone)[label]
    unfair = explored(case, ExploredNetwork.of("net", case / "for-addrelu.py.onnx"),
                      added=["addrelu.py"])
    gain, wrong_gain = (cycles["+addrelu"] / cycles["base"]
                        for cycles in (fair, cycles_of(unfair)))
    assert wrong_gain < 0.9 < gain          # the base had to emulate the other machine's


def test_machines_that_are_one_to_the_quantizer_share_a_network(case: Path) -> None:
    network = in_float(case)
    found = explored(case, network, ["wgt=same,double"], ["addrelu.py"])
    assert len(found.measured) == 4 and network.calibration is not None
    assert network.calibration.count == 2
    line, = answer_of(found)["quantized"]
    assert line == (f"net: quantized for each machine; machines here: {len(found.measured)}, "
                    f"different networks: 2")


def test_accuracy_is_that_of_the_quantizer(case: Path) -> None:
    found = explored(case, in_float(case), ["clock_mhz=50"])
    wanted = quantize(case / "net.onnx", case / "x.npz", machine=BASE).decibels
    assert [point["values"]["accuracy"][0] for point in answer_of(found)["points"]] == [wanted] * 2


def test_what_the_quantizer_refuses_is_no_point(case: Path) -> None:
    found = explored(case, in_float(case, options={"activation_bits": 8}),
                     ["machine=examples/machines/int16.py"])
    (_, reason), = found.failed.values()
    assert reason.startswith("net: activation bits must be 16 for machine ")


# ---- the host ---------------------------------------------------------------------------------

def test_a_machine_that_leaves_layers_to_the_host_is_not_better(case: Path) -> None:
    found = explored(case, in_float(case), [f"machine={BASE},{case / 'no_max.py'}"])
    base, other = (figures for _, figures in found.measured.values())
    for objective in objectives_of(["ms", "energy"]):
        assert objective.of(other).value >= objective.of(base).value


def test_points_that_divide_otherwise_are_told_and_can_be_refused(case: Path) -> None:
    network = ExploredNetwork.of("net", case / "for-addrelu.py.onnx")
    varied = [f"machine={BASE},{case / 'no_max.py'}"]
    base, other = answer_of(explored(case, network, varied))["points"]
    assert base["other_division"] == "" and base["host_layers"] == 0
    assert other["other_division"] == "net: relu on the host, not the accelerator"
    assert other["host_layers"] == 1 and other["host_share"] > base["host_share"] > 0
    strict = explored(case, network, varied, same_division=True)
    assert len(strict.measured) == 1
    assert [reason for _, reason in strict.failed.values()] == [
        f"--same-division: {other['other_division']}"]


def test_ms_and_energy_are_of_the_whole(case: Path) -> None:
    point, = answer_of(explored(case, ExploredNetwork.of("net", case / f"for-{BASE}.onnx"),
                                ["block_out=same"]))["points"]
    part, values = point["networks"]["net"], point["values"]
    beside = part["host_seconds"] + part["copy_seconds"]
    assert values["host_ms"][0] == pytest.approx(1e3 * beside)
    assert values["ms"][0] == pytest.approx(part["cycles"] / values["mhz"][0] / 1e3 + 1e3 * beside)
    assert values["energy"][0] == pytest.approx(1e6 * (part["joules"] + part["host_joules"]))
    assert values["cycles"][0] == part["cycles"]


def test_a_file_for_another_machine_is_told(case: Path) -> None:
    found = explored(case, ExploredNetwork.of("net", case / "for-addrelu.py.onnx"),
                     added=["addrelu.py"])
    note, = answer_of(found)["made_for"]
    assert note.startswith("net was quantized by Lockstep ")
    assert " for tiny-1x4x4 with addrelu: " in note
    assert note.endswith(": 1 of 2 machines here")
