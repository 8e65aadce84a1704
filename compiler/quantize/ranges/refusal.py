"""The quantizer's refusals."""

from compiler.errors import Error


class QuantizeRefused(Error, ValueError):
    """A model, calibration set or option that cannot be used; the message is one line."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))
