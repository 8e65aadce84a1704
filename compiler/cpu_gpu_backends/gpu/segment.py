"""Parts of graphs as kernels of a GPU, and their memory there."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import finalize

import numpy as np

from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.listing import listing
from compiler.cpu_gpu_backends.memory import plan_groups, storage
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.graph.division.protocols import Outcome, Row, Values
from compiler.graph.fusion import Group, Groups
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.graph.reference import check_inputs
from compiler.graph.room import bytes_of
from compiler.lazy import cached_property
from compiler.processes import OwnLock
from compiler.te import numpy_dtype
from compiler.texts import Part, PartedText

ALIGNMENT = 512         # bytes; parts of a buffer of OpenCL begin at such, on every device known

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class ValueForms:
    """The stored forms of a segment's values: `last` are the types of images that have their
    channels last where tensor cores convolve them, `halves` the type of factors of float32; with
    `rows`, weights of products lie in rows along their sums.
    """

    last: tuple[str, ...] = ()
    halves: str | None = None
    rows: bool = False


@dataclass(frozen=True, slots=True)
class GpuStep:
    """One group and its kernels, which take the group's inputs in order, then its result; a group
    that is only a view has none.
    """

    group: Group
    code: Code | None

    def calls(self, names: Sequence[str], scratch: Sequence[str]) -> Iterator[str]:
        if (code := self.code) is None:
            return
        at = dict(zip((*code.inputs, *code.outputs, *code.temporaries), (*names, *scratch),
                      strict=True))
        for launch in code.launches:
            arguments = ", ".join([*(at[buffer] for buffer in launch.arguments),
                                   *map(str, launch.numbers),
                                   *(f"{at[one.buffer]} in boxes of "
                                     f"{' x '.join(map(str, one.box))}" for one in launch.maps)])
            yield f"{launch.kernel} grid {launch.grid} block {launch.block}: {arguments}"


@dataclass(frozen=True, eq=False)
class GpuSegment:
    """A graph as kernels in one text. On a device it is called as `HostSegment` is. `lowering` has
    the graph after each pass of the target, none where it was read from a file.
    """

    graph: Graph
    steps: tuple[GpuStep, ...]
    constants: Mapping[str, Array]
    dialect: str
    forms: ValueForms = ValueForms()
    lowering: Mapping[str, Graph] = field(default_factory=dict)
    kind: ClassVar[str | None] = "gpu"

    @property
    def text(self) -> list[str]:
        """The kernels' text, and what is launched of it."""
        texts = dict.fromkeys(step.code.text for step in self.steps if step.code)
        return [*texts, *(str(launch) for step in self.steps if step.code
                          for launch in step.code.launches)]

    @property
    def stages(self) -> dict[str, object]:
        return {**self.lowering,
                "fuse": Groups(self.graph, tuple(step.group for step in self.steps)),
                "plan-memory": self.plan,
                "kernels": PartedText([Part((), lambda: iter(self._kernels.splitlines()))],
                                      self.listing)}

    @cached_property
    def plan(self) -> MemoryPlan:
        """The places of results on the device. Arguments of a kernel never overlap."""
        return plan_groups(self.graph, [step.group for step in self.steps],
                           [step.code and step.code.temporaries for step in self.steps],
                           in_place=False, alignment=ALIGNMENT)

    @cached_property
    def apart(self) -> tuple[str, ...]:
        """The values with memory of their own: inputs, constants and outputs."""
        root = storage([step.group for step in self.steps])
        return tuple(dict.fromkeys((*self.graph.inputs, *self.constants,
                                    *map(root, self.graph.outputs))))

    @cached_property
    def handed_out(self) -> tuple[str, ...]:
        """The outputs that have memory to themselves, all of it, which may become the caller's."""
        root, values = storage([step.group for step in self.steps]), self.graph.values
        roots = list(map(root, self.graph.outputs))
        return tuple(name for name, of in zip(self.graph.outputs, roots, strict=True)
                     if roots.count(of) == 1 and of not in self.graph.inputs
                     and of not in self.constants
                     and bytes_of(values[of]) == bytes_of(values[name]))

    def emitted(self, kind: str, comment: str, arch: str) -> str | None:
        if self.dialect != ("cuda" if kind == "ptx" else kind):
            return None
        return compile_cuda(self._kernels, arch).ptx if kind == "ptx" else self._kernels

    @property
    def _kernels(self) -> str:
        return "".join(dict.fromkeys(step.code.text for step in self.steps if step.code))

    def listing(self) -> Iterator[str]:
        return listing(self.graph, self.plan, self.steps)

    @property
    def device_bytes(self) -> int:
        """The bytes that it takes of the device's memory, from its first call on."""
        return self.plan.size + sum(bytes_of(self.graph.values[value]) for value in self.apart)

    def on(self, device: Any) -> "GpuExecutable":
        """On a `runtime.devices.device.KernelDevice` that speaks the dialect of its text."""
        return GpuExecutable(self, device)


