"""Hypothesis strategies for instruction words."""

from amaranth import Shape
from amaranth.lib import data
from hypothesis import strategies as st

from accel.machine import isa

__all__ = ["word_fields", "words"]


def words() -> st.SearchStrategy[int]:
    """Any 512 bits."""
    return st.integers(0, (1 << isa.WORD_BITS) - 1)


def word_fields(layout: data.Layout) -> st.SearchStrategy[dict]:
    """Values for every field of a layout that carries something, within its range; the ends of
    the range come often.
    """
    return _of(layout, "")


def _of(layout, key: str) -> st.SearchStrategy:
    if isinstance(layout, data.StructLayout):
        return st.fixed_dictionaries({name: _of(field.shape, name) for name, field in layout
                                      if name not in ("reserved", "rest")})
    if isinstance(layout, data.ArrayLayout):
        return st.lists(_of(layout.elem_shape, ""), min_size=layout.length,
                        max_size=layout.length)
    shape = Shape.cast(layout)
    low = -(1 << shape.width - 1) if shape.signed else 0
    high = low + (1 << shape.width) - 1
    shift = int(key in ("extent", "run"))
    return st.sampled_from((low + shift, high + shift)) | st.integers(low + shift, high + shift)
