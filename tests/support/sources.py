"""Source text, read by tests about how it is written."""

import ast
from collections.abc import Iterator

__all__ = ["statements"]


def statements(text: str) -> Iterator[ast.AST]:
    """The module and all its statements, but no expressions, which are most of a tree."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        yield (node := waiting.pop())
        waiting += (child for child in ast.iter_child_nodes(node)
                    if not isinstance(child, ast.expr))
