"""A training that continues from a checkpoint gives the same bits; what is not whole is refused."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import compiler.files
import lockstep
from runtime.driver.checkpoints import CheckpointError, read_checkpoint, write_checkpoint
from runtime.driver.courses import Course, DataError
from tests.support.training_models import CLASSES, ROWS, model_of

STEPS = 12


def network() -> lockstep.Trainer:
    """A batch norm and a dropout, so that a step depends on statistics, moments and the counter."""
    rng = np.random.default_rng(2)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)     # noqa: E731
    nodes = [helper.make_node("Gemm", ["x", "w"], ["m"], "first"),
             helper.make_node("BatchNormalization", ["m", "scale", "bias", "mean", "variance"],
                              ["n"], "norm"),
             helper.make_node("Dropout", ["n", "ratio"], ["d"], "drop"),
             helper.make_node("Gemm", ["d", "v"], ["y"], "second")]
    model = model_of(nodes, (ROWS, 6), {
        "w": draw(6, 8), "v": draw(8, CLASSES), "scale": draw(8), "bias": draw(8),
        "mean": draw(8), "variance": draw(8) ** 2, "ratio": np.array(0.5, np.float32)})
    net = lockstep.trainable(model, seed=7)
    return lockstep.Trainer(lockstep.cross_entropy(net.graph, "y"), parameters=net.parameters,
                            statistics=net.statistics, counter=net.counter,
                            optimizer=lockstep.Adam(rate=0.05))


@pytest.fixture(scope="module")
def trainer() -> lockstep.Trainer:
    return network()


@pytest.fixture
def course(trainer: lockstep.Trainer, tmp_path: Path) -> Iterator[Course]:
    """From the first step, with rows that are drawn; the trainer is as before afterwards."""
    before = trainer.state
    yield course_of(trainer, tmp_path / "c")
    trainer.restore(before, 0)


def course_of(trainer: lockstep.Trainer, path: Path) -> Course:
    rng = np.random.default_rng(1)
    arrays = {"x": rng.standard_normal((18, 6)).astype(np.float32),
              "labels": rng.integers(0, CLASSES, 18)}
    return Course(trainer, lambda first: lockstep.batches(arrays, ROWS, epochs=3, seed=5,
                                                          first=first),
                  lockstep.LearningRates("cosine", steps=STEPS, warm_up=2), path, 5,
                  {"data": "rows"})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", [5, 7])
def test_what_continues_gives_the_same_bits(course: Course, end: int) -> None:
    """Also from between two epochs; an end that is no multiple of `every` is kept as well."""
    trainer, before = course.trainer, course.trainer.state
    course.run()
    whole, losses = trainer.state, course.losses
    assert trainer.steps == STEPS == len(losses)
    trainer.restore(before, 0)
    course_of(trainer, Path(str(course.checkpoint))).run(end)
    trainer.restore(before, 0)
    again = course_of(trainer, Path(str(course.checkpoint)))
    again.resume()
    assert trainer.steps == end and again.losses == losses[:end]
    again.run()
    assert again.losses == losses and again.rates == course.rates
    assert {name: array.tobytes() for name, array in trainer.state.items()} == {
        name: array.tobytes() for name, array in whole.items()}


def test_data_that_fail_keep_the_last_checkpoint(course: Course) -> None:
    given = [*course.draw(0)]

    def failing(first: int) -> Iterator[Mapping[str, np.ndarray]]:
        yield from given[first:7]
        raise OSError("the disk is gone")

    course.draw = failing
    message = (f"the data failed in batch 8: OSError: the disk is gone; {str(course.checkpoint)!r} "
               "has the training after 5 steps")
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        course.run()
    assert read_checkpoint(str(course.checkpoint))[1]["steps"] == 5


def test_other_data_are_refused(course: Course) -> None:
    course.run(5)
    again = course_of(course.trainer, Path(str(course.checkpoint)))
    again.resume()
    drawn = again.draw
    again.draw = lambda first: drawn(first + 1)
    with pytest.raises(DataError, match="^batch 5 of the data must be that of the checkpoint, and "
                                        "is another one; data must be the same from run to run$"):
        again.run()


def test_another_training_is_refused(course: Course) -> None:
    course.run(5)
    again = course_of(course.trainer, Path(str(course.checkpoint)))
    again.identity = {"data": "others"}
    with pytest.raises(CheckpointError, match="is of a training with data rows, not others$"):
        again.resume()
    with pytest.raises(lockstep.ArgumentError, match="^state must be of this training, and "
                                                     "differs in more$"):
        course.trainer.restore({**course.trainer.state, "more": np.zeros(1)}, 0)


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    arrays = {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3), "facts": np.array(1)}
    write_checkpoint(path, arrays, {"steps": 3})
    read, facts = read_checkpoint(path)
    assert facts == {"steps": 3} and read.keys() == arrays.keys()
    np.testing.assert_array_equal(read["a/b"], arrays["a/b"])
    data = path.read_bytes()
    for wrong in (data[:-1], data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]):
        path.write_bytes(wrong)
        with pytest.raises(CheckpointError, match="is not whole: its content has another SHA-256"):
            read_checkpoint(path)
    path.write_bytes(b"PK\3\4")
    with pytest.raises(CheckpointError, match="must be a checkpoint of lockstep train$"):
        read_checkpoint(path)
    with pytest.raises(CheckpointError, match="cannot be read: No such file or directory$"):
        read_checkpoint(tmp_path / "none")


def test_a_checkpoint_is_on_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch) -> None:
    done: list[str] = []
    sync, replace = compiler.files.os.fsync, compiler.files.os.replace
    monkeypatch.setattr(compiler.files.os, "fsync",
                        lambda descriptor: (done.append("fsync"), sync(descriptor)))
    monkeypatch.setattr(compiler.files.os, "replace",
                        lambda *paths: (done.append("replace"), replace(*paths)))
    write_checkpoint(tmp_path / "c", {}, {})
    assert done == ["fsync", "replace", "fsync"]


def test_the_layer_that_makes_nan_is_named() -> None:
    """The square root of a product that a large rate makes negative."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"], "scale"),
             helper.make_node("Sqrt", ["m"], ["y"], "root")]
    net = lockstep.trainable(model_of(nodes, (2, 3), {"w": np.ones(3, np.float32)}))
    trainer = lockstep.Trainer(lockstep.mean_squared_error(net.graph, "y"), optimizer=lockstep.Sgd(
        rate=50.0), parameters=net.parameters)
    batch = {"x": np.full((2, 3), 4, np.float32), "target": np.zeros((2, 3), np.float32)}
    trainer.step(batch)
    before = trainer.state
    message = ("step 1: the loss must be a number, not nan; root (sqrt) is the first to make NaN; "
               "a lower rate than 50 may help")
    with pytest.raises(lockstep.TrainingError, match=f"^{re.escape(message)}$"):
        trainer.step(batch)
    assert trainer.steps == 1
    np.testing.assert_array_equal(trainer.state["w"], before["w"])


def test_a_gradient_that_is_none_ends_training_before_weights_are_lost() -> None:
    """sqrt has an infinite slope at 0, where the loss is a number."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"], "scale"),
             helper.make_node("Sqrt", ["m"], ["y"], "root")]
    net = lockstep.trainable(model_of(nodes, (2, 3), {"w": np.ones(3, np.float32)}))
    trainer = lockstep.Trainer(lockstep.mean_squared_error(net.graph, "y"),
                               parameters=net.parameters)
    with pytest.raises(lockstep.TrainingError,
                       match=r"^step 0: w must stay numbers; scale\.gradient"):
        trainer.step({"x": np.zeros((2, 3), np.float32), "target": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(trainer.parameters["w"], 1)
