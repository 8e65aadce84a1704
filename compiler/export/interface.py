"""What the world sees of an exported network, and its header for C and C++.

Everything that is written beside the code of a network comes from one `Interface`: the header, the
program that tries it, and the bindings of other languages.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod

from compiler.errors import Error
from compiler.te import is_record, numpy_dtype

__all__ = ["HEADER_BYTES", "ExportError", "Interface", "Port", "Status", "c_type", "header",
           "identifiers", "is_identifier"]

HEADER_BYTES = 64
"""The file of weights begins with the network's hash, 32 bytes, and zeros."""

KEYWORDS = frozenset("""
    alignas alignof and asm auto bool break case catch char class const constexpr continue default
    delete do double else enum explicit export extern false float for friend goto if inline int
    long main mutable namespace new nullptr operator or private protected public register restrict
    return short signed sizeof static static_assert struct switch template this thread_local throw
    true try typedef typename union unsigned using virtual void volatile while xor""".split())
"""Words of C and C++."""


class ExportError(Error):
    """A network or program cannot be handed to C as asked; the message is one sentence."""


class Status(IntEnum):
    """What NAME_init and NAME_run return."""

    DONE = 0
    NO_MEMORY = 1
    NO_TILES = 2
    MISSING = 3
    MISALIGNED = 4
    OTHER_WEIGHTS = 5

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Status.DONE: "done",
    Status.NO_MEMORY: "no memory for a thread",
    Status.NO_TILES: "the operating system refuses the tile registers of AMX",
    Status.MISSING: "an argument, or a pointer in one, is null",
    Status.MISALIGNED: "arena or weights do not begin at a multiple of their alignment",
    Status.OTHER_WEIGHTS: "the weights are those of another network",
}


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output. Where it is quantized by one scale, a real value is
    ``scale * (element - zero_point)``.
    """

    name: str
    identifier: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int = 0

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * numpy_dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Interface:
    """An exported network.

    Parameters
    ----------
    name : an identifier of C, with which the names of all functions begin.
    arena_bytes : memory for one call, aligned to `alignment`.
    weights_bytes : of the file of weights, aligned alike; 0 where they are inside the code.
    hash : 32 bytes, of the network and its weights.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    weights_bytes: int
    alignment: int
    hash: bytes

    def __post_init__(self):
        if not is_identifier(self.name):
            raise ExportError(f"Name of a network must be an identifier of C, not {self.name!r}")
        for port in (*self.inputs, *self.outputs):
            if is_record(port.dtype):
                raise ExportError(f"{port.name} must be of numbers, not of {port.dtype}")


def is_identifier(name: str) -> bool:
    """Whether C and C++ take the name."""
    return bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)) and name not in KEYWORDS


def identifiers(names: Iterable[str]) -> list[str]:
    """An identifier of C for each name, all different, in capitals too."""
    taken: dict[str, str] = {}
    for name in names:
        name = re.sub(r"^(?=[0-9])|[^A-Za-z0-9_]", "_", name)
        while name.upper() in taken or name in KEYWORDS:
            name += "_"
        taken[name.upper()] = name
    return [*taken.values()]


def header(interface: Interface) -> str:
    """``NAME.h``, for C99 and C++11 and newer."""
    name, upper = interface.name, interface.name.upper()
    inside = not interface.weights_bytes
    sizes = [("ARENA_BYTES", interface.arena_bytes), ("WEIGHTS_BYTES", interface.weights_bytes),
             ("ALIGNMENT", interface.alignment)]
    weights = ("weights lie in the code: give NULL" if inside else
               f"weights is the content of {name}.bin and stays where it is while the network is "
               "in use")
    lines = [
        f"/* {name}: a network that Lockstep compiled. Several instances may be in use at a time,",
        "   and several threads may run one of them, each with an arena of its own. Arrays are",
        "   dense, in row-major order, aligned to their elements; none overlaps another one. */",
        f"#ifndef {upper}_H", f"#define {upper}_H", "", "#include <stdbool.h>",
        "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        f'#define {upper}_HASH "{interface.hash.hex()}"',
        *(f"#define {upper}_{word} {value}" for word, value in sizes), "",
        *_port_macros(f"{upper}_INPUT", interface.inputs),
        *_port_macros(f"{upper}_OUTPUT", interface.outputs),
        f"enum {name}_status {{",
        *(f"    {upper}_{status.name} = {status.value},".ljust(40) + f"/* {status.meaning} */"
          for status in Status), "};", "",
        "/* A network that is ready to run. */", f"struct {name} {{",
        "    const void *weights;", "};", "",
        *_arrays(f"{name}_inputs", "const ", interface.inputs),
        *_arrays(f"{name}_outputs", "", interface.outputs),
        f"/* Gets an instance ready; {weights}. */",
        f"int32_t {name}_init(struct {name} *self, const void *weights);", "",
        "/* Computes the outputs of one inference. arena has "
        f"{upper}_ARENA_BYTES; what they hold before does not matter. */",
        f"int32_t {name}_run(const struct {name} *self, const struct {name}_inputs *inputs,",
        f"{'':{len(name) + 13}}const struct {name}_outputs *outputs, void *arena);", "",
        "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def c_type(dtype: str) -> str:
    """The type of an element; halves are their bits."""
    return {"float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
            "float64": "double", "bool": "bool"}.get(dtype, f"{dtype}_t")


def _port_macros(prefix: str, ports: Sequence[Port]) -> list[str]:
    lines = []
    for port in ports:
        word = f"{prefix}_{port.identifier.upper()}"
        shape = ", ".join(map(str, port.shape)) or "1"
        lines += [f"#define {word}_RANK {len(port.shape)}",
                  f"#define {word}_SHAPE {{ {shape} }}",
                  f"#define {word}_ELEMENTS {port.elements}"]
        if port.scale is not None:
            lines += [f"#define {word}_SCALE {port.scale!r}",
                      f"#define {word}_ZERO_POINT {port.zero_point}"]
        lines.append("")
    return lines


def _arrays(struct: str, const: str, ports: Sequence[Port]) -> list[str]:
    """A struct of pointers; C has no empty ones."""
    members = [f"    {const}{c_type(port.dtype)} *{port.identifier};".ljust(40)
               + f"/* {_plain(port.name)}: {port.dtype}[{', '.join(map(str, port.shape))}] */"
               for port in ports]
    return [f"struct {struct} {{", *(members or ["    const void *none;"]), "};", ""]


def _plain(name: str) -> str:
    """The name as a comment may have it."""
    return re.sub(r"[^ -~]|/\*|\*/", "?", name)
