"""Questions to a program: places, dependences, elements."""
