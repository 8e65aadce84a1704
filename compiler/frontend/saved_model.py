"""TensorFlow's SavedModels as ONNX models, by tf2onnx in a process of its own.

TensorFlow is large and wants versions of its own of what others want, too. So it may be installed
anywhere: the variable `LOCKSTEP_TENSORFLOW` names the Python that has it, this one unless set.
"""

import importlib.util
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from onnx import helper

from compiler.errors import Error
from compiler.frontend.building.binding import open_dimensions, real_inputs
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.kinds import SAVED_MODEL_FILE
from compiler.frontend.onnx import importing as onnx_import
from compiler.frontend.onnx.nodes.writer import Loaded
from compiler.processes import remove_at_end, run_tool

VARIABLE = "LOCKSTEP_TENSORFLOW"
OPSET = 18
"""The newest that tf2onnx writes."""


def convert(path: Path) -> Loaded:
    """The ONNX model of a SavedModel, given its folder or its file, of its signature
    `serving_default`. A first dimension that is open becomes 1 unless others say more. Raises
    ImportRefused.
    """
    folder = path.parent if path.name == SAVED_MODEL_FILE else path
    python = os.environ.get(VARIABLE) or sys.executable
    _require(path, python)
    with TemporaryDirectory(prefix="lockstep-savedmodel-") as place, \
            remove_at_end(Path(place)) as out:
        target = out / "model.onnx"
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        environment.pop("PYTHONPATH", None)
        try:
            done = run_tool([python, "-m", "tf2onnx.convert", "--saved-model",
                             str(folder.resolve()), "--output", str(target), "--opset",
                             str(OPSET), "--tag", "serve"], cwd=out, env=environment)
        except (OSError, Error) as error:
            raise ImportRefused(f"{path}: {python!r} cannot be run: {error}; {VARIABLE} must name "
                                "a Python that has tensorflow and tf2onnx") from None
        if done.returncode or not target.exists():
            raise ImportRefused(f"{path}: tf2onnx cannot convert it: {_reason(done.stderr)}")
        model = _standard(onnx_import.read_model(target))
    opened = open_dimensions(real_inputs(model.graph))
    return Loaded(model, {where: 1 for where in opened if where.endswith(".0")})


def _require(path: Path, python: str) -> None:
    if python == sys.executable:
        for package in ("tensorflow", "tf2onnx"):
            if importlib.util.find_spec(package) is None:
                raise ImportRefused(
                    f"{path}: a SavedModel needs {package}, which is not installed; install "
                    f"lockstep-hw[tensorflow], here or elsewhere with {VARIABLE} as that Python")


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "No module" in line]
    return ((errors or lines or ["it gives no reason"])[-1])[:300]


def _standard(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without Erfc, which tf2onnx leaves as it is and ONNX lacks: 1 - Erf."""
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Erfc" or node.domain:
            nodes.append(node)
            continue
        one, erf = f"{node.output[0]}/one", f"{node.output[0]}/erf"
        nodes += [helper.make_node("Constant", [], [one], value_float=1.0),
                  helper.make_node("Erf", node.input, [erf], f"{node.name}/erf"),
                  helper.make_node("Sub", [one, erf], node.output, node.name)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model
