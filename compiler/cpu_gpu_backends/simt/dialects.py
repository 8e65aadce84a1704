"""CUDA, OpenCL C and Metal: where they differ, and the functions that printed code may need.

Everything that a kernel's text says in one language and not in the others is a field of `Dialect`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from compiler.cpu_gpu_backends.polynomials import ERF, ERFC

from .hopper import COLUMNS_OF_GROUPS, GROUP_PRODUCTS, UNITS_TEXT, group_product


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The spelling of expressions in a language.

    Parameters
    ----------
    types : C types of values by element type.
    function : words that a function of the text begins with.
    math : name of a function of floats, by its name in `te.FUNCTIONS` and the element type.
    truth : false and true.
    begin : what a text begins with.
    between : types that arrays of programs may not have, and values in between may: a helper is
        their type, whose functions compute with it (`FLOAT_PAIR`).
    """

    name: str
    types: Mapping[str, str]
    function: str
    math: Callable[[str, str], str]
    infinity: str
    nan: str
    truth: tuple[str, str]
    long_suffix: str
    begin: str = ""
    between: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Language):
    """The spelling of kernels in a language of GPUs.

    Parameters
    ----------
    kernel : head of a kernel; takes the name, the parameters, how many threads and blocks there
        are at least, and the threads of a block.
    pointer : a parameter; takes the C type, the name, whether it is only read, and its number.
    number : a parameter that is an integer; takes the name and its number.
    place : variables of a thread's place, by their name in `kernels.AXES`.
    device, shared, aligned : words of declarations.
    barrier : a statement; takes whether what threads write to the device's memory is meant too.
    vector : type of so many elements; takes the element type.
    lane : an element of such a vector; takes its name, its type and the element's number.
    load, store : a vector, from or to the address of its first element in a space.
    zero : a vector of zeros; takes its type.
    filled : a vector of one value; takes its type, the value and how many there are.
    """

    kernel: Callable[[str, str, str, tuple[int, int, int]], str]
    pointer: Callable[[str, str, bool, int], str]
    number: Callable[[str, int], str]
    place: Mapping[str, str]
    device: str
    shared: str
    aligned: str
    barrier: Callable[[bool], str]
    vector: Callable[[str, int], str]
    lane: Callable[[str, str, int], str]
    load: Callable[[str, str, str], str]
    store: Callable[[str, str, str, str], str]
    zero: Callable[[str], str]
    filled: Callable[[str, str, int], str]


_INTEGERS = {"int16": "short", "uint16": "unsigned short", "int32": "int", "uint32": "unsigned"}


_CUDA_TYPES = _INTEGERS | {
    "int8": "signed char", "uint8": "unsigned char", "int64": "long long",
    "uint64": "unsigned long long", "float16": "half", "bfloat16": "bfloat16", "float32": "float",
    "float64": "double", "bool": "bool"}
_CUDA_VECTORS = {"float32": "float", "int32": "int", "uint32": "uint", "int8": "char",
                 "uint8": "uchar", "int16": "short", "uint16": "ushort", "float64": "double",
                 "int64": "longlong"}


def _cuda_vector(dtype: str, lanes: int) -> str:
    """A type of CUDA's own where it has one, else `Lanes` of the helpers."""
    if dtype in _CUDA_VECTORS and lanes <= 4:
        return f"{_CUDA_VECTORS[dtype]}{lanes}"
    return f"Lanes<{_CUDA_TYPES[dtype]}, {lanes}>"


def _cuda_lane(name: str, kind: str, lane: int) -> str:
    return f"{name}.e[{lane}]" if kind.startswith("Lanes") else f"{name}.{'xyzw'[lane]}"


def _in_braces(kind: str, value: str, count: int) -> str:
    return f"{kind}{{{', '.join([value] * count)}}}" if count > 1 else f"({kind})({value})"


