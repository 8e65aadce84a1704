"""The targets of a compilation: from the text that names them to targets on their devices.

::

    cpu                     this processor; cpu:THREADS with so many threads, by default one;
                            cpu:plain and cpu:THREADS:plain without Winograd's products
    opencl                  the first device of OpenCL; opencl:PLATFORM one of a platform whose name
                            holds this; on the processor by PoCL where there is no other
    cuda                    the first GPU that CUDA has; cuda:N GPU number N; cuda:emulated the same
                            kernels on the processor, to try them; cuda:CARD a card of
                            `runtime.pricing.roofline.CARDS`, which need not be here: its prices are
                            estimates, and it runs on the first GPU
    metal                   kernels as text in Metal (`lockstep compile --emit metal`); there is no
                            device that executes them
    accel:MACHINE           an accelerator, and this processor for what it does not take; MACHINE
                            is a preset or a file, as in `accel.machine.loading`
    accel                   the same, of the machine that is given beside the text, if any
    auto:accel:MACHINE,cpu  each part of the network where it costs least; auto:MACHINE is the same
    A,B,cpu                 a list in order of preference: the first that takes an operator gets it

Other names are those that `register` was called with. The processor is always among the targets,
the last where it is not named. A target's name among those of its list is ``host`` for the
processor, ``accel`` for the first accelerator, and the text for any other.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accel.machine.config import MACHINE
from accel.machine.device import Device
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.plans.search import Effort
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.gpu.target import PRECISIONS, GpuTarget
from compiler.errors import ArgumentError, Error
from compiler.graph.graph import Graph
from compiler.graph.division.layout import Borders
from compiler.graph.division.partition import Segment, subgraph
from compiler.graph.products.float_products import FloatTypes
from compiler.native import digest
from compiler.ops.records.stored_floats import STORED_FLOATS
from compiler.ops.records.integer_forms import ACCUMULATOR_BITS
from compiler.plans import OWN, Plans
from compiler.graph.division.protocols import ACCEL, HOST, Measure, Prices, Target
from compiler.te import bits
from runtime.devices.cuda import CudaDevice
from runtime.devices.device import AbsentDevice, DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from runtime.pricing.link import LINK, Link
from runtime.devices.opencl import OpenClDevice
from runtime.pricing.prices import AccelPrices, MeasuredPrices
from runtime.pricing.roofline import CARDS, RooflinePrices

CPU, AUTO = "cpu", "auto"
CUDA, OPENCL, METAL = "cuda", "opencl", "metal"
PLAIN, THREADS, EMULATED = "plain", r"[1-9]\d{0,2}", "emulated"
WHERE = {CPU: rf"{THREADS}|(?:{THREADS}:)?{PLAIN}", CUDA: "|".join((r"\d{1,3}", EMULATED, *CARDS)),
         OPENCL: r".+", METAL: r"(?!)"}
"""What may stand behind the colon, where that is not a machine."""
ARCH = r"sm_\d{2,3}[af]?"


class TargetError(Error, ValueError):
    """A target that does not exist."""


@dataclass(frozen=True)
class Placed:
    """A target, the device for its compiled segments (None: this processor), and its prices."""

    target: Target
    device: Any = None
    priced: Callable[[Graph, Measure], Prices] | None = None

    @property
    def name(self) -> str:
        return self.target.name

    def prices(self, graph: Graph, measure: Measure) -> Prices:
        """The target's own prices, else measured ones."""
        if self.priced is not None:
            return self.priced(graph, measure)
        return MeasuredPrices(graph, self.target, measure, self.device)


