"""Trained networks from wheels, as users bring them: float on the host, int8 on the
accelerator, beside ONNX Runtime (the extra `real`).

For each network (`bench.inputs.real_networks`)

1. the target `cpu` computes it in float: the largest difference from ONNX Runtime by the largest
   element of the output must be at most `TOLERANCE`;
2. our quantizer makes int8 of it by at most 16 samples, and it runs with the accelerator's cycle
   simulator: segments of the accelerator, its share of all multiply-accumulates, the signal to
   quantization noise ratio of the worst output against ONNX Runtime in float;
3. ONNX Runtime's own quantizer (static, QDQ, int8, a scale for each output channel) makes int8 by
   the same samples, which ONNX Runtime runs;
4. all four answer on samples that no quantizer saw.

A network that is quantized already is compiled as it is; it has no float network to compare with,
and what is compared with in int8 is ONNX Runtime without its optimizations: one sum in another
order moves a number to the next integer, which the layers behind it make more of.
Each network has a process of its own.

`rounding` gives matrices and convolutions but the first and the last weights of 4 bits, with a
scale for each channel and with scales of groups, to the nearest and with feedback, and prints
``NETWORK_CASE``, the signal to noise of the outputs in dB on samples that were not calibrated on.
``digits`` are the repository's, 300 of its held-out images to calibrate and 60 to judge by.

`training` quantizes trained networks to few bits and trains them as they are quantized
(`bench.inputs.quantized_training`; ``digits`` needs scikit-learn, the data of ``keywords`` are
synthetic): ``NETWORK_float``, and for each kind of bits ``NETWORK_BITS_alone`` and
``NETWORK_BITS_trained``, the share of held-out rows that are right, in percent;
``NETWORK_BITS_apart``, the share of outputs in which integers differ from what training computed.

Prints tables, then figures: `real_float` counts the networks that are right in float,
`real_float_judged` those that have a float network to be judged by, `real_int8` those that run in
int8, `real_refused` those that either refuses. Exit status 1 when there is one that is judged and
not right, or refused; 2 where the extra is not installed.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import ModelProto
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.accelerator.limits import macs
from bench.frame import Bench, Sheet
from bench.inputs.quantized_training import LESSONS
from bench.inputs.real_inputs import ROOT
from bench.inputs.real_networks import BY_NAME, Network, Sample
from bench.support.onnx_runtime import Peer, bound, in_float, is_int8, quantized_by_onnx_runtime
from compiler.errors import RequestError
from compiler.frontend.building.binding import extents_of, real_inputs
from compiler.graph.division.partition import ACCEL
from compiler.quantize import quantize
from compiler.quantize.improve.error_feedback import ROUNDINGS
from examples.digits.data import held_out
from runtime import Module, compile as compile_model

TOLERANCE = 1e-4        # of the largest element, as in `bench.light_models`, and for its reasons
STAGES = {"compile": "cpu", "run": "run", "run (ORT)": "ORT", "quantize": "quantize",
          "compile int8": "accel", "run int8": "run"}
"""The timed stages, with their headings."""
SIDES = ("theirs", "ours", "int8", "their_int8")
Array = np.ndarray
Values = Mapping[str, Array]
T = TypeVar("T")

BENCH = Bench(__file__, __doc__)
BENCH.option("--target", default="accel:pynq-1x16x16", metavar="T")
BENCH.option("--answers", action="store_true", help="print every answer")


@BENCH.part(BY_NAME)
def models(sheet: Sheet) -> None:
    chosen = [BY_NAME[name] for name in sheet.cases]
    require_installed(chosen)
    found = []
    for network in track(chosen, "networks", console=Console(stderr=True), transient=True):
        found.append(in_its_own_process(network.name, sheet.target))
        sheet.row(found[-1])
        print(summary(found[-1]), file=sys.stderr, flush=True)
    report(found, sheet.answers)
    for name, value in counts(found).items():
        sheet.figure(name, value)
    sheet.require(not any(one.fails for one in found))


def require_installed(networks: Iterable[Network]) -> None:
    """Raises RequestError where the package of a network is missing."""
    if absent := sorted({network.package for network in networks if network.path is None}):
        raise RequestError(f"Package {', '.join(absent)} must be installed: "
                           "pip install -e '.[real]' -c constraints.txt")


GROUPED = {"channels": {}, "groups": {"weight_groups": 32}}
FLOAT_DIGITS, DIGITS = ROOT / "examples" / "digits" / "digits-float.onnx", "digits"
DIGITS_TO_CALIBRATE = 300
FEW_BITS = {"w8a8": {}, "w4a4": {"weight_bits": 4, "activation_bits": 4},
            "w2a4": {"weight_bits": 2, "activation_bits": 4}}


@BENCH.part((DIGITS, *BY_NAME), (DIGITS, "magika", "silero_vad", "ppocr_cls"), extra=True)
def rounding(sheet: Sheet) -> None:
    require_installed(BY_NAME[name] for name in sheet.cases if name != DIGITS)
    for name in sheet.cases:
        trial = _digits() if name == DIGITS else _Trial.of(BY_NAME[name], Figures(name))
        real = trial.run(trial.peer)
        for case, options in GROUPED.items():
            for way in ROUNDINGS:
                made = quantize(trial.model, trial.stacked(), bind=trial.bind, weight_bits=4,
                                weight_rounding=way, **options)
                module = compile_model(made.model, "cpu", shapes=trial.shapes(made.model),
                                       cache=False)
                sheet.figure(f"{name}_{case}_{way}", decibels(trial.run_ours(module), real), ".2f")


@BENCH.part(LESSONS, extra=True)
def training(sheet: Sheet) -> None:
    for name in sheet.cases:
        lesson = LESSONS[name]()
        sheet.figure(f"{name}_float", 100 * lesson.share(compile_model(lesson.model, "cpu")), ".2f")
        for bits, options in FEW_BITS.items():
            quantized = lesson.quantized(options)
            alone = lesson.share(compile_model(quantized.graph, "cpu"))
            sheet.figure(f"{name}_{bits}_alone", 100 * alone, ".2f")
            trainer = lesson.trained(quantized.trainable(lesson.batch))
            one = quantized.trainable()
            module = compile_model(one.trained(trainer.parameters).graph, "cpu")
            sheet.figure(f"{name}_{bits}_trained", 100 * lesson.share(module), ".2f")
            computed = compile_model(trainer.network(one.graph), "cpu")
            apart = lesson.results(module) != lesson.results(computed)
            sheet.figure(f"{name}_{bits}_apart", float(apart.mean()), ".5f")


def _digits() -> "_Trial":
    model, samples = onnx.load(FLOAT_DIGITS), [
        Sample({"image": image[None]}) for image in held_out()[0]]
    return _Trial(model, Figures(DIGITS), Peer(model), {},
                  [one.inputs for one in samples[:DIGITS_TO_CALIBRATE]],
                  samples[DIGITS_TO_CALIBRATE:])


@dataclass
class Figures:
    """The figures of a network. `failed` maps a stage to the reason why it failed. `right` is the
    share of right answers and `answers` are the answers, by side: ONNX Runtime and ours, in float
    and in int8. `is_int8`: whether the file was int8. `seconds` are wall-clock time.
    """

    name: str
    is_int8: bool = False
    error: float | None = None
    decibels: float | None = None
    their_decibels: float | None = None
    segments: int = 0
    accel_macs: int = 0
    macs: int = 0
    cycles: int = 0
    right: dict[str, float] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    processor_seconds: dict[str, float] = field(default_factory=dict)
    megabytes: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def float_is_right(self) -> bool:
        """Whether the float results are right; never for an int8 network, which has no float form.
        """
        return self.error is not None and self.error <= TOLERANCE

    @property
    def refused(self) -> bool:
        """Whether the network fails to run in float or in int8."""
        return any("(ORT)" not in stage for stage in self.failed)

    @property
    def fails(self) -> bool:
        return self.refused or not (self.is_int8 or self.float_is_right)

    @property
    def accel_percent(self) -> float:
        return 100 * self.accel_macs / self.macs if self.macs else 0.0

    def attempt(self, stage: str, work: Callable[[], T]) -> T | None:
        """The result of `work`, timed; None where it fails, which ends the stage, not the network.
        """
        began, worked = time.perf_counter(), time.process_time()
        try:
            return work()
        except Exception as error:  # noqa: BLE001  -- errors are results here
            self.failed[stage] = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
            return None
        finally:
            self.seconds[stage] = time.perf_counter() - began
            self.processor_seconds[stage] = time.process_time() - worked


def difference(ours: Sequence[Values], theirs: Sequence[Values]) -> float:
    """The largest difference, relative to the output's largest element in any sample, of the worst
    output. (A probability near zero by itself has the rounding of the logit that it comes from.)
    """
    return max(_apart([one[name] for one in ours], [one[name] for one in theirs])
               for name in theirs[0])


def _apart(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    apart, largest = 0.0, 0.0
    for made, wanted in zip(ours, theirs, strict=True):
        finite = np.isfinite(wanted)
        if made.shape != wanted.shape or not np.array_equal(np.isfinite(made), finite):
            return np.inf
        apart = max(apart, np.abs(made[finite].astype(float) - wanted[finite]).max(initial=0))
        largest = max(largest, np.abs(wanted[finite]).max(initial=0))
    return apart / largest if largest else np.inf if apart else 0.0


def decibels(noisy: Sequence[Values], real: Sequence[Values]) -> float | None:
    """The signal to quantization noise ratio of the worst output over all samples; None without
    noise.
    """
    ratios = []
    for name in real[0]:
        signal = sum(float((one[name].astype(float) ** 2).sum()) for one in real)
        noise = sum(float(((one[name].astype(float) - other[name]) ** 2).sum())
                    for one, other in zip(real, noisy, strict=True))
        if noise:
            ratios.append(10 * np.log10(signal / noise) if signal else -np.inf)
    return min(ratios, default=None)


def measure(network: Network, target: str) -> Figures:
    """Measures one network: all figures of the module's docstring."""
    found = Figures(network.name)
    trial = _Trial.of(network, found)
    theirs = found.attempt("run (ORT)", lambda: trial.run(trial.peer)) or []
    truths = [network.answer(outputs) if sample.truth is None else sample.truth
              for sample, outputs in zip(trial.judged, theirs)]
    found.answers["truth"] = [network.show(truth) for truth in truths]
    for side, made in (("theirs", theirs), ("ours", trial.ours()), ("int8", trial.int8(target)),
                       ("their_int8", trial.their_int8())):
        if made:
            _judge(found, network, side, made, truths)
            _compare(found, side, made, theirs)
    return found


