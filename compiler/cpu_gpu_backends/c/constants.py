"""Arrays as initializers of C."""

from collections.abc import Iterable, Iterator

import numpy as np

from compiler.ir import shape_text
from compiler.te import SMALL, is_float

from .helpers import STORED

_WIDTH = 98


def array_lines(name: str, dtype: str, array: np.ndarray) -> Iterator[str]:
    """The lines that define a constant array, all dimensions in one."""
    flat = array.reshape(-1)
    yield f"static const {STORED[dtype]} {name}[{max(flat.size, 1)}] = {{  // " + (
        f"{dtype}{shape_text(array.shape)}")
    yield from _wrapped(_numbers(flat, dtype))
    yield "};"


def _wrapped(numbers: Iterable[str]) -> Iterator[str]:
    """Lines of numbers: much faster than `textwrap`, which looks at every character."""
    line: list[str] = []
    width = 0
    for number in numbers:
        if width + len(number) + 2 > _WIDTH:
            yield f"  {' '.join(line)}"
            line, width = [], 0
        line.append(f"{number},")
        width += len(number) + 2
    if line:
        yield f"  {' '.join(line)}"


def _numbers(flat: np.ndarray, dtype: str) -> Iterable[str]:
    """The elements; those of types that C lacks as their bits."""
    if dtype in SMALL:
        return map(str, flat.view(np.uint8).tolist())
    if dtype in ("float16", "bfloat16"):
        return (f"0x{bits:04x}" for bits in flat.view(np.uint16).tolist())
    if is_float(dtype):
        suffix = "f" if dtype == "float32" else ""
        return (_float(value, text, suffix) for value, text in zip(flat.tolist(), map(str, flat)))
    if dtype == "bool":
        return (str(value).lower() for value in flat.tolist())
    if dtype == "int64":
        return (f"{value}LL" if value > -2**63 else "-9223372036854775807LL - 1"
                for value in flat.tolist())
    if dtype == "int32":
        return (str(value) if value > -2**31 else "-2147483647 - 1" for value in flat.tolist())
    return (f"{value}{ {'uint32': 'u', 'uint64': 'ull'}.get(dtype, '')}"
            for value in flat.tolist())


def _float(value: float, text: str, suffix: str) -> str:
    if value != value:
        return "NAN"
    if value in (np.inf, -np.inf):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{text}{suffix}"
