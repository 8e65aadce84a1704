"""Least cycles of a program's layers, whatever their tilings: docs/bounds.md."""

from collections.abc import Sequence
from math import ceil

from accel.machine.machine import Machine
from accel.figures.work import Bound, Work


def group_cycles(machine: Machine, group: Sequence[Work]) -> int:
    """Cycles that the busiest unit works for layers that are computed at the same time; 0 where
    their bounds are not known. What neighbours overlap of it is not taken off.
    """
    bounds = _bounds(group)
    if len(bounds) < len(group):
        return 0
    return max(*(bound.busy for bound in bounds), sum(bound.gemm for bound in bounds),
               sum(bound.vector for bound in bounds), _bus(machine, bounds))


def stream_cycles(machine: Machine, work: Sequence[Sequence[Work]]) -> int:
    """Least cycles of a program of these groups of layers, whatever their tilings and whichever of
    them are computed at the same time; 0 where a bound is not known.

    Units work in stream order. So gemm begins with a layer after its products of all layers before,
    and until then loads of the layer can have filled no more than the buffers: all else of them
    comes later, as do the layer's last products. Neither that nor the whole work of a unit can be
    shorter.
    """
    bounds = _bounds([layer for group in work for layer in group])
    if len(bounds) < sum(map(len, work)):
        return 0
    config, rate = machine.config, machine.config.rate_of(machine.config.memory)
    roles = machine.structure.roles
    room = sum(config.buffers[name].size_bytes
               for name in (roles.inp, roles.wgt, roles.par, roles.tab)) / rate
    computed = loaded = 0.0
    for bound in bounds:
        loads = bound.loaded / rate
        loaded += loads
        if bound.gemm:
            loaded = max(loaded, computed + loads - room)
            computed = max(computed + bound.gemm, loaded)
    return ceil(max(computed, loaded, _bus(machine, bounds),
                    sum(bound.vector for bound in bounds)))


def _bounds(layers: Sequence[Work]) -> list[Bound]:
    return [layer.bound for layer in layers if layer.bound is not None]


def _bus(machine: Machine, bounds: Sequence[Bound]) -> int:
    """Cycles of the bus, or of all channels, with the machine's memory."""
    config, clients = machine.config, len(machine.structure.clients)
    return ceil(sum(bound.moved for bound in bounds) / config.rate_of(config.memory, clients))
