"""The work of a pool's workers. All that they are given and give back is text, or bytes of arrays.

A worker is a process of dask.distributed with one thread. It has a `runtime.tuning.child.Child`,
in which trials run, so that the worker itself survives them.
"""

import os
import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from runtime.exploring.point_trials import PointTrial
from runtime.tuning.child import Child, ChildLost
from runtime.tuning.sent import INPUTS, MODULE, OUTPUTS
from runtime.tuning.trials import text_of


class TrialRunner(WorkerPlugin):
    """Gives a worker its child, and its core.

    Parameters
    ----------
    limit_seconds, imports : of the child.
    core : the only one that the worker and its child run on; None for any.
    """

    name = "lockstep"

    def __init__(self, limit_seconds: float, imports: Sequence[str] = (), core: int | None = None):
        self.limit_seconds, self.imports, self.core = limit_seconds, tuple(imports), core
        self.child: Child | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def setup(self, worker: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)    # a terminal's is for whoever searches
        if self.core is not None:           # threads and processes that begin later inherit it
            os.sched_setaffinity(0, {self.core})
        self.child = Child(self.limit_seconds, self.imports)
        self.folder = tempfile.TemporaryDirectory(dir=worker.local_directory)

    def teardown(self, worker: Any) -> None:
        if self.child is not None:
            self.child.close()
        if self.folder is not None:
            self.folder.cleanup()


def _runner() -> TrialRunner:
    runner = get_worker().plugins[TrialRunner.name]
    assert isinstance(runner, TrialRunner)
    return runner


def _child() -> Child:
    child = _runner().child
    assert child is not None
    return child


def build(trial: str) -> str:
    """The failure of what a trial builds, as text; "" without one."""
    failure = _child().build(trial)
    return text_of(failure) if failure else ""


def measure(trial: str, failure: str = "") -> str:
    """The result of a trial, as text; its failure, if it could not be built."""
    return failure or text_of(_child().run(trial))


def measure_point(network: bytes, trial: str) -> str:
    """The result of a point's trial, as text, its network given as bytes."""
    folder = _runner().folder
    assert folder is not None
    point = PointTrial.of(trial)
    path = Path(folder.name) / f"{point.digest}{point.file.suffix}"
    if not path.exists():
        (fresh := path.with_suffix(".new")).write_bytes(network)
        fresh.rename(path)
    return text_of(_child().run(point.at(str(path)).text))


def call(artifact: bytes, digest: str, inputs: bytes, device: str) -> tuple[dict[str, Any], bytes]:
    """Runs a network of this digest on its inputs; see `runtime.tuning.sent.called`."""
    folder = _runner().folder
    assert folder is not None
    place = Path(folder.name) / digest
    place.mkdir(exist_ok=True)
    if not (path := place / MODULE).exists():
        (fresh := place / f"{MODULE}.new").write_bytes(artifact)
        fresh.rename(path)
    with tempfile.TemporaryDirectory(dir=place) as inner:
        (Path(inner) / INPUTS).write_bytes(inputs)
        try:
            answer = _child().ask({"call": inner, "on": device})
        except ChildLost as lost:
            return {"error": f"the run {lost}" if "longer" in str(lost) else str(lost)}, b""
        outputs = Path(inner) / OUTPUTS
        return answer, outputs.read_bytes() if outputs.exists() else b""
