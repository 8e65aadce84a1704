"""The cycle simulator counts only where it was made for the hardware."""

from dataclasses import replace

import pytest

import accel.hw.core.core
from accel.hw.moving.load import Load
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, finish
from accel.machine.status import Run, Status
from accel.sim.checking import recording
from accel.sim.rtl.gateware import code_of, patches
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle, made_for

MACHINE = Machine(preset("tiny-1x4x4"))
COMMAND = "python -m accel.sim.checking.recording --write"


def test_it_was_made_for_this_hardware() -> None:
    assert made_for.hardware() == made_for.recorded(), (
        f"parts of accel.hw have changed: the slice of the RTL is simulated. Does the cycle "
        f"simulator still take their cycles? `{COMMAND}` compares, and records them")


def test_words_about_the_hardware_do_not_count() -> None:
    text = '"""Says something."""\n\n\ndef f(x):\n    """Says more."""\n    return x + 1   # one\n'
    other = "# A comment.\ndef f(x):\n\n    return x + 1\n"
    assert code_of(text) == code_of(other) == "def f(x):\n    return x + 1"
    assert code_of(other.replace("1", "2")) != code_of(other)


def test_nothing_is_patched() -> None:
    assert patches() == ()


class Other(Load):
    """The load unit, but not the one that the core is made from."""


def test_another_part_is_seen(monkeypatch) -> None:
    monkeypatch.setattr(accel.hw.core.core, "Load", Other, raising=False)
    assert patches() == (("accel.hw.core.core.Load", Other),)
    assert not made_for.is_of_now()


def test_another_function_of_a_part_is_seen(monkeypatch) -> None:
    def elaborate(self, platform):
        raise AssertionError

    monkeypatch.setattr(Load, "elaborate", elaborate)
    assert patches() == (("accel.hw.moving.load.Load.elaborate", elaborate.__code__),)


def test_what_is_put_back_counts_again(monkeypatch) -> None:
    for _ in range(2):
        assert patches() == ()
        with monkeypatch.context() as patched:
            patched.setattr(Load, "elaborate", lambda self, platform: None)
            assert len(patches()) == 1
            patched.setattr(accel.hw.core.core, "Load", Other, raising=False)
            assert len(patches()) == 2
    assert patches() == ()


@pytest.fixture
def other_hardware(monkeypatch) -> None:
    """The slice, which says what it was told."""
    def told(*arguments, **options) -> Run:
        return Run(Status.DONE, simulator=f"slice {sorted(options)}")

    monkeypatch.setattr(made_for, "recorded", lambda: "another hash")
    monkeypatch.setattr(slice_, "simulate", told)
    monkeypatch.setattr(slice_, "measure", told)


def test_other_hardware_is_never_simulated_without_a_word(other_hardware) -> None:
    program = AccelProgram.assemble(MACHINE, [finish()])
    run = cycle.simulate(MACHINE, program, values=False, timeline=True, latency=3)
    assert run.simulator.startswith("slice ") and "'timeline'" in run.simulator
    assert cycle.measure(MACHINE, program).simulator == "slice []"


def test_its_own_hardware_is() -> None:
    program = AccelProgram.assemble(MACHINE, [finish()])
    assert cycle.simulate(MACHINE, program).simulator == "cycle"
    assert cycle.measure(MACHINE, program).simulator == "cycle"


@pytest.mark.slow
def test_hardware_is_recorded_if_programs_agree(other_hardware, monkeypatch, tmp_path, capsys
                                                ) -> None:
    record = tmp_path / "made_for.toml"
    monkeypatch.setattr(made_for, "RECORD", record)
    monkeypatch.setattr(recording, "MACHINES", ["tiny-1x4x4"])
    monkeypatch.setattr(made_for, "record", lambda: record.write_text("written"))
    assert recording.main([]) == 1
    assert capsys.readouterr().out == (
        "the cycle simulator was made for other hardware: the slice is simulated\n")

    def late(*arguments, **options) -> Run:
        run = cycle.simulate_model(*arguments, **options)
        return replace(run, cycles=run.cycles + 1)

    monkeypatch.setattr(slice_, "simulate", late)
    assert recording.main(["--write", "--count", "1"]) == 1
    assert capsys.readouterr().out.startswith("tiny-1x4x4: cycle simulator and slice differ in ")
    assert not record.exists()
    monkeypatch.setattr(slice_, "simulate", cycle.simulate_model)
    assert recording.main(["--write", "--count", "1"]) == 0
    assert record.read_text() == "written"
