"""A cache of compiled networks: compiling one again only reads a file. They lie in the cache of
`compiler.native`, each under the hash of everything that determines it: the imported graph with its
constants, the machine, the options, pins, what the target `auto` assumes of link and memory, the
processor, the versions of the tools, and our own sources that take part. The times that `auto`
decides by are unknown before they are measured. They lie beside the module, which is valid only
while the cache of times holds the same times. So removing that folder makes `auto` measure and
divide anew. `LARGEST` bounds the cache; the least recently used entries go first. A damaged entry
is compiled again and replaced. Where the cache cannot be written, or after a source has changed
under a running process, every network is compiled every time.
"""

import functools
import hashlib
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accel.machine.dram import DRAM
from compiler.cpu_gpu_backends.llvm import WITHOUT
from compiler.graph.graph import Graph
from compiler.native import build_once, cache_folder, digest, find, processor
from runtime.artifact import ArtifactError, read, save
from runtime.artifact.container import Members
from runtime.artifact.graphs import graph_json
from runtime.pricing.timing import known
from runtime.devices.device import Device
from runtime.driver.loading import placed
from runtime.module import Module, Settings
from runtime.driver.targets import Targets

KIND, FILE, TIMES = "networks", "module.lockstep", "times.json"
LARGEST = 4 << 30
"""The most bytes of all kept networks together."""

HOUSE = Path(__file__).parents[2]
ROOMS = ("compiler", "accel", "runtime")

LIBRARIES = ("islpy", "llvmlite", "ml_dtypes", "numpy")

Division = Mapping[str, Any]
"""Everything but times that decides the division, as JSON."""

Times = Mapping[str, float]
"""The measured seconds that decided it, by their keys in `runtime.pricing.timing.measured`."""

Made = tuple[Module, Times]

_log = logging.getLogger(__name__)
_began = time.time()


def cached(graph: Graph, targets: Targets, settings: Settings, division: Division,
           make: Callable[[], Made]) -> Module:
    """The module that `make` compiles from the imported `graph`, or the one from the cache."""
    device = targets.device
    if _edited():
        return make()[0]
    key = network_key(graph, device, settings, division)
    folder = find(KIND, key)
    module = folder and _kept(folder, targets)
    if module is None:
        module, times = make()
        _keep(key, module, times)
    return module


def _kept(folder: Path, targets: Targets) -> Module | None:
    if not _times_hold(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    try:
        device = targets.device
        saved = read(folder / FILE, device.machine if device else None)
        module = placed(saved, device, lambda name: targets[name].device)
    except ArtifactError as error:
        _log.warning("The cache has a file that cannot be read, which is made again: %s", error)
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(folder)                    # marks it as used
    return module


def _times_hold(folder: Path) -> bool:
    """True if the times that divided the network are still those in the cache."""
    try:
        times = json.loads((folder / TIMES).read_text())
        return all(known(measurement) == seconds for measurement, seconds in times.items())
    except (OSError, ValueError, AttributeError):
        return False


def _keep(key: str, module: Module, times: Times) -> None:
    def write(folder: Path) -> None:
        save(module, folder / FILE)
        (folder / TIMES).write_text(json.dumps(dict(times)))

    try:
        _forget(build_once(KIND, key, None, write).parent)
    except OSError as error:
        _log.info("Nothing is kept in %s: %s", cache_folder(), error)


def _forget(folder: Path) -> None:
    """Removes the least recently used entries until the rest is small enough."""
    entries = sorted(((entry.stat().st_mtime, entry) for entry in folder.iterdir()
                      if entry.is_dir()), reverse=True)
    total = 0
    for _, entry in entries:
        total += sum(file.stat().st_size for file in entry.iterdir())
        if total > LARGEST:
            shutil.rmtree(entry, ignore_errors=True)


def network_key(graph: Graph, device: Device | None, settings: Settings,
                division: Division | None = None) -> str:
    """The hash of all that the compiled network depends on, except times."""
    members = Members()
    text = json.dumps([graph_json(graph, members), members.table(), dict(settings),
                       division or {}], sort_keys=True)
    machine = device.machine if device else None
    config = replace(machine.config, memory=DRAM) if machine else None      # no program knows it
    return digest((
        text, machine.text if machine else "", config.to_toml() if config else "",
        processor(), os.environ.get(WITHOUT, ""), platform.python_version(),
        *(f"{name} {version(name)}" for name in LIBRARIES), _sources_hash()))


def sources() -> Iterator[Path]:
    """Our source files that take part in compilation, folder by folder in order of their names."""
    return (Path(file.path) for file in _files())


def _files() -> Iterator[os.DirEntry[str]]:
    for room in ROOMS:
        if os.path.isdir(folder := os.path.join(HOUSE, room)):
            yield from _files_in(folder)


def _files_in(folder: str) -> Iterator[os.DirEntry[str]]:
    """Every network that is kept or found looks at all of them, so without `Path`."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    yield from (one for one in entries if one.name.endswith((".py", ".toml")) and one.is_file())
    for entry in entries:
        if entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
            yield from _files_in(entry.path)


def _sources_hash() -> str:
    total, house = hashlib.sha256(), os.path.join(HOUSE, "")
    for file in _files():
        status = file.stat()
        total.update(f"{file.path.removeprefix(house)} "
                     f"{_file_hash(file.path, status.st_mtime_ns, status.st_size)}\n".encode())
    return total.hexdigest()


@functools.cache
def _file_hash(path: str, changed_ns: int, size: int) -> str:
    """The hash of a file, read again only after it has changed."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _edited() -> bool:
    """True if a source changed after this process had read it."""
    now = time.time()
    return any(_began < file.stat().st_mtime <= now for file in _files())
