"""Random fields of the vector unit's instructions."""

from typing import Any

import numpy as np

from accel.machine import isa
from compiler.tensorize import Intrinsic

__all__ = ["vector_fields"]


def vector_fields(rng: np.random.Generator, intrinsic: Intrinsic) -> dict[str, Any]:
    """Scopes that the instruction can have, and immediates; loops and bases are left out."""
    scopes = {operand.name: operand.scopes for operand in intrinsic.operands}
    pick = {key: rng.choice(scopes.get(key, ("res",))) for key in "ab"}
    b_source = "par" if "bias" in scopes else pick["b"]
    return {
        "a_source": isa.SOURCES_A.index(pick["a"]), "b_source": isa.SOURCES_B.index(b_source),
        "destination": isa.DESTINATIONS.index(rng.choice(intrinsic.dst.scopes)),
        "imm": int(rng.integers(-1 << 31, 1 << 31)), "ma": int(rng.integers(1 << 16)),
        "mb": int(rng.integers(1 << 16)), "s": int(rng.integers(64)),
        "zp": int(rng.integers(-128, 128)), "lo": -100, "hi": 90}
