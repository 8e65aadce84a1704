"""Do files of other frameworks compute what the frameworks compute?

    python -m bench.front_ends [--python PYTHON] [--json FILE]

Each file is imported, compiled for the target `cpu`, and run on the inputs that its framework has
run on; outputs are compared. Float files may differ by 1e-5 of the largest output. In int8 every
operator by itself, on the values that LiteRT gives it, may differ by one step; what that makes of
the whole network is printed beside what two of LiteRT's own sets of kernels differ by.

Small files stand in `tests/models`, made there by `make.py`. PYTHON is one that has TensorFlow and
tf2onnx (such as a virtual environment of its own); with it MobileNets are made, too, each as
.tflite in float and int8, as .keras and as SavedModel. The exit status is 1 where a file differs by
more.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

__all__ = ["Figures", "apart", "measure", "steps_of_operators"]

MODELS = Path(__file__).parents[1] / "tests" / "models"
TOLERANCE = 1e-5
Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Figures:
    """`error`: the largest difference relative to the largest output; in steps for int8, where
    `own` is that between two sets of LiteRT's kernels and `operators` that of the worst operator
    by itself.
    """

    file: str
    framework: str
    nodes: int
    error: float
    own: float | None = None
    operators: float | None = None

    @property
    def holds(self) -> bool:
        return self.error <= TOLERANCE if self.operators is None else self.operators <= 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("LOCKSTEP_TENSORFLOW"),
                        metavar="PYTHON", help="one that has TensorFlow, for larger files")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    args = parser.parse_args()
    found = []
    with TemporaryDirectory(prefix="lockstep-front-ends-") as folder:
        print(f"{'file':34}{'framework':16}{'nodes':>6}{'error':>10}{'its own':>9}{'operator':>10}")
        for path in _files(Path(folder), args.python):
            found.append(measure(path))
            _show(found[-1])
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return int(not all(one.holds for one in found))


def _show(one: Figures) -> None:
    if one.operators is None:
        figures = f"{one.error:10.1e}"
    else:
        figures = f"{one.error:4.0f} steps{one.own:9.0f}{one.operators:10.0f}"
    print(f"{one.file:34}{one.framework:16}{one.nodes:6}{figures}"
          f"{'' if one.holds else '  DIFFERS'}", flush=True)


def _files(folder: Path, python: str | None) -> Iterator[Path]:
    kinds = (".tflite", ".keras", ".mlmodel", ".mlpackage")
    yield from sorted(path for path in MODELS.iterdir() if path.suffix in kinds)
    if python is None:
        return
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["LOCKSTEP_TENSORFLOW"] = os.environ["LOCKSTEP_TENSORFLOW"] = python
    subprocess.run([python, str(MODELS / "make.py"), "--large", str(folder)], check=True,
                   env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield from sorted(path for path in folder.iterdir() if path.suffix != ".npz")


def measure(path: Path) -> Figures:
    """Measures one file on the inputs that stand beside it, or random ones for LiteRT."""
    from runtime import compile

    graph_arrays, wanted, framework = _reference(path)
    module = compile(str(path), target="cpu", cache=False)
    for name, array in zip(module.graph.inputs, graph_arrays, strict=True):
        module.set_input(name, array)
    module.run()
    outputs = [module.get_output(name) for name in module.graph.outputs]
    error, nodes = apart(wanted, outputs), len(module.graph.nodes)
    if path.suffix != ".tflite" or wanted[0].dtype.kind == "f":
        return Figures(path.name, framework, nodes, error)
    other = interpreted(path, graph_arrays, delegates=True)
    return Figures(path.name, framework, nodes, error, apart(wanted, other),
                   max(steps_of_operators(path, graph_arrays).values()))


def _reference(path: Path) -> tuple[list[Array], list[Array], str]:
    """Inputs, what the framework makes of them, and its name."""
    if path.suffix == ".tflite":
        arrays = _drawn(path)
        return arrays, interpreted(path, arrays), "LiteRT"
    with np.load(path.with_suffix(".npz")) as told:
        names = sorted(told.files)
        arrays = [told[name] for name in names if name.startswith("x")]
        return arrays, [told[name] for name in names if name.startswith("y")], str(
            told["framework"])


def _drawn(path: Path) -> list[Array]:
    from compiler.frontend.models import graph_of

    graph, rng = graph_of(path), np.random.default_rng(0)
    kinds = [graph.values[name] for name in graph.inputs]
    return [rng.integers(-128, 128, kind.shape).astype(np.int8) if kind.dtype == "int8" else
            rng.normal(size=kind.shape).astype(kind.dtype) for kind in kinds]


def apart(wanted: Sequence[Array], given: Sequence[Array]) -> float:
    """The largest difference: relative to the largest element, or in steps of integers."""
    return max((float(np.abs(two.astype(np.int64) - one).max()) if one.dtype.kind in "iub" else
                float(np.abs(two - one).max() / max(np.abs(one).max(), 1e-30)))
               for one, two in zip(wanted, given, strict=True))


def interpreted(path: Path, arrays: Sequence[Array], delegates: bool = False) -> list[Array]:
    """LiteRT's outputs: by its own kernels, or by XNNPACK's where that has some."""
    told = _interpreter(path, arrays, delegates)
    return [told.get_tensor(output["index"]) for output in told.get_output_details()]


def _interpreter(path: Path, arrays: Sequence[Array], delegates: bool = False,
                 preserve: bool = False) -> Any:
    from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]
        Interpreter,
        OpResolverType,
    )

    kernels = OpResolverType.BUILTIN if delegates else \
        OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=kernels,
                              experimental_preserve_all_tensors=preserve)
    interpreter.allocate_tensors()
    for told, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(told["index"], array)
    interpreter.invoke()
    return interpreter


def steps_of_operators(path: Path, arrays: Sequence[Array]) -> Mapping[str, float]:
    """By operator's name the largest difference of one by itself, given the values that LiteRT
    computes for its inputs: in steps where they are integers, else as `apart` has it.
    """
    from compiler.frontend.onnx_import import convert
    from compiler.frontend.tflite import schema
    from compiler.frontend.tflite.converter import Converter
    from compiler.graph.pipeline import optimize
    from compiler.graph.reference import evaluate

    interpreter, graph = _interpreter(path, arrays, preserve=True), schema.read(path)
    worst: dict[str, float] = {}
    for operation in graph.operations:
        given = dict.fromkeys(place for place in operation.inputs
                              if place >= 0 and graph.tensors[place].array is None)
        if not given or any(_is_of_shapes(graph.tensors[place]) for place in given):
            continue
        values = {place: interpreter.get_tensor(place)
                  for place in (*given, *operation.outputs)}
        tensors = [replace(tensor, shape=values[place].shape, signature=values[place].shape)
                   if place in values else tensor for place, tensor in enumerate(graph.tensors)]
        names = {place: f"x{place}" for place in given}
        alone = replace(graph, tensors=tuple(tensors), operations=(operation,),
                        inputs=tuple(given), outputs=operation.outputs, input_names=names,
                        output_names={place: f"y{place}" for place in operation.outputs})
        network = optimize(convert(Converter(alone, "operator").run().model))
        made = evaluate(network, {name: values[place] for place, name in names.items()
                                  if name in network.inputs})
        wanted = [values[place] for place in operation.outputs]
        error = apart(wanted, [made[f"y{place}"] for place in operation.outputs])
        worst[operation.code] = max(error, worst.get(operation.code, 0.0))
    return worst


def _is_of_shapes(tensor: Any) -> bool:
    """Whether it has integers that stand for themselves: extents, which constants decide."""
    return tensor.quantization is None and tensor.dtype.kind == "i"


if __name__ == "__main__":
    sys.exit(main())
