"""Networks to try things with: ONNX models, built by code, the same every time.

>>> from lockstep import testing
>>> model = testing.resnet18(size=32, int8=True)

Each function takes `size` (pixels of a side, tokens or frames), `batch`, `seed` of the weights and
`int8` (quantized, in the QDQ form); `lockstep.testing.zoo` says what the networks are. `digits` is
the one with trained weights.
"""

from .models import (bert_small, digits, gpt_small, gpt_small_step, keywords, llama_small,
                     llama_small_step, lstm, mobilenet_v1, mobilenet_v2, resnet18, resnet34,
                     resnet50, squeezenet, unet, vgg11, vit_small)
