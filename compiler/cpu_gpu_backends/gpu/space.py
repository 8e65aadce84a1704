"""The schedules of a group of operators on a GPU, and how one is timed."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np
from numpy.random import Generator

from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.ir import Program
from compiler.plans import Task
from compiler.tune.accesses import VectorCore
from compiler.tune.chooser import PointChooser
from compiler.tune.features import features
from compiler.tune.space import Candidate, Point, PointRefused

THREAD = VectorCore(1, 128, (48 << 10, 4 << 20))
"""A thread for features: its registers, the memory that a block shares, and the cache of all."""


@dataclass(frozen=True, slots=True)
class GpuSpace:
    """All schedules of a program by our ways (`own_schedule`)."""

    task: Task
    program: Program
    kinds: Collection[str]
    groups: bool

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        chooser = PointChooser(point, random)
        try:
            made = own_schedule(self.program, self.kinds, self.groups, chooser)
        except ValueError as error:
            raise PointRefused(f"Schedule of {self.program.name}: {error}",
                               tuple(chooser.decisions)) from None
        return Candidate(tuple(chooser.decisions), made.text(), features(made.program, THREAD))


class Launched:
    """Kernels on a device with all that they read and write, started by a call, which waits for
    them. The memory is given back when nobody has the object any more.
    """

    def __init__(self, device: Any, code: Code, given: Sequence[np.ndarray]):
        self._device = device
        places = [self._allocated(buffer.size_bytes)
                  for buffer in (*code.inputs, *code.outputs, *code.temporaries)]
        for address, array in zip(places, given, strict=False):
            device.copy_in(address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        self._start: Callable[[], None] = device.record(code, *places)

    def __call__(self) -> None:
        self._start()
        self._device.wait()

    def _allocated(self, size_bytes: int) -> int:
        address = self._device.allocate(size_bytes)
        finalize(self, self._device.free, address).atexit = False    # the device ends with us
        return address
