"""The rule for bodies of gemm that a systolic array computes."""

from collections.abc import Iterator

from accel.machine.config import ADDER_TREE, OUTPUT_STATIONARY, AccelConfig
from compiler.te import Binary, Cast, Expr, Read, Reduce, is_integer
from compiler.tensorize import Intrinsic

_WHY = "the elements of a systolic array have a multiplier and an adder, nothing else"


def misfits(config: AccelConfig, body: Intrinsic) -> Iterator[str]:
    """Says what keeps a body of gemm from being computed by the array of the geometry's `dataflow`:
    it must be the sum of ``a[row, i] * b[column, i]`` of integers over block_in."""
    if config.dataflow == ADDER_TREE:
        return
    field = f"dataflow must be {ADDER_TREE} for {body.name}, not {config.dataflow!r}: "
    if not is_integer(body.dst.dtype):
        yield (f"{field}the order in which {body.dst.dtype} is summed up is part of its meaning, "
               f"and an array has another")
    elif body.immediates:
        yield f"{field}immediate {body.immediates[0].name} would travel with each product, and "\
              f"{_WHY}"
    elif not _sums_products(config, body):
        yield f"{field}it does not sum products of a row of each operand over block_in, and {_WHY}"
    elif config.dataflow == OUTPUT_STATIONARY and body.update not in ("assign", "sum"):
        yield f"{field}its update is {body.update}, and sums stay in place"


def _sums_products(config: AccelConfig, body: Intrinsic) -> bool:
    value, shapes = body.value, ((config.batch, config.block_in),
                                 (config.block_out, config.block_in))
    if not isinstance(value, Reduce) or value.op != "sum" or len(value.axes) != 1 or \
            not isinstance(value.value, Binary) or value.value.op != "mul" or \
            tuple(operand.shape for operand in body.operands) != shapes:
        return False
    (lane, extent), (row, column) = value.axes[0], (axis.var for axis in body.axes)
    places = {operand.name: (index, lane) for operand, index in
              zip(body.operands, (row, column), strict=True)}
    factors = [_read(factor) for factor in (value.value.a, value.value.b)]
    return extent == config.block_in and {read.buffer.name: tuple(read.indices)
                                          for read in factors if read is not None} == places


def _read(factor: Expr) -> Read | None:
    """The element that a factor is, whatever the type it is widened to."""
    inner = factor.value if isinstance(factor, Cast) else factor
    return inner if isinstance(inner, Read) else None
