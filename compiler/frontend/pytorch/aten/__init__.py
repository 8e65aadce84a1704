"""Operators of ATen as nodes of the graph; importing the package fills the table."""

from compiler.frontend.pytorch.aten import (control, creation, elementwise, matrix, movement,
                                          normalization, quantization, recurrent,
                                          reductions, resizing, scattering, symbols, windows)
