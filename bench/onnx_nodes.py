"""ONNX's own node tests on our backend: ``python -m bench.onnx_nodes``.

Each case of `onnx.backend.test` is a model, inputs and outputs; a case counts when the backend's
outputs agree by ONNX's own comparison. Nothing is skipped. The last line is ``onnx_node_tests N``.
``--write`` makes docs/onnx.md, the page of supported and unsupported operators.
"""

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from compiler.frontend import registry
from compiler.frontend.onnx_import import OLDEST_OPSET
from runtime import onnx_backend

__all__ = ["PAGE", "Outcome", "cases", "judge", "main", "operators_of", "page", "run", "sample",
           "unsupported"]

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
EXPANDED = "_expanded"


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


def judge(case, device: str = "CPU") -> Outcome:
    """Runs the case on a device, as `runtime.onnx_backend` names them. Any error of the backend
    becomes the reason of the failure.
    """
    from onnx.backend.test.runner import Runner, _normalize_tensor

    reason = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prepared = onnx_backend.prepare(case.model, device)
            for inputs, wanted in case.data_sets:
                found = prepared.run([_normalize_tensor(one) for one in inputs])
                Runner.assert_similar_outputs([_normalize_tensor(one) for one in wanted],
                                              list(found), case.rtol, case.atol)
        except Exception as error:      # noqa: BLE001 - any error is a result
            text = " ".join(str(error).split())
            kind = "" if isinstance(error, onnx_backend.ImportRefused) else (
                f"{type(error).__name__}: ")
            reason = f"{kind}{text}" or type(error).__name__
    return Outcome(case.name, operator_of(case), reason)


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


def run(found: Sequence, progress: Callable[[int, int], None] = lambda done, total: None,
        device: str = "CPU") -> list[Outcome]:
    outcomes = []
    for number, case in enumerate(found, start=1):
        outcomes.append(judge(case, device))
        progress(number, len(found))
    return outcomes


def page(outcomes: Sequence[Outcome]) -> str:
    """The text of docs/onnx.md."""
    passed = sum(one.passed for one in outcomes)
    names = {domain: sorted(name for other, name in registry.OPERATORS if other == domain)
             for domain in sorted({domain for domain, _ in registry.OPERATORS})}
    defined = sorted({schema.name for schema in onnx.defs.get_all_schemas()
                      if not schema.domain and _has_body(schema)} - set(names[""]))
    lines = [
        "# ONNX", "",
        "Made by `python -m bench.onnx_nodes --write`; a slow test holds it to the code.", "",
        f"Opsets {OLDEST_OPSET} to {onnx.defs.onnx_opset_version()}. Of the "
        f"{len(outcomes)} node tests of onnx {onnx.__version__}, **{passed} pass** on the host, in "
        "ONNX's own comparison; what is skipped would count as failed.", "", "## Operators", ""]
    for domain, known in names.items():
        lines += [f"{domain or 'Standard'}: {', '.join(known)}.", ""]
    lines += ["By the body that ONNX gives: " + ", ".join(defined) + ".", "",
              *_DATA.splitlines(), "", "## Node tests that do not pass", "", "| test | why |",
              "|---|---|"]
    lines += [f"| `{one.name}` | {_cell(one)} |" for one in outcomes if not one.passed]
    return "\n".join(lines) + "\n"