class Targets:
    """Targets in order of preference, by name."""

    def __init__(self, placed: Sequence[Placed], plans: Plans = OWN):
        """Appends the processor where it is missing. All targets take their `plans` from these."""
        self.plans = plans
        self._placed = {target.name: target for target in placed}
        if HOST not in self._placed:
            self._placed[HOST] = Placed(CpuTarget(plans=plans))

    def __iter__(self) -> Iterator[Placed]:
        return iter(self._placed.values())

    def __getitem__(self, name: str) -> Placed:
        return self._placed[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._placed)

    @property
    def device(self) -> Device | None:
        """The device of the accelerator; None where there is none."""
        return self[ACCEL].device if ACCEL in self.names else None

    @property
    def accumulator_bits(self) -> int:
        """The bits of the widest sums that a target forms, at least those of operators."""
        device = self.device
        own = bits(device.machine.config.accumulator) if device else 0
        return max(ACCUMULATOR_BITS, own)

    @property
    def exact(self) -> bool:
        """True if all have operators that compute to the bit what LiteRT computes."""
        return ACCEL not in self.names

    @property
    def float_types(self) -> FloatTypes | None:
        """The floats that the accelerator multiplies and stores; None where it has others, or
        none."""
        device = self.device
        config = device.machine.config if device else None
        stored = config and {config.operand, config.output, config.weight} <= {*STORED_FLOATS}
        return FloatTypes(config.output, config.weight, config.block_in) if config and stored else (
            None)

    def takes_rows(self, operator: str, elements: int, attrs: Mapping[str, Any],
                   *constants: np.ndarray) -> bool:
        """True if the accelerator has an instruction of its own for an operator of rows of so many
        elements."""
        return self.device is not None and self.device.machine.computes_rows(
            operator, elements, attrs, *constants)

    @property
    def can_be_saved(self) -> bool:
        """True if a file can hold their compiled segments (`runtime.artifact`)."""
        return all(name in (ACCEL, HOST) or is_gpu(name) for name in self.names)

    @property
    def fingerprints(self) -> dict[str, str]:
        return {placed.name: placed.target.fingerprint for placed in self}

    @property
    def plans_fingerprint(self) -> str:
        """A hash of the plans that tasks of these targets can have."""
        return digest([self.plans.of_target(_tasks_fingerprint(placed.target)).fingerprint
                       for placed in self])

    def borders(self, graph: Graph) -> Borders:
        """The function by which the layout pass asks about segments of the graph."""
        def asked(segment: Segment):
            return self[segment.target].target.borders(subgraph(graph, segment))
        return asked


def _tasks_fingerprint(target: Target) -> str:
    """The fingerprint of a target's tasks: those of an accelerator do not depend on its effort."""
    return target.machine.hash if isinstance(target, AccelTarget) else target.fingerprint


def accelerator(machine: Machine, device: Device | None = None, threads: int = 2,
                link: Link = LINK, name: str = ACCEL, plans: Plans = OWN,
                effort: int | Effort = 0) -> Placed:
    """An accelerator, priced by the assumed link and its machine's memory."""
    target = AccelTarget(machine, threads, name, plans, effort, cycle.measure)

    def priced(graph: Graph, measure: Measure) -> Prices:
        return AccelPrices(graph, target, measure, link)
    return Placed(target, device, priced)


Make = Callable[[str], Placed]
"""Makes a target from the part of a text after the colon."""

_registered: dict[str, Make] = {}


def register(kind: str, make: Make) -> None:
    """Registers a custom target for the texts ``KIND`` and ``KIND:WHERE``: `make(WHERE)`, whose
    name must be the text.
    """
    _registered[kind] = make


