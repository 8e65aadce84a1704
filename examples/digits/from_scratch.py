"""Train the digits network with Lockstep alone, from random weights to held-out images.

    python -m examples.digits.from_scratch

prints the share of the held-out images that are right. It needs scikit-learn for the images that
it is trained on, and no PyTorch. Everything is seeded: a repetition on the same processor gives
the same weights to the bit. Epochs, batches, rate and smoothing are those of train.py.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lockstep
from examples.digits.data import held_out, training
from examples.digits.export import CLASSES, Parameters, float_model
from lockstep.testing.zoo import IR_VERSION, OPSET

SEED = 0
EPOCHS = 60
BATCH = 64
PEAK_RATE = 5e-3
SMOOTHING = 0.05
EPSILON = 1e-5
SHAPES = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "conv3": (32, 32, 3, 3),
          "conv4": (32, 32, 3, 3), "conv5": (48, 32, 1, 1), "dense": (CLASSES, 48)}
CONVOLUTIONS = [name for name in SHAPES if name != "dense"]
NAMES = [*(f"{name}.{part}" for name in CONVOLUTIONS for part in ("weight", "scale", "offset")),
         "dense.weight", "dense.bias"]

Arrays = dict[str, np.ndarray]


def random_parameters(rng: np.random.Generator) -> Arrays:
    """Weights that keep the variance of what a relu lets through, and norms that change nothing."""
    made: Arrays = {}
    for name, shape in SHAPES.items():
        spread = np.sqrt(2 / np.prod(shape[1:]))
        made[f"{name}.weight"] = (rng.standard_normal(shape) * spread).astype(np.float32)
        made[f"{name}.scale"] = np.ones(shape[0], np.float32)
        made[f"{name}.offset"] = np.zeros(shape[0], np.float32)
    made["dense.bias"] = made.pop("dense.offset")
    del made["dense.scale"]
    return made


def training_model(parameters: Arrays, size: int) -> onnx.ModelProto:
    """The network of export.py for so many images, a batch norm behind each convolution that takes
    mean and variance from the batch; these are outputs, too.
    """
    def node(op: str, inputs: str, *outputs: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs.split(), outputs, outputs[0], **attributes)

    def convolution(name: str, source: str, stride: int = 1) -> list[onnx.NodeProto]:
        kernel = SHAPES[name][2]
        return [node("Conv", f"{source} {name}.weight", f"{name}.sums", strides=[stride] * 2,
                     pads=[kernel // 2] * 4),
                node("BatchNormalization", f"{name}.sums {name}.scale {name}.offset none one",
                     f"{name}.out", f"{name}.mean", f"{name}.variance", training_mode=1,
                     momentum=0.0, epsilon=EPSILON)]

    nodes = [*convolution("conv1", "image"), node("Relu", "conv1.out", "r1"),
             *convolution("conv2", "r1", 2), node("Relu", "conv2.out", "r2"),
             *convolution("conv3", "r2"), node("Relu", "conv3.out", "r3"),
             *convolution("conv4", "r3"), node("Add", "conv4.out r2", "a"), node("Relu", "a", "r4"),
             node("MaxPool", "r4", "p", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
             *convolution("conv5", "p"), node("Relu", "conv5.out", "r5"),
             node("GlobalAveragePool", "r5", "g"), node("Flatten", "g", "f"),
             node("Gemm", "f dense.weight dense.bias", "logits", transB=1)]
    outputs = ["logits", *(f"{name}.{part}" for name in CONVOLUTIONS
                           for part in ("mean", "variance"))]
    constants = {**parameters, "none": np.zeros(1, np.float32), "one": np.ones(1, np.float32)}
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT,
                                                        (size, 1, 8, 8))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, ir_version=IR_VERSION,
                             opset_imports=[helper.make_opsetid("", OPSET)])


def folded(parameters: Arrays, statistics: Arrays) -> Parameters:
    """Weights and biases with each norm, of these means and variances, in its convolution."""
    made: Parameters = {"dense": (parameters["dense.weight"], parameters["dense.bias"])}
    for name in CONVOLUTIONS:
        factor = parameters[f"{name}.scale"] / np.sqrt(statistics[f"{name}.variance"] + EPSILON)
        offset = parameters[f"{name}.offset"] - statistics[f"{name}.mean"] * factor
        made[name] = parameters[f"{name}.weight"] * factor[:, None, None, None], offset
    return made


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by -1, 0 or 1 pixel in both directions, zeros moved in."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    offsets = rng.integers(0, 3, (len(images), 2))
    return np.stack([image[:, dy:dy + 8, dx:dx + 8]
                     for image, (dy, dx) in zip(padded, offsets, strict=True)])


def rates(count: int) -> Iterator[float]:
    """Along a cosine up to the peak in the first three tenths of the steps, and down to 0."""
    top = 0.3 * count
    for step in range(count):
        way = (step + 1) / top - 1 if step + 1 < top else (step - top) / (count - top)
        yield PEAK_RATE * (0.5 + 0.5 * float(np.cos(np.pi * way)))


def train(images: np.ndarray, labels: np.ndarray, seed: int = SEED) -> Parameters:
    """The parameters of export.py, after the images [N,1,8,8] and labels [N] were seen `EPOCHS`
    times; means and variances are then those of all images.
    """
    rng = np.random.default_rng(seed)
    first = random_parameters(rng)
    network = lockstep.cross_entropy(training_model(first, BATCH), "logits", smoothing=SMOOTHING)
    trainer = lockstep.Trainer(network, parameters=NAMES, optimizer=lockstep.Adam())
    drawn = lockstep.batches({"image": images, "labels": labels}, BATCH, epochs=EPOCHS, seed=seed)
    for batch, rate in zip(drawn, rates(EPOCHS * (len(images) // BATCH)), strict=True):
        trainer.step({**batch, "image": shifted(batch["image"], rng)}, rate)
    whole = lockstep.compile(trainer.network(training_model(first, len(images))), target="cpu")
    return folded(trainer.parameters, whole({"image": images}))


def accuracy(parameters: Parameters) -> float:
    """The share of the held-out images that the network of export.py gets right."""
    images, labels = held_out()
    module = lockstep.compile(float_model(parameters), target="cpu")
    logits = [module({"image": image[None]})["logits"] for image in images]
    return float(np.mean(np.concatenate(logits).argmax(1) == labels))


def main() -> None:
    begin = time.perf_counter()
    parameters = train(*training())
    seconds = time.perf_counter() - begin
    print(f"trained in {seconds:.1f} s, {accuracy(parameters):.2%} of the held-out images right")


if __name__ == "__main__":
    main()
