"""Compiles a network to a module: the implementation of `lockstep.compile`.

>>> import numpy as np
>>> from runtime import compile
>>> module = compile("examples/digits/digits-int8.onnx", "accel:tiny-1x4x4", sim="functional")
>>> module.set_input("image", np.zeros((1, 1, 8, 8), np.float32))
>>> runs = module.run()
>>> module.get_output("logits").shape
(1, 10)
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.defects import strictly
from compiler.errors import ArgumentError, called_by_name
from compiler.frontend.building.binding import Bindings
from compiler.frontend.models import Model, graph_of
from compiler.graph.division.placement import Pins
from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import AfterStage
from compiler.graph.room import require_room
from compiler.plans import Plans, Recorder
from compiler.quantize import QuantizeRefused
from compiler.quantize.in_floats import InFloats
from compiler.quantize.quantizer import Quantized
from compiler.quantize.quantizer import quantize as quantize_for_any
from compiler.quantize.ranges.sets import CalibrationSet
from compiler.tune.best import packaged
from runtime.arguments import (archs_of, require_effort, require_kind, require_settings,
                               require_targets, shapes_of)
from runtime.driver.auto import OBJECTIVES
from runtime.driver.cache import Division, Made, cached
from runtime.driver.costs import Pricing
from runtime.devices.device import Device, SimulatedDevice, require_options, simulator
from runtime.exporting.scales import Scales, scales_of
from runtime.pricing.link import LINK, Link
from runtime.module import Module, Settings, Step
from runtime.driver.pipeline import Built, Compile, Divide, LayOut, build, cheapest
from runtime.driver.quantization import quantize
from runtime.driver.targets import Placed, Targets, accelerator, request


@called_by_name
def compile(model: Model, target: str = "accel", *,       # noqa: A001
            sim: str = "functional", integerize: bool = True, threads: int = 2,
            shapes: Mapping[str, int] | None = None, after: AfterStage | None = None,
            cache: bool = True, pins: Pins | None = None, link: Link = LINK,
            example_inputs: Any = None, calibration: CalibrationSet | None = None,
            bind: Bindings | None = None, plans: Plans | None = None, objective: str = "latency",
            machine: Machine | str | Path | None = None, arch: str | Sequence[str] = (),
            precision: str | None = None, effort: int = 0, strict: bool = False,
            **options) -> Module:
    """Compile a network.

    Parameters
    ----------
    model : a file (ONNX, .pt2 of torch.export.save, or another kind of docs/frontends.md), an ONNX
        model, a torch.export.ExportedProgram, an nn.Module with its `example_inputs`, or an
        imported graph.
    target : ``accel:MACHINE``, ``cpu``, or a list of targets in order of preference, such as
        ``accel:MACHINE,cpu``; or ``auto:MACHINE``, ``auto:`` before a list, which gives each part
        of the network to the target where it costs least: see `runtime.driver.targets`.
    machine : the accelerator of a target that says ``accel`` alone: a `Machine`, or its name or
        file as `accel.machine.loading` has them, whose Python code is run. By default
        pynq-1x16x16.
    arch : architectures of NVIDIA's, such as ``"sm_80,sm_90a"``, for which CUDA is compiled at
        once, so that a saved module needs no compiler there. The target ``cuda`` then needs no GPU
        until the module runs.
    precision : how ``cuda`` multiplies float32: "tf32" rounds factors to 10 bits of mantissa,
        "f16" and "bf16" store them as halves; sums are float32, and tensor cores compute them. By
        default factors are float32.
    sim : the device behind an accelerator, with its `options`: see `runtime.simulator`.
    integerize : replace dequantize → operator → quantize by integer operators.
    threads : virtual threads of the accelerator's schedules.
    effort : how the accelerator's tiles are chosen: 0, by a closed formula; 1 and 2, those layers
        that lose cycles by simulating some ways, or a few dozen, between their neighbours.
    shapes : extents of the model's open dimensions, by their name or place (INPUT.AXIS).
    bind : inputs that become constants, by their name: arrays, or a number for all elements.
    example_inputs : what an nn.Module is exported with: a tensor, or a tuple of them.
    after : called with the graph after every pass, then with what is made of it; then the network
        is compiled in any case.
    strict : raise `compiler.defects.DefectError` where the accelerator fails inside; else the host
        computes the layer, and a line says that it is a defect.
    cache : take the module from the cache if it is there, and keep it there: see
        `runtime.driver.cache`.
    pins : target of a layer or of an operator, by its name: "host" or "accel".
    link : what ``auto`` assumes of the way between host and accelerator.
    objective : what ``auto`` makes least: "latency", the time of one inference, or "throughput",
        that of one of many (`Module.run_many`), which the busiest target decides.
    plans : where targets take their schedules from: see `compiler.plans`. By default what comes
        with Lockstep (`compiler.tune.best.packaged`); with `compiler.plans.OWN` targets choose.
    calibration : samples by which a float model is quantized first, as `compiler.quantize.quantize`
        takes them, for the first accelerator; with `options` of that, such as ``keep_float`` or
        ``observer``.

    Raises ArgumentError for an option that is not known or not of its kind, TargetError, and
    ImportRefused for the model; every refusal is a `compiler.errors.Error`.
    """
    require_options("compile", sim, options, {*signature(compile).parameters, *QUANTIZER}
                    - {"options"})
    quantizer = {name: options.pop(name) for name in QUANTIZER if name in options}
    settings: dict[str, Any] = {"integerize": integerize, "threads": threads, "after": after,
                                "cache": cache, "pins": pins, "link": link, "strict": strict}
    require_settings(**settings)
    require_effort(effort)
    require_kind("machine", machine, Machine | str | Path | None, "a Machine, a name or a path")
    shapes, simulate = shapes_of(shapes), simulator(sim, **options)
    wanted = request(target, machine)
    targets = wanted.placed(lambda machine: SimulatedDevice(machine, simulate), threads, link,
                            plans=packaged() if plans is None else plans,
                            archs=archs_of(arch), precision=precision,
                            effort=effort)
    if calibration is not None:
        machines = wanted.machines
        graph = quantized(model, calibration, shapes, machine=machines[0] if machines else None,
                          example_inputs=example_inputs, bind=bind, **quantizer)
    elif quantizer:
        raise QuantizeRefused(f"{', '.join(quantizer)} must come with calibration samples")
    else:
        graph = graph_of(model, shapes, example_inputs, bind=bind)
    return compile_on(graph, targets, wanted.auto, objective=objective, **settings)


QUANTIZER = tuple(name for name, parameter in signature(quantize_for_any).parameters.items()
                  if parameter.kind == parameter.KEYWORD_ONLY)
"""Options of `compiler.quantize.quantize`."""


def quantized(model: Model, calibration: CalibrationSet, shapes: Mapping[str, int] | None = None,
              arrays: Mapping[str, np.ndarray] | None = None, machine: Machine | None = None,
              **options) -> Graph:
    """Quantizes a float network, for a machine; returns the int8 network, named after its file.
    Dimensions that `shapes` leave open have the extents of `arrays`, by the name of the input;
    `options` as `runtime.driver.quantization.quantize` has them.
    """
    return quantized_graph(quantize(model, calibration, machine=machine, **options), shapes, arrays)


def quantized_graph(result: Quantized | InFloats, shapes: Mapping[str, int] | None = None,
                    arrays: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph of a quantized network, for extents as `quantized` has them, with a note of what
    hinders quantization.
    """
    graph = result.graph_of(shapes_of(shapes), arrays)
    return replace(graph, notes=(result.hindrance, *graph.notes)) if result.hindrance else graph


