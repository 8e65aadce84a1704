"""The tile registers of AMX: the permission to use them, and their shapes.

Linux grants a process the permission when it asks once (``arch_prctl``); without it the first tile
instruction would end the process. The first function that uses tiles asks for it. Every such
function loads one configuration, eight tiles of 16 rows of 64 bytes, and gives the registers back.
"""

from .writer import Writer

__all__ = ["REFUSED", "begin_amx", "end_amx"]

REFUSED = 2
"""The status of a function to which the operating system refuses the tile registers."""

# arch_prctl is system call 158; ARCH_REQ_XCOMP_PERM is 0x1023; XTILEDATA is state 18.
_DEFINITION = """\
@lockstep.amx.shapes = private constant <{ [16 x i8], [16 x i16], [16 x i8] }> <{
  [16 x i8] [BYTE0],
  [16 x i16] [COLUMNS],
  [16 x i8] [ROWS] }>, align 64
@lockstep.amx.allowed = internal global i32 0
define internal i32 @lockstep.amx() noinline nounwind {
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
  call void @llvm.x86.ldtilecfg(ptr @lockstep.amx.shapes)
  ret i32 0
refused:
  ret i32 STATUS
}""".replace("BYTE0", ", ".join(["i8 1"] + ["i8 0"] * 15)).replace(
    "COLUMNS", ", ".join(["i16 64"] * 8 + ["i16 0"] * 8)).replace(
    "ROWS", ", ".join(["i8 16"] * 8 + ["i8 0"] * 8)).replace("STATUS", str(REFUSED))


def begin_amx(w: Writer) -> str:
    """Requests and configures the tile registers; returns a status, 0 for success."""
    w.declare("llvm.x86.ldtilecfg", "void", "ptr")
    w.declare("syscall", "i64", "i64", "...")
    w.module.functions.setdefault("lockstep.amx", _DEFINITION)
    return w.op("call i32 @lockstep.amx()")


def end_amx(w: Writer) -> None:
    w.call_void("llvm.x86.tilerelease")
