"""Pools: processes, here and elsewhere, that run trials. Dask.distributed hands out the work.

A pool is one's own, on this computer, or that of a scheduler at an address, to which workers of
several computers belong (`lockstep pool`). A trial needs its device, which is a resource of the
workers that have one. Here, measurements and builds are apart: some workers measure, each on a core
of its own, and others build, so that the cache has what is measured.
"""

import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from compiler.errors import ArgumentError, Error
from compiler.frontend.onnx.nodes.external import external_files
from compiler.tune.space import Result
from runtime.exploring.point_trials import PointTrial
from runtime.tuning.certificates import Certificates
from runtime.tuning.scratch import pool_folder
from runtime.tuning.trials import Trial, result_of

BUILD = "build"
"""The resource of workers that build."""

MOST_DEATHS = 2
"""How many workers a trial may lose and run again. Dask counts a death for all trials in line, so
those with more are run once more, each alone.
"""

KILLED = "KilledWorker"
"""Dask's exception for a task that lost too many workers."""

PATIENCE_SECONDS = 60.0
"""From the loss of the last worker that has a device to the end of the search."""

IN_LINE = 3
"""Trials under way for each worker, so that the next one is there when one ends, and still is where
a worker has got fewer than its share.
"""

CONFIG = {
    "distributed.worker.profile.enabled": False,            # its thread would disturb
    "distributed.admin.tick.interval": "1s",                # so would fifty ticks a second
    "distributed.admin.system-monitor.interval": "10s",     # and nobody looks at its figures
    "distributed.scheduler.no-workers-timeout": f"{PATIENCE_SECONDS:g}s",
    "distributed.scheduler.active-memory-manager.start": False,     # results are short texts
    "distributed.deploy.lost-worker-timeout": "1000 days",  # its nanny starts it again, at its pace
    "distributed.scheduler.http.routes": [],                # nor has it a server for them
    "distributed.worker.http.routes": [],
}
"""Settings of dask for schedulers and workers; what they start gets them too."""


LOOPBACK = "127.0.0.1"

CONNECT_SECONDS = 10
"""The most seconds until a scheduler answers."""

COUNT_SECONDS = 2.0
"""How often workers are counted."""


Sent = TypeVar("Sent", Trial, PointTrial)


class PoolError(Error, RuntimeError):
    """A pool that cannot be reached, or that has no worker for what it is asked to do."""


