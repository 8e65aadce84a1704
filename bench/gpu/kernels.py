"""Are kernels on a GPU right, and how fast are they beside PyTorch?

Parts, all of them unless told:

products   matrices of 8192 x 8192 in f32, tf32, f16, bf16 and s8, beside torch.matmul (cuBLAS)
rows       softmax of 8192 rows of 1024 and a chain of elements, beside torch.compile
attention  96 heads of 64 columns with 64, 197 and 512 rows in f32 and f16, beside torch's
           scaled_dot_product_attention
depthwise_layers  those of MobileNet-v1 in float32, beside cuDNN
images     a depthwise layer on images of 21, 32 and 64 pixels, with tiles in shared memory and
           without, beside cuDNN
networks   ResNet-18, ResNet-50, MobileNet-v1 and vit_small in f16, batches of 1 and 64, beside
           torch.compile, which records its launches too (``mode="reduce-overhead"``)

Everything is correct first: on fresh random data, outputs poisoned before, within `TOLERANCES` of
the largest element of a reference in float64 (of products 64 rows are looked at); only then it is
timed, in turns with the peer, a sample at least 20 ms long, the median of the rounds. The rate of
copying in the card's memory is measured in the same run.

Compiling a product or a network takes half a minute, so several processes may each have some
(``--only``), if they take turns with the GPU.

Without a GPU, on PoCL (``opencl``) or as C++ (``emulated``), sizes are small and nothing is timed.
Without torch nothing has a peer, and there are no networks. Prints a table; rows have
part, name, error, ours_us, peer_us, ratio (ours / peer), tflops and copy_share (the bytes that must
move, over time and the rate of copying). Exit status 1 where something is wrong.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

from bench.accelerator.layers import LAYERS
from bench.frame import Bench, Sheet
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.intrinsics.gpu import GROUP_KINDS, MMA
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.ir import Program, lower
from compiler.te import numpy_dtype
from runtime.devices.cuda import CudaDevice
from runtime.devices.device import DeviceMissing, KernelDevice
from runtime.devices.emulated import EmulatedDevice
from runtime.devices.opencl import OpenClDevice
from tests.support.gpu_schedules import LARGE, matmul, matmul_tensor_cores, schedule_matmul
from tests.support.gpu_schedules.depthwise import depthwise, schedule_depthwise

DEVICES: dict[str, Callable[[], KernelDevice]] = {
    "cuda": CudaDevice, "opencl": OpenClDevice, "emulated": EmulatedDevice}
SAMPLE_SECONDS = 20e-3
ROWS_SEEN = 64
TOLERANCES = {"int32": 0.0, "float32": 1e-4, "network": 2e-2}
NETWORKS = {"resnet18": 224, "resnet50": 224, "mobilenet_v1": 224, "vit_small": 64}
"""Pixels of a side."""
HEADS, WIDTH = 96, 64       # of attention, and columns of each
STUDY = 21, 32, 64          # pixels of a side
CHANNELS = 128              # of the study
COPIED = 1 << 28            # bytes

PRODUCTS = ("f32", "f32 128x128", "tf32", "f16", "bf16", "s8",
            *(f"{kind} by groups" for kind in GROUP_KINDS))
Run = Callable[[], object]

BENCH = Bench(__file__, __doc__)
BENCH.option("--device", choices=DEVICES, help="default: a GPU, else PoCL")
BENCH.option("--rounds", type=int, default=9)


@dataclass(frozen=True, slots=True)
class Timed:
    """A case: its error over the largest element, and times where it was timed."""

    part: str
    name: str
    error: float
    right: bool
    ours_us: float | None = None
    peer_us: float | None = None
    ratio: float | None = None
    tflops: float | None = None
    copy_share: float | None = None


@dataclass
class Stage:
    """A device, torch on the same GPU where it is there, and how long to measure."""

    device: KernelDevice
    dialect: str
    torch: Any
    rounds: int
    chosen: Collection[str] = ()
    copy_rate: float = 0.0          # bytes a second

    @property
    def is_gpu(self) -> bool:
        return isinstance(self.device, CudaDevice)

    @property
    def has_groups(self) -> bool:
        """Whether groups of warps multiply: by `wgmma`, and where it is emulated."""
        return self.dialect == "cuda" and (not isinstance(self.device, CudaDevice)
                                           or self.device.arch == "sm_90")

    def size(self, full: int, small: int) -> int:
        return full if self.is_gpu else small

    def tensor(self, array: np.ndarray) -> Any:
        """The array on the GPU; None without torch."""
        return self.torch and self.torch.from_numpy(np.ascontiguousarray(array)).cuda()

    def timed(self, part: str, name: str, error: float, kind: str, ours: Run, peer: Run | None,
              operations: float = 0.0, moved: float = 0.0) -> Timed:
        right = error <= TOLERANCES[kind]
        if not (self.is_gpu and right):
            return Timed(part, name, error, right)
        runs: list[tuple[Run, Run]] = [(ours, self.device.wait)]
        if peer:
            runs.append((peer, self.torch.cuda.synchronize))
        counts = [self._count(*run) for run in runs]
        samples: list[list[float]] = [[] for _ in runs]
        for _ in range(self.rounds):
            for found, run, count in zip(samples, runs, counts, strict=True):
                found.append(_seconds(*run, count))
        mine, *other = map(median, samples)
        return Timed(part, name, error, right, mine * 1e6, other[0] * 1e6 if other else None,
                     mine / other[0] if other else None,
                     operations / mine / 1e12 if operations else None,
                     moved / mine / self.copy_rate if moved and self.copy_rate else None)

    def _count(self, run: Run, wait: Run) -> int:
        """Runs of a sample; the first one compiles and does not count."""
        _seconds(run, wait, 1)
        return max(1, int(SAMPLE_SECONDS / max(_seconds(run, wait, 3), 1e-7)))

    def measure_copies(self) -> None:
        if self.is_gpu and self.torch:
            source = self.torch.zeros(COPIED, dtype=self.torch.uint8, device="cuda")
            target = self.torch.empty_like(source)
            run, wait = partial(target.copy_, source), self.torch.cuda.synchronize
            _seconds(run, wait, 3)
            self.copy_rate = 2 * COPIED / median(_seconds(run, wait, 20) for _ in range(
                self.rounds))

    def kernel(self, program: Program, inputs: Mapping[str, np.ndarray]
               ) -> tuple[np.ndarray, Run]:
        """The output of kernels, which were poisoned, and what runs them again."""
        code: Code = generate(program, self.dialect)
        buffers = (*code.inputs, *code.outputs, *code.temporaries)
        places = {buffer.name: self.device.allocate(buffer.size_bytes) for buffer in buffers}
        for buffer in buffers:
            data = (np.ascontiguousarray(inputs[buffer.name]).reshape(-1).view(np.uint8)
                    if buffer in code.inputs else np.full(buffer.size_bytes, 0xA5, np.uint8))
            self.device.copy_in(places[buffer.name], data)
        start = self.device.record(code, *places.values())
        start()
        self.device.wait()
        out, = code.outputs
        data = self.device.copy_out(places[out.name], out.size_bytes)
        return data.view(numpy_dtype(out.dtype)).reshape(out.shape), start

    def graph(self, graph: Graph, inputs: Mapping[str, np.ndarray], **options: Any
              ) -> tuple[np.ndarray, Run]:
        """The only output of a graph, and what runs it again."""
        target = GpuTarget(self.dialect, self.dialect, **options)
        if isinstance(self.device, CudaDevice):
            target = target.on_arch(self.device.arch)
        executable = target.compile(graph).on(self.device)
        found, = executable(inputs).values.values()
        return np.asarray(found), executable.again


def _seconds(run: Run, wait: Run, count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return (time.perf_counter() - begin) / count


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The greatest difference over the greatest element; not a number is as wrong as can be."""
    difference = np.abs(found.astype(np.float64) - wanted).max()
    return float(difference / max(np.abs(wanted).max(), 1e-30)) if np.isfinite(difference) else (
        float("inf"))


