"""The threads of parallel loops: libgomp, entered through one function that can be switched.

Without libgomp, and in a forked process, loops run on the thread that meets them: a fork does not
copy the pool's threads, so waiting for them would never end.
"""

import ctypes
import os
import warnings
from functools import cache

import llvmlite.binding as llvm

from compiler.cpu_gpu_backends.llvm.machine import host, linker

LIBRARY = "LOCKSTEP_OPENMP"
"""Environment variable: the file of libgomp, or ``none`` to do without."""

_SYMBOLS = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num", "omp_set_num_threads",
            "omp_get_max_threads")

_SWITCH = """
@parallel = global ptr @serial
define void @serial(ptr %function, ptr %data, i32 %threads, i32 %flags) {
  call void %function(ptr %data)
  ret void
}
define i32 @one() { ret i32 1 }
define i32 @zero() { ret i32 0 }
define void @switched(ptr %function, ptr %data, i32 %threads, i32 %flags) {
  %target = load ptr, ptr @parallel
  tail call void %target(ptr %function, ptr %data, i32 %threads, i32 %flags)
  ret void
}
"""


class PoolWarning(UserWarning):
    """Parallel loops run on one thread, and why."""


class Pool:
    """The functions that kernels with parallel loops link with: `symbols`, name to address."""

    def __init__(self):
        self._jit = linker(host())
        link = llvm.JITLibraryBuilder().add_ir(_SWITCH)
        for name in ("parallel", "serial", "one", "zero", "switched"):
            link.export_symbol(name)
        self._code = link.link(self._jit, "pool")
        self._target = ctypes.c_void_p.from_address(self._code["parallel"])
        self._openmp = _libgomp()
        self.symbols = {"GOMP_parallel": self._code["switched"],
                        "omp_get_num_threads": self._code["one"],
                        "omp_get_thread_num": self._code["zero"]}
        if self._openmp:
            for name in ("omp_get_num_threads", "omp_get_thread_num"):
                self.symbols[name] = address_of(self._openmp, name)
            self._target.value = address_of(self._openmp, "GOMP_parallel")
            os.register_at_fork(after_in_child=self._serial)

    def _serial(self) -> None:
        self._target.value = self._code["serial"]

    @property
    def threads(self) -> int:
        """The number of threads that a loop of this thread gets by default."""
        if self._target.value == self._code["serial"] or self._openmp is None:
            return 1
        return self._openmp.omp_get_max_threads()

    def set_threads(self, count: int) -> None:
        if self._openmp:
            self._openmp.omp_set_num_threads(count)


def address_of(library: ctypes.CDLL, name: str) -> int:
    """The address of a function of a loaded library."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _libgomp() -> ctypes.CDLL | None:
    name = os.environ.get(LIBRARY) or "libgomp.so.1"
    try:
        if name == "none":
            raise OSError(f"{LIBRARY} is 'none'")
        library = ctypes.CDLL(name)
        if missing := [symbol for symbol in _SYMBOLS if not hasattr(library, symbol)]:
            raise OSError(f"{name} has no {missing[0]}")
    except OSError as error:
        warnings.warn(f"Parallel loops run on one thread: libgomp could not be loaded ({error}); "
                      f"install libgomp1, or name its file in {LIBRARY}", PoolWarning,
                      stacklevel=2)
        return None
    return library


@cache
def pool() -> Pool:
    """The pool of this process, created with the first kernel that has a parallel loop."""
    return Pool()


def set_threads(count: int) -> None:
    """Set how many threads parallel loops that this thread starts get, itself included.

    Raises ValueError unless `count` is positive. Loops with a ``num_threads`` of their own and
    other threads of the host keep theirs.
    """
    if count < 1:
        raise ValueError(f"Number of threads must be positive, not {count}")
    pool().set_threads(count)
