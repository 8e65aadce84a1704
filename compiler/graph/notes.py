"""Notes: what a compiler has to say about one node of a network."""

import re
from dataclasses import dataclass

UNUSED = "is not used by the quantized network"
"""The fate of an instruction of which the quantizer says why no layer has its meaning."""

UNUSED_PART = "unused."
"""With the name of an instruction: its key in a model's metadata, behind ``lockstep.``."""

_FORM = re.compile(r"(?P<node>.+) \((?P<op>\w+)\)(?P<fate> [^:]+)?: (?P<reason>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Note:
    """The fate of a node and its reason; as text, `conv1 (conv2d) stays in float: REASON`.

    `fate` may be empty: then `reason` is all there is to say.
    """

    node: str
    op: str
    fate: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} ({self.op}){self.fate and f' {self.fate}'}: {self.reason}"

    @classmethod
    def of(cls, text: str) -> "Note | None":
        """The note that has this text; None for a sentence about something else."""
        match = _FORM.fullmatch(text)
        return match and cls(match["node"], match["op"], (match["fate"] or "")[1:],
                             match["reason"])
