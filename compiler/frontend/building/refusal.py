"""The refusals of importers."""

from compiler.errors import Error


class ImportRefused(Error, ValueError):
    """A model that cannot be imported; the message is one line."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))
