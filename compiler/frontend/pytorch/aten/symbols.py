"""Sizes, which are plain integers here, and a program's assertions about them."""

import math
import operator

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.pytorch.aten.registry import aten, refuse

FUNCTIONS = {getattr(operator, name) for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pow", "eq", "ne", "lt", "le", "gt",
    "ge", "and_", "or_", "not_", "getitem")} | {
    math.ceil, math.floor, math.trunc, math.sqrt, max, min, round, abs}
"""Python's own functions that stand in exported programs; torch.sym_int and the like are theirs."""


@aten("sym_size.int")
def sym_size(t, x, dim):
    return x.shape[dim]


@aten("sym_numel")
def sym_numel(t, x):
    return x.size


@aten("_assert_scalar", "_assert_async")
def assert_scalar(t, holds, message=""):
    if not isinstance(holds, bool | int | float):
        raise NodeRefused("it checks computed elements; export without the check")
    if not holds:
        raise NodeRefused(f"the bound dimensions contradict it: {message}")


@aten("_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size")
def ignored(t, *arguments, **options):
    """Ignores checks of what export has already decided."""


refuse("_local_scalar_dense", "item", "nonzero", "masked_select", "unique2", "_unique2",
       "bincount", why="its result depends on computed elements in number or as a size")