class GpuExecutable:
    """A segment on a device, where its constants, its results and its launches stay from call to
    call, as long as the executable is used. Calls at one time wait for each other.
    """

    program = None
    work = ()

    def __init__(self, segment: GpuSegment, device: Any):
        self.segment, self.device = segment, device
        self._lock = OwnLock()
        self._root = storage([step.group for step in segment.steps])
        self._places: dict[str, int] | None = None
        self._arena = 0
        self._launches: list[Callable[[], None]] = []
        self._all: Callable[[], None] = lambda: None

    def __call__(self, values: Values) -> Outcome:
        return self._run(values)

    def rows(self, run: object) -> list[Row]:
        return []

    def again(self) -> None:
        """Launches everything once more, on the inputs that the last call copied. Nothing is
        copied, and nobody waits for it: for measuring.
        """
        with self._lock:
            self._prepared()
            self._all()

    def profile(self, values: Values) -> tuple[Outcome, list[Row]]:
        """Seconds were measured, in this call, the device waited for after every group."""
        moments: list[float] = []

        def after() -> None:
            self.device.wait()
            moments.append(time.perf_counter())
        outcome = self._run(values, after)
        rows = [{"name": " + ".join(node.name for node in step.group.nodes),
                 "op": step.group.name.replace("+", " + "), "seconds": end - begin, "cycles": 0}
                for step, begin, end in zip(self.segment.steps, moments, moments[1:], strict=False)]
        return outcome, rows

    def _run(self, values: Values, after: Callable[[], None] | None = None) -> Outcome:
        """`after` is called before the first group and after each. Without it all that the device
        launches is one piece, if nothing lies elsewhere than before.
        """
        graph = self.segment.graph
        foreign = any(not isinstance(array, np.ndarray) for array in values.values())
        given = values if foreign else check_inputs(graph, values)      # `Module` checks those
        with self._lock:
            places = self._prepared()
            elsewhere = {name: address for name in graph.inputs
                         if (address := self.device.address_of(given[name])) is not None}
            for name in graph.inputs:
                if name not in elsewhere:
                    self.device.copy_in(places[name], _bytes(given[name]))
            results = {name: result for name in self.segment.handed_out
                       if (result := self.device.result(self._size(name), foreign)) is not None}
            elsewhere |= {self._root(name): address for name, (_, address) in results.items()}
            launches, together = self._launches, self._all
            if elsewhere:
                places = {value: elsewhere.get(self._root(value), place)
                          for value, place in places.items()}
                launches, together = self._recorded_all(places), None
            self._launch(launches, together, after)
            self.device.wait()
            return Outcome({name: self._shown(name, results[name][0]) if name in results
                            else self._read(name, places) for name in graph.outputs})

    def _launch(self, launches: list[Callable[[], None]], together: Callable[[], None] | None,
                after: Callable[[], None] | None) -> None:
        if together and not after:
            together()
            return
        for launch in (lambda: None, *launches):
            launch()
            if after:
                after()

    def _size(self, name: str) -> int:
        return bytes_of(self.segment.graph.values[name])

    def _shown(self, name: str, result: Any) -> Any:
        type_ = self.segment.graph.values[name]
        return self.device.array(result, type_.shape, numpy_dtype(type_.dtype))

    def _read(self, name: str, places: Mapping[str, int]) -> Array:
        type_ = self.segment.graph.values[name]
        if name in self.segment.constants:
            return np.array(self.segment.constants[name])
        data = self.device.copy_out(places[name], bytes_of(type_))
        return data.view(numpy_dtype(type_.dtype)).reshape(type_.shape)

    def _prepared(self) -> Mapping[str, int]:
        """The addresses of all values. The first time it takes the memory, copies the constants and
        records the launches.
        """
        if self._places is None:
            segment = self.segment
            root, plan = self._root, segment.plan
            self._arena = self._allocated(plan.size)
            places = {value: self._arena + offset for value, offset in plan.offsets.items()}
            for value in segment.apart:
                places[value] = self._allocated(bytes_of(segment.graph.values[value]))
            for value, array in segment.constants.items():
                self.device.copy_in(places[value], _bytes(array))
            for value in segment.graph.values:
                if root(value) in places:
                    places[value] = places[root(value)]
            self._launches = self._recorded_all(places)
            self._all = self.device.captured([launch for launch, step in zip(
                self._launches, segment.steps, strict=True) if step.code])
            self._places = places
        return self._places

    def _allocated(self, size_bytes: int) -> int:
        """Memory that is given back when nobody has the executable any more."""
        address = self.device.allocate(size_bytes)
        finalize(self, self.device.free, address).atexit = False    # the device ends with us
        return address

    def _recorded_all(self, places: Mapping[str, int]) -> list[Callable[[], None]]:
        return [self._recorded(number, step, places)
                for number, step in enumerate(self.segment.steps)]

    def _recorded(self, number: int, step: GpuStep, places: Mapping[str, int]
                  ) -> Callable[[], None]:
        if step.code is None:
            return lambda: None
        workspaces = (self._arena + offset for offset in self.segment.plan.workspaces[number])
        return self.device.record(step.code, *(places[value] for value in step.group.inputs),
                                  places[step.group.output], *workspaces)


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
