"""Functions of cells, as Liberty writes them, as truth tables.

``(A B) + !C`` of the inputs A, B, C is a number whose bit ``a + 2 b + 4 c`` is the function's
value. Operators, the tighter first: ``!`` before and ``'`` behind; ``&``, ``*`` or nothing between;
``^``; ``|``, ``+``.
"""

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[01]|[!'^()&*|+])")
MOST_INPUTS = 6


def truth_table(text: str, inputs: Sequence[str]) -> int:
    """The truth table of a function of some inputs, of which there are at most six. Raises
    ValueError for another text, and a name that is no input.
    """
    if len(inputs) > MOST_INPUTS:
        raise ValueError(f"a function must have at most {MOST_INPUTS} inputs, not {len(inputs)}")
    reader = _Reader(text, inputs)
    value = reader.either()
    if reader.tokens:
        raise ValueError(f"{text!r} must end before {' '.join(reader.tokens)!r}")
    return value


class _Reader:
    def __init__(self, text: str, inputs: Sequence[str]):
        self.text = text
        self.tokens = _TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s", "", text) or not self.tokens:
            raise ValueError(f"{text!r} must be a function of names with ! ' & * ^ | + ( )")
        rows = 1 << len(inputs)
        self.all = (1 << rows) - 1
        self.known = {name: sum(1 << row for row in range(rows) if row >> place & 1)
                      for place, name in enumerate(inputs)} | {"0": 0, "1": self.all}

    def _next_is(self, *wanted: str) -> bool:
        if self.tokens and self.tokens[0] in wanted:
            self.tokens.pop(0)
            return True
        return False

    def either(self) -> int:
        value = self.odd()
        while self._next_is("|", "+"):
            value |= self.odd()
        return value

    def odd(self) -> int:
        value = self.both()
        while self._next_is("^"):
            value ^= self.both()
        return value

    def both(self) -> int:
        value = self.one()
        while self.tokens and self.tokens[0] not in (")", "|", "+", "^"):
            self._next_is("&", "*")
            value &= self.one()
        return value

    def one(self) -> int:
        if not self.tokens:
            raise ValueError(f"{self.text!r} must not end here")
        token = self.tokens.pop(0)
        if token == "!":
            return self.all ^ self.one()
        if token == "(":
            value = self.either()
            if not self._next_is(")"):
                raise ValueError(f"{self.text!r} must close its parentheses")
        elif token in self.known:
            value = self.known[token]
        else:
            raise ValueError(f"{self.text!r} must be of {', '.join(self.known)}, not {token!r}")
        while self._next_is("'"):
            value ^= self.all
        return value
