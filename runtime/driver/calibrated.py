"""Float networks quantized for several machines by one set of samples, kept in the cache.

Machines that are one to the quantizer (`accel.mapping.quantizing.machine_fingerprint`) share the
int8 network. How good it is tells `Accuracy`: decibels against the float network, or what a
function of the user's own says.
"""

import hashlib
import json
import math
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.quantizing import machine_fingerprint, options_of_one
from compiler.errors import ArgumentError
from compiler.frontend.onnx.nodes.external import external_files
from compiler.native import build_once, digest
from compiler.ops.patterns import Pattern
from compiler.quantize.in_floats import InFloats
from compiler.quantize.improve.noise import Measured, Noise
from compiler.quantize.made_for import made_for, made_for_note
from compiler.quantize.networks.source import is_quantized, source_of
from compiler.quantize.quantizer import Quantized
from compiler.quantize.ranges.calibration import Samples, program
from compiler.quantize.ranges.sets import calibration_set
from compiler.tune.record import versions
from runtime.driver.quantization import quantize

Array = np.ndarray
Metric = Callable[[Mapping[str, Array], Mapping[str, Array]], Any]
"""A function of a user's: of outputs, and of the float network's with labels; more is better."""

KIND = "quantized"                  # of entries of the cache
NETWORK, FIGURES = "network.onnx", "figures.json"
NOISELESS = 300.0
"""The decibels of a network without noise: more than float32 can tell."""
ROOMS = ("compiler", "accel")


@dataclass(frozen=True)
class CalibratedFile:
    """A network as it was quantized for a machine.

    Parameters
    ----------
    path : of the int8 network. digest : of its bytes.
    accuracy : in decibels, or the metric's number. quantized, layers : how many layers are in int8,
        of how many.
    """

    path: Path
    digest: str
    accuracy: float
    quantized: int
    layers: int