_DATA = """\
Type and shape of every value must follow from the types of the inputs and from constants. Where the
elements of an input decide (a shape, a trip count, a condition, a sequence's position), the backend
makes code for these elements; where computed elements decide, it runs what comes before. The
importer behind `lockstep run` has no data and refuses such nodes; so it does with operators whose
result depends on data: Compress, NonMaxSuppression, NonZero, ScatterElements, ScatterND,
Unique and the like. Strings, sequences, optionals, tensors without elements and the types that
processors lack (float8, int4, ...) exist while a network is built, but not in the network.

Dimensions that a model leaves open take their extents from the arrays of `lockstep run --input`, or
from `--shape NAME=N` for all dimensions of that name, or `--shape x.2=N` for one place: input, dot,
number of the dimension from 0, the only way for those without a name or with the name `?`.
`--bind x=VALUE` makes an input a constant, which decides about conditions and shapes too.

## Where ONNX says little

**NaN.** TopK, and sorting in PyTorch and TensorFlow Lite files, take a NaN for the greatest
element; ArgMax and ArgMin give the place of the first NaN if there is one (the last by
`select_last_index`), and a window of MaxPool that holds a NaN gives it and its place. So do NumPy,
PyTorch and, but for MaxPool, which skips NaN, ONNX's reference. ONNX Runtime skips NaN in ArgMax
and ArgMin, and its order has NaN anywhere.

**Resize of integers** is computed along all axes in float64, then rounded half to even and
saturated, as in ONNX's reference, whose weights of cubic sums have 24 bits: a sum so close to a
half may be one off. GPUs may join products and sums, which decides at a half, too. ONNX Runtime
truncates linear sums without `antialias` and rounds half up with it; with `antialias` it gives 0
for negative int8, and it runs no cubic Resize of integers. GridSample of integers is rounded alike.

## What a file may ask for

A few bytes can stand for more memory or time than there is. Refused before any of it is taken:
networks whose inputs and outputs, whose largest node, or whose values between are more than 2 GiB
(`LOCKSTEP_MEMORY`, in GiB, allows more or less), constants that are computed while a model is read
and take more than an eighth of that and 16 times what its own constants take, networks of more than
50,000 operators with loops and sequences unrolled, models that take more than 150,000 steps with
functions put in, functions that call themselves, loops and recurrent layers of more than 20,000
turns, and TopK, CumSum and CumProd, which look at every two elements of an axis, beyond 2^34 pairs.

`python -m bench.fuzz` spoils small models (bytes flipped, cut out and inserted, nodes dropped and
rewired, cycles, contradicted shapes, huge dimensions, other types and attributes, misplaced
external data), makes tiny ones that ask for much, and spoils what is given beside them: inputs,
geometries, compiled modules, caches, arguments. Each case has 10 s of processor time and 1 GiB
beyond what the network may take. Every one is refused with exit status 2 and one line, or equals
ONNX Runtime or, where that refuses it, ONNX's reference."""


def _has_body(schema: Any) -> bool:
    return schema.has_function or schema.has_context_dependent_function


def _cell(outcome: Outcome) -> str:
    """The reason, without the model's name and without numbers that differ between machines."""
    reason = outcome.reason.removeprefix(f"{outcome.name}: ")
    reason = re.sub(r"^(AssertionError: Not equal to tolerance).*", r"\1", reason)
    return reason.replace("|", "\\|")[:160]


def _show(outcomes: Sequence[Outcome], failures: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    total = Counter(one.operator for one in outcomes)
    passed = Counter(one.operator for one in outcomes if one.passed)
    table = Table("operator", "pass", "of", "first reason")
    for name in sorted(total):
        if passed[name] < total[name] or not failures:
            reason = next((one.reason for one in outcomes
                           if one.operator == name and not one.passed), "")
            table.add_row(name, str(passed[name]), str(total[name]), reason[:90])
    Console().print(table, markup=False)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.onnx_nodes", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="",
                        help="the cases whose names hold this text")
    parser.add_argument("--device", metavar="D", default="CPU",
                        help="CPU, OPENCL, CUDA or CUDA:EMULATED; the processor computes what a "
                             "GPU has no type for (default CPU)")
    parser.add_argument("--failures", action="store_true", help="show only what does not pass")
    parser.add_argument("--write", action="store_true", help="write docs/onnx.md")
    parser.add_argument("--json", type=Path, metavar="R.json", help="write every outcome")
    args = parser.parse_args(arguments)
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    found = [case for case in cases() if args.only in case.name]
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("node tests", total=len(found))
        outcomes = run(found, lambda done, total: progress.update(task, completed=done),
                       args.device)
    passed = sum(one.passed for one in outcomes)
    _show(outcomes, args.failures)
    if args.write and not args.only and args.device == "CPU":
        PAGE.write_text(page(outcomes))
    if args.json:
        args.json.write_text(json.dumps({
            "onnx": onnx.__version__, "passed": passed, "total": len(outcomes),
            "cases": [{"name": one.name, "operator": one.operator, "reason": one.reason}
                      for one in outcomes]}, indent=1) + "\n")
    print(f"onnx_node_tests {passed} of {len(outcomes)}" if args.only
          else f"onnx_node_tests {passed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