def _judge(found: Figures, network: Network, side: str, made: Sequence[Values],
           truths: Sequence[Any]) -> None:
    answers = [network.answer(outputs) for outputs in made]
    found.answers[side] = [network.show(answer) for answer in answers]
    found.right[side] = float(np.mean([network.right(answer, truth)
                                       for answer, truth in zip(answers, truths, strict=True)]))


def _compare(found: Figures, side: str, made: Sequence[Values], real: Sequence[Values]) -> None:
    match side:
        case "ours" if not found.is_int8: found.error = difference(made, real)
        case "int8": found.decibels = decibels(made, real)
        case "their_int8": found.their_decibels = decibels(made, real)


@dataclass(frozen=True)
class _Trial:
    """A network with its samples. `bind` has the inputs that are always the same."""

    model: ModelProto
    found: Figures
    peer: Peer
    bind: Mapping[str, Array]
    calibration: list[Values]
    judged: list[Sample]

    @classmethod
    def of(cls, network: Network, found: Figures) -> "_Trial":
        model = onnx.load(network.path or network.file)
        model = in_float(model) if network.in_float else model
        found.is_int8 = is_int8(model)
        peer = Peer(model, plain=found.is_int8)
        calibration, judged = network.divided(peer)
        return cls(model, found, peer, network.bind,
                   [sample.inputs for sample in calibration], judged)

    def run(self, call: Callable[[Values], Values]) -> list[Values]:
        return [call(sample.inputs) for sample in self.judged]

    def run_ours(self, call: Callable[[Values], Values]) -> list[Values]:
        return self.run(lambda inputs: call(self._open(inputs)))

    def ours(self) -> list[Values] | None:
        module = self.found.attempt("compile", lambda: compile_model(
            self.model, "cpu", shapes=self.shapes(self.model), bind=self.bind, cache=False))
        return module and self.found.attempt("run", lambda: self.run_ours(module))

    def int8(self, target: str) -> list[Values] | None:
        model, bind = self.model, self.bind
        if not self.found.is_int8:
            made = self.found.attempt("quantize", lambda: quantize(
                model, self.stacked(), bind=self.bind))
            if made is None:
                return None
            model, bind = made.model, {}
        module = self.found.attempt("compile int8", lambda: compile_model(
            model, target, sim="cycle", shapes=self.shapes(model), bind=bind, cache=False))
        if module is None:
            return None
        _count(self.found, module)
        return self.found.attempt("run int8", lambda: self.run_ours(
            lambda inputs: _accelerated(self.found, module, inputs)))

    def their_int8(self) -> list[Values] | None:
        made = self.found.attempt("quantize (ORT)", lambda: Peer(
            self.model if self.found.is_int8
            else quantized_by_onnx_runtime(bound(self.model, self.bind), self.calibration)))
        return made and self.found.attempt("run int8 (ORT)", lambda: self.run(made))

    def _open(self, inputs: Values) -> dict[str, Array]:
        return {name: array for name, array in inputs.items() if name not in self.bind}

    def stacked(self) -> dict[str, Array]:
        """The calibration samples with an extra dimension for runs of the network."""
        return {name: np.stack([inputs[name] for inputs in self.calibration])
                for name in self._open(self.calibration[0])}

    def shapes(self, model: ModelProto) -> dict[str, int]:
        """Extents of the model's open dimensions, as the samples have them."""
        values = [value for value in real_inputs(model.graph) if value.name not in self.bind]
        return extents_of(values, self.judged[0].inputs)