@dataclass(frozen=True)
class Request:
    """A request for targets: their names in order, whether costs decide, and the machine of the
    name ``accel``.
    """

    names: tuple[str, ...]
    auto: bool = False
    machine: Machine | None = None

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The accelerators, in order."""
        return tuple(self._machine(name) for name in self.names
                     if name.partition(":")[0] == ACCEL)

    def _machine(self, name: str) -> Machine:
        return self.machine if name == ACCEL and self.machine else load_machine(
            name.partition(":")[2])

    @property
    def title(self) -> str:
        return f"{AUTO}:" * self.auto + ",".join(self.names)

    def placed(self, on: Callable[[Machine], Device | None], threads: int = 2,
               link: Link = LINK, plans: Plans = OWN, archs: tuple[str, ...] = (),
               precision: str | None = None, effort: int | Effort = 0) -> Targets:
        """The targets; `on` gives each accelerator its device, whose machine counts, and whose
        tilings are searched with this `effort`. CUDA is compiled for `archs` at once, and then its
        device may be missing until something runs; its products of float32 have this `precision`
        (`gpu.target.PRECISIONS`).
        """
        self._require_archs(archs)
        self._require_precision(precision)
        accelerators = 0
        targets: list[Placed] = []
        for name in self.names:
            kind, _, where = name.partition(":")
            if kind == CPU:
                targets.append(Placed(_processor(where, plans)))
            elif kind == ACCEL:
                device = on(machine := self._machine(name))
                machine = device.machine if device else machine
                targets.append(accelerator(machine, device, threads, link,
                                           name if accelerators else ACCEL, plans, effort))
                accelerators += 1
            elif kind in (CUDA, OPENCL, METAL):
                own = {"archs": archs, "precision": precision} if kind == CUDA else {}
                targets.append(_placed_gpu(GpuTarget(name, kind, plans=plans, **own), where))
            else:
                targets.append(_registered[kind](where))
        return Targets(targets, plans)

    def _require_precision(self, precision: str | None) -> None:
        if precision not in (None, *PRECISIONS):
            raise ArgumentError(f"precision must be {', '.join(PRECISIONS)} or None, not "
                                f"{precision!r}")
        if precision and not any(name.partition(":")[0] == CUDA for name in self.names):
            raise ArgumentError(f"precision must come with a target cuda, not {self.title}")

    def _require_archs(self, archs: tuple[str, ...]) -> None:
        if archs and not any(name.partition(":")[0] == CUDA for name in self.names):
            raise ArgumentError(f"arch must come with a target cuda, not {self.title}")
        for arch in archs:
            if not re.fullmatch(ARCH, arch):
                raise ArgumentError(f"arch must be architectures such as sm_80, not {arch!r}")


def request(text: Any, machine: Machine | str | Path | None = None) -> Request:
    """Reads a request. ``accel`` alone is `machine`, or the machine that its name or path means; by
    default `MACHINE`. Raises TargetError for a text that names no target.
    """
    if not isinstance(text, str):
        raise _no_target(text)
    auto = text.startswith(f"{AUTO}:")
    kinds = "|".join(map(re.escape, (ACCEL, *WHERE, *_registered)))
    names = re.split(rf",(?=(?:{kinds})(?:[:,]|$))", text.removeprefix(f"{AUTO}:" * auto))
    if auto and len(names) == 1 and names[0] and names[0] != ACCEL and not _is_name(names[0]):
        names = [f"{ACCEL}:{names[0]}"]
    if not all(_is_name(name) or name == ACCEL for name in names):
        raise _no_target(text)
    if ACCEL not in names and machine is not None:
        raise TargetError(f"Target must say accel alone where a machine is given beside it, not "
                          f"{text!r}")
    if not isinstance(machine, Machine):
        accel = f"{ACCEL}:{MACHINE if machine is None else machine}"
        names = [accel if name == ACCEL else name for name in names]
    kinds_of_one = [CPU if name.partition(":")[0] == CPU else name for name in names]
    if len(set(kinds_of_one)) < len(names):
        raise TargetError(f"Target must name each of its targets once, not {text!r}")
    return Request(tuple(names), auto, machine if isinstance(machine, Machine) else None)


def _is_name(name: str) -> bool:
    kind, colon, where = name.partition(":")
    if kind == ACCEL:
        return bool(where)
    if kind in WHERE:
        return not colon or re.fullmatch(WHERE[kind], where) is not None
    return kind in _registered and bool(where or not colon)


def _processor(how: str, plans: Plans) -> CpuTarget:
    """This processor, as what stands behind its name says."""
    plain, threads = how.endswith(PLAIN), how.removesuffix(PLAIN).rstrip(":")
    return CpuTarget(plans=plans, threads=int(threads or 1), plain=plain)


def _placed_gpu(target: GpuTarget, where: str) -> Placed:
    """A GPU, whose prices are measured; those of a card are estimated, whether it is here or not.
    """
    card = CARDS.get(where) if target.dialect == CUDA else None
    device = gpu_device(target.name, absent=bool(target.archs) or card is not None)
    if isinstance(device, CudaDevice) and not target.archs:
        target = target.on_arch(device.arch)
    if not isinstance(device, AbsentDevice):
        target = replace(target, model=device.name)
    if card is None:
        return Placed(target, device)
    return Placed(target, device, lambda graph, measure: RooflinePrices(graph, target, card))


def is_gpu(name: str) -> bool:
    """True if the target of this name is a GPU."""
    return name.partition(":")[0] in (CUDA, OPENCL, METAL)


def gpu_device(name: str, absent: bool = False) -> Any:
    """The `KernelDevice` of a target. Where there is none, raises DeviceMissing; an `absent` one
    raises it when it is used.
    """
    kind, _, where = name.partition(":")
    if kind == METAL:
        return AbsentDevice(DeviceMissing("Kernels in Metal must be compiled and run by a program "
                                          "of yours: --emit metal writes them"))
    try:
        if where == EMULATED and kind == CUDA:
            return EmulatedDevice()
        if kind == CUDA:
            return CudaDevice(int(where) if where.isdigit() else 0)
        return OpenClDevice(where)
    except DeviceMissing as error:
        if absent:
            return AbsentDevice(error)
        raise


def _no_target(text: Any) -> TargetError:
    own = "".join(f", {kind}" for kind in _registered)
    return TargetError(f"Target must be accel:MACHINE, auto:MACHINE, cpu, cpu:THREADS, "
                       f"cpu:plain, cuda, opencl, metal{own}, or a list of targets, not {text!r}; "
                       "a machine is a preset or a file")


def target_machine(target: str, machine: Machine | str | Path | None = None) -> Machine | None:
    """The machine of the only accelerator that a target names; None where it names none."""
    machines = request(target, machine).machines
    if len(machines) > 1:
        raise TargetError(f"Target must name one accelerator here, not {target!r}")
    return machines[0] if machines else None
