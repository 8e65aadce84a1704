"""Checks that every offset in an object file lies within the file.

LLVM checks some offsets and trusts the rest: one beyond a section crashes the process.
"""

import struct

from compiler.errors import Error
from compiler.exports.elf import Elf, Section

HEADER_BYTES, SECTION_BYTES, SYMBOL_BYTES, RELOCATION_BYTES = 64, 64, 24, 24
WHOLE_WORDS = (1, 257)          # R_X86_64_64, R_AARCH64_ABS64
RELOCATABLE = 1
SYMBOLS, STRINGS, RELOCATIONS, NO_BITS = 2, 3, 4, 8


class ObjectError(Error, ValueError):
    """The bytes are no whole object file; the message says why."""


def require_object(code: bytes) -> None:
    """Raise ObjectError unless `code` is a relocatable ELF-64 file, little-endian, whose sections,
    symbols, names and relocations lie within it.
    """
    _require(len(code) >= HEADER_BYTES, f"has {len(code)} bytes, fewer than a header")
    file = Elf(code)
    _require(file.bits == 64 and file.kind == RELOCATABLE, "is no relocatable ELF file of 64 bits")
    _require(file.entry == SECTION_BYTES and 0 < file.count, "has no table of sections")
    _require(file.table + file.entry * file.count <= len(code),
             "is cut off before its table of sections ends")
    sections = file.sections()
    for number, section in enumerate(sections):
        _require_section(file, number, section, sections)
    _require(file.names < file.count and sections[file.names].kind == STRINGS,
             "has no names of sections")
    _require(all(section.name < sections[file.names].size for section in sections),
             "names sections outside it")


def _require_section(file: Elf, number: int, section: Section, sections: list[Section]) -> None:
    kind, size, link, alignment = section.kind, section.size, section.link, section.alignment
    if kind not in (0, NO_BITS):
        _require(section.offset + size <= len(file.code),
                 f"is cut off before section {number} ends")
    _require(alignment & (alignment - 1) == 0, f"has section {number} aligned to {alignment}")
    data = file.bytes_of(section)
    if kind == STRINGS:
        _require(data.endswith(b"\0") or not size, f"has names without an end in section {number}")
    if kind == SYMBOLS:
        _require(section.entry == SYMBOL_BYTES and size % SYMBOL_BYTES == 0
                 and link < len(sections) and sections[link].kind == STRINGS
                 and section.info <= size // SYMBOL_BYTES,
                 f"has symbols of another size in section {number}")
        _require_symbols(file, section, sections)
    if kind == RELOCATIONS:
        _require(section.entry == RELOCATION_BYTES and size % RELOCATION_BYTES == 0
                 and link < len(sections) and section.info < len(sections)
                 and sections[link].kind == SYMBOLS,
                 f"has relocations of another size in section {number}")
        _require_relocations(data, sections[section.info].size,
                             sections[link].size // SYMBOL_BYTES)


def _require_symbols(file: Elf, section: Section, sections: list[Section]) -> None:
    for name, place, value, size in file.symbols(section):
        _require(name < max(sections[section.link].size, 1),
                 "has a symbol whose name lies outside it")
        within = not 0 < place < 0xff00 or (
            place < len(sections) and value + size <= sections[place].size)
        _require(within, "has a symbol that lies outside its section")


def _require_relocations(data: bytes, bytes_changed: int, symbols: int) -> None:
    for offset, information, _ in struct.iter_unpack("<QQq", data):
        width = 8 if information & 0xffffffff in WHOLE_WORDS else 4
        _require(offset + width <= bytes_changed and information >> 32 < symbols,
                 "has a relocation that lies outside its section")


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise ObjectError(reason)
