"""Machines from names and files.

A machine is named by

``PRESET``     a shipped geometry (`accel.machine.config.preset_names`) with the shipped
               instructions,
``FILE.toml``  a geometry of one's own with the shipped instructions,
``FILE.py``    Python code that leaves a `Machine` in the variable ``machine``,
``FOLDER``     a Python package whose ``__init__.py`` does so, or
``NAME``       an entry point of the group ``lockstep.machines`` of an installed package, which
               names such a variable.

The last three are programs of their author's: `load_machine` runs them, with all that they may do.
"""

import importlib.util
import os
import sys
import traceback
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from accel.machine.config import ConfigError, load, preset_names
from accel.machine.machine import Machine

GROUP, VARIABLE = "lockstep.machines", "machine"


def _is_code(name: str | Path) -> bool:
    """True if the name is that of a file or a folder of Python code."""
    return str(name).endswith(".py") or os.path.isfile(os.path.join(name, "__init__.py"))


def load_machine(name: str | Path) -> Machine:
    """The machine that a name or a file means; code runs once for each state of its files.

    Raises ConfigError, for code that fails with its line.
    """
    if not isinstance(name, str | Path):
        raise ConfigError(f"Machine must be a preset's name or a path, not {name!r}")
    path = Path(name)
    if str(name) in preset_names() or path.suffix == ".toml":
        return Machine(load(name))
    if _is_code(name):
        return _of_code(path)
    if os.path.isdir(path):
        raise ConfigError(f"Machine {path} is a folder without __init__.py")
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if str(name) in installed:
        return _of_package(installed[str(name)])
    known = ", ".join((*preset_names(), *sorted(installed)))
    raise ConfigError(f"Machine must be one of {known}, a .toml or .py file or a folder with "
                      f"__init__.py, not {str(name)!r}")


def _of_code(path: Path) -> Machine:
    file = path if path.suffix == ".py" else path / "__init__.py"
    try:
        place, text = file.resolve(), file.read_bytes()
        parts = sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
        state = sha256(b"".join(sha256(os.fsencode(part) + b"\0" + part.read_bytes()).digest()
                                for part in parts))
    except OSError as error:
        raise ConfigError(f"Machine {path} cannot be read: {error.strerror or error}") from None
    return _run(str(path), place, text, f"lockstep_machine_{state.hexdigest()[:16]}")


@lru_cache(16)
def _run(told: str, file: Path, text: bytes, name: str) -> Machine:
    """Runs the file as the module `name`; a folder's is a package, whose parts it may import."""
    package = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=package)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(text, file, "exec"), module.__dict__)
    except BaseException as error:
        for part in [part for part in sys.modules if part.partition(".")[0] == name]:
            del sys.modules[part]
        if isinstance(error, KeyboardInterrupt):        # it is for this process
            raise
        raise _failed(told, file, error) from error
    return _machine(told, module)


def _failed(told: str, file: Path, error: BaseException) -> ConfigError:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == str(file)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    text = error.msg if isinstance(error, SyntaxError) else _text(error)
    what = text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
    return ConfigError(f"Machine {told}{f', line {line}' if line else ''}: {what}")


def _text(error: BaseException) -> str:
    """The text of an error; its class may be the file's own."""
    try:
        return str(error)
    except Exception:       # noqa: BLE001 - it is their code
        return "(its text cannot be had)"


def _of_package(point: EntryPoint) -> Machine:
    told = f"{point.name} ({point.value})"
    try:
        machine = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(f"Machine {told}: {type(error).__name__}: {_text(error)}") from error
    return _checked(told, machine)


def _machine(told: str, module: ModuleType) -> Machine:
    if not hasattr(module, VARIABLE):
        raise ConfigError(f"Machine {told} must leave a Machine in the variable {VARIABLE}: "
                          f"{VARIABLE} = Machine(preset(\"tiny-1x4x4\"), (*SHIPPED, ...))")
    return _checked(told, getattr(module, VARIABLE))


def _checked(told: str, machine: object) -> Machine:
    if not isinstance(machine, Machine):
        raise ConfigError(f"Machine {told} must leave a Machine in the variable {VARIABLE}, not "
                          f"{type(machine).__name__}")
    return machine