@cache
def stage_of(name: str | None, rounds: int) -> Stage:
    """The device that a command asks for, told once."""
    device = _device(name)
    stage = Stage(device, "opencl" if isinstance(device, OpenClDevice) else "cuda", _torch(),
                  rounds)
    stage.measure_copies()
    print(f"{device.name}; " + (f"copies {stage.copy_rate / 1e9:.0f} GB/s in its memory"
                                if stage.copy_rate else "nothing is timed"))
    print(f"{'case':36}{'error':>9}{'ours us':>11}{'torch us':>11}{'ratio':>7}{'TFLOPS':>8}"
          f"{'of copies':>10}")
    return stage


Cases = Callable[[Stage, np.random.Generator], Iterator[Timed]]


def part(known: Collection[str] = ()) -> Callable[[Cases], Cases]:
    """Adds the decorated function, which yields cases, to the bench."""
    def added(cases: Cases) -> Cases:
        @BENCH.part(known)
        @wraps(cases)
        def measured(sheet: Sheet) -> None:
            stage = stage_of(sheet.device, sheet.rounds)
            stage.chosen = sheet.cases
            for one in cases(stage, np.random.default_rng(0)):
                _show(one)
                sheet.row(one)
                sheet.require(one.right)
            sheet.figures |= {"device": stage.device.name, "copy_rate": stage.copy_rate}
            sheet.figure("gpu_cases", len(sheet.rows))
            sheet.figure("gpu_wrong", sum(not row["right"] for row in sheet.rows))

        return cases

    return added


