"""A C program that runs an exported network on stored inputs and compares with stored outputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, isnan

import numpy as np

from compiler.te import is_float

from .interface import CArray, CInterface
from .names import c_type

BOUND = 1e-4
"""Largest difference of float outputs, as a share of the largest element (or of 1)."""
_WIDTH = 100

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs, and the outputs that are right, by the network's names."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def check_program(of: CInterface, samples: Sequence[Sample], bound: float = BOUND) -> str:
    """The text of ``NAME_test.c``, C99. It prints what differs and returns 0 where nothing does:
    elements of integers must be the same, those of floats within `bound`.

    Where the constants are apart, its argument is their file (default ``NAME.bin``).
    """
    return "\n".join([
        f"/* Runs {of.name} on {len(samples)} stored inputs; see check below for what is equal. */",
        "#include <math.h>", "#include <stdio.h>", "#include <string.h>", "",
        f'#include "{of.name}.h"', "",
        *_memory(of), "",
        *(line for number, sample in enumerate(samples) for line in _stored(of, sample, number)),
        *_checks(of, bound), *_run(of), "", *_main(of, len(samples)), ""])


def _memory(of: CInterface) -> Iterator[str]:
    yield (f"static unsigned char arena_memory[{of.prefix}ARENA_BYTES + "
           f"{of.prefix}ARENA_ALIGNMENT];")
    if of.weights_bytes:
        yield (f"static unsigned char weights_memory[{of.prefix}WEIGHTS_BYTES + "
               f"{of.prefix}WEIGHTS_ALIGNMENT];")
    yield from (f"static {c_type(array.dtype)} {name}[{max(1, array.elements)}];"
                for name, array in zip(_made(of), of.outputs, strict=True))
    yield ""
    yield "static void *aligned(unsigned char *memory, uintptr_t alignment)"
    yield "{"
    yield "    return memory + (alignment - (uintptr_t)memory % alignment) % alignment;"
    yield "}"


def _made(of: CInterface) -> list[str]:
    return [f"made_{place}" for place in range(len(of.outputs))]


def _stored(of: CInterface, sample: Sample, number: int) -> Iterator[str]:
    for kind, arrays, values in (("input", of.inputs, sample.inputs),
                                 ("output", of.outputs, sample.outputs)):
        for place, array in enumerate(arrays):
            yield (f"static const {c_type(array.dtype)} {kind}_{number}_{place}"
                   f"[{max(1, array.elements)}] = {{")
            yield from _wrapped(_literals(np.asarray(values[array.name]), array.dtype) or ["0"])
            yield "};"
            yield ""


def _literals(array: Array, dtype: str) -> list[str]:
    if dtype in ("float16", "bfloat16"):
        return list(map(str, array.reshape(-1).view(np.uint16).tolist()))
    values = array.reshape(-1).tolist()
    if is_float(dtype):
        return [_float(value, "f" if dtype == "float32" else "") for value in values]
    if dtype == "bool":
        return [str(int(value)) for value in values]
    return [_integer(value, dtype) for value in values]


def _integer(value: int, dtype: str) -> str:
    if dtype == "uint64":
        return f"UINT64_C({value})"
    if dtype == "uint32":
        return f"{value}u"
    if value == np.iinfo(dtype).min and dtype in ("int32", "int64"):
        return f"(-INT64_C({-value - 1}) - 1)" if dtype == "int64" else f"(-{-value - 1} - 1)"
    return f"INT64_C({value})" if dtype == "int64" else str(value)


def _float(value: float, suffix: str) -> str:
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    digits, exponent = value.hex().split("p")
    return f"{digits.rstrip('0')}p{exponent}{suffix}"


def _wrapped(literals: Sequence[str]) -> Iterator[str]:
    line = "   "
    for literal in literals:
        if len(line) + len(literal) + 2 > _WIDTH:
            yield line
            line = "   "
        line += f" {literal},"
    yield line


_HALF = """\
static double number_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double size = exponent == 0 ? ldexp(mantissa, -24)
                : exponent < 31 ? ldexp(mantissa + 1024, exponent - 25)
                : mantissa ? (double)NAN : (double)INFINITY;
    return bits >> 15 ? -size : size;
}
"""
_BFLOAT = """\
static double number_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}
"""
_FLOATS = """\
/* NaN is equal to NaN; other numbers are equal within BOUND, a share of the largest one. */
static int check_{dtype}(const char *name, const {type} *made, const {type} *wanted, long count)
{{
    double largest = 1, most = 0;
    long place, wrong = 0;
    for (place = 0; place < count; place++) {{
        double size = fabs({number}(wanted[place]));
        if (size > largest && size <= 1e300)
            largest = size;
    }}
    for (place = 0; place < count; place++) {{
        double a = {number}(made[place]), b = {number}(wanted[place]), apart = fabs(a - b);
        int equal = a == b || (isnan(a) && isnan(b)) || apart <= BOUND * largest;
        wrong += !equal;
        if (apart > most)
            most = apart;
    }}
    printf("  %s: %ld of %ld elements differ, the most by %g of %g\\n", name, wrong, count, most,
           largest);
    return wrong != 0;
}}
"""
_BYTES = """\
/* Bytes must be the same. */
static int check_bytes(const char *name, const void *made, const void *wanted, long bytes)
{
    const unsigned char *a = (const unsigned char *)made, *b = (const unsigned char *)wanted;
    long place, wrong = 0;
    for (place = 0; place < bytes; place++)
        wrong += a[place] != b[place];
    printf("  %s: %ld of %ld bytes differ\\n", name, wrong, bytes);
    return wrong != 0;
}
"""
_NUMBERS = {"float16": "number_half", "bfloat16": "number_bfloat"}


def _checks(of: CInterface, bound: float) -> Iterator[str]:
    dtypes = list(dict.fromkeys(array.dtype for array in of.outputs))
    if "float16" in dtypes:
        yield _HALF
    if "bfloat16" in dtypes:
        yield _BFLOAT
    if any(map(is_float, dtypes)):
        yield f"#define BOUND {bound!r}"
        yield ""
    for dtype in filter(is_float, dtypes):
        yield _FLOATS.format(dtype=dtype, type=c_type(dtype),
                             number=_NUMBERS.get(dtype, "(double)"))
    if not all(map(is_float, dtypes)):
        yield _BYTES


def _run(of: CInterface) -> Iterator[str]:
    yield f"static int run(const struct {of.name} *self, int number,"
    yield f"               const {of.name}_inputs *inputs, const {of.name}_outputs *wanted)"
    yield "{"
    yield f"    {of.name}_outputs outputs;"
    yield (f"    void *arena = aligned(arena_memory, {of.prefix}ARENA_ALIGNMENT);")
    yield "    int32_t status;"
    yield "    int wrong = 0;"
    for name, member in zip(_made(of), of.output_members, strict=True):
        yield f"    outputs.{member} = {name};"
    yield f"    status = {of.name}_run(self, inputs, &outputs, arena);"
    yield '    printf("sample %d: status %d\\n", number, (int)status);'
    yield "    if (status != 0)"
    yield "        return 1;"
    for name, member, array in zip(_made(of), of.output_members, of.outputs, strict=True):
        yield f"    wrong |= {_check_call(array, name, member)};"
    yield "    return wrong;"
    yield "}"


def _check_call(array: CArray, name: str, member: str) -> str:
    if is_float(array.dtype):
        return f'check_{array.dtype}("{member}", {name}, wanted->{member}, {array.elements})'
    return f'check_bytes("{member}", {name}, wanted->{member}, {array.size_bytes})'


def _main(of: CInterface, samples: int) -> Iterator[str]:
    yield "int main(int count, char **arguments)" if of.weights_bytes else "int main(void)"
    yield "{"
    yield f"    struct {of.name} self;"
    yield f"    {of.name}_inputs inputs;"
    yield f"    {of.name}_outputs wanted;"
    yield "    const void *weights = NULL;"
    yield "    int32_t status;"
    yield "    int wrong = 0;"
    if of.weights_bytes:
        yield from _reading(of)
    yield f"    status = {of.name}_init(&self, weights);"
    yield "    if (status != 0) {"
    yield f'        printf("{of.name}_init: status %d\\n", (int)status);'
    yield "        return 1;"
    yield "    }"
    for number in range(samples):
        for place, member in enumerate(of.input_members):
            yield f"    inputs.{member} = input_{number}_{place};"
        if not of.inputs:
            yield "    inputs.none = NULL;"
        for place, (member, array) in enumerate(zip(of.output_members, of.outputs, strict=True)):
            yield f"    wanted.{member} = ({c_type(array.dtype)} *)output_{number}_{place};"
        yield f"    wrong += run(&self, {number}, &inputs, &wanted);"
    yield f'    printf("{of.name}: %d of {samples} samples are wrong\\n", wrong);'
    yield "    return wrong != 0;"
    yield "}"


def _reading(of: CInterface) -> Iterator[str]:
    yield f'    const char *path = count > 1 ? arguments[1] : "{of.name}.bin";'
    yield '    FILE *file = fopen(path, "rb");'
    yield f"    void *memory = aligned(weights_memory, {of.prefix}WEIGHTS_ALIGNMENT);"
    yield (f"    if (file == NULL || fread(memory, 1, {of.prefix}WEIGHTS_BYTES, file) != "
           f"{of.prefix}WEIGHTS_BYTES) {{")
    yield '        printf("%s: cannot be read\\n", path);'
    yield "        return 1;"
    yield "    }"
    yield "    fclose(file);"
    yield "    weights = memory;"
