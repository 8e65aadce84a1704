"""The proof that a program is legal: accesses of each instruction, and texts of refusals."""
