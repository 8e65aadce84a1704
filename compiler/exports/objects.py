"""Contents of an object file, and what it needs."""

from dataclasses import dataclass

from .elf import Elf
from .names import ExportError

_SYMBOLS = 2
_WRITABLE, _LOADED, _EXECUTED = 1, 2, 4
_OF_TOOLS = (".eh_frame", ".ARM.ex", ".note", ".rela", ".rel.")


@dataclass(frozen=True, slots=True)
class SectionBytes:
    """Bytes that a program takes of memory for this object: instructions, constants, variables.
    Tables for debuggers and unwinding are not counted.
    """

    code: int
    constants: int
    variables: int


def section_bytes(code: bytes) -> SectionBytes:
    """Raises ExportError for what is no such object."""
    file = _read(code)
    sections = file.sections()
    loaded = [section for section in sections if section.flags & _LOADED and not file.text(
        sections[file.names], section.name).startswith(_OF_TOOLS)]
    return SectionBytes(
        sum(s.size for s in loaded if s.flags & _EXECUTED),
        sum(s.size for s in loaded if not s.flags & (_EXECUTED | _WRITABLE)),
        sum(s.size for s in loaded if s.flags & _WRITABLE and not s.flags & _EXECUTED))


def missing_symbols(code: bytes) -> list[str]:
    """The functions that others must define, in order of their names."""
    file = _read(code)
    sections = file.sections()
    return sorted({file.text(sections[section.link], symbol.name) for section in sections
                   if section.kind == _SYMBOLS for symbol in file.symbols(section)
                   if symbol.name and not symbol.section})


def _read(code: bytes) -> Elf:
    file = Elf(code)
    if not file.bits:
        raise ExportError("Object must be ELF of 32 or 64 bits, little-endian")
    return file
