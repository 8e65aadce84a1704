"""Bounded simulation of Amaranth components."""

import warnings

from amaranth.sim import Simulator


def simulate(dut, *testbenches, processes=(), max_cycles=10_000, vcd=None):
    """Run until every testbench returns; fail instead of hanging.

    `processes` are background testbenches: they stand for what surrounds the component and need not
    end. Wait with plain loops over ``await ctx.tick()``: `.until()` and `.repeat()` leave a generator
    behind in a testbench that is abandoned, and Python warns.
    """
    async def watchdog(ctx):
        for _ in range(max_cycles):
            await ctx.tick()
        raise TimeoutError(f"Simulation must finish in {max_cycles} cycles")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = Simulator(dut)
        sim.add_clock(1e-6)
        for testbench in testbenches:
            sim.add_testbench(testbench)
        for process in (*processes, watchdog):
            sim.add_testbench(process, background=True)
        if vcd is None:
            sim.run()
        else:
            with sim.write_vcd(str(vcd)):
                sim.run()