CUDA = Dialect(
    name="cuda",
    types=_CUDA_TYPES,
    kernel=lambda name, parameters, bounds, _: (
        f'extern "C" __global__ void __launch_bounds__({bounds})\n{name}({parameters}) {{'),
    pointer=lambda ctype, name, constant, _: (
        f"{'const ' if constant else ''}{ctype}* __restrict__ {name}"),
    number=lambda name, _: f"int {name}",
    place={f"{name[0]}{axis}": f"{name}Idx.{axis}" for name in ("block", "thread")
           for axis in "xyz"},
    device="",
    shared="__shared__ ",
    aligned="__align__(16) ",
    barrier=lambda _: "__syncthreads();",
    function="__device__ __forceinline__ ",
    math=lambda name, dtype: f"{'fabs' if name == 'abs' else name}{'f' * (dtype == 'float32')}",
    vector=_cuda_vector,
    lane=_cuda_lane,
    load=lambda kind, address, space: f"*reinterpret_cast<const {kind}*>({address})",
    store=lambda kind, address, space, value: (
        f"*reinterpret_cast<{kind}*>({address}) = {value};"),
    zero=lambda kind: f"{kind}{{}}",
    filled=_in_braces,
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fc00000)",
    truth=("false", "true"),
    long_suffix="LL",
)

_OPENCL_TYPES = _INTEGERS | {"int8": "char", "uint8": "uchar", "uint16": "ushort", "uint32": "uint",
                             "int64": "long", "uint64": "ulong", "float32": "float",
                             "float64": "double", "bool": "uchar"}

OPENCL = Dialect(
    name="opencl",
    types=_OPENCL_TYPES,
    kernel=lambda name, parameters, _, block: (
        f"__kernel __attribute__((reqd_work_group_size{block})) void\n"
        f"{name}({parameters}) {{"),
    pointer=lambda ctype, name, constant, _: (
        f"__global {'const ' if constant else ''}{ctype}* restrict {name}"),
    number=lambda name, _: f"int {name}",
    place={f"{letter}{axis}": f"get_{name}_id({number})"
           for letter, name in (("b", "group"), ("t", "local"))
           for number, axis in enumerate("xyz")},
    device="__global ",
    shared="__local ",
    aligned="__attribute__((aligned(16))) ",
    barrier=lambda both: ("barrier(CLK_LOCAL_MEM_FENCE"
                          f"{' | CLK_GLOBAL_MEM_FENCE' if both else ''});"),
    function="inline __attribute__((always_inline)) ",
    math=lambda name, _: "fabs" if name == "abs" else name,
    vector=lambda dtype, lanes: f"{_OPENCL_TYPES[dtype]}{lanes}",
    lane=lambda name, _, lane: f"{name}.s{lane:x}",
    load=lambda kind, address, space: f"*({space}const {kind}*)({address})",
    store=lambda kind, address, space, value: f"*({space}{kind}*)({address}) = {value};",
    zero=lambda kind: f"({kind})(0)",
    filled=lambda kind, value, _: f"({kind})({value})",
    infinity="INFINITY",
    nan="NAN",
    truth=("0", "1"),
    long_suffix="L",
)

_METAL_TYPES = _INTEGERS | {"int8": "char", "uint8": "uchar", "int64": "long", "uint64": "ulong",
                            "float16": "half", "bfloat16": "bfloat", "float32": "float",
                            "float64": "float_pair", "bool": "bool"}
_METAL_VECTORS = {"int16": "short", "uint16": "ushort", "uint32": "uint"}


def _metal_vector(dtype: str, lanes: int) -> str:
    if lanes <= 4 and dtype not in METAL.between:
        return f"{_METAL_VECTORS.get(dtype, _METAL_TYPES[dtype])}{lanes}"
    return f"Lanes<{_METAL_TYPES[dtype]}, {lanes}>"


def _metal_kernel(name: str, parameters: str, _: str, block: tuple[int, int, int]) -> str:
    """Its place is a parameter too."""
    apart = ",\n" + " " * (len(name) + 1) if "\n" in parameters else ", "
    place = apart.join((parameters, "uint3 block_place [[threadgroup_position_in_grid]]",
                        "uint3 thread_place [[thread_position_in_threadgroup]]"))
    return (f"[[max_total_threads_per_threadgroup({prod(block)})]]\n"
            f"kernel void\n{name}({place}) {{")


