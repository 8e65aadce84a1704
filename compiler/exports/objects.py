"""The contents of object files, and the symbols that they need: ELF of 32 or 64 bits,
little-endian.

As in the System V ABI: a header, sections anywhere, a table of their headers.
"""

import struct
from dataclasses import dataclass

from .names import ExportError

__all__ = ["SectionBytes", "missing_symbols", "section_bytes"]

_HEADERS = {1: ("<16x16xI10xHHH", "<10I", "<IIIBBH"), 2: ("<16x24xQ10xHHH", "<IIQQQQIIQQ",
                                                         "<IBBHQQ")}
"""By class: where the table of sections is, a section, a symbol."""
_SYMBOLS, _NO_BITS = 2, 8
_WRITABLE, _LOADED, _EXECUTED = 1, 2, 4


@dataclass(frozen=True, slots=True)
class SectionBytes:
    """Bytes that a program takes of memory for this object: instructions, constants, variables.
    Tables for debuggers and unwinding are not counted.
    """

    code: int
    constants: int
    variables: int


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int


def section_bytes(code: bytes) -> SectionBytes:
    """Raises ExportError for what is no such object."""
    loaded = [section for section in _sections(code) if section.flags & _LOADED
              and not section.name.startswith((".eh_frame", ".ARM.ex", ".note", ".rela", ".rel."))]
    return SectionBytes(
        sum(s.size for s in loaded if s.flags & _EXECUTED),
        sum(s.size for s in loaded if not s.flags & (_EXECUTED | _WRITABLE)),
        sum(s.size for s in loaded if s.flags & _WRITABLE and not s.flags & _EXECUTED))


def missing_symbols(code: bytes) -> list[str]:
    """The functions that others must define, in order of their names."""
    sections = _sections(code)
    form = _HEADERS[code[4]][2]
    found = set()
    for section in sections:
        if section.kind != _SYMBOLS:
            continue
        names = sections[section.link].offset
        for symbol in struct.iter_unpack(form, code[section.offset:section.offset + section.size]):
            place = symbol[5] if code[4] == 1 else symbol[3]
            if symbol[0] and place == 0:
                found.add(_text(code, names + symbol[0]))
    return sorted(found)


def _sections(code: bytes) -> list[_Section]:
    if code[:4] != b"\x7fELF" or code[4] not in _HEADERS or code[5] != 1:
        raise ExportError("Object must be ELF of 32 or 64 bits, little-endian")
    header, form, _ = _HEADERS[code[4]]
    table, size, count, names = struct.unpack_from(header, code)
    raw = [struct.unpack_from(form, code, table + size * place) for place in range(count)]
    return [_Section(_text(code, raw[names][4] + each[0]), each[1], each[2], each[4], each[5],
                     each[6]) for each in raw]


def _text(code: bytes, begin: int) -> str:
    return code[begin:code.index(b"\0", begin)].decode()
