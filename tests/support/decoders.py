"""Small decoders for tests, of all tokens and of one step, and a machine that has all they need."""

import runpy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx

import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler.frontend.onnx.importing import convert
from compiler.graph import optimize
from compiler.graph.graph import Graph
from lockstep.testing import zoo
from lockstep.testing.networks import decoders
from lockstep.testing.networks.decoders import DecoderSizes

NORMALIZE = Path(__file__).parents[2] / "examples" / "machines" / "normalize.py"
TOKENS = 8
SIZES = {"gpt": DecoderSizes(2, 16, 2, 1, 32, 12), "llama": DecoderSizes(2, 32, 4, 2, 24, 12)}
ONE_LAYER = {"gpt": DecoderSizes(1, 16, 2, 1, 32, 12), "llama": DecoderSizes(1, 32, 4, 2, 24, 12)}

Array = np.ndarray


@dataclass(frozen=True)
class Made:
    net: zoo.ZooNetwork
    real: onnx.ModelProto
    int8: onnx.ModelProto
    graph: Graph

    def caches(self, number: float = 0.0) -> dict[str, Array]:
        return {name: np.full(self.net.shapes[name], number, np.float32)
                for name in decoders.states(self.net)}


@cache
def made(kind: str, step: bool, sizes: DecoderSizes, count: int = TOKENS) -> Made:
    net = zoo.ZooNetwork(f"{kind}_small{'_step' * step}", count)
    getattr(decoders, kind)(net, sizes, step)
    filled = zoo.fill(net.finish())
    real = zoo.float_model(net, filled)
    int8 = zoo.int8_model(real, net, filled, 0)
    return Made(net, real, int8, optimize(convert(int8)))


def both(kind: str, sizes: dict[str, DecoderSizes] = SIZES, count: int = TOKENS
         ) -> tuple[Made, Made]:
    return made(kind, False, sizes[kind], count), made(kind, True, sizes[kind], count)


def machine() -> lockstep.Machine:
    """A small one that has functions of rows."""
    declared = runpy.run_path(str(NORMALIZE))["DECLARATIONS"]
    return lockstep.Machine(lockstep.preset("tiny-1x4x4"), (*SHIPPED, *declared))


def tokens(kind: str, count: int = TOKENS, *batch: int) -> Array:
    return np.random.default_rng(2).standard_normal((*batch, count, SIZES[kind].width), np.float32)