METAL = Dialect(
    name="metal",
    types=_METAL_TYPES,
    kernel=_metal_kernel,
    pointer=lambda ctype, name, constant, number: (
        f"device {'const ' if constant else ''}{ctype}* {name} [[buffer({number})]]"),
    number=lambda name, number: f"constant int& {name} [[buffer({number})]]",
    place={f"{name[0]}{axis}": f"{word}.{axis}"
           for name, word in (("block", "block_place"), ("thread", "thread_place"))
           for axis in "xyz"},
    device="device ",
    shared="threadgroup ",
    aligned="__attribute__((aligned(16))) ",
    barrier=lambda both: ("threadgroup_barrier(mem_flags::mem_threadgroup"
                          f"{' | mem_flags::mem_device' if both else ''});"),
    function="inline ",
    math=lambda name, _: {"abs": "fabs", "erf": "error_function"}.get(name, name),
    vector=_metal_vector,
    lane=_cuda_lane,
    load=lambda kind, address, space: f"*({space or 'thread '}const {kind}*)({address})",
    store=lambda kind, address, space, value: (
        f"*({space or 'thread '}{kind}*)({address}) = {value};"),
    zero=lambda kind: f"{kind}{{}}",
    filled=_in_braces,
    infinity="INFINITY",
    nan="NAN",
    truth=("false", "true"),
    long_suffix="L",
    begin="// Compile without fast math: NaN and the order of sums are meant.\n"
          "#include <metal_stdlib>\nusing namespace metal;\n",
    between=("float64",),
)

DIALECT = {dialect.name: dialect for dialect in (CUDA, OPENCL, METAL)}


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that the text defines when it calls it; `text` begins with its result's type.

    `%long%` stands for the dialect's integer of 64 bits, `%ulong%` for the unsigned one, `%fn%`
    for what functions begin with. One that is `emulated` is CUDA, and for a GPU alone:
    ``emulation.h`` defines it for the host; `others` are its texts in other dialects that have
    their own.
    """

    name: str
    text: str
    needs: tuple[str, ...] = ()
    emulated: bool = False
    others: Mapping[str, str] = field(default_factory=dict)

    def spelled(self, dialect: Language) -> str:
        text = f"#ifdef __CUDACC__\n{self.text}#endif\n" if self.emulated else self.text
        text = self.others.get(dialect.name, text)
        for mark, word in (("%fn%", dialect.function), ("%long%", dialect.types["int64"]),
                           ("%ulong%", dialect.types["uint64"])):
            text = text.replace(mark, word)
        return text


def _wrapping(name: str, symbol: str) -> tuple[Helper, Helper]:
    def text(suffix: str, signed: str, unsigned: str) -> str:
        return (f"%fn%{signed} wrapping_{name}{suffix}({signed} a, {signed} b) {{\n"
                f"  return ({signed})(({unsigned})a {symbol} ({unsigned})b);\n}}\n")

    return (Helper(f"wrapping_{name}", text("", "int", "unsigned")),
            Helper(f"wrapping_{name}64", text("64", "%long%", "%ulong%")))


def _rounding_shift(name: str, kind: str) -> Helper:
    return Helper(name, f"""\
%fn%{kind} {name}({kind} a, %ulong% n) {{  // half to even
  const {kind} quotient = a >> n;
  const %ulong% rest = (%ulong%)a - ((%ulong%)quotient << n);
  const %ulong% twice = 2 * rest + (%ulong%)(quotient & 1);
  return quotient + (twice > ((%ulong%)1 << n));
}}
""")


def _extremum(name: str, sign: str, kind: str, suffix: str) -> Helper:
    return Helper(f"nan_{name}{suffix}",
                  f"%fn%{kind} nan_{name}{suffix}({kind} a, {kind} b) {{  // NaN wins\n"
                  f"  return a {sign} b || a != a ? a : b;\n}}\n")


def _division(kind: str, suffix: str) -> tuple[Helper, Helper]:
    """Python's ``%`` and ``//`` of floats, as NumPy computes them."""
    mod, zero = f"float_mod{suffix}", f"({kind})0"
    return (Helper(mod, f"""\
%fn%{kind} {mod}({kind} a, {kind} b) {{  // has the sign of b
  const {kind} rest = fmod(a, b);
  if (rest == 0) return copysign({zero}, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}}
"""), Helper(f"float_floordiv{suffix}", f"""\
%fn%{kind} float_floordiv{suffix}({kind} a, {kind} b) {{
  const {kind} rest = fmod(a, b);
  {kind} quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (b == 0) return a / b;
  if (quotient == 0) return copysign({zero}, a / b);
  const {kind} whole = floor(quotient);
  return quotient - whole > ({kind})0.5 ? whole + 1 : whole;
}}
"""))


