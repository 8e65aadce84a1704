"""A network as a module of Python that needs NumPy alone: ``NAME.py``, over ``libNAME.so``."""

import json
from collections.abc import Sequence

from .interface import CArray, CInterface


def python(of: CInterface) -> str:
    """The text of ``NAME.py``."""
    return _TEXT.format(
        name=of.name, title=(of.title or of.name).replace('"""', "'''").replace("\\", "/"),
        inputs=_arrays(of.inputs), outputs=_arrays(of.outputs), arena=of.arena_bytes,
        alignment=max(of.arena_alignment, of.weights_alignment), weights=of.weights_bytes,
        statuses=json.dumps([meaning for _, meaning in of.all_statuses]),
        first=json.dumps(of.inputs[0].name if of.inputs else ""))


def _arrays(arrays: Sequence[CArray]) -> str:
    """A dictionary, as text; NumPy has no bfloat16, so these are their bits."""
    lines = [f"    {array.name!r}: "
             f"({('uint16' if array.dtype == 'bfloat16' else array.dtype)!r}, {array.shape!r}),"
             for array in arrays]
    return "\n".join(["{", *lines, "}"])


_TEXT = '''\
"""{title}

    network = Network()
    outputs = network(**{{name: np.zeros(shape, dtype) for name, (dtype, shape) in INPUTS.items()}})
"""

import ctypes
from pathlib import Path

import numpy as np

INPUTS = {inputs}
OUTPUTS = {outputs}
"""Types and shapes by name."""

_HERE = Path(__file__).resolve().parent
_MEANINGS = {statuses}


class Network:
    """The network, with memory of its own: one for each thread.

    `library` is lib{name}.so and `weights` is {name}.bin where weights are apart; by default both
    lie beside this file. Raises OSError where they cannot be read, ValueError for other weights.
    """

    def __init__(self, library=_HERE / "lib{name}.so", weights=_HERE / "{name}.bin"):
        library = ctypes.CDLL(str(library))
        self._run = library.{name}_run
        self._self = (ctypes.c_void_p * 1)()
        self._arena = _aligned({arena})
        self._weights = None
        if {weights}:
            data = np.fromfile(weights, np.uint8)
            if data.size != {weights}:
                raise ValueError(f"{{weights}} must have {weights} bytes, not {{data.size}}")
            self._weights = _aligned(data.size)
            self._weights[...] = data
        _require(library.{name}_init(self._self, _address(self._weights)))

    def __call__(self, **inputs):
        """The outputs of one inference, new arrays by name. Raises ValueError for an input that is
        missing or of another type or shape.
        """
        if unknown := [name for name in inputs if name not in INPUTS]:
            raise ValueError(f"Input must be one of {{', '.join(INPUTS)}}, not {{unknown[0]!r}}")
        given = [_checked(name, inputs.get(name)) for name in INPUTS]
        made = {{name: np.empty(shape, dtype) for name, (dtype, shape) in OUTPUTS.items()}}
        _require(self._run(self._self, _addresses(given), _addresses(made.values()),
                           _address(self._arena)))
        return made


def _checked(name, array):
    dtype, shape = INPUTS[name]
    array = np.asarray(array)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"Input {{name}} must be {{dtype}} of shape {{shape}}, not "
                         f"{{array.dtype}} of shape {{array.shape}}")
    return np.require(array, requirements=["C", "A"])


def _aligned(size):
    memory = np.empty(size + {alignment}, np.uint8)
    begin = -memory.ctypes.data % {alignment}
    return memory[begin:begin + size]


def _address(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def _addresses(arrays):
    addresses = [array.ctypes.data for array in arrays]
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def _require(status):
    if status:
        raise ValueError(f"{name}: {{_MEANINGS[status]}}")
'''
