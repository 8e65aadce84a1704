"""Checks that every offset in an object file lies within the file.

LLVM checks some offsets and trusts the rest: one beyond a section crashes the process.
ELF-64 as in the System V ABI: a header of 64 bytes, sections anywhere, a table of their headers.
"""

import struct

from compiler.errors import Error

__all__ = ["ObjectError", "require_object"]

HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL_BYTES, RELOCATION_BYTES = 24, 24
WHOLE_WORDS = (1, 257)          # R_X86_64_64, R_AARCH64_ABS64
MAGIC, CLASS_64, LITTLE_ENDIAN, RELOCATABLE = b"\x7fELF", 2, 1, 1
SYMBOLS, STRINGS, RELOCATIONS, NO_BITS = 2, 3, 4, 8


class ObjectError(Error, ValueError):
    """The bytes are no whole object file; the message says why."""


def require_object(code: bytes) -> None:
    """Raise ObjectError unless `code` is a relocatable ELF-64 file, little-endian, whose sections,
    symbols, names and relocations lie within it.
    """
    _require(len(code) >= HEADER.size, f"has {len(code)} bytes, fewer than a header")
    (magic, bits, order, _, _, kind, _, _, _, _, table, _, _, _, _, entry, count,
     names) = HEADER.unpack_from(code)
    _require((magic, bits, order, kind) == (MAGIC, CLASS_64, LITTLE_ENDIAN, RELOCATABLE),
             "is no relocatable ELF file of 64 bits")
    _require(entry == SECTION.size and 0 < count, "has no table of sections")
    _require(table + entry * count <= len(code), "is cut off before its table of sections ends")
    sections = [SECTION.unpack_from(code, table + entry * index) for index in range(count)]
    for number in range(count):
        _require_section(code, number, sections)
    _require(names < count and sections[names][1] == STRINGS, "has no names of sections")
    strings = sections[names]
    _require(all(section[0] < strings[5] for section in sections), "names sections outside it")


def _require_section(code: bytes, number: int, sections: list[tuple[int, ...]]) -> None:
    _, kind, _, _, offset, size, link, info, alignment, entry = sections[number]
    if kind not in (0, NO_BITS):
        _require(offset + size <= len(code), f"is cut off before section {number} ends")
    _require(alignment & (alignment - 1) == 0, f"has section {number} aligned to {alignment}")
    data = code[offset:offset + size]
    if kind == STRINGS:
        _require(data.endswith(b"\0") or not size, f"has names without an end in section {number}")
    if kind == SYMBOLS:
        _require(entry == SYMBOL_BYTES and size % entry == 0 and link < len(sections)
                 and sections[link][1] == STRINGS and info <= size // entry,
                 f"has symbols of another size in section {number}")
        _require_symbols(data, sections, sections[link][5])
    if kind == RELOCATIONS:
        _require(entry == RELOCATION_BYTES and size % entry == 0 and link < len(sections)
                 and info < len(sections) and sections[link][1] == SYMBOLS,
                 f"has relocations of another size in section {number}")
        _require_relocations(data, sections[info][5], sections[link][5] // SYMBOL_BYTES)


def _require_symbols(data: bytes, sections: list[tuple[int, ...]], names: int) -> None:
    for name, _, _, place, value, size in struct.iter_unpack("<IBBHQQ", data):
        _require(name < max(names, 1), "has a symbol whose name lies outside it")
        within = not 0 < place < 0xff00 or (
            place < len(sections) and value + size <= sections[place][5])
        _require(within, "has a symbol that lies outside its section")


def _require_relocations(data: bytes, bytes_changed: int, symbols: int) -> None:
    for offset, information, _ in struct.iter_unpack("<QQq", data):
        width = 8 if information & 0xffffffff in WHOLE_WORDS else 4
        _require(offset + width <= bytes_changed and information >> 32 < symbols,
                 "has a relocation that lies outside its section")


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise ObjectError(reason)
