"""Pruned weights: which layers have them, and that the largest stay."""

import numpy as np
import pytest

from compiler.quantize import quantize
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.improve.sparsity import pattern_of, pruned
from examples.digits.data import HERE, held_out


def test_the_largest_of_a_few_inputs_stay(rng) -> None:
    weight = rng.permuted(np.arange(1, 2 * 3 * 8 * 5 + 1, dtype=np.float32)).reshape(2, 3, 8, 5)
    weight *= rng.choice([-1, 1], weight.shape)
    sparse = pruned(weight, (2, 4))
    groups, kept = (array.reshape(2, 3, 2, 4, 5) for array in (weight, sparse))
    assert ((kept != 0).sum(axis=3) == 2).all()
    assert (np.abs(groups)[kept == 0].size == kept.size // 2
            and (np.sort(np.abs(kept), axis=3)[..., 2:, :]
                 == np.sort(np.abs(groups), axis=3)[..., 2:, :]).all())


@pytest.mark.slow
def test_layers_between_the_first_and_the_last() -> None:
    made = quantize(HERE / "digits-float.onnx", held_out()[0][:4], sparsity="2:4")
    assert made.sparse == ("conv2", "conv3", "conv4", "conv5")
    weights = [array for array in made.graph.constants.values()
               if array.dtype == np.int8 and array.ndim == 4 and array.shape[1] >= 4]
    assert len(weights) == 4
    for weight in weights:
        groups = weight.reshape(len(weight), -1, 4, *weight.shape[2:])
        assert ((groups != 0).sum(axis=2) <= 2).all() and weight.any()
    assert quantize(HERE / "digits-float.onnx", held_out()[0][:4]).sparse == ()


@pytest.mark.parametrize("given", ["2", "4:2", "2:2", "0:4", "a:b", "2:4:8", "-1:4", 2])
def test_a_pattern_wrong(given) -> None:
    with pytest.raises(QuantizeRefused) as refused:
        pattern_of(given)
    assert str(refused.value) == (f"sparsity must be N:M with 0 < N < M < 100, such as 2:4, not "
                                  f"{given!r}")
