"""``NAME_test.c``: runs an exported network on stored inputs and compares with stored outputs."""

from collections.abc import Mapping

import numpy as np

from compiler.te import is_float, numpy_dtype

from .interface import Interface, Port

__all__ = ["TOLERANCE", "program", "stored"]

TOLERANCE = 2e-5
"""Of floats, relative to the largest value of an output: what networks of floats promise."""


def stored(interface: Interface, inputs: Mapping[str, np.ndarray],
           outputs: Mapping[str, np.ndarray]) -> bytes:
    """``NAME_test.dat``: the elements of all inputs, then of all outputs, in order."""
    arrays = [*(inputs[port.name] for port in interface.inputs),
              *(outputs[port.name] for port in interface.outputs)]
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def program(interface: Interface) -> str:
    """The text of ``NAME_test.c``, C99: ``NAME_test [FOLDER]`` reads its files in FOLDER, by
    default the current one. It prints a line for each output; its status is 0 where all are right.
    """
    name, upper = interface.name, interface.name.upper()
    ports = (*interface.inputs, *interface.outputs)
    # Memory of the linker's: nothing is allocated, as on a machine without an operating system.
    arrays = [f"static {_aligned(8)} unsigned char array_{place}[{max(1, port.size_bytes)}];"
              for place, port in enumerate(ports)]
    wanted = [f"static {_aligned(8)} unsigned char wanted_{place}[{max(1, port.size_bytes)}];"
              for place, port in enumerate(interface.outputs)]
    apart = bool(interface.weights_bytes)
    return "\n".join([
        f"/* Runs {name} on stored inputs and compares with stored outputs:",
        f"   cc -std=c99 -O2 {name}_test.c {name}.o -lm -o {name}_test && ./{name}_test */",
        "", "#include <math.h>", "#include <stdio.h>", "#include <string.h>", "",
        f'#include "{name}.h"', "", *arrays, *wanted,
        f"static {_aligned(interface.alignment)} unsigned char "
        f"arena[{max(1, interface.arena_bytes)}];",
        *([f"static {_aligned(interface.alignment)} unsigned char "
           f"weights[{interface.weights_bytes}];"] if apart else []),
        "", _READ, *(_COMPARE[kind] for kind in sorted({_kind(p) for p in interface.outputs})),
        "int main(int count, char **words) {",
        "    const char *folder = count > 1 ? words[1] : \".\";",
        f"    struct {name} network;",
        f"    struct {name}_inputs inputs;",
        f"    struct {name}_outputs outputs;",
        "    int32_t status;", "    int wrong = 0;", "",
        *(["    memset(&inputs, 0, sizeof inputs);"] if not interface.inputs else []),
        *(f"    inputs.{port.identifier} = (const void *)array_{place};"
          for place, port in enumerate(interface.inputs)),
        *(f"    outputs.{port.identifier} = (void *)array_{place + len(interface.inputs)};"
          for place, port in enumerate(interface.outputs)),
        f'    if (begin(folder, "{name}_test.dat")) return 2;',
        *(f"    if (take(array_{place}, {port.size_bytes})) return 2;"
          for place, port in enumerate(interface.inputs)),
        *(f"    if (take(wanted_{place}, {port.size_bytes})) return 2;"
          for place, port in enumerate(interface.outputs)),
        *([f'    if (begin(folder, "{name}.bin") || take(weights, {interface.weights_bytes})) '
           f"return 2;"] if apart else []),
        f"    status = {name}_init(&network, {'weights' if apart else 'NULL'});",
        f"    if (status == {upper}_DONE) status = {name}_run(&network, &inputs, &outputs, arena);",
        f"    if (status != {upper}_DONE) {{",
        f'        printf("{name} cannot run: status %d\\n", (int)status);', "        return 2;",
        "    }",
        *(f'    wrong += compare_{_kind(port)}("{port.identifier}", '
          f"array_{place + len(interface.inputs)}, wanted_{place}, {port.elements});"
          for place, port in enumerate(interface.outputs)),
        "    return wrong ? 1 : 0;", "}", ""])


def _aligned(alignment: int) -> str:
    return f"__attribute__((aligned({alignment})))"


def _kind(port: Port) -> str:
    if is_float(port.dtype):
        return port.dtype
    return f"bytes{numpy_dtype(port.dtype).itemsize}"


_READ = """\
static FILE *file;

static int begin(const char *folder, const char *name) {
    char path[1024];
    if (file) fclose(file);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file) printf("%s cannot be read\\n", path);
    return !file;
}

static int take(void *array, size_t bytes) {
    if (fread(array, 1, bytes, file) == bytes) return 0;
    printf("the file is too short\\n");
    return 1;
}
"""

_BYTES = """\
static int compare_bytes{size}(const char *name, const void *found, const void *wanted,
                         long count) {{
    const unsigned char *a = found, *b = wanted;
    long n, wrong = 0;
    for (n = 0; n < count; n++) wrong += memcmp(a + {size} * n, b + {size} * n, {size}) != 0;
    printf("%s: %ld of %ld elements differ\\n", name, wrong, count);
    return wrong > 0;
}}
"""

_FLOATS = """\
static double {type}_at(const void *array, long n) {{
{at}
}}

static int compare_{type}(const char *name, const void *found, const void *wanted, long count) {{
    double largest = 0, worst = 0;
    long n, wrong = 0;
    for (n = 0; n < count; n++) {{
        double b = fabs({type}_at(wanted, n));
        if (b > largest && b <= 1.7e308) largest = b;
    }}
    for (n = 0; n < count; n++) {{
        double a = {type}_at(found, n), b = {type}_at(wanted, n), off = fabs(a - b);
        if (a == b || (a != a && b != b)) continue;
        if (off > worst) worst = off;
        if (!(off <= {tolerance} * largest)) wrong++;
    }}
    printf("%s: %ld of %ld elements are wrong, the largest error is %g of %g\\n", name, wrong,
           count, worst, largest);
    return wrong > 0;
}}
"""

_HALF = """\
    unsigned bits = ((const uint16_t *)array)[n], exponent = bits >> 10 & 31, rest = bits & 1023;
    double value = exponent == 31 ? (rest ? NAN : INFINITY)
                 : exponent ? ldexp(1024 + rest, (int)exponent - 25) : ldexp(rest, -24);
    return bits >> 15 ? -value : value;"""

_BFLOAT = """\
    uint32_t bits = (uint32_t)((const uint16_t *)array)[n] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;"""

_AT = {"float32": ("    return ((const float *)array)[n];", TOLERANCE),
       "float64": ("    return ((const double *)array)[n];", TOLERANCE),
       "float16": (_HALF, 2 ** -9), "bfloat16": (_BFLOAT, 2 ** -6)}

_COMPARE = {**{f"bytes{size}": _BYTES.format(size=size) for size in (1, 2, 4, 8)},
            **{dtype: _FLOATS.format(type=dtype, at=at, tolerance=tolerance)
               for dtype, (at, tolerance) in _AT.items()}}

