"""``lockstep tune``: tasks of a network are measured, kept and used; on the CPU and on OpenCL."""

import json
from html import escape
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.tune.records import Records
from lockstep.cli import main


DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def network(path: Path, size: int = 10) -> Path:
    """A convolution and a product of float32."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((16, 4, 3, 3)), "m": rng.standard_normal((16, 24))}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("GlobalAveragePool", ["c"], ["g"]),
             helper.make_node("Flatten", ["g"], ["f"]),
             helper.make_node("MatMul", ["f", "m"], ["y"])]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, size, size))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 24))],
        [numpy_helper.from_array(array.astype(np.float32), name)
         for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)
    return path


def tune(tmp_path: Path, *options: str) -> tuple[int, list[dict]]:
    status = main(["tune", str(network(tmp_path / "small.onnx")), "--db", str(tmp_path / "r.db"),
                   "--json", str(tmp_path / "r.json"), "--pool", "none", *options])
    return status, json.loads((tmp_path / "r.json").read_text())["tasks"]


def test_tasks_of_the_cpu_are_measured_and_used(tmp_path: Path, capsys) -> None:
    status, tasks = tune(tmp_path, "--trials", "14", "--report", str(tmp_path / "page.html"))
    assert status == 0
    out = capsys.readouterr().out
    assert "small.onnx for cpu: 14 trials, seed 0" in out and "products of convolution" in out
    assert sum(task["trials"] for task in tasks) == 14
    page = (tmp_path / "page.html").read_text()
    assert all(escape(task["title"]) in page for task in tasks) and "Estimate against" in page
    assert all(len(task["values"]) == len(task["estimates"]) == task["trials"] for task in tasks)
    assert {task["target"] for task in tasks} == {"cpu"} and len(tasks) >= 3
    assert all(task["best"] <= task["own"] for task in tasks)
    with Records(tmp_path / "r.db") as records:
        best = {record.task.digest: record.plan for record in records.every_best()}
    assert best.keys() == {task["digest"] for task in tasks}
    arrays = []
    for plans in ((), ("--plans", str(tmp_path / "r.db"))):
        output = tmp_path / "y.npz"
        assert main(["run", str(tmp_path / "small.onnx"), "--target", "cpu", "--output",
                     str(output), *plans]) == 0
        arrays.append(np.load(output)["y"])
    np.testing.assert_allclose(arrays[1], arrays[0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_workers_of_this_computer_measure(tmp_path: Path) -> None:
    status = main(["tune", str(network(tmp_path / "small.onnx")), "--db", str(tmp_path / "r.db"),
                   "--trials", "8"])
    with Records(tmp_path / "r.db") as records:
        assert status == 0 and len([*records]) >= 8


@pytest.mark.slow
def test_a_second_search_measures_nothing_again(tmp_path: Path) -> None:
    first = tune(tmp_path, "--trials", "9", "--strategy", "random")
    with Records(tmp_path / "r.db") as records:
        before = len([*records])
    assert tune(tmp_path, "--trials", "9", "--strategy", "random") == first
    with Records(tmp_path / "r.db") as records:
        assert len([*records]) == before


@pytest.mark.slow
def test_a_stream_of_the_accelerator_is_kept_and_used(tmp_path: Path, capsys) -> None:
    """With fewer cycles, exactly as many as the record says, and a program that is proved."""
    db, network = tmp_path / "r.db", str(DIGITS)
    assert main(["tune", network, "--target", "accel:tiny-1x4x4", "--trials", "30", "--db",
                 str(db), "--pool", "none", "--json", str(tmp_path / "r.json")]) == 0
    task, = json.loads((tmp_path / "r.json").read_text())["tasks"]
    assert task["best"] < task["own"] and task["unit"] == "cycles"
    assert task["values"] == sorted(task["values"], reverse=True)
    cycles = []
    for plans in ((), ("--plans", str(db))):
        assert main(["run", network, "--target", "accel:tiny-1x4x4", "--no-cache", "--json",
                     str(tmp_path / "run.json"), *plans]) == 0
        report = json.loads((tmp_path / "run.json").read_text())
        cycles.append(report["cycles"])
    assert cycles == [task["own"], task["best"]]


@pytest.mark.slow
def test_a_product_and_a_convolution_on_opencl(tmp_path: Path) -> None:
    status, tasks = tune(tmp_path, "--target", "opencl", "--trials", "8", "--patience", "8")
    assert status == 0 and sum(task["trials"] for task in tasks) == 8
    titles = " ".join(task["title"] for task in tasks)
    assert "conv2d" in titles and "matmul" in titles
    assert all(task["best"] is not None for task in tasks)


@pytest.mark.parametrize(("options", "message"), [
    (["--target", "auto:tiny-1x4x4"], "--target must name targets, not 'auto:tiny-1x4x4'"),
    (["--target", "metal"],
     "--target must name devices that are here, where plans can be measured, not metal"),
    (["--trials", "0"], "must be"),
    (["--pool", "nowhere"], "Address must be tcp://HOST:PORT or tls://HOST:PORT, not 'nowhere'"),
])
def test_requests_that_are_refused(tmp_path: Path, capsys, options: list[str], message: str
                                   ) -> None:
    assert main(["tune", str(network(tmp_path / "small.onnx")), "--db", str(tmp_path / "r.db"),
                 *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
