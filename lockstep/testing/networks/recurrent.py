"""A recurrent network, and what its operators mean."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lockstep.testing.networks.network import Array, ZooNetwork


def lstm(net: ZooNetwork, width: int = 64, tags: int = 16) -> None:
    """Huang, Xu, Yu: Bidirectional LSTM-CRF models for sequence tagging, 2015; without the CRF:
    each token of a sequence gets the scores of its tags. ONNX has time before the batch.
    """
    tokens, depth = net.shapes["embeddings"]
    x = net.add("Transpose", "time_first", ["embeddings"], (tokens, depth), perm=[1, 0, 2])
    net.batch_axes[x] = 1
    y = net.add("LSTM", "lstm", [x], (tokens, 2, width), {
        "weight": (2, 4 * width, depth), "recurrent": (2, 4 * width, width),
        "bias": (2, 8 * width)}, hidden_size=width, direction="bidirectional")
    net.batch_axes[y] = 2
    y = net.add("Transpose", "batch_first", [y], (tokens, 2, width), perm=[2, 0, 1, 3])
    net.product("tags", net.reshape("both", y, tokens, 2 * width), tags)


def _lstm(attributes: Mapping[str, Any], x: Array, weight: Array, recurrent: Array, bias: Array
          ) -> Array:
    """Both directions of x [time, batch, depth]: [time, directions, batch, width]."""
    made = []
    for number, way in enumerate((1, -1)):
        given = x[::way] @ weight[number].T + bias[number].reshape(2, -1).sum(0)
        h = c = np.zeros((x.shape[1], attributes["hidden_size"]), np.float32)
        steps = []
        for now in given:
            i, o, f, new = np.split(now + h @ recurrent[number].T, 4, axis=-1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(new)
            h = _sigmoid(o) * np.tanh(c)
            steps.append(h)
        made.append(np.stack(steps[::way]))
    return np.stack(made, axis=1)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


MEANING: dict[str, Callable[..., Array]] = {"LSTM": _lstm}
