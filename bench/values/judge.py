"""Judges a trial: every way against the bounds, and against each other to the bit."""

import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from bench.values.bounds import bounded
from bench.values.intervals import Interval
from bench.values.ways import GRAPH, Way, optimized
from compiler.frontend.onnx.importing import ImportRefused
from compiler.graph import Graph
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.te import is_float
from runtime.driver.targets import TargetError

Array = np.ndarray
FINDINGS = ("wrong", "differs", "traceback", "refusal", "crash", "hang", "judge")
STEPS = 1                   # that an integer form may be off: docs/machine.md, Numbers
LONGEST_LINE = 2000
DOCUMENTED = re.compile(r"must be a constant|is not supported|no form")
"""What a refusal of a valid network may say: docs/onnx.md."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a way did that it may not: one of `FINDINGS`, where (an output, or a line of code) and
    what in words.
    """

    way: str
    kind: str
    where: str
    text: str

    @property
    def alike(self) -> tuple[str, str, str]:
        """What findings of one kind share, before they are made small."""
        where = self.where if self.kind not in ("wrong", "differs") else ""
        return self.kind, self.way.split(":")[0].split("-")[0], re.sub(r"\d+", "N", where)


@dataclass(slots=True)
class Verdict:
    """What became of a trial. `internal`: operators of its compiled graph; `weak`: outputs whose
    bounds would hide a wrong channel; `refused`:
    reasons by way; `ran`: ways that gave outputs.
    """

    number: int
    findings: list[Finding] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    outputs: int = 0
    values: int = 0
    weak: int = 0
    exact: int = 0
    internal: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)


def judged(number: int, model: onnx.ModelProto, inputs: Mapping[str, Array], ways: Sequence[Way],
           announce: Callable[[str], None] = lambda way: None) -> Verdict:
    """The verdict of these ways; each is announced before it is taken."""
    verdict = Verdict(number)
    begin = time.monotonic()
    announce("bounds")
    names = [output.name for output in model.graph.output]
    verdict.outputs = verdict.weak = len(names)
    try:
        allowed = {integers: bounded(model, inputs, STEPS if integers else 0)
                   for integers in {way.integers for way in ways}}
        verdict.weak = sum(not telling(allowed[max(allowed)][name]) for name in names)
    except Exception as error:          # noqa: BLE001 - ways are compared all the same
        allowed = None
        verdict.findings.append(Finding("bounds", "judge", _frame(error),
                                        f"{type(error).__name__}: {str(error)[:300]}"))
    verdict.seconds["bounds"] = time.monotonic() - begin
    found: dict[str, dict[str, Array]] = {}
    for way in ways:
        announce(way.name)
        begin = time.monotonic()
        outputs = _run(way, model, inputs, verdict)
        verdict.seconds[way.name] = time.monotonic() - begin
        if outputs is None:
            continue
        verdict.ran.append(way.name)
        verdict.values += sum(array.size for array in outputs.values())
        found[way.name] = outputs
        verdict.findings.extend(_wrong(
            way, outputs, None if allowed is None else allowed[way.integers], names))
    _compare(found, ways, model, verdict)
    return verdict


def _wrong(way: Way, outputs: Mapping[str, Array], allowed: Mapping[str, Interval] | None,
           names: Sequence[str]) -> list[Finding]:
    """The first output that is beyond its bounds."""
    said = ((name, beyond(outputs.get(name), allowed[name])) for name in names if allowed)
    return [Finding(way.name, "wrong", name, text) for name, text in said if text][:1]


def _run(way: Way, model: onnx.ModelProto, inputs: Mapping[str, Array], verdict: Verdict
         ) -> dict[str, Array] | None:
    try:
        return way.run(model, inputs)
    except (ImportRefused, TargetError) as error:
        text = str(error)
        if "\n" in text or len(text) > LONGEST_LINE or not DOCUMENTED.search(text):
            where = re.sub(r"'[^']*'|\b\w*\d[\w.,\[\]]*", "N", text.splitlines()[0])[:120]
            verdict.findings.append(Finding(way.name, "refusal", where, text[:600]))
        else:
            verdict.refused[way.name] = text
    except Exception as error:          # noqa: BLE001 - what is found is told
        where = _frame(error)
        verdict.findings.append(Finding(way.name, "traceback", where,
                                        f"{where}: {str(error)[:300]}"))
    return None


