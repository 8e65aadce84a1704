"""Products of tiles in vector registers.

A row of the destination lies in as many registers as it fills, all rows at once; each step loads a
row of b and spreads one element of a column of a over a register::

    for k:      b0 b1 = b[k, :]
      for i:      dst[i, 0:16]  += a[i, k] * b0
                  dst[i, 16:32] += a[i, k] * b1
"""

from collections.abc import Callable

from compiler import te
from compiler.cpu_gpu_backends.llvm.emitting.llvm_calls import LlvmCall
from compiler.cpu_gpu_backends.llvm.emitting.writer import LlvmType, Writer, type_name
from compiler.cpu_gpu_backends.llvm.instruction_sets import (INSTRUCTION_SETS, NEON,
                                                              InstructionSet)
from compiler.te import Axis, Var, bits
from compiler.tensorize import Intrinsic, Operand

_FP32 = {one.lanes: one.fused for one in INSTRUCTION_SETS if one.fused}
_DOT = {(one.a, vectors.lanes): one for vectors in INSTRUCTION_SETS for one in vectors.dots}
_COLUMNS = 16


def operand(name: str, shape: tuple[int, ...], dtype: str) -> Operand:
    """A window of memory."""
    return Operand(name, shape, dtype, (("global", dtype), ("local", dtype)), window=True)


def fp32(rows: int, columns: int, depth: int, lanes: int = 16) -> Intrinsic:
    """``dst: float32[rows, columns] += a[rows, depth] * b[depth, columns]``.

    `lanes` is 16 (AVX-512) or 8 (AVX2 with FMA) and divides `columns`. Registers suffice for
    about 28 and 12 vectors of the destination.
    """
    _check("lanes", lanes, _FP32)
    _check_columns(columns, lanes)
    a, b = te.placeholder((rows, depth), "float32", "a"), te.placeholder(
        (depth, columns), "float32", "b")
    i, j, k = Axis(Var("i"), rows), Axis(Var("j"), columns), te.reduce_axis(depth, "k")

    def multiply_add(w: Writer, kind: LlvmType, flag: str, total: str, x: str, y: str) -> str:
        return w.op(f"fadd{flag} {kind} {total}, {w.op(f'fmul{flag} {kind} {x}, {y}')}")

    return Intrinsic(f"fp32_{rows}x{columns}x{depth}_{lanes}", "vectors",
                     operand("dst", (rows, columns), "float32"),
                     tuple(operand(t.name, t.shape, "float32") for t in (a, b)), (i, j),
                     te.sum(a[i, k] * b[k, j], k), "sum", needs=_FP32[lanes],
                     lower=_rule(rows, columns, depth, LlvmType("float32", lanes), 1, multiply_add))


def dot(rows: int, columns: int, depth: int, dtype: str = "uint8", lanes: int = 16) -> Intrinsic:
    """``dst: int32[rows, columns] += a[rows, depth] * b[depth // 4, columns, 4]``, bytes.

    b is int8. a is uint8 with 16 lanes (AVX-512 VNNI) or 8 (AVX-VNNI), either with 4 (NEON). Where
    NEON multiplies bytes of one sign alone (without ``i8mm``), a uint8 is taken as an int8 and 128,
    of which the products with b are one sum for all rows.
    """
    _check("dtype and lanes", (dtype, lanes), _DOT)
    _check_columns(columns, lanes)
    made = _DOT[dtype, lanes]

    def multiply_add(w: Writer, kind: LlvmType, flag: str, total: str, x: str, y: str) -> str:
        if not made.by_bytes:
            return w.call(made.instruction, kind, *((kind, value) for value in (total, x, y)))
        bytes_ = f"<{4 * lanes} x i8>"
        x, y = (w.op(f"bitcast {kind} {operand} to {bytes_}") for operand in (x, y))
        if not made.unless or made.unless in w.module.features:
            return w.call(made.instruction, kind, (kind, total), (bytes_, x), (bytes_, y))
        x = w.op(f"xor {bytes_} {x}, splat (i8 -128)")
        less = w.call(made.signed, kind, (kind, kind.const(0)), (bytes_, "splat (i8 -128)"),
                      (bytes_, y))
        total = w.op(f"sub {kind} {total}, {less}")
        return w.call(made.signed, kind, (kind, total), (bytes_, x), (bytes_, y))

    return Intrinsic(f"dot_{dtype}_{rows}x{columns}x{depth}_{lanes}", "vectors",
                     operand("dst", (rows, columns), "int32"),
                     *grouped_product(rows, columns, depth, dtype, "int8", "int32"), "sum",
                     needs=made.needs,
                     lower=_rule(rows, columns, depth // 4, LlvmType("int32", lanes), 4,
                                 multiply_add))


