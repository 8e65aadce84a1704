"""A function for each network: `resnet18()` is ``build("resnet18")`` of `lockstep.testing.zoo`."""

from pathlib import Path
from typing import Protocol

import onnx

from .zoo import build

DIGITS = Path(__file__).with_name("digits-int8.onnx")
DIGITS_FLOAT = DIGITS.with_name("digits-float.onnx")


class Model(Protocol):
    def __call__(self, size: int | None = None, batch: int = 1, seed: int = 0,
                 int8: bool = False) -> onnx.ModelProto: ...


def _model(name: str) -> Model:
    def model(size: int | None = None, batch: int = 1, seed: int = 0,
              int8: bool = False) -> onnx.ModelProto:
        return build(name, size, batch, seed, int8)

    model.__name__ = model.__qualname__ = name
    model.__doc__ = f"{name} as an ONNX model, with seeded weights. Raises RequestError."
    return model


resnet18, resnet34, resnet50 = _model("resnet18"), _model("resnet34"), _model("resnet50")
mobilenet_v1, mobilenet_v2 = _model("mobilenet_v1"), _model("mobilenet_v2")
squeezenet, vgg11, unet = _model("squeezenet"), _model("vgg11"), _model("unet")
vit_small, bert_small = _model("vit_small"), _model("bert_small")
keywords, lstm = _model("keywords"), _model("lstm")
gpt_small, gpt_small_step = _model("gpt_small"), _model("gpt_small_step")
llama_small, llama_small_step = _model("llama_small"), _model("llama_small_step")


def digits(int8: bool = True) -> onnx.ModelProto:
    """A residual network that reads digits of 8x8 pixels, trained; `image` [1,1,8,8] in 0..1 to
    `logits` [1,10]. In int8, or in float32.
    """
    return onnx.load(DIGITS if int8 else DIGITS_FLOAT)
