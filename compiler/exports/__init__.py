"""Networks that leave Python: their C interface, whatever computes them.

One description (`interface`) gives the header (`header`) and a C program that tests what was
exported (`check`). Machine code, C text and drivers of accelerators share them.
"""

from .header import header
from .interface import CArray, CInterface, ExportError
from .check import Sample, check_program
from .javascript import javascript, javascript_test, typescript

__all__ = ["CArray", "CInterface", "ExportError", "Sample", "check_program", "header",
           "javascript", "javascript_test", "typescript"]
