"""TensorFlow's converter and the AI Edge Quantizer (see `cases`).

Networks are in Keras, since the converter takes nothing else without jax.
"""

import numpy as np
import tensorflow as tf
from ai_edge_quantizer import quantizer, recipe
from cases import Case, make_all

SEED, SAMPLES = 7, 8
SIZES = {"full": {"resnet": (16, 32), "vit": (64, 16), "lstm": (96, 16)},
         "small": {"resnet": (4, 8), "vit": (16, 4), "lstm": (8, 4)}}
"""Channels or features, and pixels, tokens or steps, as in `networks`."""

layers = tf.keras.layers


def _resnet(width: int, extent: int) -> tf.keras.Model:
    def convolution(x, channels, kernel=3, stride=1, last="relu"):
        return layers.Conv2D(channels, kernel, stride, "same", activation=last)(x)

    inputs = layers.Input((extent, extent, 3), 1)
    x = convolution(inputs, width)
    blocks = ((width, 1), (2 * width, 2), (3 * width, 2))
    for channels, stride in blocks[:1 if extent < 16 else 3]:
        y = convolution(convolution(x, channels, 3, stride), channels, last=None)
        skip = x if stride == 1 else convolution(x, channels, 1, stride, None)
        x = layers.ReLU()(layers.Add()([y, skip]))
    return tf.keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def _vit(width: int, tokens: int) -> tf.keras.Model:
    inputs = layers.Input((tokens, width), 1)
    x = inputs
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        q, k, v = (layers.Reshape((tokens, 4, width // 4))(layers.Dense(width)(y))
                   for _ in range(3))
        q, k, v = (layers.Permute((2, 1, 3))(part) for part in (q, k, v))
        scores = layers.Softmax()(tf.keras.ops.matmul(q * (width // 4) ** -0.5,
                                                      tf.keras.ops.transpose(k, (0, 1, 3, 2))))
        mixed = layers.Permute((2, 1, 3))(tf.keras.ops.matmul(scores, v))
        x = x + layers.Dense(width)(layers.Reshape((tokens, width))(mixed))
        x = x + layers.Dense(width)(layers.Dense(4 * width, "gelu")(layers.LayerNormalization()(x)))
    return tf.keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def _lstm(width: int, steps: int) -> tf.keras.Model:
    inputs = layers.Input((steps, 20), 1)
    x = layers.LSTM(width, unroll=True)(layers.Dense(width, "relu")(inputs))
    return tf.keras.Model(inputs, layers.Dense(10)(x))


NETWORKS = {"resnet": _resnet, "vit": _vit, "lstm": _lstm}
INT16 = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
KINDS = {"int8": tf.lite.OpsSet.TFLITE_BUILTINS_INT8, "16x8": INT16, "dynamic": None}
RECIPES = {"edge-int8": recipe.static_wi8_ai8, "edge-dynamic": recipe.dynamic_wi8_afp32,
           "edge-int4": recipe.dynamic_wi4_afp32}


def _converted(model: tf.keras.Model, samples: list[np.ndarray], mode: str) -> bytes:
    """By the converter, or in float and then by the AI Edge Quantizer."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if mode in KINDS:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if KINDS[mode] is not None:
            converter.representative_dataset = lambda: ([sample] for sample in samples)
            converter.target_spec.supported_ops = [KINDS[mode]]
        return converter.convert()
    plain = converter.convert()
    made = quantizer.Quantizer(plain, RECIPES[mode]())
    (signature, ends), = tf.lite.Interpreter(model_content=plain).get_signature_list().items()
    ranges = made.calibrate({signature: [{ends["inputs"][0]: sample} for sample in samples]}
                            ) if mode == "edge-int8" else None
    return bytes(made.quantize(ranges).quantized_model)


def make(case: Case) -> None:
    tf.keras.utils.set_random_seed(SEED)
    model = NETWORKS[case.network](*SIZES[case.size][case.network])
    rng = np.random.default_rng(SEED)
    samples = [rng.normal(size=model.inputs[0].shape).astype(np.float32) for _ in range(SAMPLES)]
    path = case.path(".tflite")
    path.write_bytes(_converted(model, samples, case.mode))
    interpreter = tf.lite.Interpreter(str(path))
    interpreter.allocate_tensors()
    given = interpreter.get_input_details()[0]
    sample = samples[0]
    if given["dtype"] != np.float32:
        scale, zero = given["quantization"]
        sample = np.clip(np.rint(sample / scale + zero), -128, 127).astype(given["dtype"])
    interpreter.set_tensor(given["index"], sample)
    interpreter.invoke()
    case.keep(sample, interpreter.get_tensor(interpreter.get_output_details()[0]["index"]),
              "LiteRT")


if __name__ == "__main__":
    make_all("tflite", make)
