"""Findings as files: a folder with the model, its inputs and what is right; and as text, which the
suite replays.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser, printer

from bench.support.peers import save_arrays
from bench.values.judge import Finding
from bench.values.reference import evaluated
from bench.values.shrink import Case

Array = np.ndarray
MODEL, INPUTS, EXPECTED, ABOUT = "model.onnx", "inputs.npz", "expected.npz", "about.txt"


def kept(folder: Path, case: Case, finding: Finding, trial: str) -> None:
    """Writes the finding into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(case.model, folder / MODEL)
    save_arrays(folder / INPUTS, case.inputs)
    values = evaluated(case.model, case.inputs)
    save_arrays(folder / EXPECTED, {output.name: values[output.name]
                                    for output in case.model.graph.output})
    (folder / "case.json").write_text(as_text(case, finding.kind))
    (folder / ABOUT).write_text(
        f"{finding.kind} by {finding.way}: {finding.text}\n{trial}\n"
        f"python -m bench.values --replay {folder} --targets {finding.way}\n\n"
        f"{printer.to_text(case.model)}\n")


def read(folder: Path) -> Case:
    """The case of a folder, or of a text."""
    if folder.is_file():
        return from_text(folder.read_text())
    with np.load(folder / INPUTS) as archive:
        return Case(onnx.load(folder / MODEL), dict(archive))


def as_text(case: Case, about: str) -> str:
    """The case in ONNX's text syntax; constants and inputs as numbers beside it."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    del model.graph.initializer[:]
    return json.dumps({
        "about": about, "model": printer.to_text(model).splitlines(),
        "constants": _plain(constants), "inputs": _plain(case.inputs)}, indent=1) + "\n"


def from_text(text: str) -> Case:
    told = json.loads(text)
    model = parser.parse_model("\n".join(told["model"]))
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array
                                   in _arrays(told["constants"]).items())
    return Case(model, _arrays(told["inputs"]))


def _plain(arrays: Mapping[str, Array]) -> dict[str, list]:
    return {name: [array.dtype.name, list(array.shape), json.dumps(array.reshape(-1).tolist())]
            for name, array in arrays.items()}


def _arrays(told: Mapping[str, list]) -> dict[str, Array]:
    return {name: np.array(json.loads(numbers), dtype).reshape(shape)
            for name, (dtype, shape, numbers) in told.items()}
