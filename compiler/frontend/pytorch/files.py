"""Files of torch.export.save, and torch itself, which is imported where it is used."""

import importlib
import logging
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from compiler.frontend.building.refusal import ImportRefused


def require_torch() -> Any:
    """The module, or ImportRefused."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportRefused("a PyTorch program needs torch, which is not installed; install "
                            "lockstep-hw[torch]") from None
    return torch


@contextmanager
def quiet() -> Iterator[None]:
    """Silences torch's warnings about itself and its log of errors, which are raised anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def read(path: str | PathLike[str]) -> Any:
    """The ExportedProgram of a file. torch unpickles tensors alone, and files with pickled objects
    or compiled code are refused; but torch evaluates symbolic sizes, which are text in the file.
    """
    if not os.path.isfile(path):        # pathlib's raises for some names
        raise ImportRefused(f"{path}: no such file; give the path of a .pt2 file")
    torch = require_torch()
    try:
        with quiet(), _tensors_alone():
            _refuse_code(path)
            _register_operators(torch, path)
            return torch.export.load(path)
    except ImportRefused:
        raise
    except Exception as error:      # noqa: BLE001 - torch says in many ways that it cannot
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ImportRefused(f"{path}: torch.export.load cannot read it: {reason}; give a file "
                            "that torch.export.save wrote with this version of torch") from None


def _refuse_code(path: str | PathLike[str]) -> None:
    from torch.export.pt2_archive import constants  # pyright: ignore[reportMissingImports]

    parts = (constants.AOTINDUCTOR_DIR, *(f"{constants.CONSTANTS_DIR}{prefix}" for prefix in (
        constants.CUSTOM_OBJ_FILENAME_PREFIX, constants.OPAQUE_OBJ_FILENAME_PREFIX)))
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if any(part in name for part in parts):
                raise ImportRefused(f"{path}: must hold a program and tensors, not {name}; save "
                                    "the program alone with torch.export.save")


REGISTERED_BY = {"quantized_decomposed": "torch.ao.quantization.fx._decomposed",
                 "torchao": "torchao.quantization"}
"""Modules that register the operators of a namespace, which torch knows only from then on."""

NAMESPACE = re.compile(rb'"torch\.ops\.(\w+)\.(\w+)')
WEIGHTS = re.compile(r"(.*/)?data/weights/[^/]*")
TORCHAO = re.compile(rb"ctorchao[\w.]*\n(\w*Tensor)\n")
"""A class of tensors, as the pickle of a weight names it."""


def _register_operators(torch: Any, path: str | PathLike[str]) -> None:
    """Imports what registers the operators and the tensors that a file names; refuses operators
    that nothing registers.
    """
    if kinds := sorted(set(tensors_of_torchao(path))):
        _import("torchao", path, f"tensors {', '.join(kinds)}")
    for namespace, name in _named_operators(path).items():
        if namespace in REGISTERED_BY:
            _import(namespace, path, "operators")
        if not hasattr(getattr(torch.ops, namespace), name):
            raise ImportRefused(
                f"{path}: its operators of {namespace} are not known to torch; import the library "
                "that registers them, and give the program of torch.export.load in place of the "
                "file")


def _import(namespace: str, path: str | PathLike[str], what: str) -> None:
    try:
        importlib.import_module(REGISTERED_BY[namespace])
    except ImportError:
        raise ImportRefused(f"{path}: its {what} of {namespace} need that package, which is not "
                            f"installed; install lockstep-hw[{namespace}]") from None


def _named_operators(path: str | PathLike[str]) -> dict[str, str]:
    """Namespaces of the operators that a file names, each with one of its operators."""
    with zipfile.ZipFile(path) as archive:
        texts = [archive.read(name) for name in archive.namelist() if name.endswith(".json")]
    return {namespace.decode(): name.decode() for text in texts
            for namespace, name in NAMESPACE.findall(text)}


def tensors_of_torchao(path: str | PathLike[str]) -> list[str]:
    """The classes of the weights that are torchao's tensors, by their names, one for each weight.
    Raises what `zipfile` does for a file that is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        return [found[1].decode() for name in archive.namelist() if WEIGHTS.fullmatch(name)
                and (found := TORCHAO.search(archive.read(name)))]


@contextmanager
def _tensors_alone() -> Iterator[None]:
    """torch.load refuses whatever else is pickled."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})
