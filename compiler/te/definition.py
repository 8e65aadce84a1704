"""The definitions of elements of buffers: what `compute` and `scan` record for `lower`."""

from dataclasses import dataclass
from typing import Any

from .dtypes import INDEX
from .expr import Expr, Extent, Var, as_expr
from .reducer import Reducer


@dataclass(frozen=True, slots=True)
class Axis:
    """An index with its extent; `kind` is ``space`` or ``reduce``."""

    var: Var
    extent: Extent
    kind: str = "space"

    @property
    def name(self) -> str:
        return self.var.name

    def __add__(self, other): return self.var + as_expr(other, INDEX)
    def __radd__(self, other): return as_expr(other, INDEX) + self.var
    def __mul__(self, other): return self.var * as_expr(other, INDEX)
    def __rmul__(self, other): return self.var * as_expr(other, INDEX)


@dataclass(frozen=True, slots=True)
class Computed:
    """Buffers `names` of one `shape`: element `axes` of each is its value, reduced over
    `reduce_axes` by `reducer` (``sum``, ``max``, ``min``, or one of one's own) if there is one."""

    names: tuple[str, ...]
    shape: tuple[Extent, ...]
    axes: tuple[Axis, ...]
    values: tuple[Expr, ...]
    reducer: str | Reducer | None = None
    reduce_axes: tuple[tuple[Var, Extent], ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """Buffers `names` whose first dimension is time: `first` defines their elements at 0, `steps`
    (tensors of one dimension less) those at ``time + 1``, from what they were before."""

    names: tuple[str, ...]
    shape: tuple[Extent, ...]
    time: Var
    first: tuple[Computed, ...]
    steps: tuple[Any, ...]              # Tensor, which stands above
