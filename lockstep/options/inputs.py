"""Reads inputs of networks from files, and writes their outputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler.errors import RequestError
from compiler.files import whole_file


def arrays(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file, by name; each is read on access."""
    from compiler.frontend.building.arrays import ArrayFile, read_arrays

    arrays = read_arrays(path)
    if not isinstance(arrays, ArrayFile):
        raise RequestError(f"{str(path)!r} must be an .npz archive of named arrays")
    return arrays


def set_inputs(module, given: Mapping[str, Any]) -> None:
    """Sets a module's inputs; the headers of inputs from a file are checked before any is read. An
    input without elements is none of the module's, so its array says nothing.
    """
    from compiler.frontend.building.arrays import array_shapes

    taken = {value.name for value in module.inputs}
    shapes = array_shapes(given)
    names = [name for name in given if name in taken or 0 not in shapes[name]]
    headers = getattr(given, "headers", {})
    for name in names:
        if name in headers:
            module.require_input(name, headers[name].shape, headers[name].dtype)
    for name in names:
        module.set_input(name, given[name])


def write_outputs(outputs: Mapping[str, Any], path: Path) -> None:
    """Writes an .npz file like np.savez, but accepts every name."""
    import zipfile

    import numpy as np

    with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
