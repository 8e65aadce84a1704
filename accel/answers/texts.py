"""Short texts of expressions, for reasons."""

import re
from collections.abc import Mapping

from compiler.ir import expr_text
from compiler.te import Cast, Expr, Read, Var, rewrite

LONGEST = 56        # characters


def short_text(expr: Expr, names: Mapping[str, str] | None = None) -> str:
    """The expression without conversions of integers, and without indices but those of tables; what
    is read has its own name, or that of `names`. An ellipsis takes the place of its middle where it
    is long.
    """
    def plain(node: Expr) -> Expr | None:
        match node:
            case Read(buffer, indices) if not any(isinstance(index, Cast) for index in indices):
                return Var((names or {}).get(buffer.name, buffer.name), node.dtype)
            case Cast(Var(name), dtype):
                return Var(name, dtype)
        return None

    text = re.sub(r"\bu?int\d+\(", "(", expr_text(rewrite(expr, plain)))
    while _is_enclosed(text):
        text = text[1:-1]
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST // 2 - 1]}…{text[-LONGEST // 2:]}"


def _is_enclosed(text: str) -> bool:
    """True if the first parenthesis ends with the text."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place > 0 and place == len(text) - 1
    return False
