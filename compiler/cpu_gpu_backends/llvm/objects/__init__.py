"""Text of LLVM as machine code: built, linked into this process, exported."""
