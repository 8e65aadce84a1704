"""The exported network computes what the trained one does, and training learns."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
torch = pytest.importorskip("torch")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("sklearn")


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    from examples.digits import train

    return train


def test_float_model_is_the_network_with_batch_norm_folded(train: ModuleType) -> None:
    random = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    network = train.Digits().eval()
    for norm in (network.norm1, network.norm2, network.norm3, network.norm4, network.norm5):
        for values in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
            values.copy_(torch.rand(values.shape, generator=random) + 0.5)
    model = ort.InferenceSession(
        train.float_model(network.folded()).SerializeToString(),
        providers=["CPUExecutionProvider"])
    images = torch.rand((4, 1, 8, 8), generator=random)
    with torch.no_grad():
        expected = network(images).numpy()
    got = np.concatenate([model.run(None, {"image": image[None].numpy()})[0] for image in images])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_shifted_moves_each_image_by_at_most_one_pixel(train: ModuleType) -> None:
    image = torch.arange(1.0, 65.0).reshape(1, 8, 8)
    moved = train.shifted(image.repeat(200, 1, 1, 1), torch.Generator().manual_seed(2))
    seen = {tuple(np.argwhere(one[0].numpy() == 28)[0]) for one in moved}  # 28 stood at (3, 3)
    assert seen == {(y, x) for y in (2, 3, 4) for x in (2, 3, 4)}


def test_training_is_repeatable_and_learns(
    train: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "EPOCHS", 6)
    threads = torch.get_num_threads()
    images, labels = train.training()
    try:
        first, second = (train.train(images[:512], labels[:512]) for _ in range(2))
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    with torch.no_grad():
        logits = first(torch.from_numpy(images[:512])).numpy()
    assert np.mean(np.argmax(logits, axis=1) == labels[:512]) > 0.5
    for name, (weight, bias) in first.folded().items():
        np.testing.assert_array_equal(weight, second.folded()[name][0])
        np.testing.assert_array_equal(bias, second.folded()[name][1])
