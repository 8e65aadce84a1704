"""How good is what a search finds, beside what chance finds in as many trials?

Searches schedules of ten expressions that the generic template takes (`compiler.tune.generic`), for
one thread of this processor. All strategies of a shape take turns, a batch each, so that other load
affects all alike; what was measured once is not measured again. In the end the three best plans of
each strategy are measured once more, side by side, since the least of many times flatters. Prints a
line for each shape and seed, then for each strategy `search_NAME_random`, the
geometric mean of the time of its best plan over that of chance's. ``--json`` keeps the best time
after each trial, and all plans.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from pathlib import Path
from statistics import geometric_mean
from unittest.mock import patch

import numpy as np

from bench.frame import Bench, Sheet
from bench.support.timing import best_times
from compiler import te
from compiler.cpu_gpu_backends.cpu.arrays import on_cache_lines
from compiler.cpu_gpu_backends.cpu.schedules.schedule import schedule
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import Kernel, build
from compiler.ir import Program, lower
from compiler.plans import Task
from compiler.te import Tensor, numpy_dtype
from compiler.tune.accesses import VectorCore
from compiler.tune.explorer import STRATEGIES, Explorer, Limits, ranked
from compiler.tune.generic import GenericSpace
from compiler.tune.space import Candidate, Result

SAMPLES, SECONDS = 8, 0.02      # of a measurement, at most
SAMPLE_SECONDS = 250e-6         # of a sample, at least: the clock is wrong by some microseconds
HOPELESS = 4                    # times the best time after which one sample is enough
FINALISTS = 3                   # plans of each strategy that are measured once more
CHANCE = "random"


def product(rows: int, columns: int, depth: int, dtype: str = "float32", turned: bool = False
            ) -> Tensor:
    x = te.placeholder((rows, depth), dtype, name="x")
    y = te.placeholder((columns, depth) if turned else (depth, columns), dtype, name="y")
    k = te.reduce_axis(depth, name="k")

    def term(i, j):
        right = y[j, k] if turned else y[k, j]
        return x[i, k] * right if dtype == "float32" else (
            te.cast(x[i, k], "int32") * te.cast(right, "int32"))

    return te.compute((rows, columns), lambda i, j: te.sum(term(i, j), axis=k), name="z")


def padded(x: Tensor, by: int) -> Tensor:
    channels, height, width = x.shape
    return te.compute((channels, height + 2 * by, width + 2 * by), lambda c, h, w: te.select(
        te.all_of(h >= by, h < height + by, w >= by, w < width + by), x[c, h - by, w - by], 0.0),
        name="p")


def convolution(channels: int, size: int, filters: int, window: int = 3, stride: int = 1) -> Tensor:
    x = te.placeholder((channels, size, size), "float32", name="x")
    w = te.placeholder((filters, channels, window, window), "float32", name="w")
    p = padded(x, window // 2) if window > 1 else x
    c, ky, kx = (te.reduce_axis(extent, name=name) for extent, name in (
        (channels, "c"), (window, "ky"), (window, "kx")))
    shape = (filters, -(-size // stride), -(-size // stride))
    total = te.compute(shape, lambda f, h, v: te.sum(
        p[c, h * stride + ky, v * stride + kx] * w[f, c, ky, kx], axis=(c, ky, kx)), name="total")
    return te.compute(shape, lambda f, h, v: te.select(
        total[f, h, v] > 0.0, total[f, h, v], 0.0), name="y")


def depthwise(channels: int, size: int) -> Tensor:
    x = te.placeholder((channels, size, size), "float32", name="x")
    w = te.placeholder((channels, 3, 3), "float32", name="w")
    p = padded(x, 1)
    ky, kx = te.reduce_axis(3, name="ky"), te.reduce_axis(3, name="kx")
    return te.compute((channels, size, size), lambda c, h, v: te.sum(
        p[c, h + ky, v + kx] * w[c, ky, kx], axis=(ky, kx)), name="y")


def pool(channels: int, size: int) -> Tensor:
    x = te.placeholder((channels, size, size), "float32", name="x")
    a, b = te.reduce_axis(2, name="a"), te.reduce_axis(2, name="b")
    return te.compute((channels, size // 2, size // 2), lambda c, h, v: te.max(
        x[c, 2 * h + a, 2 * v + b], axis=(a, b)), name="y")


def softmax(rows: int, columns: int) -> Tensor:
    x = te.placeholder((rows, columns), "float32", name="x")
    k, l = te.reduce_axis(columns, name="k"), te.reduce_axis(columns, name="l")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    power = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - top[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, l], axis=l), name="total")
    return te.compute((rows, columns), lambda i, j: power[i, j] / total[i], name="y")


def turned_map(rows: int, columns: int) -> Tensor:
    x = te.placeholder((rows, columns), "float32", name="x")
    y = te.placeholder((columns,), "float32", name="b")
    z = te.compute((rows, columns), lambda i, j: x[i, j] * 0.5 + y[j], name="z")
    return te.compute((columns, rows), lambda j, i: te.tanh(z[i, j]) * z[i, j], name="out")


SHAPES: Mapping[str, Callable[[], Tensor]] = {
    "product": lambda: product(192, 256, 192),
    "product-tails": lambda: product(50, 300, 200),
    "product-turned": lambda: product(96, 128, 256, turned=True),
    "product-int8": lambda: product(96, 128, 192, "int8"),
    "convolution-3x3": lambda: convolution(16, 28, 32),
    "convolution-1x1": lambda: convolution(64, 28, 32, 1, 2),
    "depthwise": lambda: depthwise(64, 28),
    "pool": lambda: pool(64, 56),
    "softmax": lambda: softmax(128, 400),
    "turned-map": lambda: turned_map(200, 320),
}

BENCH = Bench(__file__, __doc__, seed=0)
BENCH.option("--trials", type=int, metavar="N", default=128)
BENCH.option("--seeds", type=int, metavar="N", default=1, help="from --seed on")
BENCH.option("--batch", type=int, metavar="N", default=8)
BENCH.option("--strategies", nargs="+", choices=STRATEGIES, default=["guided"])
BENCH.option("--picture", type=Path, metavar="FILE", help="the curves, as SVG")


@BENCH.part(SHAPES)
def shapes(sheet: Sheet) -> None:
    names = [*dict.fromkeys([*sheet.strategies, CHANCE])]
    ratios: dict[str, list[float]] = {name: [] for name in names if name != CHANCE}
    with tempfile.TemporaryDirectory() as folder, patch.dict(
            os.environ, LOCKSTEP_CACHE=folder):     # thousands of kernels that nobody wants again
        for seed in range(sheet.seed, sheet.seed + sheet.seeds):
            for shape in sheet.cases:
                search = Search(shape, names, sheet.trials, sheet.batch, seed)
                times = search.run()
                for name in ratios:
                    ratios[name].append(times[name] / times[CHANCE])
                print(shape, "seed", seed, *(f"{name} {1e6 * times[name]:.1f} us"
                                             for name in names),
                      *(f"{name}/{CHANCE} {ratios[name][-1]:.3f}" for name in ratios),
                      f"({search.seconds:.0f} s)", flush=True)
                sheet.row(search.summary(times))
    if sheet.picture:
        sheet.picture.write_text(picture(sheet.rows, names))
    for name, found in ratios.items():
        sheet.figure(f"search_{name}_{CHANCE}", geometric_mean(found), ".3f")


class Search:
    """The searches of one shape by several strategies."""

    def __init__(self, shape: str, names: Sequence[str], trials: int, batch: int, seed: int):
        self.shape, self.batch, self.seed = shape, batch, seed
        self.program = lower([SHAPES[shape]()], "main")
        vectors = CpuTarget().vectors
        core = VectorCore(vectors.lanes, 32 if vectors.lanes == 16 else vectors.registers)
        space = GenericSpace(Task("", "", shape), self.program, core)
        self.explorers = {name: Explorer(space, STRATEGIES[name](), Limits(trials), seed)
                          for name in names}
        self.arrays = arrays_of(self.program)
        self.known: dict[str, Result] = {}
        self.best = inf
        self.seconds = 0.0

    def run(self) -> dict[str, float]:
        """The time of the best plan of each strategy."""
        begin, left = time.perf_counter(), dict(self.explorers)
        while left:
            for name, explorer in [*left.items()]:
                candidates = explorer.propose(self.batch)
                for candidate in candidates:
                    explorer.tell(candidate, self.result(candidate))
                if not candidates:
                    del left[name]
        finalists = {name: [candidate.plan for candidate, _ in ranked(explorer.trials)[:FINALISTS]]
                     for name, explorer in self.explorers.items()}
        times = self.side_by_side({plan for plans in finalists.values() for plan in plans})
        self.seconds = time.perf_counter() - begin
        return {name: min(times[plan] for plan in plans) for name, plans in finalists.items()}

    def side_by_side(self, plans: set[str]) -> dict[str, float]:
        """Seconds of each plan, measured in turns."""
        counts = {plan: self.calls(self.known[plan].value or 1.0) for plan in sorted(plans)}
        runs = {plan: self.call(self.kernel(plan), count) for plan, count in counts.items()}
        return {plan: seconds / counts[plan] for plan, seconds in best_times(runs, 20).items()}

    def result(self, candidate: Candidate) -> Result:
        if candidate.plan not in self.known:
            try:
                value = self.measured(self.kernel(candidate.plan))
                self.known[candidate.plan] = Result(value, "s")
            except (ValueError, MemoryError) as error:
                self.known[candidate.plan] = Result(None, "s", str(error).splitlines()[0])
        return self.known[candidate.plan]

    def kernel(self, plan: str) -> Kernel:
        return build(schedule(self.program, CpuTarget().vectors, plan), contract=True)

    def calls(self, seconds: float) -> int:
        """How many calls make a sample."""
        return max(1, ceil(SAMPLE_SECONDS / seconds))

    def call(self, kernel: Kernel, count: int = 1) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                kernel(*self.arrays)

        return run

    def measured(self, kernel: Kernel) -> float:
        """Seconds of processor time of a call, the least of several samples."""
        self.call(kernel)()
        count = self.calls(max(timed(self.call(kernel)), 1e-6))
        run, least, spent = self.call(kernel, count), inf, 0.0
        for _ in range(SAMPLES):
            took = timed(run)
            least, spent = min(least, took / count), spent + took
            if spent > SECONDS or least > HOPELESS * self.best:
                break
        self.best = min(self.best, least)
        return least

    def summary(self, times: Mapping[str, float]) -> dict:
        """The best time after each trial, and what models may learn from."""
        result: dict = {"shape": self.shape, "seed": self.seed, "seconds": self.seconds,
                        "final": dict(times)}
        for name, explorer in self.explorers.items():
            values = [result.value for _, result in explorer.trials]
            least = np.minimum.accumulate([inf if value is None else value for value in values])
            result[name] = {"best": least.tolist(), "values": values,
                            "refused": len(explorer.refused),
                            "features": [one.features for one, _ in explorer.trials],
                            "plans": [one.plan for one, _ in explorer.trials]}
        return result


COLORS = "#2f5d9b", "#b8763a", "#5b8c5a", "#7a5195"
PANEL = 128, 100            # pixels


def picture(curves: Sequence[dict], names: Sequence[str]) -> str:
    """A panel for each shape: the best time so far by trials, over the least that anybody found, up
    to 4; a line for each seed.
    """
    shapes = list(dict.fromkeys(curve["shape"] for curve in curves))
    wide, high = PANEL
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {5 * (wide + 20) + 30} '
             f'{-(-len(shapes) // 5) * (high + 50) + 30}" font-family="sans-serif" font-size="11">']
    for place, name in enumerate(names):
        parts.append(f'<text x="{24 + 90 * place}" y="14" fill="{COLORS[place]}">{name}</text>')
    for number, shape in enumerate(shapes):
        left, top = 24 + number % 5 * (wide + 20), 44 + number // 5 * (high + 50)
        parts += [f'<text x="{left}" y="{top - 6}">{shape}</text>',
                  f'<path d="M{left} {top}v{high}h{wide}" fill="none" stroke="#999"/>']
        parts += [f'<text x="{left - 4}" y="{top + high - at * high / 3 + 4:.0f}" '
                  f'text-anchor="end">{at + 1}</text>' for at in range(4)]
        some = [curve for curve in curves if curve["shape"] == shape]
        least = min(curve[name]["best"][-1] for curve in some for name in names)
        for curve in some:
            for place, name in enumerate(names):
                best = [min(value / least, 4) for value in curve[name]["best"]]
                points = " ".join(f"{left + at * wide / len(best):.1f},"
                                  f"{top + high - (value - 1) * high / 3:.1f}"
                                  for at, value in enumerate(best)
                                  if at in (0, len(best) - 1) or len({*best[at - 1:at + 2]}) > 1)
                parts.append(f'<polyline points="{points}" fill="none" '
                             f'stroke="{COLORS[place]}"/>')
    return "\n".join([*parts, "</svg>", ""])


def timed(run: Callable[[], None]) -> float:
    """Seconds of processor time."""
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


def arrays_of(program: Program) -> list[np.ndarray]:
    """Random inputs, and room for the outputs."""
    random, arrays = np.random.default_rng(0), {}
    for buffer in (*program.inputs, *program.outputs):
        dtype = numpy_dtype(buffer.dtype)
        arrays[buffer.name] = (random.normal(size=buffer.shape).astype(dtype) if dtype.kind == "f"
                               else random.integers(-9, 10, buffer.shape).astype(dtype))
    return [*on_cache_lines(arrays).values()]
