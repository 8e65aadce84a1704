"""Loop programs as text of LLVM."""
