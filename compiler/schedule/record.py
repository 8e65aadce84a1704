"""Steps of a schedule as text: one call a line, ``split(c_i, 4, inner=lane)``.

Names and scopes stand as they are, other strings in quotes, an intrinsic by its name.
"""

import ast
import keyword
import re
from collections import abc
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from inspect import Signature, signature
from typing import Any, get_args, get_origin, get_type_hints

from compiler.ir import Program
from compiler.tensorize import Intrinsic

__all__ = ["read_step", "step_text"]

MOST = 12               # intrinsics that a message names
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def step_text(primitive: Callable, args: tuple, options: dict[str, Any]) -> str:
    shown = [_text(arg) for arg in args] + [f"{k}={_text(v)}" for k, v in options.items()]
    return f"{primitive.__name__}({', '.join(shown)})"


def _text(value) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, str):
        return value if _NAME.fullmatch(value) and not any(
            map(keyword.iskeyword, value.split("."))) else repr(value)
    return getattr(value, "name", None) or repr(value)


def read_step(line: str, primitives: dict[str, Callable],
              intrinsics: Iterable[Intrinsic]) -> tuple[Callable, tuple, dict[str, Any]]:
    """The primitive, arguments and options of a line. Raises ValueError for a line that is not a
    step.
    """
    try:
        call = ast.parse(line.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("it is no call")
        if call.func.id not in primitives:
            raise ValueError(f"primitive must be one of {', '.join(sorted(primitives))}, "
                             f"not {call.func.id!r}")
        args = tuple(map(_value, call.args))
        options = {str(pair.arg): _value(pair.value) for pair in call.keywords}
        _require_fit(primitives[call.func.id], args, options)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"Step {line!r} cannot be replayed: "
                         f"{error.msg if isinstance(error, SyntaxError) else error}") from None
    if call.func.id == "tensorize":
        args = (*args[:1], _intrinsic(line, args[1:2], intrinsics), *args[2:])
    return primitives[call.func.id], args, options


def _require_fit(primitive: Callable, args: tuple, options: dict[str, Any]) -> None:
    """Raise ValueError where the primitive takes no such arguments after the program. What stands
    for an intrinsic is its name.
    """
    fits, hints = _declared(primitive)
    try:
        given = fits.bind(None, *args, **options).arguments
    except TypeError as error:
        raise ValueError(str(error)) from None
    for name, value in given.items():
        kind, hint = fits.parameters[name].kind, hints.get(name, Any)
        values = {kind.VAR_POSITIONAL: value, kind.VAR_KEYWORD: ()}.get(kind, (value,))
        if not all(_is_of(one, hint) for one in values):
            raise ValueError(f"argument {name!r} must not be {value!r}")


@cache
def _declared(primitive: Callable) -> tuple[Signature, dict[str, Any]]:
    return signature(primitive), get_type_hints(primitive)


def _is_of(value: Any, hint: Any) -> bool:
    """True if what a step can say is of this type: a name, a number, or a list of names."""
    match get_origin(hint):
        case None:
            return hint in (Any, Program, Intrinsic) or type(value) is hint
        case abc.Sequence:
            return isinstance(value, tuple) and all(isinstance(one, str) for one in value)
        case abc.Callable:
            return False
    return any(_is_of(value, one) for one in get_args(hint))


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Name() | ast.Attribute(): return ast.unparse(node)
        case ast.List(elements): return tuple(map(_value, elements))
        case ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant()):
            return ast.literal_eval(node)
        case _: raise ValueError(f"argument must be a name or a number, not {ast.unparse(node)}")


def _intrinsic(line: str, name: tuple, intrinsics: Iterable[Intrinsic]) -> Intrinsic:
    known = {intrinsic.name: intrinsic for intrinsic in intrinsics}
    if not name or name[0] not in known:
        shown = list(known) if len(known) <= MOST else [
            *get_close_matches(str(*name[:1]), known, 3), "..."]
        raise ValueError(f"Step {line!r} cannot be replayed: intrinsic must be one of "
                         f"{', '.join(shown) or 'none'}, not {name[0] if name else 'missing'}")
    return known[name[0]]