@part(PRODUCTS)
def products(bench: Stage, rng: np.random.Generator) -> Iterator[Timed]:
    n = bench.size(8192, 160)
    kinds = PRODUCTS if bench.has_groups else (
        ("f32", "f32 128x128", "s8") if bench.dialect == "opencl" else PRODUCTS[:6])
    for name in kinds:
        if name not in bench.chosen:
            continue
        kind, groups = name.removesuffix(" by groups"), name.endswith(" by groups")
        mma = MMA.get(kind)
        dtype, total = (mma.dtype, mma.total) if mma else ("float32", "float32")
        a, b = (rng.integers(-128, 128, (n, n)).astype(np.int8) if kind == "s8" else
                rng.standard_normal((n, n)).astype(np.float16).astype(numpy_dtype(dtype))
                for _ in range(2))          # tf32 holds what float16 does; bfloat16 rounds it
        if mma:
            program = lower([matmul_tensor_cores(n, n, n, kind)], "product")
            program = own_schedule(program, (kind,) if bench.dialect == "cuda" else (),
                                   groups).program
            given = {"a": a, "b": b}
        else:
            product = matmul(n, n, n, "float32")
            program = own_schedule(lower([product], "product")).program if kind == "f32" else (
                schedule_matmul(product, "product", LARGE).program)
            given = dict(zip((buffer.name for buffer in program.inputs), (a, b.T), strict=True))
        found, start = bench.kernel(program, given)
        rows = rng.choice(n, min(ROWS_SEEN, n), replace=False)
        wanted = a[rows].astype(np.float64) @ b.T.astype(np.float64)
        yield bench.timed("products", f"{name} {n}", _error(found[rows], wanted), total, start,
                          _torch_product(bench, a, b, kind), 2.0 * n ** 3)


def _torch_product(bench: Stage, a: np.ndarray, b: np.ndarray, kind: str) -> Run | None:
    if not bench.is_gpu or not bench.torch:
        return None
    torch = bench.torch
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    if kind == "bf16":
        a, b = a.astype(np.float32), b.astype(np.float32)
    first, second = bench.tensor(a), bench.tensor(b)
    if kind == "bf16":
        first, second = first.bfloat16(), second.bfloat16()
    multiply = torch._int_mm if kind == "s8" else torch.matmul
    return lambda: multiply(first, second.T)


@part()
def rows(bench: Stage, rng: np.random.Generator) -> Iterator[Timed]:
    count, length = bench.size(8192, 24), bench.size(1024, 100)
    x = rng.standard_normal((count, length)).astype(np.float32)
    net, last = Builder("softmax"), {"axes": (1,), "keepdims": 1}
    net.add_input("x", TensorType.of(x))
    net.emit("reduce_max", "max", ["x"], "m", **last)
    net.emit("sub", "sub", ["x", "m"], "d")
    net.emit("exp", "exp", ["d"], "e")
    net.emit("reduce_sum", "sum", ["e"], "s", **last)
    net.emit("div", "div", ["e", "s"], "y")
    yield _row(bench, "softmax", net.finish(["y"]), x, lambda torch, x: torch.softmax(x, 1))
    net = Builder("chain")
    net.add_input("x", TensorType.of(x))
    net.add_constant("k", np.array(0.5, np.float32))
    net.emit("mul", "mul", ["x", "k"], "p")
    net.emit("relu", "relu", ["p"], "r")
    net.emit("add", "add", ["r", "x"], "y")
    yield _row(bench, "chain", net.finish(["y"]), x, lambda torch, x: torch.relu(x * 0.5) + x)


