"""Compiled networks, kept: compiling one again is reading a file.

They lie in the cache of `compiler.native`, each under the hash of all that it follows from: the
imported graph with its constants, the machine, the options, pins, what the target `auto` assumes
of link and memory, the processor, the versions of what computes, and our own sources that take
part. What `auto` measured to decide is not known before it is measured: it lies beside the module,
which counts only as long as the cache of times holds the same times. So to remove that folder is to
measure and divide anew. `LARGEST` bounds what is kept; what was used longest
ago goes first. An entry that is damaged is compiled again and replaced. Where the cache cannot be
written, or after a source has changed under a running process, all is compiled every time.
"""

import hashlib
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compiler.cpu_gpu_backends.llvm import WITHOUT
from compiler.graph.graph import Graph
from compiler.native import build_once, cache_folder, digest, find, processor
from runtime.artifact import ArtifactError, read, save
from runtime.artifact.container import Members
from runtime.artifact.graphs import graph_json
from runtime.timing import known
from runtime.device import Device
from runtime.loading import placed
from runtime.module import Module, Settings

__all__ = ["LARGEST", "cached", "network_key", "sources"]

KIND, FILE, TIMES = "networks", "module.lockstep", "times.json"
LARGEST = 4 << 30
"""Bytes that the kept networks take together."""

HOUSE = Path(__file__).parents[1]
ROOMS = ("compiler", "accel", "runtime")

LIBRARIES = ("islpy", "llvmlite", "ml_dtypes", "numpy")

Division = Mapping[str, Any]
"""What decides which target computes what, apart from times; as JSON has it."""

Times = Mapping[str, float]
"""Seconds of what was measured to decide it, by what `runtime.timing.measured` calls it."""

Made = tuple[Module, Times]

_log = logging.getLogger(__name__)
_began = time.time()


def cached(graph: Graph, device: Device | None, settings: Settings, division: Division,
           make: Callable[[], Made]) -> Module:
    """What `make` makes of the imported `graph`, or what it made before."""
    if _edited():
        return make()[0]
    key = network_key(graph, device, settings, division)
    folder = find(KIND, key)
    module = folder and _kept(folder, device)
    if module is None:
        module, times = make()
        _keep(key, module, times)
    return module


def _kept(folder: Path, device: Device | None) -> Module | None:
    if not _times_hold(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    try:
        saved = read(folder / FILE, device.machine if device else None)
        module = placed(saved, device)
    except ArtifactError as error:
        _log.warning("The cache has a file that cannot be read, which is made again: %s", error)
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(folder)                    # it was used
    return module


def _times_hold(folder: Path) -> bool:
    """Whether what was measured when the network was divided is what would be measured now."""
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
    """Remove what was used longest ago until the rest is small enough."""
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
    return digest((
        text, machine.text if machine else "", machine.config.to_toml() if machine else "",
        processor(), os.environ.get(WITHOUT, ""), platform.python_version(),
        *(f"{name} {version(name)}" for name in LIBRARIES), _sources_hash()))


def sources() -> Iterator[Path]:
    """The files of ours that take part in compilation, in order of their names."""
    for room in ROOMS:
        for path in sorted((HOUSE / room).rglob("*")):
            if path.suffix in (".py", ".toml"):
                yield path


def _sources_hash() -> str:
    total = hashlib.sha256()
    for path in sources():
        total.update(f"{path.relative_to(HOUSE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
                     .encode())
    return total.hexdigest()


def _edited() -> bool:
    """Whether a source changed after this process had read it."""
    return any(_began < path.stat().st_mtime <= time.time() for path in sources())