class WorkerPool:
    """Runs trials on workers.

    Parameters
    ----------
    address : ``tcp://HOST:PORT`` or ``tls://HOST:PORT`` of a scheduler; None for a pool of one's
        own.
    certificates : for ``tls://``.
    devices : what workers of one's own may use: "cpu", "opencl", "accel:PRESET" and so on.
    measurers, builders : the number of workers of one's own that measure, and that build for
        them. By default one measures, and every other core builds. Without builders trials are
        built where they are measured, as they are in a pool elsewhere.
    limit_seconds : the most seconds of a trial, and of its build, on workers of one's own.
    imports : modules that processes of trials import first (`runtime.tuning.child.Child`).

    Raises PoolError where there is no pool, ArgumentError for what does not go together.
    """

    def __init__(self, address: str | None = None, certificates: Certificates | None = None, *,
                 devices: Sequence[str] = ("cpu",), measurers: int = 1,
                 builders: int | None = None, limit_seconds: float = 60.0,
                 imports: Sequence[str] = ()):
        distributed = imported()
        require_address(address, certificates)
        self.address = address
        self._token = uuid.uuid4().hex
        self._sent: dict[str, Any] = {}
        self._open = ExitStack()
        with ExitStack() as stack:
            if address is None:
                cores = sorted(os.sched_getaffinity(0))
                if builders is None:
                    builders = max(0, len(cores) - measurers)
                roles = [dict.fromkeys(devices, 1)] * measurers + [{BUILD: 1}] * builders
                where = _own_cluster(stack, roles, cores, limit_seconds, imports)
            else:
                where = address
            security = certificates.security() if certificates else None
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # workers may die
            try:
                self._client = stack.enter_context(distributed.Client(
                    where, security=security, set_as_default=False, timeout=CONNECT_SECONDS))
            except (OSError, ValueError) as error:
                raise PoolError(f"Pool at {address} cannot be reached: "
                                f"{last_line(error)}") from None
            self._builds = address is None and bool(builders)
            self._open = stack.pop_all()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and the workers of one's own with all that they do."""
        self._sent.clear()
        self._open.close()

    @property
    def workers(self) -> dict[str, list[str]]:
        """The devices of each worker, by its address; workers that build have none."""
        info = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: [name for name in worker["resources"] if name != BUILD]
                for address, worker in info.items()}

    @property
    def processes(self) -> dict[str, int]:
        """The number of each worker's process, by its address."""
        return self._client.run(os.getpid)

    @property
    def devices(self) -> list[str]:
        """The devices of all workers."""
        return sorted({device for devices in self.workers.values() for device in devices})

    def require_device(self, device: str, patience_seconds: float = 10.0) -> None:
        """Raises PoolError where no worker has the device, and none comes soon."""
        until = time.monotonic() + patience_seconds
        while device not in (devices := self.devices):
            self.require_connection()
            if time.monotonic() > until:
                raise PoolError(f"Pool must have a worker with the device {device}; it has "
                                f"{', '.join(devices) or 'none'}")
            time.sleep(0.1)

    def results(self, trials: Iterable[Sent]) -> Iterator[tuple[Sent, Result]]:
        """Each trial with its result, as they come. A trial with the id of one before is left out.
        Trials are taken from the iterable when workers are about to need them. Raises PoolError
        where no worker has the device of a trial.
        """
        yield from _Search(self, trials)

    def submit(self, trial: Trial | PointTrial, alone: bool = False) -> Any:
        """The future of a trial's result, as text; another one where it runs `alone`."""
        from runtime.tuning import worker

        key, text = f"{self._token}-{trial.id}{'-alone' * alone}", trial.text
        if isinstance(trial, PointTrial):
            return self._client.submit(
                worker.measure_point, self._file(trial), text, key=f"measure-{key}",
                resources={device_of(trial.target): 1}, pure=False)
        if not self._builds:
            built = ""
        else:
            built = self._client.submit(worker.build, text, key=f"build-{key}",
                                        resources={BUILD: 1}, pure=False)
        return self._client.submit(worker.measure, text, built, key=f"measure-{key}",
                                   resources={device_of(trial.target): 1}, pure=False)

    def _file(self, trial: PointTrial) -> Any:
        """The network of a trial, which goes to workers, not through the scheduler, and is read
        once.
        """
        if trial.digest not in self._sent:
            if external_files(trial.file):
                raise PoolError(f"Network {trial.network!r} must be one file for a pool, without "
                                f"weights in others")
            self._sent[trial.digest] = self._client.scatter(
                trial.file.read_bytes(), hash=False, broadcast=False)
        return self._sent[trial.digest]

    def call(self, device: str, artifact: bytes, digest: str, inputs: bytes
             ) -> tuple[dict[str, Any], bytes]:
        """Runs a network on a device: what `runtime.tuning.sent.called` returns, and the outputs
        as bytes. Raises PoolError where no worker can.
        """
        from runtime.tuning import worker

        self.require_device(device)
        # Bytes go to workers, not through the scheduler, and artifacts once to each.
        if digest not in self._sent:
            self._sent[digest] = self._client.scatter(artifact, hash=False, broadcast=False)
        data = self._client.scatter(inputs, hash=False)
        future = self._client.submit(worker.call, self._sent[digest], digest, data, device,
                                     resources={device: 1}, pure=False)
        try:
            return future.result()
        except Exception as error:      # noqa: BLE001 - dask has many; all say why it did not run
            self._sent.pop(digest, None)
            self.require_connection()
            raise PoolError(f"Pool could not run the network: {type(error).__name__}: "
                            f"{last_line(error)}") from None

    def cancel(self, futures: Sequence[Any]) -> None:
        if futures and self._client.status == "running":
            self._client.cancel(list(futures))

    def require_connection(self) -> None:
        if self._client.status != "running":
            raise PoolError(f"Pool{f' at {self.address}' if self.address else ''} has gone")

    def failure(self, error: BaseException, trial: Trial | PointTrial) -> Result:
        """The result of a trial that dask could not run. Raises PoolError where it can run none."""
        kind = type(error).__name__
        if kind == KILLED:
            return Result(None, "s", f"lost its worker {MOST_DEATHS + 1} times")
        self.require_connection()
        if kind == "NoValidWorkerError":
            self.require_device(device_of(trial.target), 0.0)
        return Result(None, "s", f"could not be run: {kind}: {last_line(error)}")


