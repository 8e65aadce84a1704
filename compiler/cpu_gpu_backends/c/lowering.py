"""The passes of C over a network: the last axis of an image counts inside of loops."""

from compiler.graph.lowering import (BlockChannels, BytesOfWeights, PackProducts, PutChannelsLast,
                                     ShareConstants, WholeSums)
from compiler.graph.passes.pipeline import Pass

PASSES: tuple[Pass, ...] = (WholeSums(), BytesOfWeights(), ShareConstants(),
                            PutChannelsLast(("int8",), pieces=False),
                            BlockChannels(lambda _: 0, ("float32",)), PackProducts(("float32",)))
"""Convolutions of int8 compute on images with channels last, those of float32 on blocks of 16
channels, their weights packed, without Winograd's products, which take more memory. Matrices of
float32 are packed, too.
"""
