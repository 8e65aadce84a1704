"""Masks of rows in int8: what is kept of scores is the lesser of each and -128 or 127."""

from dataclasses import dataclass, field

import numpy as np

from compiler.graph.integerize.row_functions import Mask
from compiler.graph.integerize.rows import KEPT
from compiler.graph.integerize.writing import Writing
from compiler.ops.families.row_functions import MASKED


@dataclass(slots=True)
class Masks:
    """The masks of one graph, each made once."""

    writing: Writing
    known: dict[tuple, str] = field(default_factory=dict)

    def of(self, mask: Mask, shape: tuple[int, ...]) -> str:
        """The int8 form of a mask for rows of a shape, made once: a constant as large as they are,
        or computed with as many dimensions.
        """
        valid = None if mask.valid is None else np.broadcast_to(mask.valid, shape)
        key = (mask.condition, shape, bool(mask.level.any()) if valid is None else valid.tobytes())
        if key not in self.known:
            self.known[key] = self._computed(mask, shape) if valid is None else (
                self.writing.constant("mask", np.where(valid, KEPT, MASKED).astype(np.int8)))
        return self.known[key]

    def _computed(self, mask: Mask, shape: tuple[int, ...]) -> str:
        step, values = self.writing.step, self.writing.builder.values
        kept, masked = (self.writing.constant("mask", np.array(end, np.int8))
                        for end in (KEPT, MASKED))
        stem = f"{mask.condition}_mask"
        value = step("where", stem, mask.condition, kept, masked)
        own = values[value].shape
        if mask.level.any():                    # a row that is masked whole counts whole
            greatest = step("reduce_max", f"{stem}_greatest", value, axes=(len(own) - 1,),
                            keepdims=1)
            nothing = step("equal", f"{stem}_nothing", greatest, masked)
            value = step("where", stem, nothing, kept, value)
        if len(own) < len(shape):
            value = step("reshape", f"{stem}_whole", value,
                         shape=(1,) * (len(shape) - len(own)) + own)
        return value
