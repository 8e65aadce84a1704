"""A small float network whose parts an instruction of one's own may fuse, and its machines.

The network adds two convolutions and takes the relu of the sum. `ADDRELU` declares one instruction
for both; `NO_MAX` lacks the instruction that a relu alone needs.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ADDRELU = '''
import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler import te
from compiler.ops.integers.fixed_point import add_multipliers

def body(a, b, ma, mb, s, zp, lo, hi):
    t = ((a - lo.astype("int32")).astype("int64") * ma.astype("int64")
         + (b - hi.astype("int32")).astype("int64") * mb.astype("int64"))
    r = te.rshift_rne(te.maximum(t, 0), (s & 63).astype("int64")) + zp.astype("int64")
    return te.clamp(r, -128, 127).astype("int32")

def numbers(x, y, out):
    ma, mb, s = add_multipliers(x.scale / out.scale, y.scale / out.scale)
    return dict(ma=ma, mb=mb, s=s, zp=out.zp, lo=x.zp, hi=y.zp)

addrelu = lockstep.vector_op("addrelu", body, a=("res",), b=("res",),
                             matches=lambda x, y: te.maximum(x + y, 0.0), immediates=numbers)
machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"), (*SHIPPED, addrelu))
'''

NO_MAX = '''
import lockstep
from accel.machine.intrinsics import SHIPPED

machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"),
                           tuple(one for one in SHIPPED if one.name != "max"))
'''

SIZE, CHANNELS = 8, 4


def write_case(folder: Path) -> None:
    """Writes ``net.onnx``, ``x.npz``, ``addrelu.py`` and ``no_max.py``."""
    rng = np.random.default_rng(0)
    onnx.save(_network(rng), folder / "net.onnx")
    shape = (4, CHANNELS, SIZE, SIZE)
    np.savez(folder / "x.npz", x=rng.standard_normal(shape).astype(np.float32))
    (folder / "addrelu.py").write_text(ADDRELU)
    (folder / "no_max.py").write_text(NO_MAX)


def _network(rng: np.random.Generator) -> onnx.ModelProto:
    shape = [1, CHANNELS, SIZE, SIZE]
    weights = [numpy_helper.from_array(
        rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 6, name)
        for name in ("w1", "w2", "w3")]

    def conv(name: str, source: str, weight: str, made: str) -> onnx.NodeProto:
        return helper.make_node("Conv", [source, weight], [made], name, pads=[1, 1, 1, 1])

    nodes = [conv("c1", "x", "w1", "a"), conv("c2", "a", "w2", "b"),
             helper.make_node("Add", ["a", "b"], ["s"], "add"),
             helper.make_node("Relu", ["s"], ["r"], "relu"), conv("c3", "r", "w3", "y")]
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "net", info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