def compile_for(model: Model, device: Device | None, *, threads: int = 2, link: Link | None = None,
                effort: int = 0,
                **options) -> Module:
    """`compile_on` for a device of the accelerator and the host, or for the host alone. With a
    `link`, costs decide which of the two computes what, with the machine's memory.
    """
    require_settings(integerize=True, threads=threads, after=None, cache=True, pins=None, link=link)
    require_effort(effort)
    placed = [accelerator(device.machine, device, threads, link or LINK, effort=effort)
              ] if device else []
    return compile_on(model, Targets(placed), link is not None, threads=threads, link=link,
                      **options)


def compile_on(model: Model, targets: Targets, auto: bool = False, *, integerize: bool = True,
               threads: int = 2, shapes: Mapping[str, int] | None = None,
               after: AfterStage | None = None, cache: bool = True, pins: Pins | None = None,
               link: Link | None = None, objective: str = "latency",
               strict: bool = False) -> Module:
    """`compile` for these targets in order of preference; with `auto`, costs decide."""
    require_settings(integerize=integerize, threads=threads, after=after, cache=cache, pins=pins,
                     link=link, strict=strict)
    require_targets(pins, targets.names)
    if objective not in OBJECTIVES:
        raise ArgumentError(f"objective must be {' or '.join(map(repr, OBJECTIVES))}, not "
                            f"{objective!r}")
    graph = graph_of(model, shapes_of(shapes))
    require_room(graph)
    settings = {"integerize": integerize, "threads": threads}

    def make() -> Made:
        with strictly(strict):
            built = cheapest(graph, targets, pins, auto, integerize, objective == "throughput",
                             after)
        times = built.choice.pricing.times if built.choice else {}
        return module_of(built, targets, settings, scales_of(graph)), times

    recorded = isinstance(targets.plans, Recorder)      # asks for the plan of every task
    if cache and after is None and targets.can_be_saved and not recorded:
        division = {"objective": objective, "strict": strict,
                    **_division(targets, auto, pins, link)}
        return cached(graph, targets, settings, division, make)
    return make()[0]


def _division(targets: Targets, auto: bool, pins: Pins | None, link: Link | None) -> Division:
    machines = [placed.target.machine for placed in targets
                if isinstance(placed.target, AccelTarget)]
    assumed = {"link": asdict(link or LINK),        # clocks and memories, too
               "machines": [machine.config.to_toml() for machine in machines]} if auto else {}
    return {"order": targets.names, "targets": targets.fingerprints,
            "pins": dict(pins or {}), "plans": targets.plans_fingerprint, **assumed}


def compile_graph(graph: Graph, accel: AccelTarget | None, device: Device | None = None,
                  pins: Pins | None = None, pricing: Pricing | None = None,
                  settings: Settings | None = None) -> Module:
    """An optimized graph, compiled for the host, and an accelerator if there is one. With `pricing`
    each part goes where it costs least, else to the first target that can have it.
    """
    targets = Targets([Placed(accel, device)] if accel else [])
    integerize = bool((settings or {}).get("integerize", True))
    stages = (Divide(targets, pins, pricing=pricing), LayOut(targets), Compile(targets, integerize))
    return module_of(build(stages, graph), targets, settings, scales_of(graph))


def module_of(built: Built, targets: Targets, settings: Settings | None = None,
              scales: Scales | None = None) -> Module:
    """Makes a module of the built segments on the targets' devices. `scales` are those of the
    network as it was imported.
    """
    parts = built.layout.partition
    steps = tuple(Step(segment, compiled, compiled.on(targets[segment.target].device))
                  for segment, compiled in zip(parts.segments, built.compiled, strict=True))
    return Module(built.graph, parts, steps, settings, built.choice and built.choice.figures(),
                  built.layout.figures(), scales)
