"""Networks that are trained as they are quantized: data, the network in float, and the training."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

import lockstep
from bench.inputs.spoken_words import utterances
from compiler.gradients.trainable import with_initializers
from compiler.quantize.quantizer import Quantized, quantize
from compiler.quantize.training.form import QuantizedTraining
from examples.digits.data import held_out, training
from examples.digits.from_scratch import SMOOTHING, shifted

CALIBRATED = 256
RATE, WARM_UP = 1e-3, 20
UTTERANCES, HELD_OUT_UTTERANCES = 2048, 600

Array = np.ndarray
Batch = dict[str, Array]


@dataclass(frozen=True)
class Lesson:
    """A trained network in float with one input, and data [N, ...] with labels [N].

    epochs, smoothing : of the training as quantized, by Adam along a cosine from `RATE` down to 0.
    varied : what is done to the rows of a batch before each step.
    """

    model: ModelProto
    name: str
    data: tuple[Array, Array]
    held_out: tuple[Array, Array]
    batch: int
    epochs: int
    smoothing: float = 0.0
    varied: Callable[[Array, np.random.Generator], Array] = lambda rows, rng: rows

    def quantized(self, options: Mapping[str, Any]) -> Quantized:
        """The network as it is quantized without training."""
        return quantize(self.model, self.data[0][:CALIBRATED], **options)

    def trained(self, net: QuantizedTraining[Quantized]) -> lockstep.Trainer:
        """A trainer that has gone through the data."""
        graph = lockstep.cross_entropy(net.graph, net.graph.outputs[0], smoothing=self.smoothing)
        trainer = lockstep.Trainer(graph, parameters=net.parameters, optimizer=lockstep.Adam(),
                                   statistics=net.statistics)
        fit(trainer, self, self.epochs, RATE)
        return trainer

    def share(self, module: lockstep.Module) -> float:
        """The share of the held-out rows whose largest output is right."""
        return float(np.mean(self.results(module).argmax(axis=1) == self.held_out[1]))

    def results(self, module: lockstep.Module) -> Array:
        """The outputs of the held-out rows, one by one."""
        return np.concatenate([next(iter(module({self.name: row[None]}).values()))
                               for row in self.held_out[0]])

    def batches(self, epochs: int) -> Iterator[Batch]:
        rng = np.random.default_rng(0)
        for batch in lockstep.batches({self.name: self.data[0], "labels": self.data[1]},
                                      self.batch, epochs=epochs):
            yield {**batch, self.name: self.varied(batch[self.name], rng)}


def fit(trainer: lockstep.Trainer, lesson: Lesson, epochs: int, rate: float) -> None:
    rates = lockstep.LearningRates("cosine", epochs * (len(lesson.data[0]) // lesson.batch),
                                   warm_up=WARM_UP)
    for batch in lesson.batches(epochs):
        trainer.step(batch, rate * rates.share(trainer.steps))


def digits() -> Lesson:
    """The network and the images of examples/digits; moved by up to a pixel, and labels smoothed,
    as in its training."""
    return Lesson(lockstep.testing.digits(int8=False), "image", training(), held_out(), 64, 20,
                  SMOOTHING, shifted)


def keywords() -> Lesson:
    """The network of keywords, trained from random weights on words that nobody has spoken."""
    model = lockstep.testing.keywords()
    lesson = Lesson(model, "features", utterances(UTTERANCES, 0),
                    utterances(HELD_OUT_UTTERANCES, 1), 32, 8)
    net = lockstep.trainable(model, lesson.batch)
    trainer = lockstep.Trainer(
        lockstep.cross_entropy(net.graph, "logits"), parameters=net.parameters,
        optimizer=lockstep.Adam(), statistics=net.statistics, counter=net.counter)
    fit(trainer, lesson, 12, 2 * RATE)
    return replace(lesson, model=with_initializers(model, trainer.parameters | trainer.statistics))


LESSONS: dict[str, Callable[[], Lesson]] = {"digits": digits, "keywords": keywords}
