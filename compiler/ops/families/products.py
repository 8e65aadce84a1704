"""Products of matrices and of tensors of any shape, after Einstein."""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.records.planes import (PLANES, are_planes, arrays_in_planes, check_factors,
                                          in_planes, of_planes)
from compiler.ops.families.requantization import (arrays_of_channels, check_channels,
                                                  check_requantized, multipliers, of_channels,
                                                  requantized, rescaled_array, sums_of, wrapped)
from compiler.ops.records.blocks import LANES, blocks_of
from compiler.ops.records.broadcasting import broadcast, broadcast_shape, common_shape
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, StaysFloat,
                                                Stored, check_accumulator, clamp_to, multiplier_of,
                                                weighted)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.ops.records.rules import (TypeRefused, Types, need, need_arity, need_dtype,
                                        need_factors, need_rank)
from compiler.ops.records.sums import kept, narrowed, sum_dtype
from compiler.ops.records.weights import MATRIX, PRODUCT
from compiler.te import Expr, Tensor


# Types


def _dense_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2, 3)
    need_factors(node, types)
    need(node.attrs["trans_b"] in (0, 1), node,
         f"trans_b must be 0 or 1, not {node.attrs['trans_b']!r}")
    x, w = types[:2]
    need_rank(node, 0, x, 2)
    need_rank(node, 1, w, 2)
    width, depth = w.shape if node.attrs["trans_b"] else w.shape[::-1]
    need(x.shape[1] == depth, node, f"input width must equal the weight's {depth}, "
         f"not {x.shape[1]}")
    result = TensorType((x.shape[0], width), "float32")
    if len(types) == 3:
        need(common_shape(types[2].shape, result.shape) == result.shape, node,
             f"bias must broadcast to {result}, not {types[2]}")
    return result


def _matmul_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    need_factors(node, types)
    return TensorType(_multiplied(node, types[0], _turned(node, types[1])), "float32")


def _qdense_type(node: Node, types: Types) -> TensorType:
    if not are_planes(node):
        return matrix_type(node, types)
    check_factors(node, types)
    return of_planes(node, rows_type(node, types), -1)


def matrix_type(node: Node, types: Types) -> TensorType:
    """The type of a product of integers with a weight."""
    check_channels(node, types)
    return rows_type(node, types)


def rows_type(node: Node, types: Types) -> TensorType:
    x, w = types[:2]
    need(len(x.shape) >= 2, node, f"input {node.inputs[0]!r} must have at least 2 dimensions, "
         f"not {x}")
    need_rank(node, 1, w, 2)
    need(x.shape[-1] == w.shape[1], node,
         f"input width must equal the weight's {w.shape[1]}, not {x.shape[-1]}")
    for name, vector in zip(node.inputs[2:], types[2:], strict=True):
        need(vector.shape == w.shape[:1], node,
             f"input {name!r} must have shape ({w.shape[0]},), not {vector.shape!r}")
    return TensorType((*x.shape[:-1], w.shape[0]), x.dtype)


def _qmatmul_type(node: Node, types: Types) -> TensorType:
    """Both tensors are computed; the whole result has one multiplier, or is in planes."""
    need_arity(node, types, 2)
    need_dtype(node, types, "int8")
    if are_planes(node):
        check_factors(node, types)
    else:
        check_requantized(node)
    for name in ("a_zp", "b_zp"):
        value = node.attrs.get(name, 0)
        need(-128 <= value <= 127, node, f"{name} must be an int8, not {value!r}")
    result = TensorType(_multiplied(node, types[0], _turned(node, types[1])), "int8")
    return of_planes(node, result, -1) if are_planes(node) else result


def _turned(node: Node, b: TensorType) -> TensorType:
    """The second factor as matrices [K,N]."""
    turned = node.attrs.get("trans_b", 0)
    need(turned in (0, 1), node, f"trans_b must be 0 or 1, not {turned!r}")
    if not turned or len(b.shape) < 2:
        return b
    return TensorType((*b.shape[:-2], b.shape[-1], b.shape[-2]), b.dtype)


def _multiplied(node: Node, a: TensorType, b: TensorType) -> tuple[int, ...]:
    """The shape of a matrix product, or of a stack of them."""
    need(min(len(a.shape), len(b.shape)) >= 2, node,
         f"matmul inputs must have at least 2 dimensions, not {a} and {b}")
    leading = common_shape(a.shape[:-2], b.shape[:-2])
    if leading is None or a.shape[-1] != b.shape[-2]:
        raise TypeRefused(f"{node.name}: matmul inputs must agree in their inner and leading "
                          f"extents, not {a} and {b}")
    return (*leading, a.shape[-2], b.shape[-1])


# Expressions


