"""Tiles that processors have instructions for.

Products compute ``dst[i, j] += sum(a[i, k] * b[k, j])`` over a tile of any number of rows, columns
and steps that suits the instruction: `fp32` by fused multiply-adds of AVX-512 or AVX2, `dot` by dot
products of bytes (AVX-512 VNNI, AVX-VNNI, NEON), `dot_of_words` and `dot_by_steps` by what other
processors have for such products, `dot_of_pairs` of words of 16 bits by pairs, `amx` and `amx_bf16`
by the tile registers of AMX. Of bytes, b has four steps side by side, ``b[k // 4, j, k % 4]``; of
words and bfloat16, two. `transpose` copies squares,
rows to columns. Operands are windows of buffers in scope ``global`` or ``local``.

A kernel that is built for a machine without the instruction runs the loop nest instead; the
environment variable ``LOCKSTEP_CPU_WITHOUT``, or a machine that is made with ``host().without``,
takes features away. Integers are exact. Floats are added in the order of the nest, and products
are fused with sums only in kernels that are built with ``contract``.
"""

from .amx import amx, amx_bf16
from .byte_tiles import ByteRows, ByteWindows, byte_tiles_named, step_of
from .transposes import TRANSPOSES, transpose
from .vectors import dot, dot_by_steps, dot_of_pairs, dot_of_words, fp32
