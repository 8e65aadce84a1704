"""Spoiled ONNX files: each is refused in one line or runs as ONNX Runtime has it."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench import mutated_onnx
from bench.mutated_onnx import judge, run
from bench.onnx_mutations import MODELS, MUTATIONS, write


def test_the_models_themselves_run(tmp_path: Path, monkeypatch) -> None:
    """So it is the mutation that is refused."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(mutated_onnx, "MUTATIONS", (lambda rng, folder: None,))
    verdicts = run(len(MODELS), 0)
    assert [(one.model, one.outcome) for one in verdicts] == [(name, "equal") for name in MODELS]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=[one.__name__ for one in MUTATIONS])
def test_every_mutation_changes_files(mutate, tmp_path: Path) -> None:
    changed = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        write("external", folder)
        before = contents(folder)
        mutate(np.random.default_rng(seed), folder)
        changed += contents(folder) != before
    assert changed >= 5


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_mutants_are_refused_or_right() -> None:
    """One of each kind for half of the models. Without ONNX Runtime its part is not judged."""
    pytest.importorskip("onnxruntime")
    numbers = range(0, len(MODELS) * len(MUTATIONS), 2)
    verdicts = run(0, 7, numbers=numbers)
    assert [one for one in verdicts if one.outcome == "wrong"] == []
    counted = Counter(one.outcome for one in verdicts)
    assert counted["refused"] > 10 and counted["equal"] > 2


@pytest.mark.parametrize(("fault", "said"), [
    (lambda: [][0], "IndexError"),
    (lambda: print("lockstep: error: a\nb", file=sys.stderr) or 2, "status 2 with "),
    (lambda: print("no") or 2, "status 2 with "),
    (lambda: bytearray(5 << 30) and 0, "MemoryError"),
    (lambda: 1, "ended with 1: "),
], ids=["traceback", "two lines", "output", "memory", "status 1"])
def test_a_command_that_does_wrong_is_seen(fault, said: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(mutated_onnx, "_command", lambda arguments: fault())
    verdict = judge(0, 0, tmp_path)
    assert verdict.outcome == "wrong" and said in verdict.detail


def test_a_command_that_hangs_is_stopped(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(mutated_onnx, "SECONDS", 1)
    monkeypatch.setattr(mutated_onnx, "_command", lambda arguments: spin())
    verdict = judge(0, 0, tmp_path)
    assert verdict.outcome == "wrong" and "SIG" in verdict.detail


def spin() -> int:
    while True:
        pass


def test_wrong_values_are_seen(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("onnxruntime")
    real = mutated_onnx._command

    def another(arguments) -> int:
        model = onnx.load(arguments[1])
        model.graph.node[2].op_type = "Sigmoid"
        onnx.save(model, arguments[1])
        status = real(arguments)
        write("convolutions", tmp_path)
        return status

    monkeypatch.setattr(mutated_onnx, "_command", another)
    monkeypatch.setattr(mutated_onnx, "MUTATIONS", (lambda rng, folder: None,))
    verdict = judge(0, 0, tmp_path)
    assert verdict.outcome == "wrong" and "off by" in verdict.detail


@pytest.mark.slow
def test_all_mutants() -> None:
    pytest.importorskip("onnxruntime")
    assert mutated_onnx.main([]) == 0