@dataclass(frozen=True)
class Calibration:
    """Samples and options by which float networks are quantized.

    Parameters
    ----------
    files : of samples. options : of `compiler.quantize.quantize`, the same for every machine as far
        as it can have them (`accel.mapping.quantizing.options_of_one`).
    held_out : files of other samples by which accuracy is told; by default `files`. Arrays that are
        no inputs are labels.
    metric : ``FILE.py:NAME``, a function of outputs and of what they should be; "" for decibels.
    """

    files: tuple[Path, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    held_out: tuple[Path, ...] = ()
    metric: str = ""
    _kept: dict[tuple[str, str], CalibratedFile] = field(default_factory=dict, compare=False)

    @property
    def unit(self) -> str:
        """The unit of accuracies."""
        return "" if self.metric else "dB"

    def takes(self, path: Path) -> bool:
        """True for a float network, which is to be quantized. Raises ImportRefused."""
        return not is_quantized(path)

    @property
    def count(self) -> int:
        """The number of quantized networks that were made, or found in the cache."""
        return len(self._kept)

    def require_metric(self) -> None:
        """Raises ArgumentError for a metric that is no function."""
        _ = self.metric and self._judge

    def quantized(self, path: Path, machine: Machine) -> CalibratedFile:
        """The network quantized for a machine. Raises QuantizeRefused."""
        key = str(path), machine_fingerprint(machine)
        if key not in self._kept:
            self._kept[key] = self._file(path, machine)
        return self._kept[key]

    def quantize(self, path: Path, machine: Machine | None, **more: Any) -> Quantized | InFloats:
        """Quantizes the network for a machine, or for any, with `more` options; nothing is kept.
        Raises QuantizeRefused.
        """
        options = {**self.options, **more}
        samples, _ = _split(path, calibration_set(self.files), options.get("bind"))
        return quantize(path, samples, machine=machine, **options)

    def _file(self, path: Path, machine: Machine) -> CalibratedFile:
        key = [file_digest(path), machine_fingerprint(machine), *self._texts, *_codes(machine)]
        folder = build_once(KIND, digest(key), None,
                            lambda folder: self._make(path, machine, folder))
        figures = json.loads((folder / FIGURES).read_text())
        made = folder / NETWORK
        return CalibratedFile(made, file_digest(made), **figures)

    def _make(self, path: Path, machine: Machine, folder: Path) -> None:
        found = replace(self, options=options_of_one(machine, self.options)).quantize(path, machine)
        found.save(folder / NETWORK)
        (folder / FIGURES).write_text(json.dumps({
            "accuracy": self.accuracy(path, found), "layers": len(found.layers),
            "quantized": sum(layer.quantized for layer in found.layers)}))

    @cached_property
    def _texts(self) -> list[str]:
        """All that the result depends on but network and machine."""
        code = Path(_parts(self.metric)[0]).read_bytes() if self.metric else b""
        return [json.dumps(self.options, sort_keys=True, default=str),
                *map(file_digest, self.files), "held out", *map(file_digest, self.held_out),
                self.metric, hashlib.sha256(code).hexdigest(), versions(ROOMS)]

    def accuracy(self, path: Path, quantized: Quantized | InFloats) -> float:
        """Tells how good a network is that was quantized by these samples: decibels, or the
        metric's number. Raises ArgumentError for a metric that fails.
        """
        if not self.metric and not self.held_out:
            return _decibels(quantized.decibels)
        bind = self.options.get("bind")
        samples, labels = _split(path, calibration_set(self.held_out or self.files), bind)
        real, other = _both(path, quantized, samples, bind)
        return self._judged(other, real | labels) if self.metric else _decibels(_noise(real, other))

    def _judged(self, outputs: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
        try:
            value = float(self._judge(outputs, wanted))
        except Exception as error:      # noqa: BLE001 - the code is the user's
            raise ArgumentError(f"Metric {self.metric} must give a number, but fails: "
                                f"{type(error).__name__}: {error}") from None
        if not math.isfinite(value):
            raise ArgumentError(f"Metric {self.metric} must give a finite number, not {value!r}")
        return value

    @cached_property
    def _judge(self) -> Metric:
        file, name = _parts(self.metric)
        try:
            found = runpy.run_path(file).get(name)
        except Exception as error:      # noqa: BLE001 - the code is the user's
            raise ArgumentError(f"Metric {self.metric} must be FILE.py:NAME of a file that runs: "
                                f"{type(error).__name__}: {error}") from None
        if not callable(found):
            raise ArgumentError(f"Metric {self.metric} must name a function of {file}, not "
                                f"{name!r}")
        return found


def origin_note(name: str, path: Path, machines: Sequence[Machine]) -> str:
    """A sentence for a file in int8 that was quantized for another machine than some of these; ""
    where it was not, or does not say so.
    """
    found = made_for(path)
    if "machine_fingerprint" not in found:
        return ""
    others = sum(machine_fingerprint(one) != found["machine_fingerprint"] for one in machines)
    where = f": {others} of {len(machines)} machines here" if len(machines) > 1 else ""
    return f"{made_for_note(name, found)}{where}" if others else ""


def file_digest(path: Path) -> str:
    """The hash of a file, with those of its weights; of a folder, that of its files."""
    total = hashlib.sha256()
    for part in (*(() if path.is_dir() else (path,)), *external_files(path)):
        total.update(hashlib.sha256(part.read_bytes()).digest())
    return total.hexdigest()


def _parts(metric: str) -> tuple[str, str]:
    file, colon, name = metric.rpartition(":")
    if not colon or not name.isidentifier() or not Path(file).is_file():
        raise ArgumentError(f"--metric must be FILE.py:NAME of a file that exists, not {metric!r}")
    return file, name


def _codes(machine: Machine) -> list[str]:
    """The code of the immediates of patterns, of which a fingerprint has a few numbers."""
    return [_code(getattr(pattern.immediates, "__code__", None)) for pattern in machine.patterns
            if isinstance(pattern, Pattern)]


def _code(code: CodeType | None) -> str:
    """The code of a function; what it has of others, objects with addresses, is left out."""
    if code is None:
        return ""
    numbers = [one for one in code.co_consts if isinstance(one, int | float)]
    return f"{code.co_code!r} {code.co_names} {numbers}"


def _split(path: Path, given: Mapping[str, Array] | Array, bind: Any
           ) -> tuple[Mapping[str, Array] | Array, dict[str, Array]]:
    """The samples of inputs, and the arrays that are none."""
    if not isinstance(given, Mapping):
        return given, {}
    names = {one.name for one in source_of(path, given, bind=bind).inputs}
    return ({name: array for name, array in given.items() if name in names},
            {name: array for name, array in given.items() if name not in names})


def _both(path: Path, quantized: Quantized | InFloats, given: Mapping[str, Array] | Array,
          bind: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs of the float network and of the quantized one, of all samples."""
    source = source_of(path, given, bind=bind)
    samples = Samples.of(source.inputs, source.place, given)
    graphs = source.graph(samples.shapes), quantized.graph_of(samples.shapes)
    runs = [program(graph, graph.outputs) for graph in graphs]
    batches = [[run(batch) for run in runs] for batch in samples.batches()]
    real, other = ({name: _joined([batch[side][name] for batch in batches])
                    for name in graphs[side].outputs} for side in (0, 1))
    return real, other


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if parts[0].ndim else np.stack(parts)


def _noise(real: Mapping[str, Array], other: Mapping[str, Array]) -> float | None:
    """The decibels of the worst output in float."""
    measured = Measured({name: Noise() for name in real if real[name].dtype == np.float32},
                        [name for name in real if real[name].dtype == np.float32])
    for name in measured.outputs:
        measured.add(name, real[name], other[name])
    return measured.decibels


def _decibels(value: float | None) -> float:
    return NOISELESS if value is None else min(value, NOISELESS)
