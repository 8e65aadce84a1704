"""Imports and compiles networks by the arguments of `lockstep.options.arguments.add_compilation`.
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from accel.machine.machine import Machine
from compiler.errors import RequestError
from compiler.frontend.models import graph_of
from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import AfterStage
from compiler.plans import OWN, PlanRefused, Plans
from lockstep.options.arguments import CACHED_PLANS, OWN_PLANS, quantizer_options
from runtime import Device, Link, Module, compile_on, quantized, target_machine
from runtime.arguments import archs_of
from runtime.driver.targets import request


def target_of(args: argparse.Namespace) -> str:
    """The target, with the machine of ``--machine`` in it."""
    if args.target is not None and args.machine is None:
        return args.target
    return request("accel" if args.target is None else args.target, args.machine).title


def machine_of(args: argparse.Namespace) -> Machine | None:
    """The accelerator, with the memory that it has; None for the host alone."""
    machine = target_machine(args.target)
    if machine is None:
        if args.memory:
            raise RequestError(f"--memory must be left out with --target {args.target}: it has no "
                               f"accelerator")
        return None
    if args.bus_bytes:
        machine = replace(machine, config=replace(machine.config, bus_bytes=args.bus_bytes))
    return with_memory(machine, args)


def with_memory(machine: Machine, args: argparse.Namespace) -> Machine:
    """The machine with the memory of ``--memory``, and at the clock of that board."""
    if args.memory is None:
        return machine
    from fpga.memory import on_board

    return on_board(machine, *args.memory)


def imported(args: argparse.Namespace, arrays: Mapping[str, Any] | None = None) -> Graph:
    """The imported network, not yet compiled. Dimensions that `--shape` leaves open take the
    extents of `arrays`, by the name of the input.
    """
    shapes, bind, options = dict(args.shape), dict(args.bind), quantizer_options(args)
    if args.calibration is None:
        for name in options:
            raise RequestError(f"--{name.replace('_', '-')} must come with --calibration FILE, "
                               f"which quantizes the network")
        return graph_of(args.model, shapes, bind=bind, arrays=arrays)
    from lockstep.printing.progress import watching

    return quantized(args.model, args.calibration, shapes, arrays, machine=machine_of(args),
                     watch=watching(args.model.name), bind=bind, **options)


def plans_of(args: argparse.Namespace) -> Plans:
    """The sources of targets' plans: what was asked for first, then what is packaged."""
    if args.plans == OWN_PLANS:
        return OWN
    from compiler.tune.best import in_turn, packaged
    from compiler.tune.sources import plans_from

    return in_turn(plans_from(args.plans), packaged()) if args.plans else packaged()


@contextmanager
def checked_plans(source: str | None) -> Iterator[None]:
    """Says of a refused plan, where it may be a record, how to find all such records."""
    try:
        yield
    except PlanRefused as refused:
        if source is None:
            raise
        db = "" if source == CACHED_PLANS else f" --db {shlex.quote(source)}"
        raise RequestError(f"{str(refused).partition(chr(10))[0]}; if this is a record of an older "
                           f"compiler: lockstep records check{db} --target T marks all records "
                           f"that no longer hold") from None


def compiled(args: argparse.Namespace, device: Device | None, after: AfterStage | None = None,
             graph: Graph | None = None) -> Module:
    """Compiles the network. `graph` is the network, if it is already imported."""
    wanted = request(args.target)
    if args.link and not wanted.auto:
        raise RequestError("--link must come with --target auto:PRESET: nothing else weighs copies")
    if args.objective and not wanted.auto:
        raise RequestError("--objective must come with --target auto:PRESET: nothing else weighs "
                           "costs")
    link = Link(**args.link)
    targets = wanted.placed(lambda machine: device, args.threads, link,
                            archs=archs_of(args.arch), precision=args.precision,
                            effort=args.effort, plans=plans_of(args))
    with checked_plans(args.plans):
        return compile_on(graph or imported(args), targets, wanted.auto,
                          integerize=not args.no_integerize, threads=args.threads, after=after,
                          cache=not args.no_cache, pins=dict(args.pin), link=link,
                          strict=args.strict,
                          objective=args.objective or "latency")