_ASYNC_COPY = """\
template <unsigned bytes, long long offset>
%fn%void async_copy(void* shared, const void* global) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16;"
                 :: "r"(to), "l"(global), "n"(offset));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1 + %2], %3;"
                 :: "r"(to), "l"(global), "n"(offset), "n"(bytes));
}
template <unsigned bytes, long long offset>  // of zeros where it is not valid
%fn%void async_copy(void* shared, const void* global, bool valid) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared), size = valid ? bytes : 0;
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16, %3;"
                 :: "r"(to), "l"(global), "n"(offset), "r"(size));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1 + %2], %3, %4;"
                 :: "r"(to), "l"(global), "n"(offset), "n"(bytes), "r"(size));
}
%fn%void async_commit() { asm volatile("cp.async.commit_group;"); }
template <unsigned pending>
%fn%void async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
"""

_HALF = """\
struct half {  // every operator computes in float and rounds to nearest even
  unsigned short bits;
  half() = default;
  %fn%half(float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  %fn%operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
"""

_BFLOAT16 = """\
struct bfloat16 {  // every operator computes in float and rounds to nearest even
  unsigned short bits;
  bfloat16() = default;
  %fn%bfloat16(float value) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  %fn%operator float() const { return __int_as_float((int)bits << 16); }
};
"""

_FLOAT_PAIR = """\
struct float_pair { float hi, lo; };  // float64: their sum, of which hi is the nearest float
%fn%bool is_finite(float a) { return a - a == 0; }
%fn%float_pair to_pair(float a) { return float_pair{a, 0}; }
%fn%float_pair whole_to_pair(long a) {
  const float hi = (float)a;
  return float_pair{hi, hi < 9e18f ? (float)(a - (long)hi) : 0};
}
%fn%float from_pair(float_pair a) { return a.hi; }
%fn%long pair_to_whole(float_pair a) {  // towards zero
  if (a.hi != trunc(a.hi)) return (long)a.hi;
  return (long)a.hi + (long)(a.hi > 0 ? floor(a.lo) : a.hi < 0 ? ceil(a.lo) : trunc(a.lo));
}
%fn%float_pair joined(float a, float b) {  // where a is the greater one, or not finite
  const float sum = a + b;
  return float_pair{sum, is_finite(sum) ? b - (sum - a) : 0};
}
%fn%float_pair added(float a, float b) {
  const float sum = a + b, other = sum - a;
  return float_pair{sum, is_finite(sum) ? (a - (sum - other)) + (b - other) : 0};
}
%fn%float_pair operator+(float_pair a, float_pair b) {
  const float_pair high = added(a.hi, b.hi), low = added(a.lo, b.lo);
  const float_pair sum = joined(high.hi, high.lo + low.hi);
  return joined(sum.hi, sum.lo + low.lo);
}
%fn%float_pair operator-(float_pair a, float_pair b) { return a + float_pair{-b.hi, -b.lo}; }
%fn%float_pair operator*(float_pair a, float_pair b) {
  const float high = a.hi * b.hi;
  return joined(high, is_finite(high) ? fma(a.hi, b.hi, -high) + (a.hi * b.lo + a.lo * b.hi) : 0);
}
%fn%float_pair operator/(float_pair a, float_pair b) {
  const float first = a.hi / b.hi;
  if (!is_finite(first) || !is_finite(b.hi)) return float_pair{first, 0};
  const float_pair rest = a - b * float_pair{first, 0};
  const float second = rest.hi / b.hi;
  const float_pair last = rest - b * float_pair{second, 0};
  return joined(first, second) + float_pair{last.hi / b.hi, 0};
}
%fn%bool operator==(float_pair a, float_pair b) { return a.hi == b.hi && a.lo == b.lo; }
%fn%bool operator!=(float_pair a, float_pair b) { return !(a == b); }
%fn%bool operator<(float_pair a, float_pair b) {
  return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}
%fn%bool operator>(float_pair a, float_pair b) { return b < a; }
%fn%bool operator<=(float_pair a, float_pair b) { return a < b || a == b; }
%fn%bool operator>=(float_pair a, float_pair b) { return b <= a; }
"""

