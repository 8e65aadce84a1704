"""What do several memory channels save? Whole networks, in cycles of the cycle simulator.

Int8 networks of `examples.zoo`, 224 x 224, on the machine with 1, 2 and 4 channels. Programs are
those of one channel, as no tiling depends on their number. ``--rate`` is what each channel moves in
a cycle. Prints for each NETWORK

``NETWORK_channels_N_RATE``   cycles
"""

from dataclasses import replace

from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from bench.accelerator.networks import accelerated
from bench.frame import Bench, Sheet
from lockstep.testing import zoo

CHANNELS = (1, 2, 4)

BENCH = Bench(__file__, __doc__, "pynq-1x16x16")
BENCH.option("--rate", type=float, nargs="+", default=[8.0, 4.0, 2.0], metavar="R",
             help="bytes a cycle of each channel (default 8 4 2)")


@BENCH.part(zoo.NETWORKS, ("resnet18", "vgg11"))
def channels(sheet: Sheet) -> None:
    for name in sheet.cases:
        target = AccelTarget(sheet.machine)
        program = target.compile(accelerated(name, target)).program
        for rate in sheet.rate:
            for count in CHANNELS:
                machine = with_channels(sheet.machine, count, rate)
                run = cycle.measure(machine, replace(program, machine_hash=machine.hash,
                                                     machine=machine.record))
                sheet.require(run.ok)
                sheet.figure(f"{name}_channels_{count}_{rate:g}", run.cycles)


def with_channels(machine: Machine, count: int, rate: float) -> Machine:
    config = machine.config
    return Machine(replace(config, name=f"channels-{count}", channels=count, memory=replace(
        config.memory, bytes_per_cycle=min(rate, config.bus_bytes))), machine.declarations)