def _accelerated(found: Figures, module: Module, inputs: Values) -> Values:
    for name, array in inputs.items():
        module.set_input(name, array)
    found.cycles = sum(run.cycles or 0 for run in module.run())
    return {name: module.get_output(name) for name in module.graph.outputs}


def _count(found: Figures, module: Module) -> None:
    for segment in module.partition.segments:
        products = sum(macs(module.graph, node) for node in segment.nodes)
        found.macs += products
        if segment.target == ACCEL:
            found.segments += 1
            found.accel_macs += products


def alone(name: str, target: str) -> Figures:
    """`measure`, with this process's peak memory."""
    import resource

    found = measure(BY_NAME[name], target)
    found.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def in_its_own_process(name: str, target: str) -> Figures:
    """Measures a network in its own process, so that a crash does not end the bench."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(alone, name, target).result()
        except BrokenProcessPool:
            return Figures(name, failed={"process": "it ended by a signal"})


def cell(value: float | None, pattern: str) -> str:
    return "-" if value is None else format(value, pattern)


def tables(figures: Sequence[Figures]) -> Iterator[Table]:
    """Tables of the networks' results, of right answers, and of seconds."""
    yield _table(("model", "error", "segments", "macs", "accel", "ours", "ORT"), (
        (one.name, "not judged" if one.is_int8 else cell(one.error, ".1e"), str(one.segments),
         f"{one.macs / 1e6:,.0f} M", f"{one.accel_percent:.1f} %", cell(one.decibels, ".1f"),
         cell(one.their_decibels, ".1f"))
        for one in figures),
        "error in float; products, share of the accelerator; dB of int8, ours and ORT's")
    yield _table(("model", "ORT float", "ours float", "ours int8", "ORT int8"), (
        (one.name, *(cell(one.right.get(side), ".0%") for side in SIDES)) for one in figures),
        "answers that are right")
    yield _table(("model", *STAGES.values(), "MB"), (
        (one.name, *(cell(one.processor_seconds.get(stage), ",.1f") for stage in STAGES),
         f"{one.megabytes:,}") for one in figures),
        "processor seconds of all samples; largest memory")


