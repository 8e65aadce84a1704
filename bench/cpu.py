"""How fast is a network on the host, beside ONNX Runtime and OpenVINO?

    python -m bench.cpu [NAME ...] [--operators] [--dtypes float32,int8] [--threads N]
                        [--rounds N] [--json FILE]

Each network of `examples.zoo` (all but ResNet-34 unless told; images of 224 x 224) runs in turns
with the peers that are installed (ONNX Runtime by the extra `test`, OpenVINO by the extra `peers`),
so that other load on the machine affects all alike; a sample takes at least 2 ms. Where several
threads compute, turns are 20 ms apart, since threads that wait for more work disturb others, and
begin with a run that does not count. Medians of the process's processor time and of wall time.

Prints a line for each network and type, and ``name value`` lines: ``cpu_NETWORK_DTYPE_over_PEER``,
the ratio of processor times, and ``cpu_DTYPE_over_PEER``, the geometric mean over the networks.
With ``--operators`` the names are those of `bench.inputs.cpu_operators`, all unless told, and
``cpu_operators_DTYPE_over_PEER`` is the largest ratio. ``--json`` writes rows of network, dtype,
threads, ours_ms, peer, peer_ms, ratio (of processor time), ours_wall_ms, peer_wall_ms, and `share`,
the share of the multiply-accumulates' time at the peak rate that is measured in the same run.

Outputs must agree with ONNX Runtime (2e-5 of the largest element in float32), else the exit status
is 1. `int8` is the quantized network, which peers round in their own ways: there only the
correlation must be 0.9 at least.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import median

import numpy as np
import onnx

import lockstep
from bench.inputs.cpu_operators import OPERATORS, operator_model
from compiler import te
from compiler.cpu_gpu_backends.llvm import build, host
from compiler.native import processor
from compiler.quantize import quantize_ranges
from compiler.schedule import Schedule
from lockstep.testing import zoo

NAMES = tuple(name for name in zoo.NETWORKS if name != "resnet34")
OF_ITS_OWN = ("keywords", "lstm")
SAMPLE_SECONDS = 2e-3
PAUSE_SECONDS = 20e-3

Arrays = Mapping[str, np.ndarray]
Run = Callable[[], object]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--operators", action="store_true",
                        help="single operators, not networks")
    parser.add_argument("--dtypes", default="float32,int8", help="default float32,int8")
    parser.add_argument("--threads", type=int, default=1, help="default 1")
    parser.add_argument("--rounds", type=int, default=20, help="default 20")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rows for scripts")
    args = parser.parse_args()
    measured = _operator if args.operators else _network
    named = re.search(r"model name\s*:\s*(.*?)(?=flags|$)", processor())
    name = named[1].strip() if named else "a processor without a name"
    print(f"{name}: {peak_gflops():.1f} GFLOP/s at most, float32, one thread", flush=True)
    rows, wrong = [], 0
    for name in args.names or (OPERATORS if args.operators else NAMES):
        for dtype in args.dtypes.split(","):
            found, agrees = measured(name, dtype, args.threads, args.rounds)
            rows += found
            wrong += not agrees
            _print(found, agrees)
    for row in rows:
        print(f"cpu_{row.network}_{row.dtype}_over_{row.peer} {row.ratio:.3f}")
    for dtype in args.dtypes.split(","):
        for peer in dict.fromkeys(row.peer for row in rows):
            ratios = [row.ratio for row in rows if (row.dtype, row.peer) == (dtype, peer)]
            if args.operators:
                print(f"cpu_operators_{dtype}_over_{peer} {max(ratios):.3f}")
                continue
            print(f"cpu_{dtype}_over_{peer} {exp(sum(map(log, ratios)) / len(ratios)):.3f}")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(wrong > 0)


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
        rng = np.random.default_rng(1)
        samples = [{value.name: rng.standard_normal([
            side.dim_value for side in value.type.tensor_type.shape.dim], np.float32)
            for value in model.graph.input} for _ in range(2)]
        model = lockstep.quantize(model, samples).model
    return _measured(name, dtype, model, 0, threads, rounds)


def _measured(name: str, dtype: str, model: onnx.ModelProto, macs: int, threads: int,
              rounds: int) -> Measured:
    module = lockstep.compile(model, "cpu" if threads == 1 else f"cpu:{threads}")
    peers = _peers(model, threads)
    rng = np.random.default_rng(0)
    inputs = {value: rng.standard_normal(module.graph.values[value].shape, np.float32)
              for value in module.graph.inputs}
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


def _peers(model: onnx.ModelProto, threads: int) -> dict[str, Callable[[Arrays], Arrays]]:
    return {"onnxruntime": _onnx_runtime(model, threads)} | _openvino(model, threads)


def _onnx_runtime(model: onnx.ModelProto, threads: int) -> Callable[[Arrays], Arrays]:
    import onnxruntime              # from the extra `test`

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return lambda inputs: dict(zip(names, map(np.asarray, session.run(None, dict(inputs))),
                                   strict=True))


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


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
