"""The host link: bytes over a serial line, on the host's side."""
