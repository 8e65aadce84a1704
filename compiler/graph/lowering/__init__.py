"""Passes of targets, after layout and before fusion: the graph as kernels want it in memory.

Each target's own list says which of them it runs, and in which order: `lowering.py` of
`compiler.cpu_gpu_backends.cpu`, `gpu` and `c`.
"""

from compiler.graph.lowering.averages_as_means import AveragesAsMeans
from compiler.graph.lowering.block_channels import BlockChannels
from compiler.graph.lowering.bytes_of_weights import BytesOfWeights
from compiler.graph.lowering.pack_products import PackProducts
from compiler.graph.lowering.put_channels_last import PutChannelsLast
from compiler.graph.lowering.scales_as_integers import ScalesAsIntegers
from compiler.graph.lowering.share_constants import ShareConstants
from compiler.graph.lowering.split_products import SplitProducts
from compiler.graph.lowering.store_halves import StoreHalves
from compiler.graph.lowering.whole_sums import WholeSums
from compiler.graph.lowering.weights_in_rows import WeightsInRows

__all__ = ["AveragesAsMeans", "BlockChannels", "BytesOfWeights", "PackProducts",
           "PutChannelsLast", "ScalesAsIntegers", "ShareConstants", "SplitProducts", "StoreHalves",
           "WholeSums",
           "WeightsInRows"]
