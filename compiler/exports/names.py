"""Names and types as C and C++ have them."""

import re

from compiler.errors import Error
from compiler.te import HELD, is_record

_KEYWORDS = frozenset("""
    alignas alignof and asm auto bool break case catch char class const constexpr continue default
    delete do double else enum explicit export extern false float for friend goto if inline int
    long main mutable namespace new nullptr operator or private protected public register restrict
    return short signed sizeof static static_assert struct switch template this thread_local throw
    true try typedef typename union unsigned using virtual void volatile while xor _Alignas _Alignof
    _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local""".split())
_TYPES = {"float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double",
          "bool": "bool"}


class ExportError(Error):
    """A program or network cannot be handed to C as asked; the message is one sentence."""


def is_identifier(name: str) -> bool:
    """True if C and C++ take the name for a function."""
    return bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)) and name not in _KEYWORDS


def c_name(name: str) -> str:
    """The identifier that is most like the name."""
    name = re.sub(r"^(?=[0-9])|[^A-Za-z0-9_]", "_", name)
    return f"{name}_" if name in _KEYWORDS else name


def identifier_from(name: str) -> str:
    """An identifier for a network of this name; it begins with a letter."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return c_name(name if name[:1].isalpha() else f"net_{name}".rstrip("_"))


def free_name(name: str, taken: set[str]) -> str:
    """The identifier, with underscores behind it where it is taken; then it is taken, too."""
    name = c_name(name)
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def c_type(dtype: str) -> str:
    """The type of an element; the bits of what C has no type for."""
    if is_record(dtype):
        return f"struct {c_name(dtype)}"
    if dtype in HELD:
        raise ExportError(f"Type of an array must be one that C has, not {dtype}")
    return _TYPES.get(dtype, f"{dtype}_t")
