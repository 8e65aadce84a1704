"""The LLVM back end: loop programs to text to machine code for this computer.

::

    Program --emit--> LLVM IR (text) --optimize--> LLVM IR --Library--> function --Kernel--> call

`build` goes all the way; `emit` and `assembly` show what is between.
"""

from .emit import emit
from .kernel import Kernel, build
from .jit import assembly, optimized
