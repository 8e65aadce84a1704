"""Calibration sets in any form that users have: arrays, iterables of batches, files."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from compiler.frontend.building.arrays import ArraysRefused, read_arrays
from compiler.quantize.ranges.refusal import QuantizeRefused

Array = np.ndarray
CalibrationSet = Mapping[str, Any] | Iterable[Any] | str | PathLike[str]
"""Samples [N, ...]: by the name of the input, or an array for the only input; or an iterable of
batches of either; or paths of .npz or .npy files.
"""


def calibration_set(given: CalibrationSet) -> Mapping[str, Array] | Array:
    """All samples of the only input, or of each input by its name.

    Raises QuantizeRefused for a file that holds no arrays, and for parts that do not fit together.
    """
    if isinstance(given, Mapping):
        return {name: np.asarray(array) for name, array in given.items()}
    if isinstance(given, str | PathLike):
        return _read(given)
    if hasattr(given, "__array__"):
        return np.asarray(given)
    if not isinstance(given, Iterable):
        raise QuantizeRefused(f"calibration samples must be arrays or files of them, not {given!r}")
    return _joined([_read(source) if isinstance(source, str | PathLike) else source
                    for source in given])


def _joined(parts: Sequence[Any]) -> dict[str, Array] | Array:
    named = [part for part in parts if isinstance(part, Mapping)]
    if named and len(named) < len(parts):
        raise QuantizeRefused("calibration samples must all be arrays by name, as .npz archives "
                              "have them, or all be plain arrays, as .npy files are, not both")
    try:
        if not named:
            return np.concatenate([np.asarray(part) for part in parts])
        return {name: np.concatenate([np.asarray(part[name]) for part in named])
                for name in dict.fromkeys(name for part in named for name in part)}
    except KeyError as missing:
        raise QuantizeRefused("calibration samples must have arrays of the same names in every "
                              f"part, and one has no {missing}") from None
    except ValueError as error:
        raise QuantizeRefused(f"calibration samples must fit together: {error}") from None


def _read(path: str | PathLike[str]) -> Mapping[str, Array] | Array:
    try:
        return read_arrays(path)
    except ArraysRefused as error:
        raise QuantizeRefused(str(error)) from None
