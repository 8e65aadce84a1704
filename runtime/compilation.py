"""From a network to a module: what `lockstep.compile` does.

>>> import numpy as np
>>> from runtime import compile
>>> module = compile("examples/digits/digits-int8.onnx", "accel:tiny-1x4x4", sim="functional")
>>> module.set_input("image", np.zeros((1, 1, 8, 8), np.float32))
>>> runs = module.run()
>>> module.get_output("logits").shape
(1, 10)
"""

from collections.abc import Mapping
from os import PathLike

from accel.config import AccelConfig
from accel.config import load as load_config
from accel.machine import Machine
from accel.sim.dram import DRAM, Dram
from accel.target import AccelTarget
from compiler.cpu_gpu_backends.cpu import CpuTarget
from compiler.frontend.onnx_import import load as load_model
from compiler.graph.graph import Graph
from compiler.graph.partition import ACCEL, subgraph
from compiler.graph.pipeline import AfterPass, Show, numbered, optimize, standard_passes
from compiler.graph.placement import Pins
from compiler.graph.room import require_room
from runtime.auto import choose, greedy
from runtime.cache import cached
from runtime.costs import LINK, Link, Pricing
from runtime.device import Device, SimulatedDevice, simulator
from runtime.module import AccelSegment, Module, Settings, Step

__all__ = ["TargetError", "compile", "compile_for", "compile_graph", "target_config"]

Model = str | PathLike[str] | Graph


class TargetError(ValueError):
    """A target that does not exist."""


def compile(model: Model, target: str = "accel:pynq-1x16x16", *,       # noqa: A001
            sim: str = "functional", integerize: bool = True, threads: int = 2,
            shapes: Mapping[str, int] | None = None, after: AfterPass | None = None,
            cache: bool = True, pins: Pins | None = None, link: Link = LINK, **options) -> Module:
    """Compile a network.

    Parameters
    ----------
    model : an ONNX file, or an imported graph.
    target : ``accel:PRESET``, ``accel:FILE.toml``, ``cpu``, or ``auto:PRESET``, ``auto:FILE.toml``,
        which gives the accelerator what is faster there: see `runtime.auto`.
    sim : the device behind an accelerator, with its `options`: see `runtime.simulator`.
    integerize : replace dequantize → operator → quantize by integer operators.
    threads : virtual threads of the accelerator's schedules.
    shapes : values of the model's symbolic dimensions.
    after : called with the graph after every pass, then with what is made of it; then the network
        is compiled in any case.
    cache : take the module from the cache if it is there, and keep it there: see `runtime.cache`.
    pins : target of a layer or of an operator, by its name: "host" or "accel".
    link : what ``auto`` assumes of the way between host and accelerator.
    """
    config = target_config(target)
    device = None
    if config:
        machine = Machine(config)
        device = SimulatedDevice(machine, simulator(sim, **options))
    return compile_for(model, device, integerize=integerize, threads=threads, shapes=shapes,
                       after=after, cache=cache, pins=pins,
                       link=link if target.startswith("auto:") else None)


def target_config(target: str) -> AccelConfig | None:
    """The geometry that a target names; None for the host."""
    kind, _, where = target.partition(":")
    if kind == "cpu" and not where:
        return None
    if kind not in ("accel", "auto") or not where:
        raise TargetError(f"Target must be accel:PRESET, accel:FILE.toml, auto:PRESET, "
                          f"auto:FILE.toml or cpu, not {target!r}")
    return load_config(where)


def compile_for(model: Model, device: Device | None, *, integerize: bool = True, threads: int = 2,
                shapes: Mapping[str, int] | None = None, after: AfterPass | None = None,
                cache: bool = True, pins: Pins | None = None, link: Link | None = None,
                dram: Dram = DRAM) -> Module:
    """`compile` for a device, or for the host alone. With a `link` the network is divided by what
    things cost, with the memory `dram`, and is not kept in the cache; nor are those with pins.
    """
    graph = model if isinstance(model, Graph) else load_model(model, dict(shapes or {}) or None)
    require_room(graph)
    settings = {"integerize": integerize, "threads": threads}

    def make() -> Module:
        passes = standard_passes(integerize=integerize)
        optimized = optimize(graph, passes, after)
        accel = AccelTarget(device.machine, threads) if device else None
        pricing = Pricing(optimized, accel, link, dram) if accel and link else None
        return compile_graph(optimized, accel, device, pins, pricing, settings,
                             numbered(after, len(passes) + 1))

    if cache and after is None and not pins and not link:
        return cached(graph, device, settings, make)
    return make()


def compile_graph(graph: Graph, accel: AccelTarget | None, device: Device | None = None,
                  pins: Pins | None = None, pricing: Pricing | None = None,
                  settings: Settings | None = None,
                  show: Show = lambda name, result: None) -> Module:
    """Compile an optimized graph for the host, and an accelerator if there is one. With `pricing`
    this gets what is faster there, else all that it can have. `show` is called with the partition,
    and with groups and memory plan of each segment of the host.
    """
    host = CpuTarget()
    choice = choose(pricing, pins) if pricing else None
    parts = choice.price.partition if choice else greedy(graph, accel, pins)
    show("partition", parts)
    steps = []
    for segment in parts.segments:
        part = subgraph(graph, segment)
        if accel and device and segment.target == ACCEL:
            compiled = choice.pricing.program(segment) if choice else accel.compile(part)
            steps.append(Step(segment, AccelSegment(compiled.program, compiled.work, device)))
        else:
            compiled = host.compile(part)
            show("fuse", compiled.groups)
            show("plan-memory", compiled.plan)
            steps.append(Step(segment, compiled))
    return Module(graph, parts, tuple(steps), settings, choice)
