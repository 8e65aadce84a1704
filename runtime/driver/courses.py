"""A training from its first step to its last, or from a checkpoint on: to the same bits."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from compiler.errors import Error
from compiler.gradients.rates import LearningRates
from runtime.driver.checkpoints import CheckpointError, read_checkpoint, write_checkpoint
from runtime.driver.training import Arrays, Trainer

Draw = Callable[[int], Iterable[Arrays]]
"""The batches of a training, in order, from this number on."""

STATE, COURSE = "state ", ("losses", "rates")


class DataError(Error):
    """Batches that cannot be had: which, why, and from which step on a training may continue."""


@dataclass(slots=True)
class Course:
    """A training that goes on batch by batch, and what it has been so far.

    trainer : with a step for each batch.
    draw : gives the batches from a number on, the same ones each time.
    schedule : of the rate.
    checkpoint, every : the file that is written after so many steps and at the end; None for none.
    identity : what the training is, by words; a checkpoint of another one is refused.
    losses, rates : of each step, as it was before it and as it was taken.
    """

    trainer: Trainer
    draw: Draw
    schedule: LearningRates = field(default_factory=LearningRates)
    checkpoint: str | PathLike[str] | None = None
    every: int = 100
    identity: Mapping[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    _written: int = 0
    _batch: Arrays = field(default_factory=dict)
    _before: str = ""

    def run(self, steps: int | None = None) -> None:
        """Goes on until so many steps are done in all, or to the last batch; writes checkpoints.

        Raises TrainingError where the loss is no number any more, DataError where batches cannot
        be had; the last checkpoint then stays.
        """
        self._written = self.trainer.steps
        batches = self._batches()
        while steps is None or self.trainer.steps < steps:
            batch = next(batches, None)
            if batch is None:
                break
            self._step(batch)
            if self.trainer.steps % self.every == 0:
                self._write()
        if self._written < self.trainer.steps:
            self._write()

    def resume(self) -> None:
        """Continues from the checkpoint. Raises CheckpointError for one of another training."""
        assert self.checkpoint is not None
        arrays, facts = read_checkpoint(self.checkpoint)
        for name in dict.fromkeys((*facts["identity"], *self.identity)):
            then, now = (each.get(name) for each in (facts["identity"], self.identity))
            if then != now:
                raise CheckpointError(f"{str(self.checkpoint)!r} is of a training with {name} "
                                      f"{then}, not {now}")
        state = {name.removeprefix(STATE): array for name, array in arrays.items()
                 if name.startswith(STATE)}
        self.trainer.restore(state, facts["steps"])
        self.losses, self.rates = (arrays[name].tolist() for name in COURSE)
        self._before = facts["batch"]

    def _step(self, batch: Arrays) -> None:
        rate = self.trainer.optimizer.rate * self.schedule.share(self.trainer.steps)
        self.losses.append(self.trainer.step(batch, rate))
        self.rates.append(rate)
        self._batch = batch

    def _write(self) -> None:
        if self.checkpoint is None:
            return
        state = {f"{STATE}{name}": array for name, array in self.trainer.state.items()}
        course = {name: np.array(getattr(self, name)) for name in COURSE}
        write_checkpoint(self.checkpoint, {**state, **course}, {
            "identity": {**self.identity}, "steps": self.trainer.steps,
            "batch": _digest(self._batch)})
        self._written = self.trainer.steps

    def _batches(self) -> Iterator[Arrays]:
        """The batches that follow. The one before, if there is one, must be that of the checkpoint.
        """
        done = self.trainer.steps
        drawn = self._drawn(max(done - 1, 0))
        if done:
            before = next(drawn, None)
            if before is None or self._before not in ("", _digest(before)):
                raise DataError(f"batch {done} of the data must be that of the checkpoint, and is "
                                "another one; data must be the same from run to run")
        yield from drawn

    def _drawn(self, first: int) -> Iterator[Arrays]:
        batches = self._started(first)
        for number in range(first, 1 << 62):
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Error:
                raise
            except Exception as error:      # the data's own code may raise anything
                raise self._failed(number, error) from error
            yield batch

    def _started(self, first: int) -> Iterator[Arrays]:
        try:
            return iter(self.draw(first))
        except Error:
            raise
        except Exception as error:
            raise self._failed(first, error) from error

    def _failed(self, number: int, error: Exception) -> DataError:
        kept = f"; {str(self.checkpoint)!r} has the training after {self._written} steps" \
            if self.checkpoint is not None and self._written else ""
        return DataError(f"the data failed in batch {number + 1}: {type(error).__name__}: "
                         f"{error}{kept}")


def _digest(batch: Arrays) -> str:
    """A hash of all arrays of a batch."""
    found = hashlib.sha256()
    for name in sorted(batch):
        array = np.ascontiguousarray(batch[name])
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()
