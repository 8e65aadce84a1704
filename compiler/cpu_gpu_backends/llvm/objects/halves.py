"""Conversions of float16 for processors that have no instructions for them.

There LLVM calls the compiler's run-time library: for all conversions without f16c, and for float64
to float16 wherever no instruction rounds just once. A process has that library only by chance (some
other library brought it along), so kernels are linked with these instead.
"""

from collections.abc import Mapping
from functools import cache

import llvmlite.binding as llvm

from compiler.cpu_gpu_backends.llvm.machine import host, linker

HALVES = ("__truncdfhf2", "__truncsfhf2", "__extendhfsf2")
"""float64 and float32 to float16, rounded half to even; float16 to float32."""

_TEXT = f"""
define half @__truncdfhf2(double %x) {{
  %word = bitcast double %x to i64
  %size = and i64 %word, {(1 << 63) - 1}
  %odd.place = lshr i64 %size, 42
  %odd = and i64 %odd.place, 1
  %raised = add i64 %size, {(1 << 41) - 1}
  %rounded = add i64 %raised, %odd
  %cut = lshr i64 %rounded, 42
  %normal = sub i64 %cut, {(1023 - 15) << 10}
  %positive = bitcast i64 %size to double
  %shifted = fadd double %positive, 0x41B8000000000000      ; its last bit is worth 2^-24
  %shifted.word = bitcast double %shifted to i64
  %subnormal = and i64 %shifted.word, 65535
  %is.small = fcmp olt double %positive, 0x3F10000000000000     ; 2^-14
  %finite = select i1 %is.small, i64 %subnormal, i64 %normal
  %is.large = fcmp oge double %positive, 6.552e+04
  %number = select i1 %is.large, i64 {0x7C00}, i64 %finite
  %payload = lshr i64 %size, 42
  %low = and i64 %payload, {0x1FF}
  %quiet = or i64 %low, {0x7E00}
  %is.nan = fcmp uno double %x, %x
  %made = select i1 %is.nan, i64 %quiet, i64 %number
  %sign.place = lshr i64 %word, 48
  %sign = and i64 %sign.place, {0x8000}
  %signed = or i64 %made, %sign
  %pattern = trunc i64 %signed to i16
  %result = bitcast i16 %pattern to half
  ret half %result
}}
define half @__truncsfhf2(float %x) {{
  %wide = fpext float %x to double
  %result = call half @__truncdfhf2(double %wide)
  ret half %result
}}
define float @__extendhfsf2(half %x) {{
  %pattern = bitcast half %x to i16
  %word = zext i16 %pattern to i32
  %size = and i32 %word, {0x7FFF}
  %place = shl i32 %size, 13
  %normal = add i32 %place, {(127 - 15) << 23}
  %count = uitofp i32 %size to float
  %small = fmul float %count, 0x3E70000000000000            ; 2^-24
  %subnormal = bitcast float %small to i32
  %is.small = icmp ult i32 %size, {1 << 10}
  %finite = select i1 %is.small, i32 %subnormal, i32 %normal
  %is.finite = icmp ult i32 %size, {0x7C00}
  %special = or i32 %place, {0x7F800000}
  %quiet = or i32 %special, {1 << 22}
  %is.nan = icmp ugt i32 %size, {0x7C00}
  %infinite = select i1 %is.nan, i32 %quiet, i32 %special
  %made = select i1 %is.finite, i32 %finite, i32 %infinite
  %negative = and i32 %word, {0x8000}
  %sign = shl i32 %negative, 16
  %signed = or i32 %made, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}}
"""


@cache
def halves() -> Mapping[str, int]:
    """The functions' addresses in this process, by name; they stay loaded until it ends."""
    jit = linker(host())
    link = llvm.JITLibraryBuilder().add_ir(_TEXT)
    for name in HALVES:
        link.export_symbol(name)
    return _Code(jit, link.link(jit, "halves"))


class _Code(dict[str, int]):
    """Keeps the machine code alive."""

    def __init__(self, jit: llvm.LLJIT, tracker: llvm.ResourceTracker):
        super().__init__((name, tracker[name]) for name in HALVES)
        self._kept = jit, tracker
