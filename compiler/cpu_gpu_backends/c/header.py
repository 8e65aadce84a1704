"""The header of a network in C: what a program needs to call it."""

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.graph.graph import TensorType

from .helpers import STORED

__all__ = ["Interface", "Value", "header"]


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output: its name in C, and what the network calls it."""

    name: str
    label: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Interface:
    """`hash` is that of the network; `weights_bytes` is 0 where the constants are inside."""

    name: str
    hash: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    arena_bytes: int
    arena_alignment: int
    weights_bytes: int
    weights_alignment: int


def header(interface: Interface) -> str:
    """C99 and C++17."""
    upper = interface.name.upper()
    lines = [f"#ifndef {upper}_H", f"#define {upper}_H", "", "#include <stdbool.h>",
             "#include <stdint.h>", "", f'#define {upper}_HASH "{interface.hash}"',
             f"#define {upper}_ARENA_BYTES {interface.arena_bytes}",
             f"#define {upper}_ARENA_ALIGNMENT {interface.arena_alignment}",
             f"#define {upper}_WEIGHTS_BYTES {interface.weights_bytes}",
             f"#define {upper}_WEIGHTS_ALIGNMENT {interface.weights_alignment}", ""]
    for kind, values in (("INPUT", interface.inputs), ("OUTPUT", interface.outputs)):
        for value in values:
            lines += [*_defines(f"{upper}_{kind}_{value.name.upper()}", value), ""]
    lines += [f"enum {{ {upper}_DONE, {upper}_ARENA_MISALIGNED, {upper}_WEIGHTS_MISALIGNED }};", "",
              "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
              f"struct {interface.name} {{ const void *weights; }};"]
    for kind, const, values in (("inputs", "const ", interface.inputs),
                                ("outputs", "", interface.outputs)):
        members = " ".join(f"{const}{STORED[value.type.dtype]} *{value.name};" for value in values)
        lines += [f"typedef struct {interface.name}_{kind} {{ {members or 'char none_;'} }} "
                  f"{interface.name}_{kind};"]
    name = interface.name
    lines += ["", f"int32_t {name}_init(struct {name} *self, const void *weights);",
              f"int32_t {name}_run(const struct {name} *self, const {name}_inputs *inputs,",
              f"    const {name}_outputs *outputs, void *arena);", "", "#ifdef __cplusplus", "}",
              "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _defines(begin: str, value: Value) -> Iterator[str]:
    shape = value.type.shape
    elements = 1
    for side in shape:
        elements *= side
    yield f"#define {begin}_RANK {len(shape)}"
    if shape:
        yield f"#define {begin}_SHAPE {{{', '.join(map(str, shape))}}}"
    yield f"#define {begin}_ELEMENTS {elements}"
