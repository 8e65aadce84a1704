"""The tile registers of AMX: the permission to use them, and their shapes.

Linux grants a process the permission when it asks once (``arch_prctl``); without it the first tile
instruction would end the process. The first function that uses tiles asks for it. Every such
function loads one configuration, the rows and bytes of a row of each of eight tiles, and gives the
registers back.
"""

import ctypes
from functools import cache

from .writer import Writer

TileShapes = tuple[tuple[int, int], ...]
"""Rows, and bytes of a row, of each register."""

WHOLE: TileShapes = ((16, 64),) * 8

REFUSED = 2
"""The status of a function to which the operating system refuses the tile registers."""

# arch_prctl is system call 158; ARCH_REQ_XCOMP_PERM is 0x1023; XTILEDATA is state 18.
_ASKS = 158, 0x1023, 18
_DEFINITION = """\
@lockstep.amx.allowed = internal global i32 0
define internal i32 @lockstep.amx(ptr %shapes) noinline nounwind {
  %allowed = load atomic i32, ptr @lockstep.amx.allowed monotonic, align 4
  %known = icmp eq i32 %allowed, 1
  br i1 %known, label %shape, label %ask
ask:
  %error = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  %fine = icmp eq i64 %error, 0
  br i1 %fine, label %allow, label %refused
allow:
  store atomic i32 1, ptr @lockstep.amx.allowed monotonic, align 4
  br label %shape
shape:
  call void @llvm.x86.ldtilecfg(ptr %shapes)
  ret i32 0
refused:
  ret i32 STATUS
}""".replace("STATUS", str(REFUSED))

_SHAPES = """\
@{name} = private constant <{{ [16 x i8], [16 x i16], [16 x i8] }}> <{{
  [16 x i8] [{palette}],
  [16 x i16] [{columns}],
  [16 x i8] [{rows}] }}>, align 64"""


@cache
def grants_tiles() -> bool:
    """True if the operating system lets this process use the tile registers; asks it."""
    try:
        return ctypes.CDLL(None).syscall(*map(ctypes.c_long, _ASKS)) == 0
    except (AttributeError, OSError):       # another system
        return False


def begin_amx(w: Writer, shapes: TileShapes) -> str:
    """Requests and configures the tile registers; returns a status, 0 for success."""
    w.declare("llvm.x86.ldtilecfg", "void", "ptr")
    w.declare("syscall", "i64", "i64", "...")
    w.module.functions.setdefault("lockstep.amx", _DEFINITION)
    name = "lockstep.amx." + "_".join(f"{rows}x{columns}" for rows, columns in shapes)
    rest = 16 - len(shapes)
    w.module.functions.setdefault(name, _SHAPES.format(
        name=name, palette=", ".join(["i8 1"] + ["i8 0"] * 15),
        columns=", ".join([f"i16 {columns}" for _, columns in shapes] + ["i16 0"] * rest),
        rows=", ".join([f"i8 {rows}" for rows, _ in shapes] + ["i8 0"] * rest)))
    return w.op(f"call i32 @lockstep.amx(ptr @{name})")


def end_amx(w: Writer) -> None:
    w.call_void("llvm.x86.tilerelease")
