"""The LLVM back end: loop programs to text to machine code, for this computer or another.

::

    Program --emit--> LLVM IR (text) --optimize--> LLVM IR --object_code--> object
            object --Library--> function --Kernel--> call
            object --link_shared--> library and header for C

`build` goes all the way to a call; `emit` and `assembly` show what is between. What is compiled
is kept on disk (`compiler.native`).
"""

from .emitting.emit import emit, emit_all
from .objects.export import ExportError, compile_object, header, link_shared
from .objects.kernel import Kernel, build
from .objects.jit import assembly, object_code, optimized
from .machine import MACHINES, WITHOUT, MachineError, Processor, host
from .objects.pool import set_threads
