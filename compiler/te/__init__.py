"""Tensor expressions: what is computed."""

from .definition import Axis, Computed, Scan
from .dtypes import (HELD, INDEX, SMALL, bits, is_float, is_integer, is_record, is_signed,
                     numpy_dtype, record, record_fields, record_places)
from .expr import (ARITHMETIC, BITWISE, COMPARISONS, FUNCTIONS, REDUCERS, Binary, Buffer, Call,
                   Cast, Const, Expr, Extent, Extern, Field, Hashed, Read, Reduce, Select, Symbol,
                   Var, as_expr, buffers_read, children, free_variables, hashed_once, is_extent,
                   is_number, rewrite, substitute, walk, with_children)
from .lanes import LaneSum
from .reducer import Reducer, Reduction, neutral, reducer
from .tensor import (Tensor, abs, all_of, any_of, cast, clamp, compute, const, erf, exp,
                     max, maximum, min, minimum, placeholder, reduce_axis, rint, rshift_rne, scan,
                     select, sqrt, sum, symbol, tanh, tf32)
