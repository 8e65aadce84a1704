"""Spellings of quantization in a file, and the tool that wrote them: read from the file's own
format, before anything of it is imported.
"""

from compiler.frontend.spellings.files import read_signs

__all__ = ["read_signs"]
