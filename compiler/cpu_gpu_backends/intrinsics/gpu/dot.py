"""``dp4a``: a dot product of four bytes, exact in 32 bits."""

from compiler import te
from compiler.cpu_gpu_backends.simt.simt_calls import SimtCall
from compiler.tensorize import Intrinsic, Operand

_SCOPES = ("local", "shared", "global")


def dp4a() -> Intrinsic:
    """``dst += sum(a[k] * b[k])``: int32, of int8[4] that lie in the last dimension of buffers."""
    a, b = (te.placeholder((4,), "int8", name=name) for name in "ab")
    k = te.reduce_axis(4, name="k")
    bytes_ = tuple((scope, "int8") for scope in _SCOPES)
    return Intrinsic("dp4a", "thread", Operand("dst", (), "int32", (("local", "int32"),)),
                     tuple(Operand(t.name, (4,), "int8", bytes_) for t in (a, b)), (),
                     te.sum(a[k].astype("int32") * b[k].astype("int32"), k), "sum",
                     lower=_lower)


def _lower(call: SimtCall) -> list[str]:
    dst = call.tiles["dst"].element
    a, b = (f"*reinterpret_cast<const int*>({call.tiles[name].address})" for name in "ab")
    before = {"true": "0", "false": dst}.get(call.begins, f"{call.begins} ? 0 : {dst}")
    return [f"{dst} = __dp4a({a}, {b}, {before});"]