def _dense(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [M,K]; ``w`` [N,K] when ``trans_b`` is 1, else [K,N]; perhaps a ``bias`` that
    broadcasts to [M,N]. Sums in float32.
    """
    x, w, *rest = inputs
    stage = f"{name}_acc" if rest else name
    acc = row_products(x, w, bool(attrs["trans_b"]), "float32", stage)
    if not rest:
        return acc
    return te.compute(acc.shape, lambda m, n: acc[m, n] + broadcast(rest[0], (m, n)), name)


def _qdense(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [...,K], ``w`` [N,K]; ``bias``, ``mult``, ``shift`` [N], perhaps ``mult_below``,
    ``shift_below``, or ``bias`` and ``scale``; sums wrap. Or ``x`` and ``w`` alone, in planes."""
    x, w, *parameters = inputs
    acc = row_products(x, w, True, sums_of(attrs), f"{name}_acc")
    if not parameters:
        return in_planes(attrs, acc, -1, x.dtype, name)
    return te.compute(acc.shape, lambda *indices: of_channels(
        attrs, acc[indices], indices[-1], parameters, inputs[0].dtype), name)


def _matmul(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``a`` [...,M,K] times ``b`` [...,K,N], or [...,N,K] when ``trans_b`` is 1; leading dimensions
    broadcast. Sums in float32.
    """
    a, b = inputs
    return _batched(a, b, bool(attrs.get("trans_b", 0)), "float32", name)


def _qmatmul(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``a`` - ``a_zp`` [...,M,K] times ``b`` - ``b_zp`` [...,K,N], or [...,N,K] when ``trans_b`` is
    1; sums wrap at 32 bits.
    """
    a, b = inputs
    acc = _batched(a, b, bool(attrs["trans_b"]), "int32", f"{name}_acc",
                   (attrs.get("a_zp", 0), attrs.get("b_zp", 0)))
    if PLANES in attrs:
        return in_planes(attrs, acc, -1, a.dtype, name)
    return te.compute(acc.shape, lambda *indices: requantized(attrs, acc[indices]), name)


def _batched(a: Tensor, b: Tensor, transposed: bool, dtype: str, name: str,
             zeros: tuple[int, int] = (0, 0)) -> Tensor:
    leading = broadcast_shape(a.shape[:-2], b.shape[:-2])
    k = te.reduce_axis(a.shape[-1], f"{name}_k")

    def products(*indices):
        *outer, m, n = indices
        place = (n, k.var) if transposed else (k.var, n)
        factors = (broadcast(a, (*outer, m, k.var)).astype(dtype),
                   broadcast(b, (*outer, *place)).astype(dtype))
        left, right = (factor - zero if zero else factor
                       for factor, zero in zip(factors, zeros, strict=True))
        return te.sum(left * right, k)

    columns = b.shape[-2 if transposed else -1]
    return te.compute((*leading, a.shape[-2], columns), products, name)


def row_products(x: Tensor, w: Tensor, transposed: bool, dtype: str, name: str) -> Tensor:
    """Sums of products of each row, [...,K], with a weight [K,N], or [N,K] where `transposed`."""
    k = te.reduce_axis(x.shape[-1], f"{name}_k")

    def products(*indices):
        *rows, n = indices
        weight = w[n, k.var] if transposed else w[k.var, n]
        return te.sum(x[(*rows, k.var)].astype(dtype) * weight.astype(dtype), k)

    return te.compute((*x.shape[:-1], w.shape[0 if transposed else 1]), products, name)


def _packed_matmul(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [...,M,K], ``w`` [...,N/16,K,16]; sums in float32. Leading dimensions of w are those of
    x, or there are none.
    """
    x, w = inputs
    *rows, depth = x.shape
    *leading, blocks, _, _ = (*w.shape, 0, 0)[:max(len(w.shape), 3)]
    columns = attrs["columns"]
    if (w.shape[-2:] != (depth, LANES) or len(w.shape) < 3 or blocks != blocks_of(columns)
            or leading and tuple(leading) != x.shape[:-2]):
        raise ValueError(f"weight must be [{blocks_of(columns)},{depth},{LANES}] for {columns} "
                         f"columns, behind the leading dimensions of x or none, not {w.shape}")
    k = te.reduce_axis(depth, f"{name}_k")

    def products(*indices):
        *row, n = indices
        weight = w[(*row[:len(leading)], n // LANES, k.var, n % LANES)]
        return te.sum(x[(*row, k.var)] * weight, k)

    return te.compute((*rows, columns), products, name)


def _block_columns(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The matrices of ``b`` [...,K,N] for `packed_matmul`."""
    b, = inputs
    *leading, depth, columns = b.shape

    def element(*place):
        *outer, block, k, lane = place
        n = block * LANES + lane
        value = b[(*outer, k, n)]
        return te.select(n < columns, value, 0) if columns % LANES else value

    return te.compute((*leading, blocks_of(columns), depth, LANES), element, name)


def _einsum(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    terms, result = _terms(attrs["equation"], [x.shape for x in inputs])
    extents: dict[str, int] = {}
    for term, x in zip(terms, inputs, strict=True):
        for letter, extent in zip(term, x.shape, strict=True):
            if extents.get(letter, 1) not in (1, extent) and extent != 1:
                raise ValueError(f"extents of {letter} must agree in {attrs['equation']}, not "
                                 f"{extents[letter]} and {extent}")
            extents[letter] = max(extent, extents.get(letter, 1))
    if any(x.dtype != inputs[0].dtype for x in inputs):
        raise ValueError("inputs of a product must have one type, not "
                         + " and ".join(x.dtype for x in inputs))
    over = {letter: te.reduce_axis(extent, f"{name}_{letter}")
            for letter, extent in extents.items() if letter not in result}
    wide = sum_dtype(inputs[0].dtype)

    def element(*indices: Expr):
        place = {letter: axis.var for letter, axis in over.items()}
        place |= dict(zip(result, indices, strict=True))
        product: Expr | None = None
        for term, x in zip(terms, inputs, strict=True):
            factor = broadcast(x, [place[letter] for letter in term]).astype(wide)
            product = factor if product is None else product * factor
        assert product is not None
        return te.sum(product, tuple(over.values())) if over else product

    return narrowed([extents[letter] for letter in result], element, inputs[0].dtype, name)


def _terms(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    left, _, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes) or any(len(term) != len(shape)
                                        for term, shape in zip(terms, shapes, strict=False)):
        raise ValueError(f"equation must have a letter for each dimension of {list(shapes)}, "
                         f"not {equation}")
    if not set(result) <= set(left) or len(set(result)) < len(result):
        raise ValueError(f"equation must have each letter of its result before ->, not {equation}")
    return terms, result


# Meanings


def _dense_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    sums = product_sums(x, w.T if attrs["trans_b"] else w)
    return (sums if bias is None else sums + bias).astype(np.float32)


def _matmul_meaning(attrs, a: Array, b: Array) -> Array:
    return product_sums(a, b.swapaxes(-1, -2) if attrs.get("trans_b", 0) else b).astype(np.float32)


def product_sums(a: Array, b: Array) -> Array:
    """Products of matrices in float64."""
    return a.astype(np.float64) @ b.astype(np.float64)


def _qdense_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = wrapped(product_sums(x, w.T), sums_of(attrs))
    if not parameters:
        return arrays_in_planes(attrs, sums, -1, x.dtype)
    bias, *factors = parameters
    return arrays_of_channels(attrs, sums + bias, factors, x.dtype)


def _qmatmul_meaning(attrs, a: Array, b: Array) -> Array:
    a, b = (x.astype(np.int16) - attrs.get(zp, 0) for x, zp in ((a, "a_zp"), (b, "b_zp")))
    sums = wrapped(product_sums(a, b.swapaxes(-1, -2) if attrs["trans_b"] else b))
    if PLANES in attrs:
        return arrays_in_planes(attrs, sums, -1, np.dtype(np.int8))
    return rescaled_array(attrs, sums)


def _packed_matmul_meaning(attrs, x: Array, w: Array) -> Array:
    *leading, blocks, depth, lanes = w.shape
    weight = np.swapaxes(w, -3, -2).reshape(*leading, depth, blocks * lanes)
    return product_sums(x, weight[..., :attrs["columns"]]).astype(np.float32)


def _block_columns_meaning(attrs, b: Array) -> Array:
    *leading, depth, columns = b.shape
    wide = np.zeros((*leading, depth, blocks_of(columns) * LANES), b.dtype)
    wide[..., :columns] = b
    return np.ascontiguousarray(np.swapaxes(
        wide.reshape(*leading, depth, -1, LANES), -3, -2))


def _einsum_meaning(attrs: Attributes, *arrays: Array) -> Array:
    dtype = arrays[0].dtype
    wide = dtype if dtype.kind in "iub" else np.dtype(np.float64)
    return np.einsum(attrs["equation"], *(array.astype(wide) for array in arrays))


# Integer forms


def _dense_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    if view.is_computed(node.inputs[1]):
        return _computed_product(view, node, out, bounds, node.attrs["trans_b"])
    return integer_product(view, node, out, bounds, transposed=node.attrs["trans_b"] == 0)


def _matmul_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    if view.is_computed(node.inputs[1]):
        return _computed_product(view, node, out, bounds, 0)
    shape = view.shape(node.inputs[1])
    if len(shape) != 2:
        raise StaysFloat(f"its weight must have 2 dimensions, not shape {shape}")
    return integer_product(view, node, out, bounds, transposed=True)


def integer_product(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds,
                    transposed: bool, bias: tuple[str, ...] = ()) -> IntegerNode:
    """Dense with the weight brought to [outputs, inputs]; its bias unless another is given."""
    x = view.activation(node.inputs[0])
    weight, scales = view.weight(node.inputs[1], axis=int(transposed))
    weight = np.ascontiguousarray(weight.T) if transposed else weight
    sums, constants = weighted(view, bias or node.inputs[2:], x, weight, scales, out)
    return IntegerNode("qdense", (x.value,), clamp_to(out, bounds) | sums, constants)


def _computed_product(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds,
                      trans_b: int) -> IntegerNode:
    a, b = (view.activation(value) for value in node.inputs[:2])
    if a.dtype != "int8":
        raise StaysFloat(f"both of its inputs are computed: they must be int8, not {a.dtype}")
    depth = view.shape(node.inputs[0])[-1]
    if len(node.inputs) > 2:
        raise StaysFloat("both of its inputs are computed: it must have no bias")
    greatest = (max(operand.zp + 128, 127 - operand.zp) for operand in (a, b))
    bound = float(prod(greatest) * depth)
    check_accumulator(np.array([bound]))
    mult, shift = multiplier_of(a.scale * b.scale / out.scale, bound)
    attrs = {"trans_b": trans_b, "a_zp": a.zp, "b_zp": b.zp, "bias": 0, "mult": mult,
             "shift": shift}
    return IntegerNode("qmatmul", (a.value, b.value), attrs | clamp_to(out, bounds))


# Records


OPERATORS = (
    Operator(
        name="dense", summary="product with a weight, and a bias that broadcasts",
        inputs="x [M,K], w [N,K] or [K,N], bias?", attributes="trans_b: 1 when w is [N,K]",
        define=_dense, meaning=_dense_meaning, type=_dense_type, numbers=Numbers.FLOAT,
        kind=Kind.COMPLEX, contracts=True, halves=True, weights=MATRIX, integer=_dense_integer,
        sums="qdense", floats="fdense"),
    Operator(
        name="matmul", summary="product of matrices; leading dimensions broadcast",
        inputs="a [...,M,K], b [...,K,N] or [...,N,K]",
        attributes="trans_b (0): 1 when b is [...,N,K]", define=_matmul,
        meaning=_matmul_meaning, type=_matmul_type,
        numbers=Numbers.FLOAT, kind=Kind.COMPLEX, contracts=True, halves=True, weights=PRODUCT,
        integer=_matmul_integer, sums="qdense", floats="fdense"),
    Operator(
        name="packed_matmul", summary="product with a weight whose columns lie in blocks of 16",
        inputs="x [...,M,K], w [...,N/16,K,16]", attributes="columns: N", define=_packed_matmul,
        meaning=_packed_matmul_meaning, numbers=Numbers.FLOAT, kind=Kind.COMPLEX, contracts=True),
    Operator(
        name="block_columns", summary="matrices with columns in blocks of 16, zeros behind them",
        inputs="b [...,K,N]", define=_block_columns, meaning=_block_columns_meaning,
        numbers=Numbers.FLOAT, kind=Kind.INJECTIVE),
    Operator(
        name="qdense", summary="product of int8 with a weight, a multiplier for each output",
        inputs="x [...,K], w [N,K], bias, mult, shift, mult_below?, shift_below? [N]; or bias, "
               "scale float32 [N]; or none of these",
        attributes="zp, lo, hi, sums (int32); or planes", below=True,
        define=_qdense, meaning=_qdense_meaning, type=_qdense_type, numbers=Numbers.INTEGER,
        kind=Kind.COMPLEX, data_inputs=1, parameters=multipliers, scales=True),
    Operator(
        name="qmatmul", summary="product of a - a_zp and b - b_zp; leading dimensions broadcast",
        inputs="a, b [...,K,N] or [...,N,K]",
        attributes="trans_b: 1 when b is [...,N,K]; a_zp, b_zp (0); as qrescale, or "
                   "planes",
        define=_qmatmul, meaning=_qmatmul_meaning, type=_qmatmul_type, numbers=Numbers.INTEGER,
        kind=Kind.COMPLEX),
    Operator(
        name="einsum", summary="sum of products by an equation; extents of 1 broadcast",
        inputs="any number of tensors", attributes="equation: letters alone, ``ab,bc->ac``",
        define=_einsum, meaning=kept(_einsum_meaning), kind=Kind.COMPLEX, contracts=True),
)
