"""A quantized network made ready for training, and what becomes of it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from compiler.gradients.reverse import GradientRefused
from compiler.gradients.trainable import Trainable, matching, require_batch
from compiler.quantize.networks.network import LayeredNetwork
from compiler.quantize.plans.plan import Plan
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.training.writer import Scales, TrainingForm, training_form

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class QuantizedTraining(Trainable, Generic[Made]):
    """A quantized network as it is in training.

    graph : weights, biases and activations are floats that `fake_quantize` rounds as the quantized
        network does; the parameters are constants by their names.
    parameters : weights, biases and step sizes (``NAME_step``).
    statistics, counter : none; norms are in the weights.
    trained : the quantized network with these parameters, those of `Trainer.parameters`.
    """

    trained: Callable[[Mapping[str, np.ndarray]], Made]


def in_training(network: LayeredNetwork, plan: Plan, scales: Scales, batch: int | None,
                freeze: Iterable[str], trained: Callable[[TrainingForm, Mapping[str, np.ndarray]],
                                                         Made]) -> QuantizedTraining[Made]:
    """The network, for so many rows, in training. Raises QuantizeRefused for what has no form
    there; GradientRefused as `compiler.gradients.trainable` does.
    """
    _require_form(network)
    form = training_form(network, plan, scales)
    require_batch(form.graph, batch)
    frozen = matching(network.place, form.parameters, freeze)
    parameters = tuple(name for name in form.parameters if name not in frozen)
    if not parameters:
        raise GradientRefused(f"{network.place}: it must have constants that are learned, and has "
                              "none that are not frozen")

    def finished(arrays: Mapping[str, np.ndarray]) -> Made:
        _require_parameters(network.place, {name: form.graph.constants[name].shape
                                            for name in form.parameters}, arrays, frozen)
        return trained(form, {**{name: form.graph.constants[name] for name in frozen}, **arrays})

    return QuantizedTraining(form.graph, parameters, {}, "", finished)


def _require_parameters(place: str, shapes: Mapping[str, tuple[int, ...]],
                        arrays: Mapping[str, np.ndarray], frozen: Collection[str]) -> None:
    """Raises QuantizeRefused for parameters that are missing, are none, or have another shape;
    those that are frozen need not be given."""
    wrong = [*(f"{name!r} is missing" for name in shapes if name not in {*arrays, *frozen}),
             *(f"{name!r} is none" for name in arrays if name not in shapes),
             *(f"{name!r} has the shape {list(np.shape(arrays[name]))}, not {list(shape)}"
               for name, shape in shapes.items()
               if name in arrays and np.shape(arrays[name]) != shape)]
    if wrong:
        raise QuantizeRefused(f"{place}: parameters must be those of the training: {wrong[0]}")


def _require_form(network: LayeredNetwork) -> None:
    """Raises QuantizeRefused for numbers that training does not have."""
    reason = ("weights with scales of groups" if network.weight_groups else
              "activations of 16 bits" if network.activation_bits > 8 else
              "accumulators of other than 32 bits" if network.accumulator_bits != 32 else "")
    if reason:
        raise QuantizeRefused(f"{network.place}: a network with {reason} cannot be trained")