PAIR_OPERATORS = frozenset({"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"})
"""What is computed of types in between."""

_TO_TF32 = """\
%fn%float to_tf32(float value) {
  int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __int_as_float(bits);
}
"""


def _to_tf32(as_int: str, as_float: str) -> str:
    return f"""\
%fn%float to_tf32(float value) {{
  const int bits = {as_int}(value);
  return (bits & 0x7f800000) == 0x7f800000 ? value : {as_float}((bits + 0x1000) & ~0x1fff);
}}
"""


def _mma(name: str, operands: str, letter: str, kind: str) -> Helper:
    """The instruction, which adds in place; ``emulation.h`` has the same function."""
    sums = ", ".join(f"%{i}" for i in range(4))
    return Helper(name, f"""\
%fn%void {name}({kind}* d, const unsigned* a, const unsigned* b) {{
  asm("mma.sync.aligned.{operands} "
      "{{{sums}}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{{sums}}};"
      : "+{letter}"(d[0]), "+{letter}"(d[1]), "+{letter}"(d[2]), "+{letter}"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
""", emulated=True)


_LDMATRIX = """\
template <bool transposed>
%fn%void ldmatrix_x4(unsigned* d, const void* row) {
  const unsigned from = (unsigned)__cvta_generic_to_shared(row);
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from));
}
"""

_LOAD_FRAGMENT = """\
// Four 8 x 8 tiles of words' halves, from a row and a chunk of 16 bytes on. Eight lanes point to
// the rows of each: tiles 0 and 1 lie below each other, or where `across` beside each other. Chunks
// of `chunks` change places every `rows` rows; rows are `pitch` bytes apart.
template <bool transposed, bool across, int pitch, int rows, int chunks>
%fn%void load_fragment(unsigned* d, const void* first, int row, int chunk) {
  const int lane = threadIdx.x, half = across ? lane / 16 : lane / 8 % 2;
  row += lane % 8 + half * 8;
  chunk += across ? lane / 8 % 2 : lane / 16;
  const int turned = chunk ^ row / rows % chunks;
  ldmatrix_x4<transposed>(d, reinterpret_cast<const char*>(first) + row * pitch + turned * 16);
}
"""

_TURN_BYTES = """\
// A square of 4 x 4 bytes, rows to columns, to a row and a column of shared memory.
template <int pitch, int rows, int chunks>
%fn%void turn_bytes(signed char* first, int row, int column, const signed char* from) {
  const unsigned* w = reinterpret_cast<const unsigned*>(from);
  const unsigned even[2] = {__byte_perm(w[0], w[1], 0x5140), __byte_perm(w[2], w[3], 0x5140)};
  const unsigned odd[2] = {__byte_perm(w[0], w[1], 0x7362), __byte_perm(w[2], w[3], 0x7362)};
  for (int i = 0; i < 4; ++i) {
    const unsigned* two = i < 2 ? even : odd;
    const int turned = column / 16 ^ (row + i) / rows % chunks;
    *reinterpret_cast<unsigned*>(first + (row + i) * pitch + turned * 16 + column % 16) =
        __byte_perm(two[0], two[1], i % 2 ? 0x7632 : 0x5410);
  }
}
"""

_ROUND_FRAGMENT = """\
%fn%void round_fragment(unsigned* d) {
  for (int i = 0; i < 4; ++i) d[i] = __float_as_uint(to_tf32(__int_as_float(d[i])));
}
"""

_MMA_FILL = """\
template <class Sum>
%fn%void mma_fill(Sum* d) {
  for (int i = 0; i < 4; ++i) d[i] = 0;
}
"""


def _lanes(aligned: str) -> str:
    return f"""\
template <class T, int n>
struct {aligned}(sizeof(T) * n) Lanes {{ T e[n]; }};  // loaded and stored at once
"""


def _polynomial(x: str, coefficients: Sequence[float]) -> str:
    *rest, text = (f"{coefficient!r}f" for coefficient in coefficients)
    for coefficient in reversed(rest):
        text = f"fma({text}, {x},\n      {coefficient})"
    return text