def dot_of_words(rows: int, columns: int, depth: int, vectors: InstructionSet) -> Intrinsic:
    """As `dot` with uint8, for processors without it: bytes are widened to words, of which an
    instruction adds two products, those of even and of odd steps apart.
    """
    lanes, made = vectors.lanes, vectors.words
    if made is None:
        raise ValueError(f"Vectors must be some that add products of words, not {vectors.name}")
    _check_columns(columns, lanes)

    def multiply_add(w: Writer, kind: LlvmType, flag: str, total: str, x: str, y: str) -> str:
        words = LlvmType("int16", 2 * lanes)
        x, y = (w.op(f"bitcast {kind} {operand} to {words}") for operand in (x, y))
        eight = words.const(8)
        even = (w.op(f"and {words} {x}, {words.const(255)}"),
                w.op(f"ashr {words} {w.op(f'shl {words} {y}, {eight}')}, {eight}"))
        odd = w.op(f"lshr {words} {x}, {eight}"), w.op(f"ashr {words} {y}, {eight}")
        for left, right in (even, odd):
            products = w.call(made.instruction, kind, (words, left), (words, right))
            total = w.op(f"add {kind} {total}, {products}")
        return total

    return Intrinsic(f"dot_of_words_{rows}x{columns}x{depth}_{lanes}{vectors.suffix}", "vectors",
                     operand("dst", (rows, columns), "int32"),
                     *grouped_product(rows, columns, depth, "uint8", "int8", "int32"), "sum",
                     needs=(made.needs,),
                     lower=_rule(rows, columns, depth // 4, LlvmType("int32", lanes), 4,
                                 multiply_add))


def dot_of_pairs(rows: int, columns: int, depth: int, vectors: InstructionSet) -> Intrinsic:
    """``dst: int32[rows, columns] += a[rows, depth] * b[depth // 2, columns, 2]``, words of 16
    bits, of which an instruction adds two products; or (NEON) one to each lane, and the two words
    of a lane are taken apart before.
    """
    lanes, made = vectors.lanes, vectors.words
    _check_columns(columns, lanes)
    words = LlvmType("int16", 2 * lanes)

    def multiply_add(w: Writer, kind: LlvmType, flag: str, total: str, x: str, y: str) -> str:
        if made is None:
            return _one_by_one(w, kind, total, x, y)
        x, y = (w.op(f"bitcast {kind} {operand} to {words}") for operand in (x, y))
        products = w.call(made.instruction, kind, (words, x), (words, y))
        return w.op(f"add {kind} {total}, {products}")

    return Intrinsic(f"dot_of_pairs_{rows}x{columns}x{depth}_{lanes}{vectors.suffix}", "vectors",
                     operand("dst", (rows, columns), "int32"),
                     *grouped_product(rows, columns, depth, "int16", "int16", "int32"), "sum",
                     needs=(made.needs,) if made else vectors.needs,
                     lower=_rule(rows, columns, depth // 2, LlvmType("int32", lanes), 2,
                                 multiply_add))


def _one_by_one(w: Writer, kind: LlvmType, total: str, x: str, y: str) -> str:
    """The sum with the products of even words, then of odd ones. All lanes of x are equal."""
    words, lanes = kind.of("int16"), kind.lanes
    pair = w.op(f"shufflevector {kind} {x}, {kind} poison, <2 x i32> <i32 0, i32 1>")
    pair = w.op(f"bitcast <2 x i32> {pair} to <4 x i16>")
    y = w.op(f"bitcast {kind} {y} to <{2 * lanes} x i16>")
    for first in (0, 1):
        places = ", ".join(f"i32 {2 * lane + first}" for lane in range(lanes))
        left = w.op(f"shufflevector <4 x i16> {pair}, <4 x i16> poison, <{lanes} x i32> "
                    f"splat (i32 {first})")
        right = w.op(f"shufflevector <{2 * lanes} x i16> {y}, <{2 * lanes} x i16> poison, "
                     f"<{lanes} x i32> <{places}>")
        left, right = (w.op(f"sext {words} {half} to {kind}") for half in (left, right))
        total = w.op(f"add {kind} {total}, {w.op(f'mul {kind} {left}, {right}')}")
    return total


