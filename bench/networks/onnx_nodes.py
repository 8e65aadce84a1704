"""ONNX's own node tests on our backend.

Each case of `onnx.backend.test` is a model, inputs and outputs; a case counts when the backend's
outputs agree by ONNX's own comparison. Nothing is skipped. The last line is ``onnx_node_tests N``.

`without_data`: the model alone is imported, as `lockstep run` sees a file, and then computes what
the inputs give: the last line is ``onnx_node_tests_without_data N``, before it the reasons.
`write` does both and makes docs/onnx.md, the page of supported and unsupported operators.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import onnx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.frame import Bench, Sheet
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.errors import RequestError
from compiler.frontend import ImportRefused, convert
from compiler.frontend.building.binding import extents_of, real_inputs
from compiler.frontend.onnx.importing import OLDEST_OPSET
from compiler.frontend.onnx.nodes import registry
from compiler.graph.passes.pipeline import optimize, standard_passes
from runtime.driver import onnx_backend

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
EXPANDED = "_expanded"
WIDTH = 120         # of the page
BY_HAND, END = "<!-- by hand -->\n", "<!-- end -->"

BENCH = Bench(__file__, __doc__)
BENCH.option("--filter", metavar="TEXT", default="", help="the cases whose names hold this text")
BENCH.option("--device", metavar="D", default="CPU",
             help="CPU, OPENCL, CUDA or CUDA:EMULATED; the processor computes what a GPU has no "
                  "type for")
BENCH.option("--failures", action="store_true", help="show only what does not pass")


@BENCH.part()
def nodes(sheet: Sheet) -> None:
    _told(sheet, "onnx_node_tests", _outcomes(sheet, False))


@BENCH.part(extra=True)
def without_data(sheet: Sheet) -> None:
    outcomes = _outcomes(sheet, True)
    for why, operators in reasons(outcomes):
        print(f"{len(operators):4} {why}: {', '.join(sorted(set(operators)))}")
    _told(sheet, "onnx_node_tests_without_data", outcomes)


@BENCH.part(extra=True)
def write(sheet: Sheet) -> None:
    if sheet.filter or sheet.device != "CPU":
        raise RequestError("The page must be of all cases on the CPU")
    PAGE.write_text(page(_outcomes(sheet, False), _outcomes(sheet, True), PAGE.read_text()))


def _outcomes(sheet: Sheet, without_data: bool) -> list["Outcome"]:
    found = [case for case in cases() if sheet.filter in case.name]
    return run(track(found, "node tests", console=Console(stderr=True), transient=True),
               sheet.device, without_data)


def _told(sheet: Sheet, name: str, outcomes: Sequence["Outcome"]) -> None:
    _show(outcomes, sheet.failures)
    for outcome in outcomes:
        sheet.row(outcome)
    passed = sum(outcome.passed for outcome in outcomes)
    sheet.figure(name, f"{passed} of {len(outcomes)}" if sheet.filter else passed)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case; `reason` is empty if it passed."""

    name: str
    operator: str
    reason: str

    @property
    def passed(self) -> bool:
        return not self.reason


def cases() -> list:
    """The node tests of the installed onnx, in order of their names."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # onnx's own, while it makes the data
        return sorted(load_model_tests(kind="node"), key=lambda case: case.name)


def operators_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The operators of nodes and of their subgraphs, with the domain where it is not ONNX's."""
    for node in nodes:
        yield f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        for attribute in node.attribute:
            yield from operators_of(attribute.g.node)


def operator_of(case) -> str:
    """The operator that a case tests, inferred from the name where the case has several."""
    found = list(dict.fromkeys(operators_of(case.model.graph.node)))
    if len(found) == 1:
        return found[0]
    node = case.model.graph.node[0]
    prefix = node.name or next(iter(node.output), "")
    return f"{prefix.split('_')[0]}{EXPANDED}" if EXPANDED in case.name else found[-1]


