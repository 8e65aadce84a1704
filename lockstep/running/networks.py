"""The network of ``lockstep run``: imported, quantized where samples are given, and compiled."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from accel.machine.machine import Machine
from accel.sim.rtl.waves import Waves
from compiler.graph.graph import Graph
from lockstep.options.compilation import compiled, imported, machine_of, with_memory
from lockstep.options.simulators import TIMED
from lockstep.options.whole import calibration_of
from lockstep.printing.progress import Watched, watching
from runtime import SimulatedDevice
from runtime.driver.compilation import quantized_graph
from runtime.driver.loading import placed
from runtime.module import Module


def imported_network(args: argparse.Namespace, given: Mapping[str, Any] | None
                     ) -> tuple[Graph, dict[str, Any] | None]:
    """The network, and if it was quantized: how many layers of how many, and its accuracy."""
    calibration = calibration_of(args, others=())
    if calibration is None:
        return imported(args, given), None
    found = calibration.quantize(args.model, machine_of(args), bind=dict(args.bind),
                                 watch=watching(args.model.name))
    return quantized_graph(found, dict(args.shape), given), {
        "layers": len(found.layers), "quantized": sum(layer.quantized for layer in found.layers),
        "accuracy": calibration.accuracy(args.model, found), "unit": calibration.unit}


def compiled_network(args: argparse.Namespace, saved, graph: Graph | None
                     ) -> tuple[Module, Machine | None, Watched]:
    """The module with its device, the machine with the memory that was asked for, and what watches
    its simulators.
    """
    machine = saved.machine if saved else machine_of(args)
    if saved and machine:
        machine = with_memory(machine, args)
    if machine:
        memory = replace(machine.config.memory, **_memory_options(args))
        machine = replace(machine, config=replace(machine.config, memory=memory))
    options: dict[str, Any] = {"values": not args.no_values,
                               "timeline": True} if args.sim in TIMED else {}
    if args.waves:
        options["waves"] = Waves(*args.waves)
    watched = Watched(args.sim, options)
    device = SimulatedDevice(machine, watched) if machine else None
    module = placed(saved, device) if saved else compiled(args, device, graph=graph)
    return module, machine, watched


def _memory_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the memory that were given."""
    single = {name: getattr(args, name) for name in ("latency", "outstanding", "stall_seed",
                                                     "bytes_per_cycle")}
    given = {name: value for name, value in single.items() if value is not None}
    return {**given, **args.row_buffer, **args.refresh}