def dot_by_steps(rows: int, columns: int, depth: int) -> Intrinsic:
    """As `dot` with uint8, for NEON without it: of 16 columns at a time, each of four steps is a
    register of bytes, widened to words, and an element of a multiplies all columns.
    """
    _check_columns(columns, _COLUMNS)

    def multiply_add(w: Writer, kind: LlvmType, flag: str, total: str, x: str, y: str) -> str:
        bytes_, words = LlvmType("int8", 4 * kind.lanes), LlvmType("int16", kind.lanes)
        four = w.op(f"shufflevector {kind} {x}, {kind} poison, <2 x i32> <i32 0, i32 1>")
        four = w.op(f"zext <8 x i8> {w.op(f'bitcast <2 x i32> {four} to <8 x i8>')} to <8 x i16>")
        y = w.op(f"bitcast {kind} {y} to {bytes_}")
        for step in range(4):
            places = ", ".join(f"i32 {4 * lane + step}" for lane in range(kind.lanes))
            column = w.op(f"shufflevector {bytes_} {y}, {bytes_} poison, "
                          f"<{kind.lanes} x i32> <{places}>")
            column = w.op(f"sext {words.of('int8')} {column} to {words}")
            element = w.op(f"shufflevector <8 x i16> {four}, <8 x i16> poison, "
                           f"<{kind.lanes} x i32> splat (i32 {step})")
            left, right = (w.op(f"sext {words} {word} to {kind}") for word in (element, column))
            total = w.op(f"add {kind} {total}, {w.op(f'mul {kind} {left}, {right}')}")
        return total

    return Intrinsic(f"dot_by_steps_{rows}x{columns}x{depth}", "vectors",
                     operand("dst", (rows, columns), "int32"),
                     *grouped_product(rows, columns, depth, "uint8", "int8", "int32"), "sum",
                     needs=NEON.needs,
                     lower=_rule(rows, columns, depth // 4, LlvmType("int32", _COLUMNS), 4,
                                 multiply_add))


def grouped_product(rows: int, columns: int, depth: int, a_dtype: str, b_dtype: str, dtype: str):
    """Operands, axes and value of a product of short numbers; as many steps of b lie side by side
    as fill 32 bits.
    """
    together = 32 // bits(b_dtype)
    if depth % together:
        raise ValueError(f"Depth must be a multiple of {together}, not {depth}")
    a = te.placeholder((rows, depth), a_dtype, "a")
    b = te.placeholder((depth // together, columns, together), b_dtype, "b")
    i, j = Axis(Var("i"), rows), Axis(Var("j"), columns)
    k, t = te.reduce_axis(depth // together, "k"), te.reduce_axis(together, "t")
    product = a[i, together * k + t.var].astype(dtype) * b[k, j, t].astype(dtype)
    return tuple(operand(x.name, x.shape, x.dtype) for x in (a, b)), (i, j), te.sum(
        product, (k, t))


def _check(subject: str, value, known) -> None:
    if value not in known:
        raise ValueError(f"{subject.capitalize()} must be one of "
                         f"{', '.join(map(str, known))}, not {value}")


def _check_columns(columns: int, lanes: int) -> None:
    if columns % lanes:
        raise ValueError(f"Columns must be a multiple of {lanes}, not {columns}")


def _rule(rows: int, columns: int, steps: int, kind: LlvmType, together: int,
          multiply_add: Callable[..., str]) -> Callable[[LlvmCall], bool]:
    """`together` elements of a, as many as a lane of `kind` holds, belong to one step."""
    vectors = range(0, columns, kind.lanes)
    element, zero = LlvmType(kind.dtype), kind.const(-0.0 if kind.dtype == "float32" else 0)

    def lower(call: LlvmCall) -> bool:
        dense = (1,) if together == 1 else (together, 1)
        if (call.tiles["dst"].pitches[-1:] != (1,) or call.tiles["b"].pitches[1:] != dense
                or together > 1 and call.tiles["a"].pitches[-1] != 1):
            return False
        w, places = call.w, [(i, j) for i in range(rows) for j in vectors]
        flag = " contract" if call.contract else ""

        def load() -> list[str]:
            return [w.op(f"load {kind}, ptr {call.at('dst', i, j)}, align 4") for i, j in places]

        def step(k: str, totals: list[str]) -> list[str]:
            inner = (0,) if together > 1 else ()
            row = [w.op(f"load {kind}, ptr {call.at('b', k, j, *inner)}, align {4 // together}")
                   for j in vectors]
            column = w.op(f"mul nsw i64 {k}, {together}") if together > 1 else k
            result = []
            for i in range(rows):
                x = _spread(w, kind, w.op(f"load {element}, ptr {call.at('a', i, column)}, "
                                          f"align {4 // together}"))
                for y in row:
                    result.append(multiply_add(w, kind, flag, totals[len(result)], x, y))
            return result

        totals = call.fold(steps, kind, call.initial(kind, zero, load, len(places)), step)
        for (i, j), total in zip(places, totals):
            w.do(f"store {kind} {total}, ptr {call.at('dst', i, j)}, align 4")
        return True

    return lower


def _spread(w: Writer, kind: LlvmType, value: str) -> str:
    first = w.op(f"insertelement {kind} poison, {type_name(kind.dtype)} {value}, i64 0")
    return w.op(f"shufflevector {kind} {first}, {kind} poison, "
                f"<{kind.lanes} x i32> zeroinitializer")
