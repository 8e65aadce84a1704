"""Files of standard cells in Liberty, as far as this project asks: groups with their attributes.

Format: Liberty User Guide, volume 1 (Synopsys, open source edition 2017.06), chapter 1.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_COMMENT = re.compile(r"/\*.*?\*/|\\\r?\n", re.DOTALL)
_PART = re.compile(r'"[^"]*"|[;{}]|[^";{}]+')
_HEAD = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*$", re.DOTALL)
_VALUE = re.compile(r'(\w+)[ \t]*(?::\s*("[^"]*"|[^\n]*)|\(([^)]*)\))')


class LibertyError(ValueError):
    """A text that is no Liberty."""


@dataclass
class LibertyGroup:
    """A group: ``cell (INVX1) { area : 16; pin (A) { } }`` is of `kind` cell.

    `values` has each attribute's text, without its quotes; of one that comes twice the last.
    """

    kind: str
    name: str
    values: dict[str, str] = field(default_factory=dict)
    groups: list["LibertyGroup"] = field(default_factory=list)

    def of(self, kind: str) -> Iterator["LibertyGroup"]:
        """The groups of a kind in this one."""
        return (group for group in self.groups if group.kind == kind)

    def number(self, name: str, default: float | None = None) -> float | None:
        """An attribute as a number; the default where it is missing or none."""
        try:
            return float(self.values[name])
        except (KeyError, ValueError):
            return default


def read(path: Path) -> LibertyGroup:
    """The library of a file, which may be packed by gzip. Raises OSError and LibertyError."""
    return parse(unpacked(path).decode("utf-8", "replace"))


def unpacked(path: Path) -> bytes:
    """The bytes of a file, unpacked if gzip has packed them."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def parse(text: str) -> LibertyGroup:
    """The one library of a text. Raises LibertyError."""
    root = LibertyGroup("", "")
    open_groups, said = [root], ""
    for part in _PART.findall(_COMMENT.sub(" ", text)):
        if part == "{":
            before, _, head = said.strip().rpartition("\n")
            _add_values(open_groups[-1], before)
            group = _headed(head)
            open_groups[-1].groups.append(group)
            open_groups.append(group)
        elif part == "}":
            _add_values(open_groups[-1], said)
            if len(open_groups) == 1:
                raise LibertyError("a } without its {")
            open_groups.pop()
        elif part == ";":
            _add_values(open_groups[-1], said)
        else:
            said += part
            continue
        said = ""
    libraries = [group for group in root.groups if group.kind == "library"]
    if len(open_groups) != 1 or len(libraries) != 1:
        raise LibertyError("it must have one group library, which ends")
    return libraries[0]


def _headed(text: str) -> LibertyGroup:
    match = _HEAD.match(text)
    if not match:
        raise LibertyError(f"a group must begin with its kind and name, not {text.strip()[:60]!r}")
    return LibertyGroup(match[1], match[2].strip('"'))


def _add_values(group: LibertyGroup, text: str) -> None:
    """Adds the attributes of a text: one, or several where semicolons are left out."""
    for name, value, values in _VALUE.findall(text):
        group.values[name] = (value or values).strip().strip('"')
