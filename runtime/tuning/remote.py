"""Compile here, run there, results here: devices of a pool's workers.

A network goes there as the file that `Module.save` writes, and arrays as bytes. It holds machine
code that the worker runs, so whoever may use a pool may run programs on it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from accel.machine.device import DeviceError
from accel.machine.program import ProgramError
from accel.machine.status import Run
from compiler.errors import ArgumentError, Error
from runtime.artifact import ArtifactError, write
from runtime.devices.device import DeviceMissing
from runtime.module import InputError, Module, Row, Values
from runtime.driver.targets import TargetError
from runtime.tuning.certificates import Certificates
from runtime.tuning.pool import PoolError, WorkerPool
from runtime.tuning.sent import EVENTS, packed, run_of, unpacked


class RemoteError(Error, RuntimeError):
    """A worker could not run a network: its own words."""

    exit_status = 1


KINDS = {kind.__name__: kind for kind in (ArgumentError, ArtifactError, DeviceMissing, InputError,
                                          ProgramError, TargetError)}
"""Refusals that are raised here as they were there."""


def remote(address: str, certificates: Certificates | str | None = None) -> "Remote":
    """The devices of the pool at ``tcp://HOST:PORT``, or ``tls://HOST:PORT`` with certificates,
    ``"CA,CERT,KEY"``. Raises PoolError where there is none.
    """
    if isinstance(certificates, str):
        certificates = Certificates.of(certificates)
    return Remote(WorkerPool(address, certificates))


class Remote:
    """A pool, as a place where networks run."""

    def __init__(self, pool: WorkerPool):
        self.pool = pool

    def __enter__(self) -> "Remote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.pool.close()

    @property
    def devices(self) -> list[str]:
        """The devices that there are."""
        return self.pool.devices

    def device(self, name: str) -> "RemoteDevice":
        """The device of this name, as workers declare it. Raises PoolError if there is none."""
        self.pool.require_device(name, 0.0)
        return RemoteDevice(self.pool, name)


class RemoteDevice:
    """A device of some worker."""

    def __init__(self, pool: WorkerPool, name: str):
        self.pool, self.name = pool, name

    def load(self, module: Module) -> "RemoteModule":
        """The module, which runs there from now on."""
        return RemoteModule(module, self)


class RemoteModule(Module):
    """A compiled network on a device elsewhere: the same calls, the same refusals."""

    def __init__(self, module: Module, device: RemoteDevice):
        super().__init__(module.graph, module.partition, module.steps, module.settings, module.auto,
                         module.layout, module.scales)
        file = BytesIO()
        write(module, file)
        self.device, self._artifact = device, file.getvalue()
        self._digest = hashlib.sha256(self._artifact).hexdigest()

    def profile(self, inputs: Mapping[str, Any]) -> list[Row]:
        raise ArgumentError("profile must be called of a module on a device of this computer")

    def use_stream(self, handle: int) -> None:
        raise ArgumentError("use_stream must be called of a module on a device of this computer")

    def _execute(self, inputs: Sequence[Mapping[str, Any]]
                 ) -> list[tuple[Values, tuple[Run, ...]]]:
        given = [{name: np.asarray(array) for name, array in self._complete(values).items()}
                 for values in inputs]
        return [self._called(values) for values in given]

    def _called(self, inputs: Values) -> tuple[Values, tuple[Run, ...]]:
        pool, name = self.device.pool, self.device.name
        answer, data = pool.call(name, self._artifact, self._digest, packed(inputs))
        if answer["error"]:
            raise self._refusal(answer)
        arrays = unpacked(data)
        runs = tuple(run_of(entry, *(arrays.pop(f"{event} {number}") for event in EVENTS))
                     for number, entry in enumerate(answer["runs"]))
        return arrays, runs

    def _refusal(self, answer: Mapping[str, Any]) -> Error:
        kind, message = answer.get("kind", ""), answer["error"]
        if kind == DeviceError.__name__:
            return DeviceError(message, run_of(answer["runs"][0]))
        if kind in KINDS:
            return KINDS[kind](message)
        if kind == PoolError.__name__:
            return PoolError(message)
        return RemoteError(f"Device {self.device.name} of {self.device.pool.address}: {message}")
