"""Networks to start from, built by code: no download, no framework.

`build(NAME)` gives an ONNX model with the layers and widths of the published network and seeded
random weights:

| NAME | network | multiply-accumulates at 224 |
|---|---|---|
| resnet18, resnet34 | ResNet, basic blocks | 1.81 G, 3.66 G |
| resnet50 | ResNet, bottlenecks with the stride in the 3x3 (v1.5) | 4.09 G |
| mobilenet_v1 | MobileNet, width 1 | 569 M |
| mobilenet_v2 | MobileNet-v2, width 1, ReLU6 | 301 M |
| squeezenet | SqueezeNet 1.1, no batch norms | 349 M |
| vgg11 | VGG-11, no batch norms | 7.61 G |
| unet | U-Net, widths 64 to 1024, 2x2 transposed convolutions, 2 classes | 36.9 G |
| vit_small | vision transformer, patches of 8x8, 6 layers, width 192, 3 heads | 183 M at 64 |
| bert_small | BERT's encoder, 4 layers, width 256, 4 heads, 2 classes | 210 M, 64 tokens |
| keywords | DS-CNN of MLPerf Tiny, 12 spoken words | 2.66 M, 49 frames of 10 coefficients |
| lstm | tagger of sequences, one LSTM each way, width 64, 16 tags | 2.16 M, 32 tokens |
| gpt_small | GPT-2, 4 layers, width 256, 4 heads, 1000 words | 226 M, 64 tokens |
| llama_small | Llama, 4 layers, width 256, 4 heads, 2 of keys, 1000 words | 214 M, 64 tokens |
| gpt_small_step, llama_small_step | one token, and caches of others | 3.53 M, 3.34 M, 64 places |

Counted are the products of convolutions, dense layers and matrices, for one image; biases, norms,
additions and pooling are not. Layers are named as in torchvision where the network is there, and a
layer `L` gives the value `L.out`. Input `image` [N,3,S,S], output `logits`: [N,1000], of the U-Net
[N,2,S,S]. That of BERT is `embeddings` [N,S,256]: S tokens, embedded; of `lstm` [N,S,64], with
`logits` [N,S,16]; that of `keywords` is `features` [N,1,S,10].
GPT and Llama take `embeddings` [S,256], and give `logits` [S,1000] and the keys and values of each
layer; a step takes `embeddings` [1,256], its `position` and caches of S-1 places, and gives rows
for them (`lockstep/testing/networks/decoders.py`). The first dense layer of
VGG-11 takes as many features as the size gives; the U-Net pads its 3x3 convolutions, so that its
skips need no crop, and has batch norms, as implementations of today do.

Weights have He's scale, biases are small. The statistics of each batch norm are those of the
values that reach it from a few random images, made coarser: values keep their range through the
depth. They depend on the size. `int8` gives the QDQ form (see compiler/quantize) with the ranges
that the same images gave; a decoder of more than 1,024 tokens has those of one of 512, which is
run in its place. Same arguments, same model, on the same machine and versions.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.errors import RequestError
from compiler.quantize import quantize, quantize_ranges
from lockstep.testing.networks import decoders, recurrent, transformers
from lockstep.testing.networks.convolutional import (
    basic_block,
    bottleneck,
    keywords,
    mobilenet_v1,
    mobilenet_v2,
    resnet,
    squeezenet,
    unet,
    vgg11,
)
from lockstep.testing.networks.network import ZooLayer, ZooNetwork
from lockstep.testing.networks.parameters import Filled, fill, images, samples

__all__ = ["IR_VERSION", "NETWORKS", "OPSET", "Filled", "ZooLayer", "ZooNetwork", "build",
           "fill", "float_model", "images", "int8_model", "network", "samples"]

OPSET = 17
IR_VERSION = 8  # the one that opset 17 came with, so that older readers take the file

SMALLEST, LARGEST = 32, 1024        # image sizes; five halvings make 1 pixel of 32
MOST_BYTES = 2**31 - 2**24          # protobuf holds 2 GiB, names and shapes included

NETWORKS: dict[str, Callable[[ZooNetwork], None]] = {
    "resnet18": partial(resnet, block=basic_block, counts=(2, 2, 2, 2)),
    "resnet34": partial(resnet, block=basic_block, counts=(3, 4, 6, 3)),
    "resnet50": partial(resnet, block=bottleneck, counts=(3, 4, 6, 3)),
    "mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "squeezenet": squeezenet,
    "vgg11": vgg11, "unet": unet, "vit_small": transformers.vit_small,
    "bert_small": transformers.bert_small, "keywords": keywords, "lstm": recurrent.lstm,
    "gpt_small": decoders.gpt, "gpt_small_step": partial(decoders.gpt, step=True),
    "llama_small": decoders.llama, "llama_small_step": partial(decoders.llama, step=True),
}
MULTIPLES = {"unet": 16,            # four halvings that the way up must meet again
             "vit_small": transformers.PATCH}
SIZES = {"vit_small": 64, "bert_small": 64, "keywords": 49, "lstm": 32,
         **dict.fromkeys(("gpt_small", "gpt_small_step", "llama_small", "llama_small_step"), 64)}
"""Unless told; of all others 224."""


def network(name: str, size: int | None = None) -> ZooNetwork:
    """The layers of one of `NETWORKS` for images of size x size, or for `size` tokens or frames.
    Raises RequestError.
    """
    size = SIZES.get(name, 224) if size is None else size
    multiple = MULTIPLES.get(name, 1)
    if not SMALLEST <= size <= LARGEST:
        raise RequestError(f"size must be {SMALLEST} to {LARGEST}, not {size}")
    if size % multiple:
        raise RequestError(f"size must be a multiple of {multiple} for {name}, not {size}")
    net = ZooNetwork(name, size)
    NETWORKS[name](net)
    return net.finish()


def float_model(net: ZooNetwork, filled: Filled, batch: int = 1) -> onnx.ModelProto:
    """The float32 network, every value with its shape."""
    nodes = [helper.make_node(
        layer.op, [*layer.inputs, *(f"{layer.name}.{role}" for role in
                                    (*layer.parameters, *layer.fixed))],
        [layer.output], layer.name, **{name: value for name, value in layer.attributes.items()
                                       if name != "scale"}) for layer in net.layers]
    typed = {value: helper.make_tensor_value_info(
        value, helper.np_dtype_to_tensor_dtype(np.dtype(net.types.get(value, "float32"))),
        net.whole_shape(value, batch)) for value in net.shapes}
    first, last = ([typed.pop(value) for value in ends]
                   for ends in ((net.source, *net.inputs), ("logits", *net.outputs)))
    read = {value for node in nodes for value in node.input}
    graph = helper.make_graph(
        nodes, net.name, first, last, value_info=list(typed.values()),
        initializer=[numpy_helper.from_array(one, name) for name, one in filled.parameters.items()
                     if name in read])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                             ir_version=IR_VERSION, producer_name="lockstep-zoo")


def build(name: str, size: int | None = None, batch: int = 1, seed: int = 0, int8: bool = False,
          done: Callable[[int], None] = lambda macs: None) -> onnx.ModelProto:
    """An ONNX model, accepted by ONNX's checker. Raises RequestError."""
    net = network(name, size)
    if batch > 1 and not net.batched:
        raise RequestError(f"--batch must be 1 for {name}, which takes one sequence, not {batch}")
    if 4 * net.count() > MOST_BYTES:
        raise RequestError(f"size {net.size} would give {name} {4 * net.count() / 1e9:.2f} GB of "
                           "weights, and an ONNX file holds 2; give a smaller size")
    filled = fill(net, seed, done)
    model = float_model(net, filled, batch)
    if int8:
        model = int8_model(model, net, filled, seed)
    onnx.checker.check_model(model, full_check=True)
    return model


def int8_model(model: onnx.ModelProto, net: ZooNetwork, filled: Filled, seed: int
               ) -> onnx.ModelProto:
    """An LSTM has values inside whose ranges a run of its operators alone gives."""
    if any(layer.op == "LSTM" for layer in net.layers):
        return quantize(model, samples(net, seed)).model
    return quantize_ranges(model, filled.ranges)
