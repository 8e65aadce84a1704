"""Random operators of random shapes as kernels of GPUs: are they right, without races and spills?

Convolutions (stride, padding on each side, groups), products of matrices, of long sums too, and of
one row, attention, pools, reductions, softmax and elementwise chains, in float32 and int8, with
extents that divide nothing. Each is scheduled as in a network and computed on outputs that are
poisoned first; it must equal the NumPy meaning, integers to the bit, floats within 1e-5 of the
largest element. One in ten also runs on NumPy lanes that record which thread touches what. Every
kernel is compiled by NVRTC for each ``--arch``. `tensor_cores` are convolutions of
images with channels last, products and attention, computed by tensor cores where these take them,
in int8 and in tf32 (of numbers that tf32 holds, but for the weights of attention, which are
rounded), in CUDA. `groups` are products and convolutions of single pixels whose
operands the TMA copies, in int8 and float16, for ``sm_90a``. Prints what is wrong, then ``name
value`` lines; exit status 1 if anything is.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from bench.frame import Bench, Sheet
from compiler.cpu_gpu_backends.gpu.flat_inputs import with_flat_inputs
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.stages import stages
from compiler.cpu_gpu_backends.gpu.tensor_tiles import in_precision
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.cpu_gpu_backends.simt.kernels import is_of_groups
from compiler.cpu_gpu_backends.simt.lowering import lower
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.fusion import fuse
from compiler.ir import Program, Tensorized, walk_stmts
from runtime.devices.cuda import CudaDevice
from runtime.devices.device import KernelDevice
from runtime.devices.emulated import EmulatedDevice
from runtime.devices.opencl import OpenClDevice
from tests.support.kernels import compute
from tests.support.races import find_races

DEVICES: dict[str, Callable[[], KernelDevice]] = {
    "opencl": OpenClDevice, "emulated": EmulatedDevice, "cuda": CudaDevice}
TOGETHER = 10           # kernels of one text
TOLERANCE = 1e-5
WEIGHTS = 4 * 2.0**-11      # of values that are at most 4, by weights that tf32 rounds
CLAMP = {"zp": 3, "lo": -128, "hi": 127}

BENCH = Bench(__file__, __doc__, seed=0)
BENCH.option("--count", type=int, default=300)
BENCH.option("--device", choices=DEVICES, default="opencl", help="tensor cores want CUDA")
BENCH.option("--arch", nargs="*", metavar="A", help="(sm_80; of groups sm_90a)")


@BENCH.part()
def threads(sheet: Sheet) -> None:
    _measure(sheet, "threads", sheet.device, "sm_80")


@BENCH.part(extra=True)
def tensor_cores(sheet: Sheet) -> None:
    _measure(sheet, "tensor cores", _of_cuda(sheet.device), "sm_80")


@BENCH.part(extra=True)
def groups(sheet: Sheet) -> None:
    _measure(sheet, "groups", _of_cuda(sheet.device), "sm_90a")


def _of_cuda(device: str) -> str:
    return "emulated" if device == "opencl" else device


def _measure(sheet: Sheet, mode: str, name: str, arch: str) -> None:
    archs = [arch] if sheet.arch is None else sheet.arch
    device, dialect = DEVICES[name](), "opencl" if name == "opencl" else "cuda"
    stream, wrong, kinds = cases(sheet.seed, mode), 0, Counter[str]()
    spilled = local = taken = in_parts = 0
    for number in range(0, sheet.count, TOGETHER):
        chosen = list(islice(stream, min(TOGETHER, sheet.count - number)))
        kinds.update(case.program.name for case in chosen)
        taken += sum(_is_by(mode, case) for case in chosen)
        in_parts += sum(any(stage.buffer.name.endswith("_rf") for stage in stages(case.program))
                        for case in chosen)
        for line in check(chosen, device, dialect, number):
            print(line, flush=True)
            wrong += 1
        if archs:
            text = generate_all(_numbered(chosen), "cuda")[0].text
            for arch in archs:
                resources = compile_cuda(text, arch).resources.values()
                spilled += sum(one.spill_bytes for one in resources)
                local += sum(one.local_bytes for one in resources)
        print(f"{number + len(chosen)} of {sheet.count}", file=sys.stderr, flush=True)
    for kind, count in sorted(kinds.items()):
        sheet.figure(f"gpu_shapes_{kind}", count)
    if mode != "threads":
        sheet.figure(f"gpu_shapes_by_{mode.replace(' ', '_')}", taken)
    sheet.figure("gpu_shapes_in_parts", in_parts)
    sheet.figure("gpu_shapes_seed", sheet.seed)
    sheet.figure("gpu_shapes", sheet.count)
    sheet.figure("gpu_shapes_wrong", wrong)
    sheet.figure("gpu_shapes_spilled_bytes", spilled)
    sheet.figure("gpu_shapes_local_bytes", local)
    sheet.require(not (wrong or spilled))


def _numbered(chosen: list["Case"]) -> list[Program]:
    """The programs under names of their own, so that they can be one text."""
    return [replace(case.program, name=f"k{place}_{case.program.name}")
            for place, case in enumerate(chosen)]


@dataclass(frozen=True)
class Case:
    """A group of operators as a graph with its inputs, and as a program with its own."""

    title: str
    graph: Graph
    arrays: dict[str, np.ndarray]
    program: Program
    inputs: dict[str, np.ndarray]
    tolerance: float = TOLERANCE


class _Net:
    """A graph of one group, of values that are drawn."""

    def __init__(self, rng: np.random.Generator, short: bool = False):
        """`short` numbers of float32 are those of float16, which tf32 holds."""
        self.rng, self.net, self.short = rng, Builder("case"), short
        self.arrays: dict[str, np.ndarray] = {}

    def input(self, *shape: int, dtype: str = "float32", low: int = -100, high: int = 100) -> str:
        name = f"x{len(self.arrays)}"
        array = (self.rng.standard_normal(shape) if dtype in ("float32", "float16")
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
    if int8:
        net.emit("qbelow_max", [net.input(*shape, dtype="int8")], "y")
        return
    _softmax(net, net.input(*shape), "y")


def _softmax(net: _Net, x: str, result: str) -> str:
    last = {"axes": (2,), "keepdims": 1}
    net.emit("reduce_max", [x], "m", **last)
    net.emit("sub", [x, "m"], "d")
    net.emit("exp", ["d"], "e")
    net.emit("reduce_sum", ["e"], "s", **last)
    return net.emit("div", ["e", "s"], result)


def _attention(net: _Net, int8: bool) -> None:
    """Two products of float32 with softmax between, half of them with a mask."""
    heads, rows, terms, columns, width = (
        net.number(low, most) for low, most in ((1, 3), (8, 80), (1, 70), (8, 300), (16, 140)))
    last = net.emit("matmul", [net.input(heads, rows, terms),
                               net.input(heads, terms, columns)], "t")
    if int8:
        last = net.emit("add", [last, net.input(rows, columns)], "b")
    net.emit("matmul", [_softmax(net, last, "w"), net.input(heads, columns, width)], "y")


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


KINDS = (_convolution, _convolution, _product, _long_product, _attention, _dense, _pool, _rows,
         _reduction, _chain)
BY_TENSOR_CORES = (_last_convolution, _last_convolution, _product, _long_product,
                   _long_convolution, _attention, _dense)


def _rows_product(net: _Net, int8: bool) -> None:
    """A product of operands in rows along the sum."""
    leading = (net.number(2, 3),) if net.number(0, 1) else ()
    rows, columns = net.number(8, 200), net.number(8, 200)
    terms = 16 * net.number(9, 16) if int8 else 8 * net.number(9, 30)
    dtype = "int8" if int8 else "float16"
    factors = [net.input(*leading, rows, terms, dtype=dtype),
               net.input(*leading, columns, terms, dtype=dtype)]
    if int8:
        net.emit("qmatmul", factors, "y", **CLAMP, a_zp=0, b_zp=0, bias=5, mult=40000, shift=24,
                 trans_b=1)
        return
    net.emit("matmul", factors, "p", trans_b=1)
    net.emit("add", ["p", net.input(columns)], "y")


def _pixels(net: _Net, int8: bool) -> None:
    """A convolution of single pixels."""
    inside, outside = 16 * net.number(9, 14) if int8 else 8 * net.number(9, 24), net.number(8, 160)
    dtype = "int8" if int8 else "float16"
    x = net.input(net.number(1, 3), net.number(3, 12), net.number(3, 12), inside, dtype=dtype)
    w = net.input(outside, 1, 1, inside, dtype=dtype)
    attrs = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
    if int8:
        net.emit("qconv2d_last", [x, w, *net.parameters(outside)], "y", **attrs, **CLAMP,
                 pad_value=0)
        return
    net.emit("conv2d_last", [x, w, net.input(outside)], "c", **attrs)
    net.emit("relu", ["c"], "y")


MODES = {"threads": (KINDS, ()), "tensor cores": (BY_TENSOR_CORES, ("s8", "tf32")),
         "groups": ((_rows_product, _pixels), ("s8", "f16"))}
"""What is drawn, and the kinds of products that tensor cores compute."""


def cases(seed: int, mode: str = "threads") -> Iterator[Case]:
    rng, (kinds, tensor) = np.random.default_rng(seed), MODES[mode]
    while True:
        kind, int8 = kinds[int(rng.integers(len(kinds)))], bool(rng.integers(2))
        net = _Net(rng, "tf32" in tensor)
        kind(net, int8)
        graph = net.net.finish(["y"])
        group, *others = fuse(graph, lambda _, group: True).groups
        if others or group.is_view:
            continue
        recipe = recipe_of(graph, group)
        program = unscheduled(recipe)
        if tensor:
            program = with_flat_inputs(in_precision(program, tensor[-1]))
        program = own_schedule(program, tensor, mode == "groups").program
        inputs = {buffer.name: net.arrays[value].reshape(buffer.shape) for buffer, value
                  in zip(program.inputs, group.inputs, strict=True)}
        yield Case(str(recipe), graph, net.arrays, program, inputs,
                   WEIGHTS if tensor and kind is _attention else TOLERANCE)


def check(chosen: list[Case], device: KernelDevice, dialect: str, number: int) -> Iterator[str]:
    """What is wrong with the cases, the first of which is the `number`-th; their kernels are one
    text.
    """
    codes = generate_all(_numbered(chosen), dialect)
    for place, (case, code) in enumerate(zip(chosen, codes, strict=True)):
        wanted = evaluate(case.graph, case.arrays)["y"]
        found = compute(device, code, case.inputs)["y"].reshape(wanted.shape)
        if found.dtype != wanted.dtype or not _near(found, wanted, case.tolerance):
            yield f"{case.title}: another result"
        if (number + place) % 10 == 0 and find_races(
                lower(case.program, *[dialect == "cuda"] * 3), case.inputs):
            yield f"{case.title}: a race"


def _is_by(mode: str, case: Case) -> bool:
    """Whether tensor cores compute it, by groups of warps where that is asked for."""
    return any(isinstance(stmt, Tensorized) and (mode != "groups" or is_of_groups(stmt))
               for stmt in walk_stmts(case.program.body))


def _near(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    return bool(np.abs(found - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max()))
