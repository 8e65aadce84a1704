"""Train the digits network and write its files beside this one.

    python -m examples.digits.train

writes digits-float.onnx, digits-int8.onnx and held_out.npz in a quarter of a minute. It needs the
development extra (PyTorch, scikit-learn, ONNX Runtime); using the files needs none of them.
Everything is seeded and single-threaded, so a repetition on the same machine and versions gives
the same files. No hyperparameter is chosen on the held-out images.
"""

import numpy as np
import onnx
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from examples.digits.data import HERE, held_out, training, write_held_out
from examples.digits.export import Parameters, float_model, quantize

SEED = 0
EPOCHS = 60
BATCH = 64
PEAK_RATE = 5e-3
CALIBRATION_COUNT = 256


class Digits(nn.Module):
    """The network of export.py with a batch-norm behind each convolution, any batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = convolution(1, 16, 3)
        self.conv2, self.norm2 = convolution(16, 32, 3, stride=2)
        self.conv3, self.norm3 = convolution(32, 32, 3)
        self.conv4, self.norm4 = convolution(32, 32, 3)
        self.conv5, self.norm5 = convolution(32, 48, 1)
        self.dense = nn.Linear(48, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm1(self.conv1(image)))
        shortcut = functional.relu(self.norm2(self.conv2(x)))
        x = functional.relu(self.norm3(self.conv3(shortcut)))
        x = functional.relu(self.norm4(self.conv4(x)) + shortcut)
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        x = functional.relu(self.norm5(self.conv5(x)))
        return self.dense(x.mean(dim=(2, 3)))

    def folded(self) -> Parameters:
        """Weights and biases with each batch-norm's affine map multiplied into its conv."""
        parameters = {
            f"conv{i}": folded(getattr(self, f"conv{i}"), getattr(self, f"norm{i}"))
            for i in range(1, 6)
        }
        parameters["dense"] = (self.dense.weight.detach().numpy(),
                               self.dense.bias.detach().numpy())
        return parameters


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int = 1
) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """A convolution that keeps the extent (but for the stride), and its batch-norm."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs)


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[np.ndarray, np.ndarray]:
    """(weight, bias) of the one convolution that equals conv followed by norm in inference."""
    assert norm.running_mean is not None and norm.running_var is not None
    gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weight = conv.weight * gain[:, None, None, None]
    bias = norm.bias - norm.running_mean * gain
    return weight.detach().numpy(), bias.detach().numpy()


def shifted(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Each image moved by -1, 0 or 1 pixel in both directions, zeros moved in."""
    padded = functional.pad(images, (1, 1, 1, 1))
    offsets = torch.randint(0, 3, (len(images), 2), generator=random).tolist()
    return torch.stack([
        image[:, dy:dy + 8, dx:dx + 8] for image, (dy, dx) in zip(padded, offsets, strict=True)
    ])


def train(images: np.ndarray, labels: np.ndarray, seed: int = SEED) -> Digits:
    """A network trained on images [N, 1, 8, 8] and labels [N], in evaluation mode."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    random = torch.Generator().manual_seed(seed)
    inputs, targets = torch.from_numpy(images), torch.from_numpy(labels)
    network = Digits()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-2)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_RATE, total_steps=steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images), generator=random)
        for batch in order[:len(images) // BATCH * BATCH].view(-1, BATCH):
            logits = network(shifted(inputs[batch], random))
            loss = functional.cross_entropy(logits, targets[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def accuracy(path: str) -> float:
    """Share of the held-out images that ONNX Runtime, without graph optimization, gets right."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    images, labels = held_out()
    logits = [np.asarray(model.run(None, {"image": image[None]})[0]) for image in images]
    return float(np.mean(np.argmax(np.concatenate(logits), axis=1) == labels))


def main() -> None:
    float_file, int8_file = HERE / "digits-float.onnx", HERE / "digits-int8.onnx"
    write_held_out()
    images, labels = training()
    onnx.save(float_model(train(images, labels).folded()), str(float_file))
    chosen = np.random.default_rng(SEED).choice(len(images), CALIBRATION_COUNT, replace=False)
    quantize(float_file, int8_file, images[chosen])
    for path in (float_file, int8_file):
        print(f"{path.name}: {path.stat().st_size:,} bytes, "
              f"{accuracy(str(path)):.2%} of the held-out images right")


if __name__ == "__main__":
    main()
