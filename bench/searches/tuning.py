"""What does a search of schedules gain, beside the target's own plans and those of TVM?

`shapes`: ten convolutions and products of float32, one thread. For each, all plans of the templates
are measured (at most ``--most``, then those at random), and half as many plans of the generic
template at random. The least time of all is "the best". Beside it: what the target chooses itself,
and what the guided search has after ``--measurements``. In the end these three are measured again,
side by side. Prints a line for each shape, then `tuning_own_worst` and `tuning_searched_worst`,
times over that of the best.

`networks`: each is tuned with ``--trials`` (512), then run side by side with its own plans and with
those that were found, each compiled several times, since where its arrays lie is worth some
percent: `tuning_NAME`, the mean time with plans over the mean time without.

`streams`: int8 networks on pynq-1x16x16 and ecp5-1x8x8, with ``--trials`` (1000) ways of layers
simulated. `tuning_NAME_MACHINE` is the cycles with the plans of the database over those without;
both programs are proved.

`metaschedule`: our plans of `shapes` beside those that TVM's MetaSchedule finds in ``--seconds``
(`bench.support.tvm_peer`). Ours is the plan that the target chooses without any measurement, or
with ``--plans FILE|DB`` the best one that was found. Both are measured in turns, the least
processor time of each, arrays near: prints a line for each shape, and `metaschedule_ratio`, the
geometric mean of ours over TVM's.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil, inf
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any
from unittest.mock import patch

import numpy as np

from accel.mapping.plans.search import EFFORTS, Effort
from accel.sim.timed import cycle
from bench.frame import Bench, Sheet
from bench.support import tvm_peer
from bench.support.timing import best_times
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm.machine import host
from compiler.errors import RequestError
from compiler.frontend.models import graph_of
from compiler.graph import Builder, Graph, TensorType
from compiler.plans import OWN, PlanRefused, Plans, Recorder, Task
from compiler.tune.explorer import STRATEGIES, Explorer, Limits
from compiler.tune.record import processor_name
from compiler.tune.records import Records
from compiler.tune.sources import plans_from
from compiler.tune.space import Candidate, Result, Space, every_point
from lockstep.testing import zoo
from runtime import Module, SimulatedDevice, compile_on, simulator
from runtime.driver.targets import Request, request
from runtime.pricing.timing import timed
from runtime.tuning.child import Child
from runtime.tuning.streams import StreamPlans
from runtime.tuning.trials import Trial
from runtime.tuning.tuning import Searched, Tuning

ROUNDS = 40             # of the last measurement, at least,
LAST_SECONDS = 0.2      # which takes so long for each of its plans
COPIES = 6              # of a network: where its arrays lie is worth some percent
CONVOLUTIONS = {        # channels, size, filters, window, stride
    "conv3x3_64_56_s2": (64, 56, 128, 3, 2), "conv3x3_256_14_s2": (256, 14, 512, 3, 2),
    "conv1x1_64_56": (64, 56, 256, 1, 1), "conv1x1_256_28": (256, 28, 128, 1, 1),
    "conv1x1_512_14": (512, 14, 512, 1, 1), "conv7x7_3_224": (3, 224, 64, 7, 2),
    "conv1x1_1024_7": (1024, 7, 1024, 1, 1)}
PRODUCTS = {            # rows, depth, columns
    "matmul_196_384_1536": (196, 384, 1536), "matmul_64_192_768": (64, 192, 768),
    "matmul_1_512_1000": (1, 512, 1000)}

TIMES = 5               # that ours and TVM's are measured in turns
SHAPES = (*CONVOLUTIONS, *PRODUCTS)
NETWORKS = ("resnet18", "mobilenet_v1", "vit_small")
STREAMS = ("mobilenet_v1", "squeezenet", "keywords")

MACHINES = ("pynq-1x16x16", "ecp5-1x8x8")

BENCH = Bench(__file__, __doc__, MACHINES)
BENCH.option("--most", type=int, default=2000, metavar="N", help="plans of shapes")
BENCH.option("--measurements", type=int, default=16, metavar="N", help="of the search of shapes")
BENCH.option("--trials", type=int, metavar="N", help="of networks and streams")
BENCH.option("--limit", type=float, default=60.0, metavar="S", help="of a measurement of networks")
BENCH.option("--python", metavar="FILE", help="the interpreter that has TVM")
BENCH.option("--seconds", type=float, default=600.0, help="of TVM's search")
BENCH.option("--plans", metavar="FILE|DB", help="of ours, else what the target chooses")


@BENCH.part(SHAPES)
def shapes(sheet: Sheet) -> None:
    rows = []
    with own_cache():
        for name in sheet.cases:
            rows.append(row := _shape(name, sheet.measurements, sheet.most))
            sheet.row(row)
            print(f"{name}: {row['plans']} plans, own {row['own']:.3f}, after "
                  f"{sheet.measurements} {row['searched']:.3f} of {1e6 * row['seconds']:,.1f} us",
                  flush=True)
    for kind in ("own", "searched"):
        sheet.figure(f"tuning_{kind}_worst", max(row[kind] for row in rows), ".3f")


def _shape(name: str, measurements: int, most: int) -> dict[str, Any]:
    shape = Shape(name)
    own = shape.space.candidate({}).plan
    searched = shape.searched(measurements)
    shape.measure(most)
    plans = {"own": own, "searched": searched, "best": shape.best}
    rounds = max(ROUNDS, ceil(LAST_SECONDS / (shape.known[shape.best].value or inf)))
    times = best_times({kind: shape.run(plan) for kind, plan in plans.items()}, rounds)
    least = min(times.values())
    return {"name": name, "plans": len(shape.known), "seconds": least,
            **{kind: times[kind] / least for kind in plans}}


@BENCH.part(zoo.NETWORKS, NETWORKS, extra=True)
def networks(sheet: Sheet) -> None:
    with own_cache():
        for name in sheet.cases:
            row = tuned(name, sheet.trials or 512, sheet.limit)
            sheet.row(row)
            sheet.figure(f"tuning_{name}", row["ratio"], ".3f")
            print(f"  {row['trials']} trials, {1e3 * row['own']:.2f} ms", flush=True)


@BENCH.part(zoo.NETWORKS, STREAMS, extra=True)
def streams(sheet: Sheet) -> None:
    effort = replace(max(filter(None, EFFORTS), key=lambda effort: effort.breadth),
                     trials=sheet.trials or 1000)
    for machine in sheet.machines:
        for name in sheet.cases:
            imported, wanted = graph_of(zoo.build(name, int8=True)), request(f"accel:{machine}")
            with own_cache() as folder, Records(Path(folder) / "db") as records:
                cycles(imported, wanted, StreamPlans(records), effort)
                own, best = (cycles(imported, wanted, plans) for plans in (OWN, records.plans()))
            sheet.row({"name": name, "machine": machine, "own": own, "tuned": best})
            sheet.figure(f"tuning_{name}_{machine}", best / own, ".4f")
            print(f"  {own:,} cycles, {best:,}", flush=True)


@BENCH.part(SHAPES, extra=True)
def metaschedule(sheet: Sheet) -> None:
    if not sheet.python:
        raise RequestError("--python must be given: an interpreter that has TVM")
    ratios = []
    for name in sheet.cases:
        row = compared(name, sheet.python, sheet.seconds,
                       plans_from(sheet.plans) if sheet.plans else OWN)
        ratios.append(row["ours"] / row["theirs"])
        sheet.row(row | {"ratio": ratios[-1]})
        print(f"{name}: ours {1e6 * row['ours']:,.1f} us, TVM after {row['trials']} trials "
              f"{1e6 * row['theirs']:,.1f} us, ratio {ratios[-1]:.3f}", flush=True)
    sheet.figure("metaschedule_ratio", geometric_mean(ratios), ".3f")


@contextmanager
def own_cache() -> Iterator[str]:
    """A folder, in which also the cache is."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, LOCKSTEP_CACHE=folder):
        yield folder


