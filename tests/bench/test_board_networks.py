"""Networks on the emulated board, as a command."""

import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from bench.fpga import boards as bench

TINY = Machine(preset("tiny-1x4x4"))


@pytest.mark.parametrize("arguments, text", [
    (["--machine", "nope"], "bench fpga.boards: Machine must be one of "),
    (["--only", "lenet"], "--only must be of axi4, digits, keywords, "),
    (["--spoil", "0.5"], "--spoil must be 0 to 0.05, not 0.5")])
def test_wrong_requests(capsys, arguments, text):
    assert bench.BENCH.main(arguments) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("found, right", [
    ({"equal": 3, "inputs": 3, "broken_rules": 0}, True),
    ({"equal": 2, "inputs": 3, "broken_rules": 0}, False),
    ({"equal": 3, "inputs": 3, "broken_rules": 1}, False),
    ({"reported": 1, "seconds": 0.3, "equal": 1}, True),
    ({"reported": 1, "seconds": 5.1, "equal": 1}, False),
    ({"reported": 0, "seconds": 0.0, "equal": 0}, False),
    ({"reported": 1, "seconds": 0.3, "equal": 0}, False)])
def test_what_is_right(found, right):
    assert bench._right(found) == right


@pytest.mark.slow
def test_the_block_is_cut_out():
    graph = bench.resnet18_block(32).graph
    dims = [[one.dim_value for one in value.type.tensor_type.shape.dim]
            for value in (*graph.input, *graph.output)]
    assert dims == [[1, 64, 8, 8], [1, 64, 8, 8]]
    kinds = [node.op_type for node in graph.node]
    assert (kinds.count("Conv"), kinds.count("Add")) == (2, 1)


@pytest.mark.slow
def test_digits_on_a_bad_line_and_a_reset():
    found = bench.measure("digits", TINY, 3, 1e-3)
    assert bench._right(found) and found["spoiled"] and found["repeated"]
    assert found["cycles"] > 3 * 5000 and found["link_bytes"] > 3 * 64
    assert bench._right(bench.measure_reset(TINY))