def _frame(error: BaseException) -> str:
    """The innermost line of this project that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    root = str(Path(__file__).parents[2])
    own = [frame for frame in frames if frame.filename.startswith(root)
           and "site-packages" not in frame.filename] or frames
    last = own[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}, {last.name}"


def beyond(found: Array | None, allowed: Interval) -> str:
    """What is wrong with an output; empty for nothing."""
    wanted = allowed.middle
    if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        given = "absent" if found is None else f"{found.dtype}{list(found.shape)}"
        return f"is {given}, not {wanted.dtype}{list(wanted.shape)}"
    outside = _outside(found, allowed)
    if not outside.any():
        return ""
    place = tuple(int(axis) for axis in np.argwhere(outside)[0])
    return (f"{int(outside.sum())} of {outside.size} elements are beyond their bounds; at "
            f"{list(place)} {found[place]!s}, not {allowed.low[place]!s} to "
            f"{allowed.high[place]!s}")


def _outside(found: Array, allowed: Interval) -> Array:
    if found.dtype.kind != "f":
        return (found < allowed.low) | (found > allowed.high)
    unknown = np.isnan(allowed.low) | np.isnan(allowed.high) | np.isnan(allowed.middle) | (
        np.isneginf(allowed.low) & np.isposinf(allowed.high))           # NaN as well
    return ~unknown & ~((found >= allowed.low) & (found <= allowed.high))


def telling(allowed: Interval) -> bool:
    """Whether the bounds would show another order of the elements along any axis, and a shift by
    half of what they span.
    """
    middle = allowed.middle
    if middle.dtype.kind == "f" and not np.all(np.isfinite(middle)):
        return False
    for axis, extent in enumerate(middle.shape):
        turned = np.roll(middle, 1, axis)
        moved = extent > 1 and not np.array_equal(turned, middle)
        if moved and not _outside(turned, allowed).any():
            return False
    if middle.dtype == bool or not middle.size:
        return True
    span = float(middle.astype(np.float64).max() - middle.astype(np.float64).min())
    width = allowed.high.astype(np.float64) - allowed.low.astype(np.float64)
    return bool(np.mean(width <= max(span, 8) / 2 if middle.dtype.kind != "f" else
                        width <= max(span, float(np.abs(middle).max())) / 2) >= 0.5)


def _compare(found: Mapping[str, Mapping[str, Array]], ways: Sequence[Way], model: onnx.ModelProto,
             verdict: Verdict) -> None:
    """Ways with integer forms give the same bits where nothing is rounded in float."""
    same = [way for way in ways if way.integers and way.exact and way.name in found]
    if GRAPH.name not in found:
        return
    graph = optimized(model.SerializeToString(), True)
    verdict.internal = {node.op for node in graph.nodes}
    names = exact_outputs(graph)
    verdict.exact = len(names)
    wrong = {finding.way for finding in verdict.findings}
    for way in same:
        if way is GRAPH or way.name in wrong:
            continue
        for name in names:
            ours, theirs = found[way.name][name], found[GRAPH.name][name]
            if not np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"):
                count = int(np.sum(ours != theirs)) if ours.shape == theirs.shape else -1
                verdict.findings.append(Finding(
                    way.name, "differs", name, f"{count} of {ours.size} elements differ from the "
                    f"graph's in NumPy"))
                break


def exact_outputs(graph: Graph) -> list[str]:
    """Outputs that the graph computes without rounding floats. Floats that are constants by now may
    have been rounded when they were computed, which a target may do in another form.
    """
    constants = {name for name in graph.constants if is_float(graph.values[name].dtype)}
    rounded = constants & {*graph.outputs}
    for node in graph.nodes:
        output, record = node.outputs[0], find(node.op)
        moves = record.kind is Kind.INJECTIVE or record.picks
        rounds = is_float(graph.values[output].dtype) and node.op != "dequantize" and not moves
        rounds = rounds or node.op in ("quantizelinear",)
        taken = rounded | constants if moves else rounded
        if rounds or any(name in taken for name in node.inputs):
            rounded.add(output)
    return [name for name in graph.outputs if name not in rounded]
