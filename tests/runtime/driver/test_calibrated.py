"""Float networks quantized for several machines: what is shared, what accuracy is, what is told."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.quantizing import machine_fingerprint
from compiler.errors import ArgumentError
from compiler.quantize import QuantizeRefused
from compiler.quantize.made_for import UNNAMED, made_for
from examples.machines.fp8 import instructions
from runtime.driver.calibrated import Calibration, origin_note
from runtime.driver.quantization import quantize
from tests.lockstep import test_own_constants as own_constants, test_own_terms as own_terms
from tests.support.whole import write_case

TINY = load_machine("tiny-1x4x4")

METRIC = """
def error(outputs, wanted):
    return -abs(outputs["y"] - wanted["y"]).max()

def labelled(outputs, wanted):
    return wanted["label"].sum()

def endless(outputs, wanted):
    return float("nan")

number = 1
"""


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("case")
    write_case(folder)
    with np.load(folder / "x.npz") as arrays:
        np.savez(folder / "held.npz", x=arrays["x"][:2] / 4, label=np.array([3, 4]))
    (folder / "metric.py").write_text(METRIC)
    return folder


def accuracy_of(case: Path, **options) -> float:
    return Calibration((case / "x.npz",), **options).quantized(case / "net.onnx", TINY).accuracy


def test_accuracy_is_of_held_out_samples(case: Path) -> None:
    held, own = accuracy_of(case, held_out=(case / "held.npz",)), accuracy_of(case)
    assert own == quantize(case / "net.onnx", case / "x.npz", machine=TINY).decibels
    assert held == pytest.approx(own - 20 * np.log10(4), abs=3)     # a fourth of the signal
    assert accuracy_of(case, held_out=(case / "x.npz",)) == pytest.approx(own)


def test_a_metric_sees_outputs_floats_and_labels(case: Path) -> None:
    metric = {"held_out": (case / "held.npz",)}
    assert accuracy_of(case, metric=f"{case / 'metric.py'}:labelled", **metric) == 7
    error = accuracy_of(case, metric=f"{case / 'metric.py'}:error", **metric)
    assert -0.2 < error < 0


@pytest.mark.parametrize(("metric", "message"), [
    ("metric.py:number", "must name a function of .*metric.py, not 'number'$"),
    ("metric.py", "--metric must be FILE.py:NAME of a file that exists, not "),
    ("none.py:error", "--metric must be FILE.py:NAME of a file that exists, not "),
    ("metric.py:endless", "must give a finite number, not nan$"),
    ("metric.py:labelled", "must give a number, but fails: KeyError: 'label'$")])
def test_wrong_metrics(case: Path, metric: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        calibration = Calibration((case / "x.npz",), metric=str(case / metric))
        calibration.require_metric()
        calibration.quantized(case / "net.onnx", TINY)


def test_samples_that_lack_an_input_are_refused(case: Path) -> None:
    np.savez(case / "other.npz", z=np.zeros((2, 4, 8, 8), np.float32))
    with pytest.raises(QuantizeRefused, match="calibration set must hold x, not nothing$"):
        Calibration((case / "other.npz",)).quantized(case / "net.onnx", TINY)


def test_only_what_the_quantizer_takes_tells_machines_apart(case: Path) -> None:
    quicker = replace(TINY, config=replace(TINY.config, clock_mhz=500, wgt_bytes=1 << 16))
    addrelu, no_max = (load_machine(case / name) for name in ("addrelu.py", "no_max.py"))
    prints = list(map(machine_fingerprint, (TINY, quicker, no_max, addrelu)))
    assert prints[0] == prints[1] == prints[2] != prints[3]


def test_types_of_floats_tell_machines_apart(case: Path) -> None:
    """One set of options serves machines of integers and of floats."""
    same, other = (Machine(TINY.config, instructions("float8_e4m3fn", weight)) for weight in (
        "float8_e4m3fn", "float8_e5m2"))
    assert len({machine_fingerprint(machine) for machine in (TINY, same, other)}) == 3
    calibration = Calibration((case / "x.npz",), {"observer": "mse"})
    found = calibration.quantized(case / "net.onnx", other)
    assert found.quantized and 10 < found.accuracy < accuracy_of(case)


def test_immediates_tell_machines_apart(case: Path) -> None:
    text = (case / "addrelu.py").read_text()
    (case / "same.py").write_text(text.replace("ma, mb, s = add", "(ma, mb, s) = add"))
    (case / "other.py").write_text(text.replace('"zp": out.zp', '"zp": out.zp + 1'))
    machines = [load_machine(case / name) for name in ("addrelu.py", "same.py", "other.py")]
    prints = list(map(machine_fingerprint, machines))
    assert prints[0] == prints[1] != prints[2]


def test_patterns_of_every_kind_have_a_fingerprint() -> None:
    machines = [own_constants.MACHINE, own_terms.MACHINE, TINY]
    assert len(set(map(machine_fingerprint, machines))) == 3


def test_a_file_says_for_which_machine_it_was_made(case: Path) -> None:
    addrelu, file = load_machine(case / "addrelu.py"), case / "for-addrelu.onnx"
    quantize(case / "net.onnx", case / "x.npz", machine=addrelu).save(file)
    found = made_for(file)
    assert found["machine"] == "tiny-1x4x4 with addrelu" and found["version"]
    assert found["machine_fingerprint"] == machine_fingerprint(addrelu)
    assert origin_note("net", file, [addrelu]) == ""
    assert origin_note("net", file, [TINY]).startswith(
        f"net was quantized by Lockstep {found['version']} for tiny-1x4x4 with addrelu: ")


def test_a_file_without_metadata_may_show_its_origin(case: Path) -> None:
    file, plain = case / "unnamed.onnx", case / "plain.onnx"
    quantize(case / "net.onnx", case / "x.npz", machine=case / "addrelu.py").save(file)
    model = onnx.load(file)
    del model.metadata_props[:]
    onnx.save(model, file)
    assert made_for(file)["machine"] == UNNAMED
    quantize(case / "net.onnx", case / "x.npz").save(plain)
    assert "machine" not in made_for(plain) and origin_note("net", plain, [TINY]) == ""


def test_files_that_are_no_models_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"\xff" * 9)
    assert made_for(tmp_path / "no.onnx") == made_for(tmp_path / "none.onnx") == {}
