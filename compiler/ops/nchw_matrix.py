"""Matrix products of networks: dense layers, and products with leading dimensions."""

from collections.abc import Mapping, Sequence

from compiler import te
from compiler.ops.arithmetic import requantize
from compiler.ops.nchw_elementwise import broadcast, broadcast_shape
from compiler.te import Tensor

__all__ = ["dense", "matmul", "qdense", "qmatmul"]


def dense(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``x`` [M,K]; ``w`` [N,K] when ``trans_b`` is 1, else [K,N]; perhaps a ``bias`` that
    broadcasts to [M,N]. Sums in float32.
    """
    x, w, *rest = inputs
    stage = f"{name}_acc" if rest else name
    acc = _products(x, w, bool(attrs["trans_b"]), "float32", stage)
    if not rest:
        return acc
    return te.compute(acc.shape, lambda m, n: acc[m, n] + broadcast(rest[0], (m, n)), name)


def qdense(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``x`` [...,K], ``w`` [N,K]; ``bias``, ``mult``, ``shift`` [N]; sums wrap at 32 bits."""
    x, w, bias, mult, shift = inputs
    acc = _products(x, w, True, "int32", f"{name}_acc")

    def lane(*indices):
        n = indices[-1]
        return requantize(acc[indices], bias[n], mult[n], shift[n],
                          attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8")

    return te.compute(acc.shape, lane, name)


def matmul(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``a`` [...,M,K] times ``b`` [...,K,N]; leading dimensions broadcast. Sums in float32."""
    a, b = inputs
    return _batched(a, b, False, "float32", name)


def qmatmul(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """``a`` - ``a_zp`` [...,M,K] times ``b`` - ``b_zp`` [...,K,N], or [...,N,K] when ``trans_b`` is
    1; sums wrap at 32 bits.
    """
    a, b = inputs
    acc = _batched(a, b, bool(attrs["trans_b"]), "int32", f"{name}_acc",
                   (attrs.get("a_zp", 0), attrs.get("b_zp", 0)))
    return te.compute(acc.shape, lambda *indices: requantize(
        acc[indices], te.const(attrs["bias"], "int32"), te.const(attrs["mult"], "uint16"),
        te.const(attrs["shift"], "uint8"), attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8"),
        name)


def _batched(a: Tensor, b: Tensor, transposed: bool, dtype: str, name: str,
             zeros: tuple[int, int] = (0, 0)) -> Tensor:
    leading = broadcast_shape(a.shape[:-2], b.shape[:-2])
    k = te.reduce_axis(a.shape[-1], f"{name}_k")

    def products(*indices):
        *outer, m, n = indices
        place = (n, k.var) if transposed else (k.var, n)
        factors = (broadcast(a, (*outer, m, k.var)).astype(dtype),
                   broadcast(b, (*outer, *place)).astype(dtype))
        one, two = (factor - zero if zero else factor
                    for factor, zero in zip(factors, zeros, strict=True))
        return te.sum(one * two, k)

    columns = b.shape[-2 if transposed else -1]
    return te.compute((*leading, a.shape[-2], columns), products, name)


def _products(x: Tensor, w: Tensor, transposed: bool, dtype: str, name: str) -> Tensor:
    k = te.reduce_axis(x.shape[-1], f"{name}_k")

    def products(*indices):
        *rows, n = indices
        weight = w[n, k.var] if transposed else w[k.var, n]
        return te.sum(x[(*rows, k.var)].astype(dtype) * weight.astype(dtype), k)

    return te.compute((*x.shape[:-1], w.shape[0 if transposed else 1]), products, name)