def answers(figures: Figures) -> Table:
    truths = figures.answers.get("truth", [])
    columns = [figures.answers.get(side, ["-"] * len(truths)) for side in ("truth", *SIDES)]
    return _table(("truth", "ORT float", "ours float", "ours int8", "ORT int8"), zip(*columns),
                  f"answers of {figures.name}")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> Table:
    table = Table(title=title, box=None, header_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def summary(one: Figures) -> str:
    return (f"{one.name}: error {cell(one.error, '.1e')}, int8 {cell(one.decibels, '.1f')} dB, "
            f"{sum(one.seconds.values()):,.0f} s"
            + "".join(f"; {stage} failed" for stage in one.failed))


def counts(figures: Sequence[Figures]) -> dict[str, int]:
    return {"real_float": sum(one.float_is_right for one in figures),
            "real_float_judged": sum(not one.is_int8 for one in figures),
            "real_int8": sum(not one.refused for one in figures),
            "real_refused": sum(one.refused for one in figures)}


def report(found: Sequence[Figures], every_answer: bool) -> None:
    console = Console(markup=False, emoji=False, highlight=False)
    for table in (*tables(found), *(map(answers, found) if every_answer else ())):
        console.print(table)
        console.print()
    for one in found:
        for stage, reason in one.failed.items():
            print(f"{one.name}: {stage}: {reason}")
