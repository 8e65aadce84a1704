"""Back ends for processors: loop programs to machine code."""