def judge(case, device: str = "CPU", without_data: bool = False) -> Outcome:
    """Runs the case on a device, as `runtime.driver.onnx_backend` names them. Any error of the
    becomes the reason of the failure.
    """
    reason = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prepared = _Imported(case) if without_data else (
                onnx_backend.prepare(case.model, device))
            for inputs, wanted in case.data_sets:
                _compare(case, list(prepared.run(_plain(inputs))), _plain(wanted))
        except Exception as error:      # noqa: BLE001 - any error is a result
            text = " ".join(str(error).split())
            kind = "" if isinstance(error, ImportRefused) else f"{type(error).__name__}: "
            reason = f"{kind}{text}" or type(error).__name__
    return Outcome(case.name, operator_of(case), reason)


def _plain(data: Sequence[Any]) -> list[Any]:
    from onnx.backend.test.runner import _normalize_tensor

    return [_normalize_tensor(one) for one in data]


def _compare(case, found: list[Any], wanted: list[Any]) -> None:
    """ONNX's own comparison. Sequences are compared tensor by tensor: ONNX's would compare rows of
    these, which tensors without dimensions do not have.
    """
    from onnx.backend.test.runner import Runner

    assert len(found) == len(wanted), f"{len(found)} results, not {len(wanted)}"
    for one, other in zip(found, wanted, strict=True):
        many = isinstance(other, list | tuple)
        assert many == isinstance(one, list | tuple), f"a sequence for a tensor, or {type(one)}"
        Runner.assert_similar_outputs(list(other) if many else [other],
                                      list(one) if many else [one], case.rtol, case.atol)


class _Imported:
    """A case's model, imported without the inputs' elements and compiled for the host."""

    def __init__(self, case):
        inputs = real_inputs(case.model.graph)
        self.names = [value.name for value in inputs]
        arrays = {name: array for name, array in zip(self.names, _plain(case.data_sets[0][0]),
                                                     strict=False)
                  if hasattr(array, "shape")}
        graph = convert(case.model, case.name, extents_of(inputs, arrays))
        self.outputs = graph.outputs
        self.compiled = CpuTarget().compile(optimize(graph, standard_passes(integerize=False)))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        given = dict(zip(self.names, inputs, strict=False))
        found = self.compiled({name: given[name] for name in self.compiled.graph.inputs})
        return [found[name] for name in self.outputs]


def reasons(outcomes: Iterable[Outcome]) -> list[tuple[str, list[str]]]:
    """Why cases do not pass, names and numbers left out, each with the operators; the most frequent
    first.
    """
    groups: dict[str, list[str]] = {}
    for one in outcomes:
        if not one.passed:
            groups.setdefault(_general(one), []).append(one.operator.removesuffix(EXPANDED))
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


GENERAL = (
    (r"its ([\w ]+?) '[^']*' must be a constant", r"its \1 must be a constant"),
    (r"dtype must be one of|processors have|no processor has",
     "no processor has the type of an input, an output or a value between"),
    (r"input '[^']*' must be a tensor|output '[^']*' must be a tensor|results must be tensors",
     "an input or a result is a sequence or an optional, or has no shape"),
    (r"shape must hold integers of at least 1", "an output has no elements"),
    (r"operator is not supported", "the operator is not supported"),
    (r"^AssertionError", "the results differ, as above"))
"""What is looked for in a reason, and what it is called, in turn."""


def _general(outcome: Outcome) -> str:
    reason = outcome.reason.removeprefix(f"{outcome.name}: ")
    for pattern, general in GENERAL:
        if found := re.search(pattern, reason):
            return found.expand(general)
    return reason


def unsupported(text: str) -> dict[str, str]:
    """The page's reason for each case that does not pass."""
    return dict(re.findall(r"^\| `(test_\w+)` \| (.*) \|$", text, re.MULTILINE))