def graph(name: str) -> Graph:
    rng = np.random.default_rng(0)
    net = Builder(name)

    def constant(*shape: int) -> str:
        return net.add_constant("w", rng.standard_normal(shape).astype(np.float32))

    if name in CONVOLUTIONS:
        channels, size, filters, window, stride = CONVOLUTIONS[name]
        net.add_input("x", TensorType((1, channels, size, size), "float32"))
        weight, pad = constant(filters, channels, window, window), window // 2
        y = net.emit("conv2d", "c", ["x", weight], "c", strides=(stride, stride), pads=(pad,) * 4)
        return net.finish([net.emit("relu", "r", [y], "y")])
    rows, depth, columns = PRODUCTS[name]
    net.add_input("x", TensorType((rows, depth), "float32"))
    return net.finish([net.emit("matmul", "m", ["x", constant(depth, columns)], "y")])


def task_of(name: str) -> Task:
    """The task of the convolution's or product's kernel: the one with most to do."""
    recorder = Recorder()
    CpuTarget(plans=recorder).compile(graph(name))
    groups = [task for task in recorder.recorded if not CpuTarget().decides_tasks(task)]
    return max(groups, key=lambda task: len(CpuTarget().space(task).candidate({}).decisions))


class Shape:
    """The plans of one shape, each measured once."""

    def __init__(self, name: str):
        self.name, self.task = name, task_of(name)
        self.target = CpuTarget()
        self.space: Space = self.target.space(self.task)
        self.known: dict[str, Result] = {}

    def result(self, candidate: Candidate) -> Result:
        if candidate.plan not in self.known:
            try:
                run = self.run(candidate.plan)
                self.known[candidate.plan] = Result(timed(run, samples=5).seconds, "s")
            except (ValueError, MemoryError) as error:
                self.known[candidate.plan] = Result(None, "s", str(error).splitlines()[0])
        return self.known[candidate.plan]

    def run(self, plan: str) -> Callable[[], object]:
        return self.target.measurable(self.task, plan, 0)

    @property
    def best(self) -> str:
        return min(self.known, key=lambda plan: self.known[plan].value or inf)

    def searched(self, measurements: int) -> str:
        explorer = Explorer(self.space, STRATEGIES["guided"](), Limits(measurements))
        while candidates := explorer.propose(1):
            explorer.tell(candidates[0], self.result(candidates[0]))
        assert explorer.best is not None
        return explorer.best.plan

    def measure(self, most: int) -> None:
        """All plans of templates, and others at random."""
        random = np.random.default_rng(0)
        for candidate in self._template_plans(most):
            self.result(candidate)
        for _ in range(most // 2):
            if (candidate := self._candidate({"template": "generic"}, random)) is not None:
                self.result(candidate)

    def _template_plans(self, most: int) -> Iterator[Candidate]:
        def asked(point):
            found = self._candidate(point)
            return found.decisions if found else ()

        count, seen = 0, set()
        for point in every_point(asked):
            found = None if point.get("template") == "generic" else self._candidate(point)
            if found is not None and found.plan not in seen:
                seen.add(found.plan)
                count += 1
                yield found
            if count >= most or point.get("template") == "generic":
                return

    def _candidate(self, point, random=None) -> Candidate | None:
        try:
            return self.space.candidate(point, random)
        except PlanRefused:
            return None


def tuned(name: str, trials: int, limit_seconds: float) -> dict:
    """Tunes a network, and times it with its own plans and with those that were found."""
    imported, wanted, target = graph_of(zoo.build(name)), request("cpu"), CpuTarget()

    def compiled(plans) -> Module:
        return compile_on(imported, wanted.placed(lambda machine: None, plans=plans), False,
                          cache=False)

    with tempfile.TemporaryDirectory() as folder, Records(Path(folder) / "db") as records, \
            Child(limit_seconds) as child:
        def run(proposed: Iterator[Trial]) -> Iterator[tuple[Trial, Result]]:
            while (trial := next(proposed, None)) is not None:
                yield trial, child.run(trial.text)

        tuning = Tuning(compiled, {target.fingerprint: Searched("cpu", target)}, records,
                        processor_name(), Limits(trials, None, 64))
        tuning.run(run)
        modules = [(kind, compiled(plans)) for _ in range(COPIES)
                   for kind, plans in (("own", OWN), ("tuned", tuning.plans()))]
    rng = np.random.default_rng(0)
    given = {value: rng.standard_normal(imported.values[value].shape).astype(np.float32)
             for value in imported.inputs}
    found = best_times({f"{kind} {number}": partial(module, given)
                        for number, (kind, module) in enumerate(modules)}, ROUNDS)
    times = {kind: fmean(seconds for name, seconds in found.items() if name.startswith(kind))
             for kind in ("own", "tuned")}
    return {"name": name, "ratio": times["tuned"] / times["own"], "trials": tuning.done, **times}


def cycles(imported: Graph, wanted: Request, plans: Plans, effort: int | Effort = 0) -> int:
    """Cycles of a network's programs by these plans."""
    targets = wanted.placed(lambda machine: SimulatedDevice(machine, simulator("functional")),
                            plans=plans, effort=effort)
    module = compile_on(imported, targets, False, cache=False)
    return sum(cycle.measure(one.device.machine, one.program).cycles for one in module.accelerated)


def compared(name: str, python: str, seconds: float, plans: Plans) -> dict[str, Any]:
    """Our time and TVM's of a shape, in seconds."""
    task, target = task_of(name), CpuTarget()
    own = plans.find(task, lambda: "") or target.space(task).candidate({}).plan
    processor = {"kind": "llvm", "mcpu": host().cpu, "num-cores": 1}
    asked = {"shape": (CONVOLUTIONS | PRODUCTS)[name], "seconds": seconds,
             "target": json.dumps(processor)}
    with subprocess.Popen([python, "-P", tvm_peer.__file__, json.dumps(asked)], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as other:
        assert other.stdin and other.stdout
        said = next((line for line in other.stdout if line.startswith('{"trials"')), None)
        if said is None:
            raise RequestError(f"{name}: TVM in {python} ended without a result")
        run = target.measurable(task, own, 0)
        ours, theirs = [], []
        for _ in range(TIMES):
            ours.append(tvm_peer.least(run))
            other.stdin.write("again\n")
            other.stdin.flush()
            theirs.append(float(other.stdout.readline()))
        other.stdin.close()
    return {"name": name, "ours": min(ours), "theirs": min(theirs), **json.loads(said)}
