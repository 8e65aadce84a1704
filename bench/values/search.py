"""Searches for wrong values: draws, judges, makes small what is found, keeps it, and counts."""

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path

from bench.values.children import Child, judged_by
from bench.values.corpus import kept, read
from bench.values.draw import Trial
from bench.values.graphs import legal_pairs, trials
from bench.values.reached import wanted
from bench.values.rules import QUANTIZED
from bench.values.judge import Finding, Verdict
from bench.values.own import tried
from bench.values.shrink import Case, shrunk
from bench.values.ways import DEFAULT, GRAPH, chosen, require
from compiler.errors import Error
from google.protobuf.message import DecodeError

MOST_ALIKE = 3              # findings of one kind that are made small
BAR = 20                    # of how often a pair should occur


@dataclass(slots=True)
class Report:
    """What a search has seen."""

    graphs: int = 0
    outputs: int = 0
    weak: int = 0
    exact: int = 0
    values: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    internal: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    alike: Counter[tuple[str, ...]] = field(default_factory=Counter)
    kinds: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict)

    def add(self, trial: Trial, verdict: Verdict) -> None:
        self.graphs += 1
        self.outputs += verdict.outputs
        self.weak += verdict.weak
        self.exact += verdict.exact
        self.values += verdict.values
        self.ran.update(verdict.ran)
        self.seconds.update(verdict.seconds)
        self.internal.update(verdict.internal)
        self.refused.update({_reason(text) for text in verdict.refused.values()})
        if verdict.ran:
            self.pairs.update(trial.pairs)
            self.operators.update(node.op_type for node in trial.model.graph.node)


def _reason(text: str) -> str:
    """A refusal without names and numbers."""
    short = text.partition("; replace these")[0].partition("cannot import ")[2] or text
    return re.sub(r"'[^']*'|\b\w*\d[\w.]*", "N", short)[:100]


def search(seed: int, names: Sequence[str], goes_on: Callable[[int], bool], folder: Path,
           shrink_seconds: float = 30.0, begin: int = 0,
           types: Sequence[str] = QUANTIZED, jobs: int = 1) -> Report:
    """Judges trials of the seed, in so many children, while `goes_on(number of trials)`; prints and
    keeps findings.
    """
    report, start = Report(), time.monotonic()
    children = [Child() for _ in range(jobs)]
    drawn = dropwhile(lambda trial: trial.number < begin, trials(seed, types))
    try:
        for trial, verdict, child in judged_by(children, _handed(drawn, names, goes_on)):
            report.add(trial, verdict)
            for finding in _first_of_each(verdict.findings):
                _found(report, child, trial, finding, folder / f"{seed}-{trial.number}",
                       time.monotonic() - start, shrink_seconds)
    finally:
        for child in children:
            child.close()
    return report


def _handed(drawn: Iterator[Trial], names: Sequence[str], goes_on: Callable[[int], bool]
            ) -> Iterator[tuple[Trial, Sequence[str]]]:
    """Trials with their ways, while it goes on."""
    for count, trial in enumerate(drawn):
        if not goes_on(count):
            return
        yield trial, [way.name for way in chosen(names, trial.number)]


def _first_of_each(findings: Sequence[Finding]) -> Iterator[Finding]:
    """What the graph shows, its targets show, too."""
    seen = set()
    for finding in findings:
        key = finding.kind, finding.where
        if key not in seen:
            seen.add(key)
            yield finding


def _found(report: Report, child: Child, trial: Trial, finding: Finding, folder: Path,
           seconds: float, shrink_seconds: float) -> None:
    report.alike[finding.alike] += 1
    many = report.alike[finding.alike] > MOST_ALIKE * (20 if finding.kind in ("wrong", "differs")
                                                       else 1)
    if many:
        return
    case = Case(trial.model, trial.inputs)
    if finding.kind != "hang":          # what takes a minute each time stays as large as it is
        case = shrunk(case, _shows(child, finding), shrink_seconds)
    kind = (*finding.alike, *_signature(case))
    if kind in report.kinds:
        return
    report.kinds[kind] = seconds, str(folder)
    again = _again(child, case, finding) or finding
    kept(folder, case, again, f"trial {folder.name}")
    print(f"{again.kind}: {again.way}: {folder.name} after {seconds:.0f} s: "
          f"{' '.join(_signature(case))}: {again.text}", flush=True)


def _signature(case: Case) -> tuple[str, ...]:
    """The operators of a small case."""
    types = sorted({array.dtype.name for array in case.inputs.values()})
    return (*(node.op_type for node in case.model.graph.node), *types)


