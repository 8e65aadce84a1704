"""How fast is the host: networks and operators beside peers, kernels beside the processor's peak?

`networks`: each network of `examples.zoo` (all but ResNet-34 unless told; images of 224 x 224) runs
in turns with the peers that are installed (ONNX Runtime by the extra `test`, OpenVINO by the extra
`peers`), so that other load on the machine affects all alike; a sample takes at least 2 ms. Where
several threads compute, turns are 20 ms apart, since threads that wait for more work disturb
others, and begin with a run that does not count. Medians of the process's processor time and of
wall time. Prints a line for each network and type, ``cpu_NETWORK_DTYPE_over_PEER``, the ratio of
processor times, and ``cpu_DTYPE_over_PEER``, the geometric mean over the networks, in int8 also as
``cpu_int8_SET_over_PEER`` with what multiplies bytes here (amx, vnni, dotprod, words). Rows have
`share` as well, the share of the multiply-accumulates' time at the peak rate that is measured in
the same run. Outputs must agree with ONNX Runtime (2e-5 of the largest element in float32), else
the exit status is 1. `int8` is the quantized network, which peers round in their own ways: there
only the correlation must be 0.9 at least.

`operators`: the same of `bench.inputs.cpu_operators`; ``cpu_operators_DTYPE_over_PEER`` is the
largest ratio.

`bodies`: convolutions of 3 x 3 and 1 x 1 and dense layers of `bench.inputs.cpu_operators` run on
the target `cpu:plain`, that is without Winograd's products, kernel by kernel; the one that adds
products counts, the best of all rounds. A round runs every operator and measures the peak in
float32, of which the best counts too; that of bytes is four times as high, which instructions on
vectors reach at most (tile registers may exceed it). Prints ``body_NAME_DTYPE_share``, and
``body_DTYPE_least``.

`training`: activations of a step of training of residual networks, 2 images of 32 x 32, by the
plan without workspaces: ``train_depthN_plain_mb``, and ``train_depthN_least_mb`` where parts are
computed twice.

`intrinsics`: matrix products by tile instructions. Each kind of `tests.support.product_templates`
that this processor has, of size 1024 x 1024 x 1024 by default, is checked first, then timed in
turns with NumPy's BLAS on float32. The best processor time of all rounds counts. Prints

- ``cpu_KIND_tmacs``: 10**12 multiply-accumulates a second, with b packed in panels beforehand, as
  weights are; ``cpu_KIND_packing_tmacs``: packing b is part of it;
- ``cpu_KIND_over_blas``: the same, divided by what NumPy's BLAS does on float32 in this run;
- ``cpu_fp32_ratio``: time of NumPy's BLAS divided by that of the fastest float32 kind, b packed
  beforehand; ``cpu_fp32_packing_ratio``: packing is part of it.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import geometric_mean, median

import numpy as np
import onnx

import lockstep
from bench.frame import Bench, Sheet
from bench.inputs.cpu_operators import OPERATORS, operator_model, samples
from bench.inputs.float_networks import image
from bench.support.onnx_runtime import Peer
from bench.support.timing import best_times
from compiler import te
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import MachineError, build, host
from compiler.cpu_gpu_backends.memory import plan_groups
from compiler.errors import RequestError
from compiler.gradients.memory import LittleMemory
from compiler.gradients.steps import training_step
from compiler.graph import Graph, optimize
from compiler.native import processor
from compiler.quantize import quantize_ranges
from compiler.schedule import Schedule
from lockstep.testing import zoo
from tests.support.residual_networks import residual
from tests.support.product_templates import TEMPLATES, in_panels, product

NAMES = tuple(name for name in zoo.NETWORKS if name != "resnet34")
OF_ITS_OWN = ("keywords", "lstm")
DEPTHS = tuple(f"depth{depth}" for depth in (50, 98, 200, 398, 998))
SAMPLE_SECONDS = 2e-3
PAUSE_SECONDS = 20e-3
BODIES = tuple(name for name, (op, *numbers) in OPERATORS.items()
              if op == "Conv" and numbers[5] == 1 and min(numbers[:2]) >= 64
              or op == "Dense" and numbers[0] > 1)
TIMES = 10              # an operator in a round
BYTE_PRODUCTS = {"amx-int8": "amx", "avx512vnni": "vnni", "avxvnni": "vnni", "dotprod": "dotprod"}
Arrays = Mapping[str, np.ndarray]
Run = Callable[[], object]

BENCH = Bench(__file__, __doc__, environment={
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
BENCH.option("--dtypes", nargs="+", default=["float32", "int8"], choices=("float32", "int8"))
BENCH.option("--threads", type=int, default=1, help="of networks and operators")
BENCH.option("--rounds", type=int, help="(20; of bodies 10, of intrinsics 40)")
BENCH.option("--size", type=int, default=1024, help="of intrinsics")


@dataclass(frozen=True, slots=True)
class CpuRow:
    """One network beside one peer."""

    network: str
    dtype: str
    threads: int
    ours_ms: float
    peer: str
    peer_ms: float
    ratio: float
    ours_wall_ms: float
    peer_wall_ms: float
    share: float


@BENCH.part(zoo.NETWORKS, NAMES)
def networks(sheet: Sheet) -> None:
    rows = _beside_peers(sheet, _network)
    for dtype, peer, ratios in _ratios(rows):
        mean = geometric_mean(ratios)
        sheet.figure(f"cpu_{dtype}_over_{peer}", mean, ".3f")
        if dtype == "int8":
            sheet.figure(f"cpu_int8_{byte_products()}_over_{peer}", mean, ".3f")


@BENCH.part(OPERATORS, extra=True)
def operators(sheet: Sheet) -> None:
    rows = _beside_peers(sheet, _operator)
    for dtype, peer, ratios in _ratios(rows):
        sheet.figure(f"cpu_operators_{dtype}_over_{peer}", max(ratios), ".3f")


def _beside_peers(sheet: Sheet, measured: Callable[[str, str, int, int], "Measured"]
                  ) -> list[CpuRow]:
    named = re.search(r"model name\s*:\s*(.*?)(?=flags|$)", processor())
    name = named[1].strip() if named else "a processor without a name"
    print(f"{name}: {peak_gflops():.1f} GFLOP/s at most, float32, one thread", flush=True)
    rows = []
    for name in sheet.cases:
        for dtype in sheet.dtypes:
            found, agrees = measured(name, dtype, sheet.threads, sheet.rounds or 20)
            rows += found
            sheet.require(agrees)
            _print(found, agrees)
    for row in rows:
        sheet.row(row)
        sheet.figure(f"cpu_{row.network}_{row.dtype}_over_{row.peer}", row.ratio, ".3f")
    return rows


def byte_products() -> str:
    """What multiplies bytes on this processor: peers gain unlike from each."""
    return next((name for feature, name in BYTE_PRODUCTS.items() if host().has(feature)), "words")


def _ratios(rows: Sequence[CpuRow]) -> Iterator[tuple[str, str, list[float]]]:
    """The ratios for each type and peer."""
    for dtype, peer in dict.fromkeys((row.dtype, row.peer) for row in rows):
        yield dtype, peer, [row.ratio for row in rows if (row.dtype, row.peer) == (dtype, peer)]


@BENCH.part(BODIES, extra=True)
def bodies(sheet: Sheet) -> None:
    for dtype in sheet.dtypes:
        runs, peak = {name: Body(name, dtype) for name in sheet.cases}, 0.0
        for _ in range(sheet.rounds or 10):
            for run in runs.values():
                run()
            peak_gflops.cache_clear()
            peak = max(peak, peak_gflops())
        peak *= 1 if dtype == "float32" else 4
        shares = {name: products(name) / run.seconds / 5e8 / peak for name, run in runs.items()}
        for name, share in shares.items():
            sheet.figure(f"body_{name}_{dtype}_share", share, ".3f")
        sheet.figure(f"body_{dtype}_least", min(shares.values()), ".3f")


@BENCH.part(TEMPLATES, extra=True)
def intrinsics(sheet: Sheet) -> None:
    runs: dict[str, Run] = {"blas": _blas(sheet.size)}
    for kind in sheet.cases:
        try:
            for suffix, packed in (("", True), ("_packing", False)):
                runs[kind + suffix] = _ours(kind, sheet.size, packed)
        except (MachineError, ValueError) as error:
            print(f"{kind}: {error}", file=sys.stderr)
            if len(sheet.cases) == 1:
                raise RequestError(f"{kind} must be what this processor has") from None
    best = best_times(runs, sheet.rounds or 40)
    for name, seconds in best.items():
        sheet.figure(f"cpu_{name}_tmacs", sheet.size ** 3 / seconds / 1e12, ".4f")
        sheet.figure(f"cpu_{name}_over_blas", best["blas"] / seconds, ".2f")
    for suffix in ("", "_packing"):
        ours = [best[name + suffix] for name in TEMPLATES
                if TEMPLATES[name].a == "float32" and name + suffix in best]
        if ours:
            sheet.figure(f"cpu_fp32{suffix}_ratio", best["blas"] / min(ours), ".3f")


@BENCH.part(DEPTHS, extra=True)
def training(sheet: Sheet) -> None:
    target = CpuTarget()

    def planned(graph: Graph) -> int:
        lowered = target.lowered(optimize(graph))
        groups = target.groups(lowered).groups
        return plan_groups(lowered, groups, [None if one.is_view else () for one in groups]).size

    for name in sheet.cases:
        network = lockstep.trainable(residual(int(name.removeprefix("depth")), size=32), batch=2)
        step = training_step(lockstep.cross_entropy(network.graph, "y"), "loss",
                             network.parameters, lockstep.Sgd(), network.statistics)
        ways = LittleMemory(step)
        least = ways.within(ways.least)
        assert least is not None
        for kind, graph in (("plain", step.graph), ("least", least.graph)):
            sheet.figure(f"train_{name}_{kind}_mb", planned(graph) / 1e6, ".2f")


def _print(rows: Sequence[CpuRow], agrees: bool) -> None:
    first = rows[0]
    peers = "  ".join(f"{row.peer} {row.peer_ms:9.3f} ratio {row.ratio:5.2f}" for row in rows)
    print(f"{first.network:30} {first.dtype:8} ours {first.ours_ms:9.3f} ms  {peers}  share "
          f"{first.share:4.0%}{'' if agrees else '  OUTPUTS DIFFER'}", flush=True)


Measured = tuple[list[CpuRow], bool]


def _network(name: str, dtype: str, threads: int, rounds: int) -> Measured:
    net = zoo.network(name, None if name in OF_ITS_OWN else 224)
    filled = zoo.fill(net)
    model = zoo.float_model(net, filled)
    if dtype == "int8":
        model = quantize_ranges(model, filled.ranges)
    return _measured(name, dtype, model, sum(net.macs()), threads, rounds)


def _operator(name: str, dtype: str, threads: int, rounds: int) -> Measured:
    model = operator_model(name)
    if dtype == "int8":
        model = lockstep.quantize(model, samples(model, 1)).model
    return _measured(name, dtype, model, 0, threads, rounds)


def _measured(name: str, dtype: str, model: onnx.ModelProto, macs: int, threads: int,
              rounds: int) -> Measured:
    module = lockstep.compile(model, "cpu" if threads == 1 else f"cpu:{threads}")
    peers = {"onnxruntime": Peer(model, threads=threads)} | _openvino(model, threads)
    inputs = image(module.graph)
    ours = module(inputs)
    wanted = peers["onnxruntime"](inputs)
    agrees = all(_agree(ours[value], array, dtype) for value, array in wanted.items())
    runs: dict[str, Run] = {"ours": lambda: module(inputs)}
    runs |= {peer: lambda run=run: run(inputs) for peer, run in peers.items()}
    cpu, wall = medians(runs, rounds, PAUSE_SECONDS if threads > 1 else 0.0)
    return [CpuRow(name, dtype, threads, cpu["ours"] * 1e3, peer, cpu[peer] * 1e3,
                   cpu["ours"] / cpu[peer], wall["ours"] * 1e3, wall[peer] * 1e3,
                   2e-9 * macs / peak_gflops() / cpu["ours"]) for peer in peers], agrees


def _agree(ours: np.ndarray, wanted: np.ndarray, dtype: str) -> bool:
    if dtype == "int8":
        return float(np.corrcoef(ours.ravel(), wanted.ravel())[0, 1]) >= 0.9
    return float(np.abs(ours - wanted).max()) <= 2e-5 * max(1.0, float(np.abs(wanted).max()))


def medians(runs: Mapping[str, Run], rounds: int,
             pause: float) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of the processor and of the clock on the wall, of functions that take turns."""
    often = {}
    for name, run in runs.items():
        run()
        begin = time.perf_counter()
        run()
        often[name] = max(1, round(SAMPLE_SECONDS / max(time.perf_counter() - begin, 1e-7)))
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    wall: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            if pause:
                time.sleep(pause)
                run()
            begun, begin = time.process_time(), time.perf_counter()
            for _ in range(often[name]):
                run()
            cpu[name].append((time.process_time() - begun) / often[name])
            wall[name].append((time.perf_counter() - begin) / often[name])
    return ({name: median(times) for name, times in cpu.items()},
            {name: median(times) for name, times in wall.items()})


