"""Makes the files beside it, by the frameworks themselves: networks of seeded random weights.

    python tests/models/make.py [--large FOLDER]

It needs TensorFlow. Each network is small, and has what exporters write in their own way: dilated
and transposed convolutions, upsampling, squeeze and excitation, attention, recurrent layers
unrolled. With --large MobileNets are made in FOLDER, for `bench/networks/front_ends.py`, and each
network as .keras and SavedModel, too, with inputs and what TensorFlow makes of them in an .npz
file.
"""

import argparse

from pathlib import Path
from typing import Any

import keras  # pyright: ignore[reportMissingImports]
import numpy as np
import tensorflow as tf
from keras import layers  # pyright: ignore[reportMissingImports]

FOLDER = Path(__file__).parent
APPLICATIONS: Any = keras.applications          # whose types do not allow None
SAMPLES = 32


def images() -> keras.Model:
    x = given = keras.Input((32, 32, 3), name="image")
    x = layers.Conv2D(16, 3, padding="same", activation="relu", strides=2)(x)
    y = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x)
    y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    x = layers.Add()([x, layers.Conv2D(16, 1)(y)])
    x = layers.MaxPooling2D(2)(x)
    z = layers.Conv2D(8, 3, activation="tanh")(x)
    x = layers.Concatenate()([x, layers.ZeroPadding2D(1)(z)])
    x = layers.AveragePooling2D(3, strides=1, padding="same")(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(negative_slope=0.1)(x)
    x = layers.Activation("hard_swish")(x)
    gates = layers.Dense(8, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Multiply()([x, gates])
    x = layers.Conv2D(4, 3, dilation_rate=2, padding="same")(layers.UpSampling2D(2)(x))
    x = layers.GlobalAveragePooling2D()(layers.Cropping2D(1)(x))
    return keras.Model(given, layers.Dense(10, name="logits")(x), name="images")


def tokens() -> keras.Model:
    given = keras.Input((16, 24), name="tokens")
    x = layers.Dense(32)(given)
    normal = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 16)(normal, normal)
    x = x + layers.Dense(32)(layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x)))
    return keras.Model(given, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)), name="tokens")


def series() -> keras.Model:
    given = keras.Input((32, 6), name="series")
    x = layers.Conv1D(12, 5, padding="causal", activation="relu")(given)
    x = layers.Conv1D(12, 3, padding="same", dilation_rate=2)(layers.MaxPooling1D(2)(x))
    x = layers.LSTM(8, unroll=True)(layers.AveragePooling1D(4)(x))
    return keras.Model(given, layers.Dense(4)(x), name="series")


def mobilenet_v2() -> keras.Model:
    return APPLICATIONS.MobileNetV2((64, 64, 3), alpha=0.35, weights=None, classes=10,
                                    classifier_activation=None)


def mobilenet_v3() -> keras.Model:
    return APPLICATIONS.MobileNetV3Small((64, 64, 3), alpha=0.75, weights=None, classes=10,
                                         include_preprocessing=False,
                                         classifier_activation=None)


NETWORKS = {"images": images, "tokens": tokens, "series": series}
LARGE = {"mobilenet_v2": mobilenet_v2, "mobilenet_v3": mobilenet_v3}


def network(name: str) -> keras.Model:
    """One of them, with its weights, and with statistics of batch norms that are not 0 and 1."""
    keras.utils.set_random_seed(1)
    model, rng = (NETWORKS | LARGE)[name](), np.random.default_rng(3)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            count = layer.get_weights()[0].shape
            layer.set_weights([rng.uniform(0.8, 1.2, count), *rng.normal(0, 0.1, (2, *count)),
                               rng.uniform(0.8, 1.2, count)])
    return model


def in_tflite(model: keras.Model, int8: bool = False) -> bytes:
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if int8:
        rng, shape = np.random.default_rng(0), model.inputs[0].shape[1:]
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (
            [rng.normal(size=(1, *shape)).astype(np.float32)] for _ in range(SAMPLES))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def make(name: str, folder: Path) -> keras.Model:
    """Writes a network as .tflite, in float and int8."""
    model = network(name)
    (folder / f"{name}.tflite").write_bytes(in_tflite(model))
    (folder / f"{name}-int8.tflite").write_bytes(in_tflite(model, int8=True))
    return model


def make_all_forms(name: str, folder: Path) -> None:
    """Writes it as .keras and SavedModel, too, with an input and the output."""
    model = make(name, folder)
    shape = model.inputs[0].shape[1:]
    x = np.random.default_rng(0).normal(size=(1, *shape)).astype(np.float32)
    model.save(folder / f"{name}.keras")
    model.export(folder / f"{name}-saved", verbose=False)
    for stem in (name, f"{name}-saved"):
        np.savez(folder / f"{stem}.npz", x0=x, y0=np.asarray(model(x, training=False)),
                 framework="TensorFlow")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", type=Path, metavar="FOLDER")
    folder = parser.parse_args().large
    if folder is None:
        for name in NETWORKS:
            make(name, FOLDER)
    else:
        for name in (*NETWORKS, *LARGE):
            make_all_forms(name, folder)


if __name__ == "__main__":
    main()
