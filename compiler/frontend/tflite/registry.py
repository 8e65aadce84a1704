"""TensorFlow Lite's operators by name.

An operator is one function of the converter and the operation. It reads tensors, writes nodes, and
defines the operation's outputs; NodeRefused says what it does not take.
"""

from collections.abc import Callable
from typing import Any

from compiler.frontend.tflite.schema import TfliteOperation

Rule = Callable[[Any, TfliteOperation], None]

OPERATORS: dict[str, Rule] = {}


def operator(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        OPERATORS.update(dict.fromkeys(names, rule))
        return rule
    return register
