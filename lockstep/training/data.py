"""Data for training: arrays of a file, or what a function of the user's gives."""

import importlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from compiler.errors import Error, RequestError
from compiler.graph.graph import Graph
from compiler.te import numpy_dtype
from runtime.driver.courses import Draw
from runtime.driver.training import batches

Arrays = dict[str, np.ndarray]


def drawn_rows(arrays: Arrays, size: int, epochs: int, seed: int) -> Draw:
    """Batches of rows, in an order that is drawn for each epoch."""
    return lambda first: batches(arrays, size, epochs=epochs, seed=seed, first=first)


def generated(function: Callable[[], Any], graph: Graph, epochs: int) -> Draw:
    """The batches of a function that is called once for each epoch; those at the beginning are made
    and left out.
    """
    def all_of_them() -> Iterator[Arrays]:
        for _ in range(epochs):
            for batch in function():
                yield fitted(batch, graph, "a batch")
    return lambda first: islice(all_of_them(), first, None)


def first_rows(draw: Draw, names: Iterable[str], count: int) -> Arrays:
    """The first rows of these arrays, as many as `count` where the batches have them. Raises
    RequestError.
    """
    parts: list[Arrays] = []
    try:
        for batch in draw(0):
            parts.append({name: batch[name] for name in names})
            if len(parts) * max(map(len, parts[0].values())) >= count:
                break
    except Error:
        raise
    except Exception as error:          # the data's own code may raise anything
        raise RequestError(f"the data failed in batch {len(parts) + 1}: {type(error).__name__}: "
                           f"{error}") from error
    return {name: np.concatenate([part[name] for part in parts])[:count]
            for name in (parts[0] if parts else ())}


def read_arrays(path: str, graph: Graph) -> Arrays:
    """The arrays of an .npz file, one for each input of the graph, of any number of rows."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise RequestError(f"--data {path!r} must be an .npz file, with names of arrays")
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RequestError(f"--data {path!r} cannot be read as .npz: {error}") from None
    arrays = fitted(arrays, graph, f"--data {path!r}", rows=False)
    counts = {name: len(array) for name, array in arrays.items()}
    size = next((graph.values[name].shape[0] for name in arrays), 0)
    if len({*counts.values()}) != 1 or min(counts.values()) < size:
        raise RequestError(f"--data {path!r} must have as many rows in each array, at least the "
                           f"{size} of a batch, not {counts}")
    return arrays


def fitted(arrays: Any, graph: Graph, what: str, rows: bool = True) -> Arrays:
    """The arrays as the graph's inputs have them: integers and floats become wider where that
    loses nothing. Without `rows` any number of rows fits. Raises RequestError.
    """
    if not isinstance(arrays, Mapping):
        raise RequestError(f"{what} must be a dictionary of arrays, not {type(arrays).__name__}")
    if arrays.keys() != {*graph.inputs}:
        raise RequestError(f"{what} must have the arrays {', '.join(graph.inputs)}, not "
                           f"{', '.join(map(str, arrays)) or 'none'}")
    made: Arrays = {}
    for name in graph.inputs:
        wanted, array = graph.values[name], np.asarray(arrays[name])
        dtype = np.dtype(numpy_dtype(wanted.dtype))
        shapes = (array.shape, wanted.shape) if rows else (array.shape[1:], wanted.shape[1:])
        if shapes[0] != shapes[1] or not rows and not array.shape or not np.can_cast(
                array.dtype, dtype, "safe"):
            extents = wanted.shape if rows else ("rows", *wanted.shape[1:])
            raise RequestError(f"{what}: {name} must be {wanted.dtype} of shape "
                               f"({', '.join(map(str, extents))}), not {array.dtype} of shape "
                               f"{array.shape}")
        made[name] = np.ascontiguousarray(array, dtype)
    return made


def function_of(text: str) -> Callable[[], Any]:
    """The function of ``MODULE:FUNCTION``; the module is imported, from this folder, too, so trust
    it like a program.
    """
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name, None)
    except Exception as error:          # the module's own code may raise anything
        raise RequestError(f"--data {text}: the module {module!r} cannot be imported: "
                           f"{type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(function):
        raise RequestError(f"--data {text}: the module {module!r} must have a function {name!r}")
    return function
