"""Inputs of many inferences, and classes of their outputs."""

from types import SimpleNamespace

import numpy as np
import pytest

from fpga.inference import classes, inferences
from runtime import InputError


def network(*shape: int, logits: tuple[int, ...]):
    """As much of a graph as is asked for."""
    values = {"image": SimpleNamespace(shape=shape), "logits": SimpleNamespace(shape=logits)}
    return SimpleNamespace(inputs=["image"], outputs=["logits"], values=values)


def test_a_label_for_each_row_of_a_batch():
    graph = network(4, 1, 8, 8, logits=(4, 10))
    images = np.zeros((8, 1, 8, 8), np.float32)
    samples, labels = inferences(graph, {"image": images, "labels": np.arange(8)})
    assert len(samples) == 2 and len(labels) == 8
    with pytest.raises(InputError, match="'labels' must hold 8 classes, not 2"):
        inferences(graph, {"image": images, "labels": np.arange(2)})
    logits = np.eye(10)[[1, 2, 3, 4, 5, 6, 7, 8]]
    assert list(classes([{"logits": logits[:4]}, {"logits": logits[4:]}])) == list(range(1, 9))


def test_an_output_without_a_batch():
    graph = network(1, 8, logits=(10,))
    _, labels = inferences(graph, {"image": np.zeros((3, 8), np.float32), "labels": np.arange(3)})
    assert len(labels) == 3
    assert list(classes([{"logits": np.eye(10)[3]}])) == [3]