class _Search(Generic[Sent]):
    """The results of trials, as they come."""

    def __init__(self, pool: WorkerPool, trials: Iterable[Sent]):
        self.pool, self._trials = pool, iter(trials)
        self._known: set[str] = set()
        self._devices: set[str] = set()
        self._waiting: dict[str, tuple[Sent, Any]] = {}
        self._suspects: list[Sent] = []        # those that may have killed workers
        self._alone = False
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._window, self._counted = 0, -math.inf

    def __iter__(self) -> Iterator[tuple[Sent, Result]]:
        try:
            while self._filled():
                try:
                    future = self._done.get(timeout=1.0)
                except Empty:
                    self.pool.require_connection()
                    continue
                trial, _ = self._waiting.pop(future.key)
                result = self._result(trial, future)
                if result is None:
                    self._suspects.append(trial)
                else:
                    yield trial, result
        finally:
            self.pool.cancel([future for _, future in self._waiting.values()])

    def _filled(self) -> bool:
        """Submits trials until there are enough for all workers; whether any is under way."""
        if time.monotonic() > self._counted + COUNT_SECONDS:
            self._window = IN_LINE * max(1, len(self.pool.workers))
            self._counted = time.monotonic()
        if not self._waiting:
            self._alone = False
        while not self._alone and len(self._waiting) < self._window:
            trial = next(self._trials, None)
            if trial is None:
                break
            if trial.id not in self._known:
                self._known.add(trial.id)
                self._submit(trial)
        if not self._waiting and self._suspects:
            self._alone = True
            self._submit(self._suspects.pop())
        return bool(self._waiting)

    def _submit(self, trial: Sent) -> None:
        if (device := device_of(trial.target)) not in self._devices:
            self.pool.require_device(device)
            self._devices.add(device)
        future = self.pool.submit(trial, self._alone)
        self._waiting[future.key] = trial, future
        future.add_done_callback(self._done.put)

    def _result(self, trial: Sent, future: Any) -> Result | None:
        """None for a trial that is to run alone."""
        try:
            return result_of(future.result())
        except Exception as error:      # noqa: BLE001 - dask has many; all say why it did not run
            if type(error).__name__ == KILLED and not self._alone:
                return None
            return self.pool.failure(error, trial)


def device_of(target: str) -> str:
    """The device that a target needs: an accelerator and a board by its whole name, others by their
    kind.
    """
    kind = target.partition(":")[0]
    return target if kind in ("accel", "board") else kind


def imported() -> Any:
    """The package distributed. Raises PoolError where it is not installed."""
    try:
        import distributed
    except ImportError:
        raise PoolError("A pool needs the extra pool: pip install 'lockstep-hw[pool]'") from None
    return distributed


def require_address(address: str | None, certificates: Certificates | None) -> None:
    """Raises ArgumentError for what is no address, or one that needs certificates: whoever answers
    there may run programs here.
    """
    if address is None:
        return
    scheme, host = _parts(address)
    if not host or scheme not in ("tcp", "tls"):
        raise ArgumentError(f"Address must be tcp://HOST:PORT or tls://HOST:PORT, not {address!r}")
    if (certificates is not None) != (scheme == "tls"):
        raise ArgumentError("Certificates must come with an address tls://HOST:PORT, and only with "
                            "one")
    if scheme == "tcp" and not _is_loopback(host):
        raise ArgumentError(f"Address must be tls://HOST:PORT, with certificates, or "
                            f"tcp://{LOOPBACK}:PORT, not {address!r}")


def _parts(address: str) -> tuple[str, str | None]:
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname if parts.port else None
    except ValueError:
        return "", None


def _is_loopback(host: str) -> bool:
    """True if the name means this computer alone; so it does where nobody knows it."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return True                         # the connection fails, and says why
    return all(ip_address(text.partition("%")[0]).is_loopback for text in found)


def heard_by(certificates: Certificates | None) -> dict[str, Any]:
    """The options of dask's servers that say who may connect: those with a certificate, or
    processes of this computer.
    """
    return {"security": certificates.security()} if certificates else {"host": LOOPBACK}


def scheduler_options(certificates: Certificates | None, **options: Any) -> dict[str, Any]:
    """The options of dask's scheduler."""
    return {"allowed_failures": MOST_DEATHS, "dashboard": False, **heard_by(certificates),
            **options}


def worker_options(runner: Any, resources: Mapping[str, float],
                   certificates: Certificates | None = None, **options: Any) -> dict[str, Any]:
    """The options of workers, each a process under a nanny, which starts it again."""
    return {"nthreads": 1, "memory_limit": 0, "dashboard": False, "resources": dict(resources),
            "plugins": (runner,), **heard_by(certificates), **options}


def _own_cluster(stack: ExitStack, roles: Sequence[Mapping[str, float]], cores: Sequence[int],
                 limit_seconds: float, imports: Sequence[str]) -> Any:
    """A cluster with a worker of each of these roles, on cores in turn."""
    import dask.config
    from distributed import SpecCluster

    from runtime.tuning.nodes import PoolNanny, PoolScheduler
    from runtime.tuning.worker import TrialRunner

    scratch = stack.enter_context(pool_folder())
    workers = {}
    for number, resources in enumerate(roles):
        runner = TrialRunner(limit_seconds, imports, cores[number % len(cores)])
        workers[number] = {"cls": PoolNanny, "options": worker_options(
            runner, resources, local_directory=str(scratch), silence_logs=logging.CRITICAL)}
    scheduler = {"cls": PoolScheduler, "options": scheduler_options(None)}
    stack.enter_context(dask.config.set(CONFIG))        # it is read when workers die, too
    return stack.enter_context(SpecCluster(
        workers, scheduler, silence_logs=logging.CRITICAL))     # pyright: ignore[reportArgumentType]


def last_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
