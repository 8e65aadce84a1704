"""The figures of the proof, of a small network in ResNet-50's place; and that network's shape."""

import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from accel.proof.legal import IllegalProgram, prove
from bench.simulators import proof
from tests.support.networks import convolution_graph, resnet50_graph
from compiler.graph import verify

MACHINE = Machine(preset("tiny-1x4x4"))


def small(size: int):
    return convolution_graph(8, 8, size, seed=0)


def test_a_lost_token_is_both_its_ends():
    program = AccelTarget(MACHINE).compile(small(9)).program
    with pytest.raises(IllegalProgram) as caught:
        prove(MACHINE, proof.lose_token(MACHINE, program))
    assert {violation.kind for violation in caught.value.violations} == {"unordered"}


def test_the_command_prints_its_figures(monkeypatch, capsys):
    monkeypatch.setattr(proof, "resnet50_graph", small)
    wanted = ["--only", "time", "--machine", "tiny-1x4x4", "--size", "9"]
    assert proof.BENCH.main(wanted) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == [
        "proof_instructions", "proof_seconds", "proof_refusal_seconds"]
    assert lines[3].startswith("Program must be legal under every timing, but has ")

    monkeypatch.setattr(proof, "lose_token", lambda machine, program: program)
    assert proof.BENCH.main(wanted) == 1


def test_resnet50_has_its_shape():
    graph = verify(resnet50_graph(64))
    ops = [node.op for node in graph.nodes]
    assert (ops.count("qconv2d"), ops.count("qadd")) == (54, 16)        # dense as a convolution
    assert graph.values[graph.outputs[0]].shape == (1, 1000, 1, 1)
    weights = sum(array.size for array in graph.constants.values() if array.ndim == 4)
    assert weights == 25_502_912