def _row(bench: Stage, name: str, graph: Graph, x: np.ndarray,
         peer: Callable[[Any, Any], Any]) -> Timed:
    found, again = bench.graph(graph, {"x": x})
    wanted, = evaluate(graph, {"x": x}).values()
    other = None
    if bench.is_gpu and bench.torch:
        compiled = bench.torch.compile(partial(peer, bench.torch))
        other = partial(compiled, bench.tensor(x))
    return bench.timed("rows", f"{name} {x.shape[0]}x{x.shape[1]}", _error(found, wanted),
                       "float32", again, other, moved=2.0 * x.nbytes)


@part()
def attention(bench: Stage, rng: np.random.Generator) -> Iterator[Timed]:
    heads = bench.size(HEADS, 2)
    kinds = {"f32": "float32", **({} if bench.dialect == "opencl" else {"f16": "float16"})}
    for kind, dtype in kinds.items():
        for count in (64, 197, 512) if bench.is_gpu else (50,):
            q, k, v = (rng.standard_normal((1, heads, count, WIDTH)).astype(dtype)
                       for _ in range(3))
            given = {"q": q / np.array(WIDTH, dtype) ** 0.5, "k": k.swapaxes(2, 3), "v": v}
            given = {name: np.ascontiguousarray(x, dtype) for name, x in given.items()}
            options = {"precision": kind} if kind != "f32" else {}
            found, again = bench.graph(_attention(given), given, **options)
            scores = given["q"].astype(np.float64) @ given["k"]
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            wanted = powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)
            peer = partial(bench.torch.nn.functional.scaled_dot_product_attention,
                           *map(bench.tensor, (q, k, v))) if bench.is_gpu and bench.torch else None
            yield bench.timed("attention", f"{kind} {heads}x{count}x{WIDTH}",
                              _error(found, wanted), "float32" if kind == "f32" else "network",
                              again, peer, 4.0 * heads * count * count * WIDTH)


def _attention(given: Mapping[str, np.ndarray]) -> Graph:
    net, last = Builder("attention"), {"axes": (3,), "keepdims": 1}
    for name, x in given.items():
        net.add_input(name, TensorType.of(x))
    net.emit("matmul", "scores", ["q", "k"], "t")
    net.emit("reduce_max", "max", ["t"], "m", **last)
    net.emit("sub", "sub", ["t", "m"], "d")
    net.emit("exp", "exp", ["d"], "e")
    net.emit("reduce_sum", "sum", ["e"], "s", **last)
    net.emit("div", "div", ["e", "s"], "w")
    weights = "w"
    if (dtype := str(given["v"].dtype)) != "float32":
        weights = net.emit("cast", "cast", ["w"], "h", to=dtype)
    return net.finish([net.emit("matmul", "context", [weights, "v"], "y")])


@part()
def depthwise_layers(bench: Stage, rng: np.random.Generator) -> Iterator[Timed]:
    for channels, pixels, stride in dict.fromkeys(LAYERS):
        size = pixels if bench.is_gpu else min(pixels, 14)
        channels = channels if bench.is_gpu else min(channels, 32)
        x = rng.standard_normal((1, channels, size, size)).astype(np.float32)
        w = rng.standard_normal((channels, 1, 3, 3)).astype(np.float32)
        net = Builder("depthwise")
        net.add_input("x", TensorType.of(x))
        net.add_constant("w", w)
        net.emit("conv2d", "conv", ["x", "w"], "y", strides=(stride, stride), pads=(1,) * 4,
                 group=channels)
        graph = net.finish(["y"])
        found, again = bench.graph(graph, {"x": x})
        wanted, = evaluate(graph, {"x": x}).values()
        yield bench.timed("depthwise", f"{channels}x{size}x{size} stride {stride}",
                          _error(found, wanted), "float32", again,
                          _cudnn(bench, x, w, stride), moved=float(x.nbytes + wanted.nbytes))


