"""Training: a network's constants that become better ones, step by step. ::

    trainer = Trainer(cross_entropy(model, "logits"), parameters=["w", "b"], optimizer=Adam())
    for batch in batches({"image": images, "labels": labels}, 64, epochs=10):
        loss = trainer.step(batch)
    module = compile(trainer.network(model), "cpu")
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from compiler.errors import ArgumentError, Error, called_by_name
from compiler.frontend.models import Model, graph_of
from compiler.gradients.origins import origin
from compiler.gradients.steps import Optimizer, Sgd, training_step, with_constants
from compiler.graph.graph import Graph
from runtime.driver.compilation import compile as compile_module
from runtime.driver.little_memory import arena_bytes, compiled_within
from runtime.module import InputError

Arrays = Mapping[str, np.ndarray]
FEW = 4             # names in a message


class TrainingError(Error, ArithmeticError):
    """A step whose loss or parameters are no numbers any more; all stays as it was before it."""


class Trainer:
    """Parameters of a network, and the compiled step that changes them.

    Parameters
    ----------
    model : a network as `lockstep.compile` takes it, with a value of one element that is lowered.
    of : the name of that value.
    parameters : names of constants of floats, those that are changed.
    optimizer : `Sgd` or `Adam`, with its numbers.
    statistics : constants that change beside the parameters, such as running means, and the value
        that takes the place of each after a step: those of `lockstep.trainable`.
    counter : the input that counts steps from 0, int64 []; the trainer has it.
    memory : the most bytes that activations may take, with their gradients and what kernels need;
        parameters and batch are not among them. Parts of the network are then computed twice in
        each step, to the same bits.
    target, options : as `lockstep.compile` has them, for the step.

    The same network, batches and rates give the same parameters to the bit on one processor.
    """

    def __init__(self, model: Model, of: str = "loss", *, parameters: str | Sequence[str],
                 optimizer: Optimizer | None = None, statistics: Mapping[str, str] | None = None,
                 counter: str = "", memory: int | None = None, target: str = "cpu", **options):
        self.optimizer = Sgd() if optimizer is None else optimizer
        self._names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
        self._statistics = tuple(statistics or ())
        step = training_step(model, of, self._names, self.optimizer, statistics, counter)
        compiled = partial(compile_module, target=target, **options)
        self._step, self.module = (
            (step, compiled(step.graph)) if memory is None
            else compiled_within(step, memory, compiled))
        if "accel" in str(target) and not self.module.accelerated:
            raise ArgumentError(f"target must be a processor or GPU, not {target!r}: no part of "
                                "the step runs on the accelerator")
        self._values = dict(self._step.first)
        self.steps = 0

    @property
    def activation_bytes(self) -> int:
        """The bytes in which a step computes all but the next parameters."""
        return arena_bytes(self.module)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters as they are now."""
        return {name: self._values[name].copy() for name in self._names}

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """The running statistics as they are now."""
        return {name: self._values[name].copy() for name in self._statistics}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All that the next step follows from besides batch, rate and `steps`: parameters,
        statistics, and what the optimizer remembers.
        """
        return {name: array.copy() for name, array in self._values.items()}

    def restore(self, state: Arrays, steps: int) -> None:
        """Continues from a `state` after so many steps. Raises ArgumentError for the state of
        another training.
        """
        types, wanted = ({name: (array.shape, array.dtype) for name, array in arrays.items()}
                         for arrays in (state, self._step.first))
        if types != wanted:
            different = sorted(name for name in types.keys() | wanted.keys()
                               if types.get(name) != wanted.get(name))
            raise ArgumentError(f"state must be of this training, and differs in "
                                f"{', '.join(different[:FEW])}")
        self._values, self.steps = {name: array.copy() for name, array in state.items()}, steps

    def step(self, batch: Arrays, rate: float | None = None) -> float:
        """Changes the parameters by one batch, the inputs of the network; returns the loss before
        that. The rate is the optimizer's unless it is given. Raises TrainingError.
        """
        for name in batch:
            if name in self._values or name in (self._step.rate, self._step.time):
                raise InputError(f"Input {name} must not be given: the trainer has it")
        rate = self.optimizer.rate if rate is None else rate
        given = {**batch, **self._values, self._step.rate: np.asarray(rate, np.float32),
                 self._step.time: np.asarray(self.steps, np.int64)}
        made = self.module(given)
        loss = float(made[self._step.graph.outputs[0]].reshape(()))
        following = {name: made[output] for name, output in self._step.next.items()}
        if not (np.isfinite(loss) and all(np.isfinite(array).all()
                                          for array in following.values())):
            raise self._failed(loss, following, given, rate)
        self._values = following
        self.steps += 1
        return loss

    def _failed(self, loss: float, following: Arrays, given: Arrays, rate: float
                ) -> TrainingError:
        """The error of a step that ends in no number: what made it."""
        wrong = f"the loss must be a number, not {loss}" if not np.isfinite(loss) else (
            f"{next(name for name, array in following.items() if not np.isfinite(array).all())} "
            "must stay numbers")
        by = origin(self._step.graph, given)
        return TrainingError(f"step {self.steps}: {wrong}{f'; {by}' if by else ''}; a lower rate "
                             f"than {rate:g} may help")

    def fit(self, batches: Iterable[Arrays]) -> list[float]:
        """A step for each batch; returns the losses."""
        return [self.step(batch) for batch in batches]

    def network(self, model: Model) -> Graph:
        """A network that has the parameters as constants, with their numbers of now: that without
        the loss, or one for another batch. Statistics take their places where it has them.
        """
        graph = graph_of(model)
        return with_constants(graph, self.parameters | {
            name: array for name, array in self.statistics.items() if name in graph.constants})


@called_by_name
def batches(arrays: Arrays, size: int, *, epochs: int = 1, seed: int = 0,
            first: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Batches of so many rows of all arrays alike, in an order that is drawn for each epoch. Rows
    that are left at the end of an epoch wait for the next draw. `first` batches are left out, as
    one does that continues.
    """
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or not 1 <= size <= min(counts.values()):
        raise ArgumentError(f"arrays must have as many rows each, at least the {size} of a batch, "
                            f"not {counts}")
    drawn = _drawn(next(iter(counts.values())), size, epochs, np.random.default_rng(seed))
    return ({name: array[rows] for name, array in arrays.items()}
            for rows in islice(drawn, first, None))


def _drawn(count: int, size: int, epochs: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The rows of each batch."""
    for _ in range(epochs):
        order = rng.permutation(count)
        for first in range(0, count - size + 1, size):
            yield order[first:first + size]
