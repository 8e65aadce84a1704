"""Machines drawn at random by a number, to fit estimates to and to judge them by."""

from collections.abc import Iterator
from itertools import zip_longest
from random import Random

from accel.estimates.runs import MachineSpec
from accel.machine.config import ConfigError, preset
from accel.machine.rules import DeclarationError

NUMBERS = 48
"""Machines that are drawn, the smallest first."""

BLOCKS = ((1, 2, 2), (1, 2, 2), (1, 4, 4), (1, 2, 4), (1, 4, 2), (1, 8, 2), (1, 2, 8), (1, 4, 8),
          (1, 8, 4), (2, 2, 2), (2, 4, 4), (4, 2, 2), (1, 8, 8))
"""Extents of a block product: small ones, as yosys takes a minute for 1x2x2."""

DECLARED = {1: "argmax.py", 3: "hardswish.py", 5: "sparse.py", 7: "depthwise.py",
            9: "bfloat16.py", 11: "halved.py", 14: "int16.py", 15: "int16_deep.py",
            18: "normalize.py", 22: "hardswish.py", 26: "sparse.py", 30: "bfloat16.py"}
"""Numbers of machines that have instructions of their own."""

OWN = ("hardswish.py",)
"""Instructions of one's own that the smallest preset has, held back."""

OPTIONAL = ("reduce_add", "reduce_max", "reduce_min", "lookup", "add_scaled", "mul", "shr")
"""Shipped instructions that some machines do without."""

ELEMENT_BYTES = {"inp": 2, "wgt": 2, "res": 2, "par": 8, "acc": 8, "out": 2}
"""The widest elements of the buffers, so that every drawn depth is legal."""


def drawn(number: int) -> MachineSpec:
    """The machine of a number."""
    for attempt in range(100):
        spec = _drawn(Random(f"{number}.{attempt}"), number)
        try:
            assert spec.machine
        except (ConfigError, DeclarationError):
            continue
        return spec
    raise AssertionError(f"no machine of number {number}")


def _drawn(random: Random, number: int) -> MachineSpec:
    batch, block_in, block_out = random.choice(BLOCKS[:3] if number in (9, 15, 30) else BLOCKS)
    lanes = batch * block_out
    columns = {"inp": batch * block_in, "wgt": block_in * block_out, "par": block_out}
    geometry = {
        "name": f"drawn-{number}", "batch": batch, "block_in": block_in, "block_out": block_out,
        **{f"{buffer}_bytes": columns.get(buffer, lanes) * element << random.randint(5, 11)
           for buffer, element in ELEMENT_BYTES.items()},
        "tab_bytes": 256 << random.randint(2, 5),
        "bus_bytes": random.choice((4, 4, 8, 8, 16)),
        "queue_depth": random.choice((2, 4, 8, 16, 32)),
        "vector_beats": random.choice((1, 1, 2, 4)),
        "stage_depth": random.choice((1, 2, 2, 3, 4)),
        "weight_bits": random.choice(([8], [8], [8, 4], [8, 2], [8, 4, 2])),
    }
    if random.random() < 0.2:
        geometry["dsp_multipliers"] = max(batch * block_in * block_out // 2, 1)
    declared = DECLARED.get(number, "")
    without = () if declared or random.random() < 0.5 else tuple(
        name for name in OPTIONAL if random.random() < 0.5)
    return MachineSpec(geometry, declared, without)


def specs() -> Iterator[tuple[MachineSpec, bool]]:
    """Machines to synthesize, and whether they are held back: presets, then drawn ones, of both
    kinds in turn, the smallest first; the smallest preset with instructions of one's own."""
    for name in ("ecp5-1x2x2", "tiny-1x4x4"):
        yield MachineSpec(preset(name).values()), False
    numbers = sorted(range(NUMBERS), key=lambda number: (_lanes(drawn(number)), number))
    turns = [[number for number in numbers if (number % 4 == 3) == held] for held in (False, True)]
    for pair in zip_longest(*turns):
        yield from ((drawn(number), number % 4 == 3) for number in pair if number is not None)
    yield from ((MachineSpec(preset("ecp5-1x2x2").values(), declared), True) for declared in OWN)


def _lanes(spec: MachineSpec) -> int:
    """Lanes of the datapaths, by which the time of synthesis grows."""
    config = spec.machine.config
    return config.macs_per_cycle // 4 + 4 * config.lanes // config.vector_beats