def _cudnn(bench: Stage, x: np.ndarray, w: np.ndarray, stride: int) -> Run | None:
    if not bench.is_gpu or not bench.torch:
        return None
    bench.torch.backends.cudnn.allow_tf32 = False
    return partial(bench.torch.nn.functional.conv2d, bench.tensor(x), bench.tensor(w),
                   stride=stride, padding=1, groups=len(w))


@part()
def images(bench: Stage, rng: np.random.Generator) -> Iterator[Timed]:
    channels = bench.size(CHANNELS, 4)
    for size in STUDY:
        x = rng.standard_normal((channels, size, size)).astype(np.float32)
        w = rng.standard_normal((channels, 3, 3)).astype(np.float32)
        y = depthwise(channels, size, 3, "float32")
        own = own_schedule(lower([y], "depthwise")).program
        tiled = schedule_depthwise(depthwise(channels, size, 3, "float32"), "depthwise").program
        net = Builder("depthwise")
        net.add_input("x", TensorType((1, channels, size, size), "float32"))
        net.add_constant("w", w[:, None])
        net.emit("conv2d", "conv", ["x", "w"], "y", strides=(1, 1), pads=(1,) * 4, group=channels)
        wanted, = evaluate(net.finish(["y"]), {"x": x[None]}).values()
        for name, program in (("tiles", tiled), ("no tiles", own)):
            found, start = bench.kernel(program, {"image": x, "weight": w})
            yield bench.timed("images", f"{channels}x{size}x{size}, {name}",
                              _error(found, wanted[0]), "float32", start,
                              _cudnn(bench, x[None], w[:, None], 1), moved=2.0 * x.nbytes)


@part(NETWORKS)
def networks(bench: Stage, rng: np.random.Generator) -> Iterator[Timed]:
    if not bench.torch:
        return
    torch = bench.torch
    for name in NETWORKS:
        if name not in bench.chosen:
            continue
        for batch in (1, 64) if bench.is_gpu else (1,):
            yield _network(bench, torch, name, batch)


def _network(bench: Stage, torch: Any, name: str, batch: int) -> Timed:
    from compiler.frontend.pytorch import programs as torch_export
    from examples.torch_networks import build

    size = bench.size(NETWORKS[name], min(NETWORKS[name], 64))
    module, inputs = build(name, size, batch)
    graph = torch_export.convert(torch_export.exported(module, inputs), name)
    given = {value: x.numpy() for value, x in zip(graph.inputs, inputs, strict=True)}
    options = {} if bench.dialect == "opencl" else {"precision": "f16"}
    found, again = bench.graph(graph, given, **options)
    with torch.no_grad():
        wanted = module.double()(*(x.double() for x in inputs)).numpy()
    peer = _compiled(torch, module, inputs) if bench.is_gpu else None
    return bench.timed("networks", f"{name} {size}, batch {batch}", _error(found, wanted),
                       "network", again, peer)


def _compiled(torch: Any, module: Any, inputs: Sequence[Any]) -> Run:
    compiled = torch.compile(module.half().cuda(), mode="reduce-overhead")
    halves = [x.half().cuda() for x in inputs]

    def run() -> None:
        with torch.no_grad():
            compiled(*halves)
    return run


def _device(name: str | None) -> KernelDevice:
    if name:
        return DEVICES[name]()
    try:
        return CudaDevice()
    except DeviceMissing:
        return OpenClDevice()


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError:
        return None


def _show(one: Timed) -> None:
    def cell(value: float | None, width: int, places: int) -> str:
        return f"{'' if value is None else f'{value:,.{places}f}':>{width}}"

    print(f"{one.part + ' ' + one.name:36}{one.error:9.1e}{cell(one.ours_us, 11, 1)}"
          f"{cell(one.peer_us, 11, 1)}{cell(one.ratio, 7, 2)}{cell(one.tflops, 8, 1)}"
          f"{cell(one.copy_share, 10, 2)}{'' if one.right else '  WRONG'}", flush=True)
