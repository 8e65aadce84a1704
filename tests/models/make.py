"""Makes the files beside it, by the frameworks themselves: networks of seeded random weights.

    python tests/models/make.py

It needs TensorFlow, tf2onnx's reader not; the files are as good as those of any version. Each
network is small, and has what exporters write in their own way: dilated and transposed
convolutions, resizing, squeeze and excitation, attention, recurrent layers unrolled.
"""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FOLDER = Path(__file__).parent
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


NETWORKS = {"images": images, "tokens": tokens, "series": series}


def network(name: str) -> keras.Model:
    """One of them, with its weights, and statistics of batch norms that are not 0 and 1."""
    keras.utils.set_random_seed(1)
    model, rng = NETWORKS[name](), np.random.default_rng(3)
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


def main() -> None:
    for name in NETWORKS:
        model = network(name)
        (FOLDER / f"{name}.tflite").write_bytes(in_tflite(model))
        (FOLDER / f"{name}-int8.tflite").write_bytes(in_tflite(model, int8=True))


if __name__ == "__main__":
    main()
