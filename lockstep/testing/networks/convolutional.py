"""Convolutional networks, with the layers and widths of the published ones."""

from collections.abc import Callable, Sequence
from typing import Any

from lockstep.testing.networks.network import ZooNetwork

CLASSES = 1000


def resnet(net: ZooNetwork, block: Callable[[ZooNetwork, str, str, int, int], str],
           counts: Sequence[int]) -> None:
    """He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015."""
    x = net.relu("relu", net.conv_norm("conv1", "bn1", "image", 64, 7, stride=2))
    x = net.maxpool("maxpool", x, 3, 2, pad=1)
    for stage, count in enumerate(counts):
        for i in range(count):
            x = block(net, f"layer{stage + 1}.{i}", x, 64 << stage, 2 if stage and not i else 1)
    net.dense("fc", net.average("avgpool", x), CLASSES)


def basic_block(net: ZooNetwork, name: str, x: str, channels: int, stride: int) -> str:
    y = net.conv_norm(f"{name}.conv1", f"{name}.bn1", x, channels, 3, stride)
    y = net.relu(f"{name}.relu", y)
    y = net.conv_norm(f"{name}.conv2", f"{name}.bn2", y, channels, 3, linear=True)
    return _residual(net, name, y, x, stride, "relu_1")


def bottleneck(net: ZooNetwork, name: str, x: str, channels: int, stride: int) -> str:
    y = net.conv_norm(f"{name}.conv1", f"{name}.bn1", x, channels)
    y = net.relu(f"{name}.relu", y)
    y = net.conv_norm(f"{name}.conv2", f"{name}.bn2", y, channels, 3, stride)
    y = net.relu(f"{name}.relu_1", y)
    y = net.conv_norm(f"{name}.conv3", f"{name}.bn3", y, 4 * channels, linear=True)
    return _residual(net, name, y, x, stride, "relu_2")


def _residual(net: ZooNetwork, name: str, y: str, x: str, stride: int, relu: str) -> str:
    """A 1x1 brings the block's input to the shape of its result where it has another."""
    if net.shapes[x] != net.shapes[y]:
        x = net.conv_norm(f"{name}.downsample.0", f"{name}.downsample.1", x, net.shapes[y][0],
                          stride=stride)
    return net.relu(f"{name}.{relu}", net.sum(f"{name}.add", y, x))


def mobilenet_v1(net: ZooNetwork) -> None:
    """Howard et al.: MobileNets, 2017."""
    x = net.relu("relu", net.conv_norm("conv", "bn", "image", 32, 3, stride=2))
    widths = (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)
    for i, channels in enumerate(widths, 1):
        depth, stride = net.shapes[x][0], 2 if i in (2, 4, 6, 12) else 1
        for part, *shape in (("dw", depth, 3, stride, depth), ("pw", channels)):
            y = net.conv_norm(f"block{i}.{part}.conv", f"block{i}.{part}.bn", x, *shape)
            x = net.relu(f"block{i}.{part}.relu", y)
    net.dense("fc", net.average("avgpool", x), CLASSES)


def mobilenet_v2(net: ZooNetwork) -> None:
    """Sandler et al.: MobileNetV2, inverted residuals and linear bottlenecks, 2018."""
    def convolution(name: str, x: str, *shape: int) -> str:
        return net.relu6(f"{name}.2", net.conv_norm(f"{name}.0", f"{name}.1", x, *shape))

    x, block = convolution("features.0", "image", 32, 3, 2), 0
    for expansion, channels, count, first in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)):
        for stride in [first] + [1] * (count - 1):
            block += 1
            name, y, part = f"features.{block}", x, 0
            if expansion > 1:
                y, part = convolution(f"{name}.conv.0", y, expansion * net.shapes[x][0]), 1
            width = net.shapes[y][0]
            y = convolution(f"{name}.conv.{part}", y, width, 3, stride, width)
            y = net.conv_norm(f"{name}.conv.{part + 1}", f"{name}.conv.{part + 2}", y, channels,
                              linear=True)
            x = net.sum(f"{name}.add", x, y) if net.shapes[x] == net.shapes[y] else y
    x = convolution("features.18", x, 1280)
    net.dense("classifier.1", net.average("avgpool", x), CLASSES)


def squeezenet(net: ZooNetwork) -> None:
    """Iandola et al.: SqueezeNet, 2016; the variant 1.1."""
    def convolution(name: str, relu: str, x: str, *shape: int, **options: Any) -> str:
        return net.relu(relu, net.conv(name, x, *shape, bias=True, **options))

    x = convolution("features.0", "features.1", "image", 64, 3, 2, pad=0)
    squeezed = {3: 16, 4: 16, 6: 32, 7: 32, 9: 48, 10: 48, 11: 64, 12: 64}
    for i in range(2, 13):
        name = f"features.{i}"
        if i not in squeezed:
            x = net.maxpool(name, x, 3, 2)
            continue
        x = convolution(f"{name}.squeeze", f"{name}.squeeze_activation", x, squeezed[i])
        x = net.join(f"{name}.concat", *(
            convolution(f"{name}.expand{k}x{k}", f"{name}.expand{k}x{k}_activation", x,
                        4 * squeezed[i], k) for k in (1, 3)))
    net.average("classifier.3", convolution("classifier.1", "classifier.2", x, CLASSES))


def vgg11(net: ZooNetwork) -> None:
    """Simonyan, Zisserman: Very deep convolutional networks, 2014; configuration A."""
    x, i = "image", 0
    for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if channels:
            x = net.conv(f"features.{i}", x, channels, 3, bias=True)
            x, i = net.relu(f"features.{i + 1}", x), i + 2
        else:
            x, i = net.maxpool(f"features.{i}", x, 2, 2), i + 1
    x = net.flatten("flatten", x)
    for i in (0, 3):
        x = net.relu(f"classifier.{i + 1}", net.dense(f"classifier.{i}", x, 4096))
    net.dense("classifier.6", x, CLASSES)


def unet(net: ZooNetwork, width: int = 64) -> None:
    """Ronneberger, Fischer, Brox: U-Net, 2015."""
    x, skips = net.double("down0", "image", width), []
    for i in range(1, 5):
        skips.append(x)
        x = net.double(f"down{i}", net.maxpool(f"down{i}.pool", x, 2, 2), width << i)
    for i, skip in enumerate(reversed(skips), 1):
        x = net.up(f"up{i}.up", x, net.shapes[skip][0])
        x = net.double(f"up{i}", net.join(f"up{i}.concat", skip, x), net.shapes[skip][0])
    net.conv("out", x, 2, bias=True)


def keywords(net: ZooNetwork) -> None:
    """Zhang et al.: Hello Edge, 2017; the depthwise separable network as MLPerf Tiny has it
    (Banbury et al., 2021): 49 frames of 10 coefficients, 12 words. Windows are placed as TensorFlow
    does, with the odd row below.
    """
    x = net.conv("conv", "features", 64, (10, 4), 2, bias=True, pad=(4, 1, 5, 1))
    x = net.relu("relu", net.norm("bn", x))
    for i in range(1, 5):
        for part, kernel, group in (("dw", 3, 64), ("pw", 1, 1)):
            y = net.conv(f"block{i}.{part}.conv", x, 64, kernel, group=group, bias=True)
            x = net.relu(f"block{i}.{part}.relu", net.norm(f"block{i}.{part}.bn", y))
    net.dense("fc", net.average("avgpool", x), 12)
