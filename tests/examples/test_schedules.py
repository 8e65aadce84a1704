"""The examples of schedules: their texts, and that every step keeps the meaning."""

import numpy as np
import pytest

from accel.mapping.assembling import assemble
from accel.sim.meaning.functional import simulate
from compiler.ir import interpret
from compiler.schedule import Schedule
from examples.schedules import __main__ as show
from examples.schedules import accel_gemm

NAMES = sorted(show.EXAMPLES)
SLOW = {"depthwise_squares"}                # 8192 pixels, and as many programs as steps
FAST_FIRST = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_a_program_with_this_text(name, golden):
    golden(f"schedules/{name}.txt", show.EXAMPLES[name].text())


@pytest.mark.parametrize("name", FAST_FIRST)
def test_every_step_gives_what_numpy_does(name):
    assert list(show.EXAMPLES[name].differences()) == []


@pytest.mark.parametrize("name", FAST_FIRST)
def test_the_interpreter_says_the_same(name):
    example = show.EXAMPLES[name]
    inputs = example.inputs(1)
    found = interpret(example.scheduled().program, inputs)
    for output, array in example.reference(inputs).items():
        np.testing.assert_allclose(found[output], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_record_replays(name):
    example = show.EXAMPLES[name]
    steps = example.scheduled()
    again = Schedule.replay(example.program(), steps.text(), example.intrinsics)
    assert (again.program, again.text()) == (steps.program, steps.text())


def test_the_accelerator_runs_its_example():
    example, machine = show.EXAMPLES["accel_gemm"], accel_gemm.MACHINE
    inputs = example.inputs()
    program = assemble(machine, example.scheduled().program)
    run = simulate(machine, program, inputs=inputs)
    assert run.ok
    np.testing.assert_array_equal(program.extract(run.memory, "y"), example.reference(inputs)["y"])


def test_a_wrong_step_does_not_go_unnoticed(monkeypatch, capsys):
    example = show.EXAMPLES["vector_add"]
    wrong = type(example)(example.name, example.algorithm, example.schedule,
                          lambda x: {"c": x["a"] - x["b"]})
    monkeypatch.setitem(show.EXAMPLES, "vector_add", wrong)
    assert show.main(["vector_add"]) == 1
    assert capsys.readouterr().out.endswith("algorithm changes the result\n")


def test_command_shows_an_example(capsys):
    assert show.main(["transpose", "--cuda"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Algorithm: Row `i` of `t` is column `i` of `x`.\n\nSchedule: A block")
    assert "__shared__" in out and out.endswith("Every step gives what NumPy does.\n")


def test_command_lists_the_examples(capsys):
    assert show.main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(show.EXAMPLES)


def test_command_with_another_name_wrong(capsys):
    with pytest.raises(SystemExit) as caught:
        show.main(["conv"])
    assert caught.value.code == 2
    assert "argument name: invalid choice: 'conv'" in capsys.readouterr().err
