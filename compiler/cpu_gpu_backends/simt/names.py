"""Names of a program as C has them."""

import re
from collections.abc import Callable, Iterable

from compiler.te import FUNCTIONS

from .dialects import HELPERS

_WORDS = frozenset("""alignas alignof and and_eq asm auto barrier bitand bitor block_place bool
    break case catch char class compl complex const const_cast constant constexpr continue copysign
    decltype default delete device do double dynamic_cast else enum event_t explicit export extern
    fabs false float floor fmod for friend generic global goto half if imaginary inline int kernel
    linux local long max metal min mutable namespace new noexcept not not_eq nullptr operator or
    or_eq pipe private protected public queue_t read_only read_write register reinterpret_cast
    reserve_id_t restrict result return sampler_t short signed simt sizeof static static_assert
    static_cast std struct switch template this thread thread_local thread_place threadgroup throw
    true try typedef typeid typename typeof uniform union unix unsigned using vector virtual void
    volatile while write_only xor xor_eq blockDim blockIdx gridDim threadIdx warpSize""".split()
    ) | FUNCTIONS | HELPERS.keys()
_TYPES = re.compile(r"(u?(char|short|int|long|longlong)|float|double|half|bool|u?int\d+_|size_|"
                    r"ptrdiff_|u?intptr_|wchar_|image\w*_)(\d+|t)|v\d+|get_\w+|async_\w+|"
                    r"w?g?mma_\w+|barriers?_\w+|registers_\w+|products_\w+|\w+_map\d+|full|free|"
                    r"TensorMap|block_memory")


def identifier(name: str) -> str:
    """The name with what no identifier has replaced; no reserved one."""
    return re.sub(r"^(__+|(?=\d))|[^A-Za-z0-9_]", "_", name)


def is_taken(name: str) -> bool:
    """True if it is a word of a language, a type or function that texts use, or like a macro."""
    return (name in _WORDS or name.removesuffix("f") in _WORDS or _TYPES.fullmatch(name) is not None
            or len(name) > 1 and name.isupper())


def spelled(wanted: Iterable[str], taken: Iterable[str], is_taken: Callable[[str], bool]
            ) -> dict[str, str]:
    """Names to identifiers that differ from each other, and from those that are taken, which stand
    for themselves; `is_taken` says which others a language has taken.
    """
    names = {name: name for name in taken}
    used = set(names)
    for name in dict.fromkeys(wanted):
        if name in names:
            continue
        plain = identifier(name)
        plain += "_" * is_taken(plain)
        while plain in used:
            plain += "_"
        used.add(plain)
        names[name] = plain
    return names
