"""The header of an exported network, C99 and C++17, free of warnings."""

from collections.abc import Iterator

from .interface import CArray, CInterface
from .names import c_type


def header(of: CInterface) -> str:
    """The text of ``NAME.h``."""
    return "\n".join([*_comment(of), f"#ifndef {of.prefix}H", f"#define {of.prefix}H", "",
                      "#include <stdbool.h>", "#include <stdint.h>", "",
                      *_includes(of),
                      "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
                      *_sizes(of), "",
                      *_arrays(of, "INPUT", of.inputs, of.input_members),
                      *_arrays(of, "OUTPUT", of.outputs, of.output_members),
                      *_statuses(of), "",
                      *_structs(of), "",
                      *_functions(of), "",
                      "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _comment(of: CInterface) -> Iterator[str]:
    lines = [of.title.replace("*", "").strip() or of.name, "",
             "Arrays are dense, in row-major order, aligned to their elements; no output overlaps",
             "another array. Several instances may run at a time, each run with an arena of its",
             "own, whose bytes mean nothing before and after.", *_inside(of), *of.notes]
    yield f"/* {lines[0]}".rstrip()
    yield from (f"   {line}".rstrip() for line in lines[1:-1])
    yield f"   {lines[-1]} */"


def _inside(of: CInterface) -> Iterator[str]:
    if any(array.offset is not None for array in (*of.inputs, *of.outputs)):
        yield "An array with an OFFSET has a place there in the arena; one that lies elsewhere is"
        yield "copied. A run overwrites the inputs in the arena."


def _includes(of: CInterface) -> Iterator[str]:
    if of.includes:
        yield from (f'#include "{name}"' for name in of.includes)
        yield ""


def _sizes(of: CInterface) -> Iterator[str]:
    yield f'#define {of.prefix}HASH "{of.hash}"'
    yield f"#define {of.prefix}ARENA_BYTES {of.arena_bytes}"
    yield f"#define {of.prefix}ARENA_ALIGNMENT {of.arena_alignment}"
    yield f"#define {of.prefix}WEIGHTS_BYTES {of.weights_bytes}"
    yield f"#define {of.prefix}WEIGHTS_ALIGNMENT {of.weights_alignment}"
    yield from (f"#define {of.prefix}{end} {number}" for end, number in of.sizes)


def _arrays(of: CInterface, kind: str, arrays: tuple[CArray, ...],
            members: tuple[str, ...]) -> Iterator[str]:
    for array, member in zip(arrays, members, strict=True):
        begin = f"#define {of.prefix}{kind}_{member.upper()}"
        extents = ", ".join(map(str, array.shape)) or "1"       # C has no empty lists
        yield f"{begin}_TYPE {c_type(array.dtype)}"
        yield f"{begin}_RANK {len(array.shape)}"
        yield f"{begin}_SHAPE {{{extents}}}"
        yield f"{begin}_ELEMENTS {array.elements}"
        yield f"{begin}_BYTES {array.size_bytes}"
        if array.scale is not None:
            yield f"{begin}_SCALE {array.scale!r}"
            yield f"{begin}_ZERO_POINT {array.zero_point}"
        if array.offset is not None:
            yield f"{begin}_OFFSET {array.offset}"
        yield ""


def _statuses(of: CInterface) -> Iterator[str]:
    yield f"enum {of.name}_status {{"
    yield from (f"    {of.prefix}{end} = {number},{' ' * (16 - len(end))}/* {meaning} */"
                for number, (end, meaning) in enumerate(of.all_statuses[:-1]))
    (end, meaning), number = of.all_statuses[-1], len(of.all_statuses) - 1
    yield f"    {of.prefix}{end} = {number}{' ' * (17 - len(end))}/* {meaning} */"
    yield "};"


def _structs(of: CInterface) -> Iterator[str]:
    yield "/* An instance; the caller's memory, filled by init. */"
    yield f"struct {of.name} {{"
    yield from (f"    {field};" for field in of.fields)
    yield "};"
    for name, const, arrays, members in (
            ("inputs", "const ", of.inputs, of.input_members),
            ("outputs", "", of.outputs, of.output_members)):
        yield ""
        yield f"typedef struct {of.name}_{name} {{"
        yield from (f"    {const}{c_type(array.dtype)} *{member};"
                    f"{' ' * 4}/* {array} */"
                    for array, member in zip(arrays, members, strict=True))
        if not arrays:
            yield "    const void *none;"
        yield f"}} {of.name}_{name};"


def _functions(of: CInterface) -> Iterator[str]:
    given = (f"the {of.weights_bytes} bytes of {of.name}.bin, which stay there as long as self is "
             f"used" if of.weights_bytes else "NULL: they are inside")
    yield f"/* Prepares an instance; `weights` are {given}."
    yield "   Returns a status. */"
    parameters = ", ".join([f"struct {of.name} *self", "const void *weights", *of.parameters])
    yield f"int32_t {of.name}_init({parameters});"
    yield ""
    yield f"/* Runs the network once, in {of.prefix}ARENA_BYTES bytes of arena. Returns a status;"
    yield "   unless it is 0, what the outputs hold is not defined. */"
    yield f"int32_t {of.name}_run(const struct {of.name} *self, const {of.name}_inputs *inputs,"
    yield f"{' ' * (len(of.name) + 13)}const {of.name}_outputs *outputs, void *arena);"
