"""Components of stream units by themselves: rows in, rows out, with stalls on both sides."""

from collections.abc import Mapping, Sequence

import numpy as np

from accel.machine.streams import StreamShape
from tests.support.amaranth_sim import simulate, stalls


def bits_of(entry: np.ndarray) -> int:
    """The bits of an entry, its first element lowest."""
    return int.from_bytes(np.ascontiguousarray(entry).tobytes(), "little")


def rows_through(component, shape: StreamShape, rows: Sequence[tuple[np.ndarray, Mapping]],
                 table: np.ndarray | None = None, p_in: float = 0, p_out: float = 0, seed: int = 1,
                 max_cycles: int = 20_000) -> tuple[list[np.ndarray], list[int]]:
    """Hands rows [n, *entry], each with its fields, to a component, whose table has the entries
    `table`. Returns the rows that come out, and the cycles of their last entries.
    """
    results: list[np.ndarray] = []
    times: list[int] = []
    clock = [0]

    async def count(ctx):
        while True:
            await ctx.tick()
            clock[0] += 1

    async def send(ctx):
        stall = stalls(seed, p_in)
        for row, fields in rows:
            for place, entry in enumerate(row):
                while stall():
                    await ctx.tick()
                ctx.set(component.i.payload, {"data": bits_of(entry), "fields": dict(fields),
                                              "last": place == len(row) - 1})
                ctx.set(component.i.valid, 1)
                ready = 0
                while not ready:
                    *_, ready = await ctx.tick().sample(component.i.ready)
                ctx.set(component.i.valid, 0)

    async def receive(ctx):
        stall, (entry, dtype) = stalls(seed + 1, p_out), shape.dst
        for row, _ in rows:
            made = []
            for place in range(len(row)):
                while stall():
                    await ctx.tick()
                ctx.set(component.o.ready, 1)
                valid = 0
                while not valid:
                    *_, payload, valid = await ctx.tick().sample(component.o.payload,
                                                                 component.o.valid)
                ctx.set(component.o.ready, 0)
                assert payload.last == (place == len(row) - 1), f"last at {place} of {len(row)}"
                made.append(np.frombuffer(payload.data.to_bytes(
                    shape.dst_elements.size // 8, "little"), dtype).reshape(entry))
            results.append(np.array(made))
            times.append(clock[0])

    async def serve(ctx):
        """The table, `read_cycles` after its address."""
        assert table is not None
        known, pending = [bits_of(entry) for entry in table], [0] * (shape.read_cycles - 1)
        while True:
            *_, addr = await ctx.tick().sample(component.table.addr)
            pending.append(addr)
            ctx.set(component.table.data, known[pending.pop(0)])

    simulate(component, send, receive, processes=[count] + [serve] * (table is not None),
             max_cycles=max_cycles)
    return results, times
