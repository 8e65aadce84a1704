"""The refusals of importers."""

from collections.abc import Sequence

from compiler.errors import Error


class ImportRefused(Error, ValueError):
    """A model that cannot be imported; the message is one line. `refusals` are the parts of it that
    are about one node each, ``NAME (OPERATOR): REASON``.
    """

    def __init__(self, message: str, refusals: Sequence[str] = ()):
        super().__init__(" ".join(message.split()))
        self.refusals = tuple(refusals)


class NodeRefused(Exception):
    """Why a node cannot be imported."""