_ERROR_FUNCTION = f"""\
%fn%float error_function(float x) {{  // Metal has none
  const float size = fabs(x), square = x * x, far = min(size, 3.95f);
  if (size < 0.9f)
    return fma(x, {_polynomial("square", ERF)}, x);
  return copysign(1 - exp(-far * {_polynomial("far", ERFC)}), x);
}}
"""

HELPERS = {helper.name: helper for helper in (
    Helper("half", _HALF, emulated=True, others={"metal": ""}),
    Helper("bfloat16", _BFLOAT16, emulated=True),
    Helper("float_pair", _FLOAT_PAIR),
    Helper("Lanes", _lanes("__align__"), others={"metal": _lanes("alignas")}),
    Helper("error_function", _ERROR_FUNCTION),
    Helper("to_tf32", _TO_TF32, emulated=True, others={
        "opencl": _to_tf32("as_int", "as_float"),
        "metal": _to_tf32("as_type<int>", "as_type<float>")}),
    Helper("async_copy", _ASYNC_COPY, emulated=True),
    _mma("mma_m16n8k16_f16", "m16n8k16.row.col.f32.f16.f16.f32", "f", "float"),
    _mma("mma_m16n8k16_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", "f", "float"),
    _mma("mma_m16n8k8_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "f", "float"),
    _mma("mma_m16n8k32_s8", "m16n8k32.row.col.s32.s8.s8.s32", "r", "int"),
    Helper("ldmatrix_x4", _LDMATRIX, emulated=True),
    Helper("load_fragment", _LOAD_FRAGMENT, ("ldmatrix_x4",)),
    Helper("turn_bytes", _TURN_BYTES),
    Helper("round_fragment", _ROUND_FRAGMENT, ("to_tf32",)),
    Helper("mma_fill", _MMA_FILL),
    Helper("units", UNITS_TEXT, emulated=True),
    *(Helper(*group_product(kind, columns), ("units",), emulated=True)
      for kind in GROUP_PRODUCTS for columns in COLUMNS_OF_GROUPS),
    *_wrapping("add", "+"), *_wrapping("sub", "-"), *_wrapping("mul", "*"),
    _extremum("max", ">", "float", ""), _extremum("min", "<", "float", ""),
    _extremum("max", ">", "double", "64"), _extremum("min", "<", "double", "64"),
    *_division("float", ""), *_division("double", "64"),
    Helper("whole_div", "%fn%%long% whole_div(%long% a, %long% b) {  // never traps\n"
                        "  return b == -1 ? (%long%)(0 - (%ulong%)a) : a / (b ? b : 1);\n}\n"),
    Helper("floor_div", "%fn%%long% floor_div(%long% a, %long% b) {\n"
                        "  const %long% whole = whole_div(a, b);\n"
                        "  return whole - ((a ^ b) < 0 && whole * b != a && b);\n}\n",
           ("whole_div",)),
    Helper("unsigned_div", "%fn%%ulong% unsigned_div(%ulong% a, %ulong% b) {\n"
                           "  return a / (b ? b : 1);\n}\n"),
    Helper("unsigned_mod", "%fn%%ulong% unsigned_mod(%ulong% a, %ulong% b) {\n"
                           "  return a % (b ? b : 1);\n}\n"),
    Helper("floor_mod", "%fn%%long% floor_mod(%long% a, %long% b) {\n"
                        "  return (%long%)((%ulong%)a - (%ulong%)floor_div(a, b) * (%ulong%)b);\n"
                        "}\n", ("floor_div",)),
    Helper("shift_left", "%fn%%long% shift_left(%long% a, %ulong% n) {\n"
                         "  return n < 64 ? (%long%)((%ulong%)a << n) : 0;\n}\n"),
    Helper("shift_right", "%fn%%long% shift_right(%long% a, %ulong% n) {\n"
                          "  return a >> (n < 64 ? n : 63);\n}\n"),
    Helper("unsigned_shift_right", "%fn%%ulong% unsigned_shift_right(%ulong% a, %ulong% n) {\n"
                                   "  return n < 64 ? a >> n : 0;\n}\n"),
    _rounding_shift("rshift_rne", "%long%"), _rounding_shift("unsigned_rshift_rne", "%ulong%"),
)}
