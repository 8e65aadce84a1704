"""How much random tests try: all of it where the slow tests run too, a part of it otherwise."""

__all__ = ["Effort", "tries"]


class Effort:
    """Set by tests/conftest.py before any test is imported."""

    quick = False


def tries(count: int) -> int:
    """`count` in the slow run, a fifth of it, and two at least, in the quick one."""
    return max(2, count // 5) if Effort.quick else count
