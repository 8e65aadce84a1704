"""Compiled networks that were sent here, and arrays as bytes.

This is the side of the process that runs them (`runtime.tuning.serving`); `runtime.tuning.remote`
is the other one.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from accel.machine.status import Counters, Run, Status
from compiler.errors import ArgumentError, Error
from compiler.te import numpy_dtype
from runtime.artifact import read
from runtime.devices.device import DeviceError
from runtime.driver.loading import placed
from runtime.module import Module
from runtime.driver.targets import gpu_device
from runtime.tuning.trials import one_target

MODULE, INPUTS, OUTPUTS = "module.lockstep", "inputs", "outputs"
"""Files of a call in its folder."""

EVENTS = ("start", "retire")
HEADER_BYTES = 8
NONE = np.zeros(0, np.int64)


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays by name as bytes: the length of a header, the header (JSON), and the elements, which
    are little-endian.
    """
    little = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
              for name, array in arrays.items()}
    header = json.dumps([[name, array.dtype.name, list(arrays[name].shape)]
                         for name, array in little.items()]).encode()
    return b"".join((len(header).to_bytes(HEADER_BYTES, "little"), header,
                     *(array.reshape(-1).view(np.uint8).tobytes() for array in little.values())))


def unpacked(data: bytes) -> dict[str, np.ndarray]:
    """The inverse of `packed`."""
    begin = HEADER_BYTES + int.from_bytes(data[:HEADER_BYTES], "little")
    arrays = {}
    for name, kind, shape in json.loads(data[HEADER_BYTES:begin]):
        dtype = numpy_dtype(kind).newbyteorder("<")
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype, count, begin).reshape(shape)
        arrays[name] = array.astype(dtype.newbyteorder("="), copy=True)
        begin += array.nbytes
    return arrays


def called(folder: str, device: str) -> dict[str, Any]:
    """Runs the network in the folder on its inputs there; the outputs lie there afterwards, with
    the events of runs. Returns the `runs`, or the `error` and its `kind`.
    """
    place = Path(folder)
    try:
        module = _module(place.parent / MODULE, device)
        for name, array in unpacked((place / INPUTS).read_bytes()).items():
            module.set_input(name, array)
        runs = module.run()
    except DeviceError as error:
        return {**_refusal(error), "runs": [_run_json(error.run)]}
    except Error as error:
        return _refusal(error, f"{place.parent / MODULE}: ")
    outputs = {name: module.get_output(name) for name in module.graph.outputs}
    events = {f"{name} {number}": getattr(run, name) for number, run in enumerate(runs)
              for name in EVENTS}
    (place / OUTPUTS).write_bytes(packed({**outputs, **events}))
    return {"error": "", "runs": list(map(_run_json, runs))}


def _refusal(error: Error, path: str = "") -> dict[str, Any]:
    """The path is that of the file here, which tells nobody there anything."""
    text = " ".join(str(error).split())
    return {"error": f"The network {text.removeprefix(path)}" if path and text.startswith(path)
            else text, "kind": type(error).__name__}


@lru_cache(4)
def _module(path: Path, device: str) -> Module:
    there = one_target(device).device
    machine = getattr(there, "machine", None)
    saved = read(path, machine)
    if saved.machine and machine is None:
        raise ArgumentError(f"Device {device} must be an accelerator, for which the network was "
                            f"compiled")

    def gpu(name: str) -> Any:
        if name.partition(":")[0] != device.partition(":")[0]:
            raise ArgumentError(f"Device {device} must be {name}, for which the network was "
                                f"compiled")
        return gpu_device(device)
    return placed(saved, there if saved.machine else None, gpu)


def _run_json(run: Run) -> dict[str, Any]:
    return {"status": int(run.status), "unit": run.unit, "index": run.index, "cycles": run.cycles,
            "activity": run.counters.activity, "bytes": run.counters.bytes,
            "waiting": dict(run.waiting)}


def run_of(entry: Mapping[str, Any], start: np.ndarray = NONE, retire: np.ndarray = NONE) -> Run:
    """The run that `called` told of, with its events; its memory stays where it is."""
    return Run(Status(entry["status"]), entry["unit"], entry["index"], cycles=entry["cycles"],
               counters=Counters(entry["activity"], entry["bytes"]), waiting=entry["waiting"],
               start=start, retire=retire)
