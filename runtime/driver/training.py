"""Training: a network's constants that become better ones, step by step. ::

    trainer = Trainer(cross_entropy(model, "logits"), parameters=["w", "b"], optimizer=Adam())
    for batch in batches({"image": images, "labels": labels}, 64, epochs=10):
        loss = trainer.step(batch)
    module = compile(trainer.network(model), "cpu")
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from compiler.errors import ArgumentError, Error, called_by_name
from compiler.frontend.models import Model, graph_of
from compiler.gradients.steps import Optimizer, Sgd, training_step, with_constants
from compiler.graph.graph import Graph
from runtime.driver.compilation import compile as compile_module
from runtime.module import InputError

Arrays = Mapping[str, np.ndarray]


class TrainingError(Error, ArithmeticError):
    """A step whose loss is no number any more; parameters stay as they were before it."""


class Trainer:
    """Parameters of a network, and the compiled step that changes them.

    Parameters
    ----------
    model : a network as `lockstep.compile` takes it, with a value of one element that is lowered.
    of : the name of that value.
    parameters : names of constants of floats, those that are changed.
    optimizer : `Sgd` or `Adam`, with its numbers.
    target, options : as `lockstep.compile` has them, for the step.

    The same network, batches and rates give the same parameters to the bit on one processor.
    """

    def __init__(self, model: Model, of: str = "loss", *, parameters: str | Sequence[str],
                 optimizer: Optimizer | None = None, target: str = "cpu", **options):
        self.optimizer = Sgd() if optimizer is None else optimizer
        self._names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
        self._step = training_step(model, of, self._names, self.optimizer)
        self._values = dict(self._step.first)
        self.module = compile_module(self._step.graph, target, **options)
        self.steps = 0

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters as they are now."""
        return {name: self._values[name].copy() for name in self._names}

    def step(self, batch: Arrays, rate: float | None = None) -> float:
        """Changes the parameters by one batch, the inputs of the network; returns the loss before
        that. The rate is the optimizer's unless it is given. Raises TrainingError.
        """
        for name in batch:
            if name in self._values or name in (self._step.rate, self._step.time):
                raise InputError(f"Input {name} must not be given: the trainer has it")
        rate = self.optimizer.rate if rate is None else rate
        scalars = {self._step.rate: np.float32(rate), self._step.time: np.int64(self.steps)}
        made = self.module({**batch, **self._values,
                            **{name: np.asarray(value) for name, value in scalars.items()}})
        loss = float(made[self._step.graph.outputs[0]].reshape(()))
        if not np.isfinite(loss):
            raise TrainingError(f"step {self.steps}: the loss must be a number, not {loss}; a "
                                f"lower rate than {rate:g} may help")
        self._values = {name: made[output] for name, output in self._step.next.items()}
        self.steps += 1
        return loss

    def fit(self, batches: Iterable[Arrays]) -> list[float]:
        """A step for each batch; returns the losses."""
        return [self.step(batch) for batch in batches]

    def network(self, model: Model) -> Graph:
        """A network that has the parameters as constants, with their numbers of now: that without
        the loss, or one for another batch.
        """
        return with_constants(graph_of(model), self.parameters)


@called_by_name
def batches(arrays: Arrays, size: int, *, epochs: int = 1,
            seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Batches of so many rows of all arrays alike, in an order that is drawn for each epoch. Rows
    that are left at the end of an epoch wait for the next draw.
    """
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or not 1 <= size <= min(counts.values()):
        raise ArgumentError(f"arrays must have as many rows each, at least the {size} of a batch, "
                            f"not {counts}")
    return _drawn(arrays, size, epochs, np.random.default_rng(seed))


def _drawn(arrays: Arrays, size: int, epochs: int,
           rng: np.random.Generator) -> Iterator[dict[str, np.ndarray]]:
    count = len(next(iter(arrays.values())))
    for _ in range(epochs):
        order = rng.permutation(count)
        for first in range(0, count - size + 1, size):
            rows = order[first:first + size]
            yield {name: array[rows] for name, array in arrays.items()}
