"""Operations of ML programs and layers of neural networks, by name.

A rule is a function of what it reads from; it returns the ONNX name of its result, a constant as an
array, or a list of them. NodeRefused says what it does not take.
"""

from collections.abc import Callable
from typing import Any

Rule = Callable[[Any], Any]
OPERATIONS: dict[str, Rule] = {}
LAYERS: dict[str, Rule] = {}


def operation(*names: str) -> Callable[[Rule], Rule]:
    return _into(OPERATIONS, names)


def layer(*names: str) -> Callable[[Rule], Rule]:
    return _into(LAYERS, names)


def _into(table: dict[str, Rule], names: tuple[str, ...]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        table.update(dict.fromkeys(names, rule))
        return rule
    return register
