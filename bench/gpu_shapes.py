"""Random operators of random shapes as kernels of GPUs: are they right, without races and spills?

    python -m bench.gpu_shapes [--count 300] [--seed 0] [--device opencl|emulated|cuda]
                               [--arch sm_80 ...] [--tensor-cores]

Convolutions (stride, padding on each side, groups), products of matrices, of long sums too, and of
one row, pools, reductions, softmax and elementwise chains, in float32 and int8, with extents that
divide nothing. Each is scheduled as in a network and computed on outputs that are poisoned first;
it must equal the NumPy meaning, integers to the bit, floats within 1e-5 of the largest element. One
in ten also runs on NumPy lanes that record which thread touches what. Every kernel is compiled by
NVRTC for each ``--arch``. With ``--tensor-cores`` they are convolutions of images with channels
last and products, computed by tensor cores where these take them, in int8 and in tf32 (of numbers
that tf32 holds), in CUDA. Prints what is wrong, then ``name value`` lines; exit status 1 if
anything is.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.stages import stages
from compiler.cpu_gpu_backends.gpu.tensor_tiles import in_precision
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.cpu_gpu_backends.simt.lowering import lower
from compiler.cpu_gpu_backends.simt.races import find_races
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.fusion import fuse
from compiler.ir import Program, Tensorized, walk_stmts
from runtime.cuda import CudaDevice
from runtime.device import KernelDevice
from runtime.emulated import EmulatedDevice
from runtime.kernels import compute
from runtime.opencl import OpenClDevice

__all__ = ["Case", "cases", "check"]

DEVICES: dict[str, Callable[[], KernelDevice]] = {
    "opencl": OpenClDevice, "emulated": EmulatedDevice, "cuda": CudaDevice}
TOGETHER = 10           # kernels of one text
TOLERANCE = 1e-5
CLAMP = {"zp": 3, "lo": -128, "hi": 127}


@dataclass(frozen=True)
class Case:
    """A group of operators as a graph with its inputs, and as a program with its own."""

    title: str
    graph: Graph
    arrays: dict[str, np.ndarray]
    program: Program
    inputs: dict[str, np.ndarray]


class _Net:
    """A graph of one group, of values that are drawn."""

    def __init__(self, rng: np.random.Generator, short: bool = False):
        """`short` numbers of float32 are those of float16, which tf32 holds."""
        self.rng, self.net, self.short = rng, Builder("case"), short
        self.arrays: dict[str, np.ndarray] = {}

    def input(self, *shape: int, dtype: str = "float32", low: int = -100, high: int = 100) -> str:
        name = f"x{len(self.arrays)}"
        array = (self.rng.standard_normal(shape) if dtype == "float32"
                 else self.rng.integers(low, high, shape)).astype(dtype)
        if self.short and dtype == "float32":
            array = array.astype(np.float16).astype(np.float32)
        self.arrays[name] = array
        self.net.add_input(name, TensorType.of(array))
        return name

    def emit(self, op: str, inputs: list[str], output: str, **attrs) -> str:
        self.net.emit(op, f"{op}_{output}", inputs, output, **attrs)
        return output

    def number(self, low: int, high: int) -> int:
        """Both included."""
        return int(self.rng.integers(low, high + 1))

    def parameters(self, channels: int) -> list[str]:
        """Bias, multiplier and shift of each channel."""
        return [self.input(channels, dtype="int32", low=-5000, high=5000),
                self.input(channels, dtype="int32", low=32768, high=65536),
                self.input(channels, dtype="int32", low=20, high=26)]


def _convolution(net: _Net, int8: bool) -> None:
    group = net.number(1, 3) if net.number(0, 3) == 0 else 1
    inside, outside = net.number(1, 20), net.number(1, 40)
    size = net.number(3, 20), net.number(3, 20)
    kernel = net.number(1, 3), net.number(1, 3)
    dtype = "int8" if int8 else "float32"
    x = net.input(net.number(1, 2), group * inside, *size, dtype=dtype)
    w = net.input(group * outside, inside, *kernel, dtype=dtype)
    attrs = {"strides": (net.number(1, 2), net.number(1, 2)),
             "pads": tuple(net.number(0, 1) for _ in range(4)), "group": group}
    if int8:
        net.emit("qconv2d", [x, w, *net.parameters(group * outside)], "y", **attrs, **CLAMP,
                 pad_value=-7)
        return
    net.emit("conv2d", [x, w, net.input(group * outside)], "c", **attrs)
    net.emit("relu", ["c"], "y")


def _last_convolution(net: _Net, int8: bool) -> None:
    inside, outside = net.number(4, 80), net.number(4, 150)
    size, kernel = (net.number(3, 20), net.number(3, 20)), (net.number(1, 3), net.number(1, 3))
    dtype = "int8" if int8 else "float32"
    x = net.input(net.number(1, 3), *size, inside, dtype=dtype)
    w = net.input(outside, *kernel, inside, dtype=dtype)
    attrs = {"strides": (net.number(1, 2), net.number(1, 2)),
             "pads": tuple(net.number(0, 1) for _ in range(4))}
    if int8:
        net.emit("qconv2d_last", [x, w, *net.parameters(outside)], "y", **attrs, **CLAMP,
                 pad_value=-7 * net.number(0, 1))
        return
    net.emit("conv2d_last", [x, w, net.input(outside)], "c", **attrs)
    net.emit("relu", ["c"], "y")


def _product(net: _Net, int8: bool) -> None:
    batch, rows, terms, columns = (net.number(1, most) for most in (3, 80, 90, 180))
    if int8:
        net.emit("qmatmul", [net.input(batch, rows, terms, dtype="int8"),
                             net.input(batch, terms, columns, dtype="int8")], "y", **CLAMP,
                 a_zp=2, b_zp=-1, bias=5, mult=40000, shift=24, trans_b=0)
        return
    net.emit("matmul", [net.input(batch, rows, terms), net.input(batch, terms, columns)], "p")
    net.emit("add", ["p", net.input(columns)], "y")


def _long_product(net: _Net, int8: bool) -> None:
    """Few results, of long sums."""
    rows, terms, columns = net.number(8, 70), net.number(300, 3000), net.number(8, 130)
    if int8:
        net.emit("qdense", [net.input(rows, terms, dtype="int8"),
                            net.input(columns, terms, dtype="int8"), *net.parameters(columns)],
                 "y", **CLAMP)
        return
    net.emit("matmul", [net.input(rows, terms), net.input(terms, columns)], "y")


def _long_convolution(net: _Net, int8: bool) -> None:
    """Few pixels of many channels."""
    inside, outside, size = net.number(100, 300), net.number(8, 80), net.number(3, 7)
    dtype, kernel = "int8" if int8 else "float32", (net.number(1, 3), net.number(1, 3))
    x = net.input(1, size, net.number(3, 7), inside, dtype=dtype)
    w = net.input(outside, *kernel, inside, dtype=dtype)
    attrs = {"strides": (1, 1), "pads": tuple(net.number(0, 1) for _ in range(4))}
    if int8:
        net.emit("qconv2d_last", [x, w, *net.parameters(outside)], "y", **attrs, **CLAMP,
                 pad_value=-7 * net.number(0, 1))
        return
    net.emit("conv2d_last", [x, w, net.input(outside)], "y", **attrs)


def _dense(net: _Net, int8: bool) -> None:
    rows, terms, outputs = net.number(1, 3), net.number(1, 700), net.number(1, 300)
    if int8:
        net.emit("qdense", [net.input(rows, terms, dtype="int8"),
                            net.input(outputs, terms, dtype="int8"), *net.parameters(outputs)],
                 "y", **CLAMP)
        return
    net.emit("dense", [net.input(rows, terms), net.input(outputs, terms), net.input(outputs)], "y",
             trans_b=1)


def _pool(net: _Net, int8: bool) -> None:
    kernel = net.number(2, 3), net.number(2, 3)
    x = net.input(net.number(1, 2), net.number(1, 30), net.number(3, 20), net.number(3, 20),
                  dtype="int8" if int8 else "float32")
    net.emit("qmaxpool" if int8 else "maxpool", [x], "y", kernel=kernel,
             strides=(net.number(1, 2), net.number(1, 2)),
             pads=tuple(net.number(0, 1) for _ in range(4)))


def _rows(net: _Net, int8: bool) -> None:
    """Softmax of rows; of int8 their greatest difference from the maximum."""
    shape = net.number(1, 3), net.number(1, 12), net.number(1, 300)
    last = {"axes": (2,), "keepdims": 1}
    if int8:
        net.emit("qbelow_max", [net.input(*shape, dtype="int8")], "y")
        return
    x = net.input(*shape)
    net.emit("reduce_max", [x], "m", **last)
    net.emit("sub", [x, "m"], "d")
    net.emit("exp", ["d"], "e")
    net.emit("reduce_sum", ["e"], "s", **last)
    net.emit("div", ["e", "s"], "y")


def _reduction(net: _Net, int8: bool) -> None:
    shape = net.number(1, 6), net.number(1, 40), net.number(1, 200)
    axes = ((0,), (1,), (2,), (0, 2), (0, 1, 2))[net.number(0, 4)]
    op = ("reduce_sum", "reduce_max")[net.number(0, 1)]
    net.emit(op, [net.input(*shape)], "y", axes=axes, keepdims=net.number(0, 1))


def _chain(net: _Net, int8: bool) -> None:
    shape = net.number(1, 4), net.number(1, 50), net.number(1, 90)
    net.emit("mul", [net.input(*shape), net.input(shape[1], 1)], "p")
    net.emit("add", ["p", net.input(*shape)], "s")
    net.emit("tanh", ["s"], "y")


KINDS = (_convolution, _convolution, _product, _long_product, _dense, _pool, _rows, _reduction,
         _chain)
BY_TENSOR_CORES = (_last_convolution, _last_convolution, _product, _long_product,
                   _long_convolution, _dense)


def cases(seed: int, tensor_cores: bool = False) -> Iterator[Case]:
    rng, kinds = np.random.default_rng(seed), BY_TENSOR_CORES if tensor_cores else KINDS
    while True:
        kind, int8 = kinds[int(rng.integers(len(kinds)))], bool(rng.integers(2))
        net = _Net(rng, tensor_cores)
        kind(net, int8)
        graph = net.net.finish(["y"])
        group, *others = fuse(graph).groups
        if others or group.is_view:
            continue
        recipe = recipe_of(graph, group)
        program = unscheduled(recipe)
        program = own_schedule(in_precision(program, "tf32"), ("s8", "tf32")).program if (
            tensor_cores) else own_schedule(program).program
        inputs = {buffer.name: net.arrays[value].reshape(buffer.shape) for buffer, value
                  in zip(program.inputs, group.inputs, strict=True)}
        yield Case(str(recipe), graph, net.arrays, program, inputs)


def check(chosen: list[Case], device: KernelDevice, dialect: str, number: int) -> Iterator[str]:
    """What is wrong with the cases, the first of which is the `number`-th; their kernels are one
    text.
    """
    codes = generate_all([replace(case.program, name=f"k{place}_{case.program.name}")
                          for place, case in enumerate(chosen)], dialect)
    for place, (case, code) in enumerate(zip(chosen, codes, strict=True)):
        wanted = evaluate(case.graph, case.arrays)["y"]
        found = compute(device, code, case.inputs)["y"].reshape(wanted.shape)
        if found.dtype != wanted.dtype or not _near(found, wanted):
            yield f"{case.title}: another result"
        if (number + place) % 10 == 0 and find_races(
                lower(case.program, *[dialect == "cuda"] * 3), case.inputs):
            yield f"{case.title}: a race"


def _has_tensor_cores(case: Case) -> bool:
    return any(isinstance(stmt, Tensorized) for stmt in walk_stmts(case.program.body))


def _near(found: np.ndarray, wanted: np.ndarray) -> bool:
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    return bool(np.abs(found - wanted).max() <= TOLERANCE * max(1.0, np.abs(wanted).max()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_shapes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=DEVICES, default="opencl")
    parser.add_argument("--arch", nargs="*", default=["sm_80"], metavar="A")
    parser.add_argument("--tensor-cores", action="store_true")
    args = parser.parse_args()
    if args.tensor_cores and args.device == "opencl":
        args.device = "emulated"
    device = DEVICES[args.device]()
    dialect = "opencl" if args.device == "opencl" else "cuda"
    stream, wrong, kinds = cases(args.seed, args.tensor_cores), 0, Counter[str]()
    spilled = local = taken_by_tensor_cores = in_parts = 0
    for number in range(0, args.count, TOGETHER):
        chosen = list(islice(stream, min(TOGETHER, args.count - number)))
        kinds.update(case.program.name for case in chosen)
        taken_by_tensor_cores += sum(map(_has_tensor_cores, chosen))
        in_parts += sum(any(stage.buffer.name.endswith("_rf") for stage in stages(case.program))
                        for case in chosen)
        for line in check(chosen, device, dialect, number):
            print(line, flush=True)
            wrong += 1
        if args.arch:
            text = generate_all([replace(case.program, name=f"k{place}_{case.program.name}")
                                 for place, case in enumerate(chosen)], "cuda")[0].text
            for arch in args.arch:
                taken = compile_cuda(text, arch).resources.values()
                spilled += sum(one.spill_bytes for one in taken)
                local += sum(one.local_bytes for one in taken)
        print(f"{number + len(chosen)} of {args.count}", file=sys.stderr, flush=True)
    for name, count in sorted(kinds.items()):
        print(f"gpu_shapes_{name} {count}")
    if args.tensor_cores:
        print(f"gpu_shapes_by_tensor_cores {taken_by_tensor_cores}")
    print(f"gpu_shapes_in_parts {in_parts}")
    print(f"gpu_shapes_seed {args.seed}")
    print(f"gpu_shapes {args.count}")
    print(f"gpu_shapes_wrong {wrong}")
    print(f"gpu_shapes_spilled_bytes {spilled}")
    print(f"gpu_shapes_local_bytes {local}")
    return int(bool(wrong or spilled))


if __name__ == "__main__":
    sys.exit(main())