def _again(child: Child, case: Case, finding: Finding) -> Finding | None:
    """The same finding on another case, if it shows it."""
    ways = [finding.way] if finding.kind != "differs" or finding.way == GRAPH.name else [
        GRAPH.name, finding.way]
    verdict = child.judge(Trial(0, case.model, case.inputs), ways)
    same = [one for one in verdict.findings if one.kind == finding.kind and (
        finding.kind in ("wrong", "differs") or one.where == finding.where)]
    return same[0] if same else None


def _shows(child: Child, finding: Finding) -> Callable[[Case], bool]:
    return lambda case: _again(child, case, finding) is not None


def show(report: Report, seconds: float) -> None:
    legal = legal_pairs()
    short = [pair for pair in legal if report.pairs[pair] < BAR]
    print(f"\nrefused, by reason ({report.refused.total()}):")
    for reason, count in report.refused.most_common(25):
        print(f"  {count:6} {reason}")
    print("ways: " + ", ".join(f"{way} {count} ({report.seconds[way]:.0f} s)"
                               for way, count in report.ran.items()))
    print("rare operators: " + ", ".join(f"{op} {count}" for op, count in
                                         sorted(report.operators.items(), key=lambda one: one[1])
                                         if count < BAR))
    print("operators of the registry that did not occur: " + ", ".join(
        op for op in wanted() if op not in report.internal))
    for figure, value in (
            ("values_graphs", report.graphs), ("values_outputs", report.outputs),
            ("values_not_judged", report.weak), ("values_to_the_bit", report.exact),
            ("values_elements", report.values), ("values_pairs", len(legal)),
            ("values_pairs_occurred", sum(report.pairs[pair] > 0 for pair in legal)),
            ("values_pairs_20_times", len(legal) - len(short)),
            ("values_operators", len(report.operators)), ("values_seconds", round(seconds)),
            ("values_kinds_found", len(report.kinds)), ("values_findings", report.alike.total())):
        print(figure, value)


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    names = args.targets.split(",") if args.targets else list(DEFAULT)
    try:
        require(names)
    except Error as error:
        print(f"bench.values: {error}", file=sys.stderr)
        return 2
    if args.model:
        return _tried(args.model, [GRAPH.name, "graph-float", *names], args.seed)
    if args.replay:
        return _replayed(args.replay, names)
    begin = time.monotonic()
    end = begin + 60 * args.minutes

    def goes_on(count: int) -> bool:
        return count < args.graphs if args.graphs else time.monotonic() < end

    print(f"seed {args.seed}", flush=True)
    report = search(args.seed, names, goes_on, args.findings, args.shrink, args.begin,
                    args.types.split(","), args.jobs)
    show(report, time.monotonic() - begin)
    return int(report.alike.total() > 0)


def _tried(path: Path, names: Sequence[str], seed: int) -> int:
    try:
        said = tried(path, list(dict.fromkeys(names)), seed, _shows)
    except (Error, OSError, DecodeError) as error:
        print(f"bench.values: {path}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    print("\n".join(said))
    return int(any(not line.startswith(("ran:", "refused:", "not judged:")) for line in said))


def _replayed(folder: Path, names: Sequence[str]) -> int:
    child, case = Child(), read(folder)
    try:
        verdict = child.judge(Trial(0, case.model, case.inputs), [GRAPH.name, *(
            name for name in names if name != GRAPH.name)])
    finally:
        child.close()
    for finding in verdict.findings:
        print(f"{finding.kind}: {finding.way}: {finding.where}: {finding.text}")
    for way, reason in verdict.refused.items():
        print(f"refused: {way}: {reason}")
    return int(bool(verdict.findings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.values", description=sys.modules[
        "bench.values.__main__"].__doc__ if "bench.values.__main__" in sys.modules else __doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--minutes", type=float, default=10, help="how long (default 10)")
    add("--graphs", type=int, help="how many graphs, however long they take")
    add("--seed", type=int, default=1, help="default 1")
    add("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
        help="children that judge at once (default: one for each core)")
    add("--begin", type=int, default=0, metavar="N", help="number of the first trial")
    add("--targets", metavar="LIST", help=f"ways, by commas, of {', '.join(DEFAULT)}")
    add("--types", metavar="LIST", default=",".join(QUANTIZED),
        help="types of quantized tensors (default: all)")
    add("--findings", type=Path, default=Path("values-findings"), metavar="FOLDER",
        help="where findings are kept (default values-findings)")
    add("--shrink", type=float, default=30, metavar="SECONDS",
        help="for one finding to become small (default 30)")
    add("--model", type=Path, metavar="FILE",
        help="try this network, with random inputs, instead of drawn ones")
    add("--replay", type=Path, metavar="FOLDER", help="judge this finding once more")
    return parser