def _openvino(model: onnx.ModelProto, threads: int) -> dict[str, Callable[[Arrays], Arrays]]:
    """OpenVINO with float32 as its precision, where it is installed."""
    try:
        import openvino             # pyright: ignore[reportMissingImports]
    except ImportError:
        return {}
    core = openvino.Core()
    read = core.read_model(model=model.SerializeToString())
    compiled = core.compile_model(read, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return {"openvino": lambda inputs: {
        value.get_any_name(): array for value, array in request.infer(dict(inputs)).items()}}


@cache
def peak_gflops() -> float:
    """Products and sums of float32 a second, in vectors that stay in registers: of a small product
    of matrices that is added to itself many times, the best of many runs.
    """
    rows, columns = (14, 32) if host().has("avx512f") else (6, 16)
    depth, times = 64, 250
    a, b = te.placeholder((depth, rows), "float32", "a"), te.placeholder((depth, columns),
                                                                        "float32", "b")
    r, k = te.reduce_axis(times, "r"), te.reduce_axis(depth, "k")
    acc = te.compute((rows, columns),
                     lambda i, j: te.sum(a[k.var, i] * b[k.var, j], (r, k)), "acc")
    out = te.compute(acc.shape, lambda i, j: acc[i, j] * 1.0, "out")
    s = Schedule([out])
    s["acc"].reorder("r", "k", "acc_i", "acc_j")
    s["acc"].unroll("acc_i")
    s["acc"].vectorize("acc_j")
    s["acc"].decompose_reduction("r")
    s["out"].unroll("out_i")
    s["out"].vectorize("out_j")
    kernel = build(s.program, contract=True)
    arrays = [np.ones(buffer.shape, np.float32)
              for buffer in (*s.program.inputs, *s.program.outputs)]
    best = float("inf")
    for _ in range(200):
        begin = time.perf_counter()
        kernel(*arrays)
        best = min(best, time.perf_counter() - begin)
    return 2e-9 * rows * columns * depth * times / best


def products(name: str) -> int:
    """Multiply-accumulates of an operator."""
    op, *numbers = OPERATORS[name]
    if op == "Dense":
        rows, depth, columns = numbers
        return rows * depth * columns
    ci, co, k, size, stride, _ = numbers
    return ci * co * k * k * (-(-size // stride)) ** 2


class Body:
    """An operator; `seconds` are the least of its kernel that adds products."""

    def __init__(self, name: str, dtype: str):
        model = operator_model(name)
        given = samples(model, 0)
        if dtype == "int8":
            model = lockstep.quantize(model, given).model
        self.module, self.sample = lockstep.compile(model, "cpu:plain"), given[0]
        self.seconds = float("inf")

    def __call__(self) -> None:
        for _ in range(TIMES):
            row, = (row for row in self.module.profile(self.sample)
                    if any(op in row["op"] for op in ("conv2d", "packed_matmul")))
            self.seconds = min(self.seconds, row["seconds"])


def _blas(size: int) -> Run:
    a, b, c = (aligned((size, size), "float32") for _ in range(3))
    a[:], b[:] = 1, 2
    return lambda: np.matmul(a, b, out=c)


def _ours(kind: str, size: int, packed: bool) -> Run:
    """Computes a product of random operands; raises ArithmeticError if it is wrong."""
    way, rng = TEMPLATES[kind], np.random.default_rng(0)
    kernel = build(product(kind, size, size, size, packed), contract=True, strict=True)
    a, b, c = (aligned((size, size), dtype) for dtype in (way.a, way.b, way.c))
    for array in (a, b):
        low = 0 if array.dtype.kind == "u" else -100
        array[:] = rng.integers(low, 100, array.shape)
    arrays = a, in_panels(kind, b) if packed else b, c
    kernel(*arrays)
    exact = a.astype(np.float64) @ b.astype(np.float64)     # below 2^53
    bound = (size + 1) * np.finfo(np.float32).eps * 1e4 * size if way.c == "float32" else 0
    if (abs(c - exact) > bound).any():
        raise ArithmeticError(f"{kind} must compute the product of its operands")
    return lambda: kernel(*arrays)
