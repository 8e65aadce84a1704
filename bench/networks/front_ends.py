"""Do files of other frameworks compute what the frameworks compute?

Each file is imported, compiled for the target `cpu`, and run on the inputs that its framework has
run on; outputs are compared. Float files may differ by 1e-5 of the largest output, int8 by one
step of what LiteRT's default kernels compute, for inputs that are noise and for smooth ones; so may
every operator by itself, on the values that LiteRT gives it. What LiteRT's default kernels and its
others differ by is printed beside it. With weights of int8 and activations in float, which LiteRT
rounds as it goes, a file may differ by as much as these two.

``--files`` are .tflite files, or folders of such. Without any the small files in `tests/models` are
measured, made there by `make.py`. PYTHON is one that has TensorFlow and tf2onnx (such as a virtual
environment of its own); with it MobileNets are made, too, each as .tflite in float and int8, as
.keras and as SavedModel. The exit status is 1 where a file differs by more.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from bench.frame import Bench, Sheet

MODELS = Path(__file__).parents[2] / "tests" / "models"
TOLERANCE = 1e-5
SAMPLES = 6
Array = np.ndarray

BENCH = Bench(__file__, __doc__)
BENCH.option("--files", nargs="+", type=Path, metavar="PATH", help=".tflite, or folders of such")
BENCH.option("--python", default=os.environ.get("LOCKSTEP_TENSORFLOW"), metavar="PYTHON",
             help="one that has TensorFlow, for larger files")


@dataclass(frozen=True, slots=True)
class Figures:
    """`error`: the largest difference relative to the largest output, or in steps for int8; `own`:
    that between two sets of LiteRT's kernels; `operators`: in int8 that of the worst operator by
    itself.
    """

    file: str
    framework: str
    nodes: int
    error: float
    own: float | None = None
    operators: float | None = None

    @property
    def holds(self) -> bool:
        if self.operators is not None:
            return max(self.error, self.operators) <= 1
        return self.error <= max(TOLERANCE, self.own or 0)


@BENCH.part()
def files(sheet: Sheet) -> None:
    print(f"{'file':48}{'framework':16}{'nodes':>6}{'error':>10}{'its own':>9}{'operator':>10}")
    with TemporaryDirectory(prefix="lockstep-front-ends-") as folder:
        for path in (_given(sheet.files) if sheet.files else _files(Path(folder), sheet.python)):
            found = measure(path)
            _show(found)
            sheet.row(found)
            sheet.require(found.holds)


def _show(one: Figures) -> None:
    if one.operators is None:
        figures = f"{one.error:10.1e}" + ("" if one.own is None else f"{one.own:9.0e}")
    else:
        figures = f"{one.error:4.0f} steps{one.own:9.0f}{one.operators:10.0f}"
    print(f"{one.file:48}{one.framework:16}{one.nodes:6}{figures}"
          f"{'' if one.holds else '  DIFFERS'}", flush=True)


def _given(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.tflite")) if path.is_dir() else [path]


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

    module = compile(str(path), target="cpu", cache=False)
    kinds = [module.graph.values[name] for name in module.graph.inputs]
    if path.suffix == ".tflite":
        samples = [[drawn(kind.shape, kind.dtype, number) for kind in kinds]
                   for number in range(SAMPLES)]
        answers, framework = [interpreted(path, arrays) for arrays in samples], "LiteRT"
    else:
        arrays, answer, framework = _reference(path)
        samples, answers = [arrays], [answer]
    error = max(apart(answer, _computed(module, arrays))
                for arrays, answer in zip(samples, answers, strict=True))
    measured = Figures(path.name, framework, len(module.graph.nodes), error)
    if path.suffix != ".tflite":
        return measured
    own = max(apart(answer, interpreted(path, arrays, delegates=False))
              for arrays, answer in zip(samples, answers, strict=True))
    if answers[0][0].dtype.kind == "f":
        return replace(measured, own=own)
    return replace(measured, own=own, operators=max(
        max(steps_of_operators(path, arrays).values()) for arrays in samples[:2]))


def _computed(module: Any, arrays: Sequence[Array]) -> list[Array]:
    given = module(dict(zip(module.graph.inputs, arrays, strict=True)))
    return [given[name] for name in module.graph.outputs]


def _reference(path: Path) -> tuple[list[Array], list[Array], str]:
    """Inputs, what the framework makes of them, and its name."""
    with np.load(path.with_suffix(".npz")) as told:
        names = sorted(told.files)
        arrays = [told[name] for name in names if name.startswith("x")]
        return arrays, [told[name] for name in names if name.startswith("y")], str(
            told["framework"])


def drawn(shape: Sequence[int], dtype: str, number: int) -> Array:
    """An input: noise over the whole range for even numbers, else sums of noise along the axes
    behind the first, which are smooth as images and sounds are.
    """
    rng = np.random.default_rng(number)
    noise = rng.normal(size=shape)
    if number % 2:
        for axis in range(1, len(shape)):
            noise = np.cumsum(noise, axis)
        noise = 3 * (noise - noise.mean()) / max(np.abs(noise - noise.mean()).max(), 1e-9)
    if dtype == "float32":
        return noise.astype(np.float32)
    limits = np.iinfo(dtype)
    if number % 2 == 0:
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    middle = (limits.max + limits.min) / 2
    return np.rint(middle + noise / 3 * (limits.max - middle)).astype(dtype)


def apart(wanted: Sequence[Array], given: Sequence[Array]) -> float:
    """The largest difference: relative to the largest element, or in steps of integers."""
    return max((float(np.abs(two.astype(np.int64) - one).max()) if one.dtype.kind in "iub" else
                float(np.abs(two - one).max() / max(np.abs(one).max(), 1e-30)))
               for one, two in zip(wanted, given, strict=True))


def interpreted(path: Path, arrays: Sequence[Array], delegates: bool = True) -> list[Array]:
    """LiteRT's outputs: by its default kernels, XNNPACK's where that has some, or by its own."""
    told = _interpreter(path, arrays, delegates)
    return [told.get_tensor(output["index"]) for output in told.get_output_details()]


def _interpreter(path: Path, arrays: Sequence[Array], delegates: bool = True,
                 preserve: bool = False) -> Any:
    from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]
        Interpreter,
        OpResolverType,
    )

    kernels = OpResolverType.BUILTIN if delegates else \
        OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with catch_warnings():
        simplefilter("ignore")                  # that tensors in between take memory
        interpreter = Interpreter(str(path), experimental_op_resolver_type=kernels,
                                  experimental_preserve_all_tensors=preserve)
    interpreter.allocate_tensors()
    for told, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(told["index"], array)
    interpreter.invoke()
    return interpreter


def steps_of_operators(path: Path, arrays: Sequence[Array]) -> Mapping[str, float]:
    """By operator's name the largest difference of one by itself, given the values that LiteRT
    computes for its inputs by its default kernels: in steps where they are integers, else as
    `apart` has it.
    """
    from compiler.frontend.onnx.importing import convert
    from compiler.frontend.tflite import schema
    from compiler.frontend.tflite.converter import Converter
    from compiler.graph.passes.pipeline import optimize, standard_passes
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
        network = optimize(convert(Converter(alone, "operator").run().model),
                           standard_passes(exact=True))
        made = evaluate(network, {name: values[place] for place, name in names.items()
                                  if name in network.inputs})
        wanted = [values[place] for place in operation.outputs]
        error = apart(wanted, [made[f"y{place}"] for place in operation.outputs])
        worst[operation.code] = max(error, worst.get(operation.code, 0.0))
    return worst


def _is_of_shapes(tensor: Any) -> bool:
    """Whether it has integers that stand for themselves: extents, which constants decide."""
    return tensor.quantization is None and tensor.dtype.kind == "i"