def sample(found: Sequence, count: int = 100) -> list:
    """A fixed sample of passing cases, spread over operators."""
    by_operator: dict[str, list] = {}
    failing = unsupported(PAGE.read_text())
    for case in [one for one in found if one.name not in failing]:
        by_operator.setdefault(operator_of(case), []).append(case)
    chosen = []
    for place in range(max(map(len, by_operator.values()))):
        chosen += [group[place] for group in by_operator.values() if place < len(group)]
    step = max(len(by_operator) // count, 1)
    return chosen[:step * count:step]


def run(found: Iterable, device: str = "CPU", without_data: bool = False) -> list[Outcome]:
    return [judge(case, device, without_data) for case in found]


def page(outcomes: Sequence[Outcome], alone: Sequence[Outcome], old: str) -> str:
    """The text of docs/onnx.md, with what the old one has by hand; `alone` are the outcomes without
    the data.
    """
    passed, imported = (sum(one.passed for one in each) for each in (outcomes, alone))
    names = {domain: sorted(name for other, name in registry.OPERATORS if other == domain)
             for domain in sorted({domain for domain, _ in registry.OPERATORS})}
    defined = sorted({schema.name for schema in onnx.defs.get_all_schemas()
                      if not schema.domain and _has_body(schema)} - set(names[""]))
    lines = [
        "# ONNX", "",
        "Made by `python -m bench networks.onnx_nodes --only write`; a slow test holds it to the "
        "code.", "",
        f"Opsets {OLDEST_OPSET} to {onnx.defs.onnx_opset_version()}. Of the "
        f"{len(outcomes)} node tests of onnx {onnx.__version__}, **{passed} pass** on the host, in "
        "ONNX's own comparison; what is skipped would count as failed. Imported without their "
        f"data, as `lockstep run` sees files, **{imported} pass** (`--only without_data`).", "",
        "## Operators", ""]
    for domain, known in names.items():
        lines += [f"{domain or 'Standard'}: {', '.join(known)}.", ""]
    lines += ["By the body that ONNX gives: " + ", ".join(defined) + ".", "",
              f"{BY_HAND}{old.split(BY_HAND)[1].split(END)[0]}{END}", "",
              "## Node tests that do not pass", ""]
    lines += [f"- `{one.name}`: {_cell(one)}" for one in outcomes if not one.passed]
    lines += ["", "## Node tests that do not pass without their data", ""]
    lines += [f"- {len(operators)}, as {why}: {', '.join(sorted(set(operators)))}"
              for why, operators in reasons(alone)]
    return "\n".join(_wrapped(line) for part in lines for line in part.split("\n")) + "\n"


def _wrapped(line: str) -> str:
    """The line as the page has it: in several ones if it is longer than a page is wide."""
    return line if len(line) <= WIDTH else "\n".join(wrap(
        line, WIDTH, subsequent_indent="  " if line.startswith("- ") else "",
        break_long_words=False, break_on_hyphens=False))


def _has_body(schema: Any) -> bool:
    return schema.has_function or schema.has_context_dependent_function


WHY = {
    "test_bernoulli": "random numbers: those of another generator",
    "test_attention_4d_causal_fp16": "two of 192 elements are 2 units of float16 off: the softmax "
    "is computed in float32 and rounded once, which is nearer to the exact result than the test's "
    "values, rounded to float16 at every step",
    "test_dft_inverse": "ten elements are 0, which is exact; the test's values hold 1.9e-7, the "
    "rounding of an FFT in float32, and allow 1e-7",
}
"""Why results are right that a test does not take, by the beginning of its name."""


def _cell(outcome: Outcome) -> str:
    """The reason, without the model's name and without numbers that differ between machines."""
    known = [why for start, why in WHY.items() if outcome.name.startswith(start)]
    if known and outcome.reason.startswith("AssertionError: Not equal to tolerance"):
        return known[0]
    reason = outcome.reason.removeprefix(f"{outcome.name}: ")
    reason = re.sub(r"^(AssertionError: Not equal to tolerance).*", r"\1", reason)
    return reason[:160]


def _show(outcomes: Sequence[Outcome], failures: bool) -> None:
    total = Counter(one.operator for one in outcomes)
    passed = Counter(one.operator for one in outcomes if one.passed)
    table = Table("operator", "pass", "of", "first reason")
    for name in sorted(total):
        if passed[name] < total[name] or not failures:
            reason = next((one.reason for one in outcomes
                           if one.operator == name and not one.passed), "")
            table.add_row(name, str(passed[name]), str(total[name]), reason[:90])
    Console().print(table, markup=False)
