"""Serial ports as lines of the link, by pyserial."""

import serial

from fpga.link.host import LinkError

WRITE_SECONDS = 5.0
"""Seconds within which a port must take a frame; its buffers hold KiB."""


class SerialLine:
    """An open port, `fpga.link.host.Line`.

    Raises `LinkError` if it is not there, is in use, goes away, or takes no data.
    """

    def __init__(self, name: str, baud: int):
        self.name, self.baud = name, baud
        try:
            self._port = serial.Serial(name, baud, timeout=0, exclusive=True,
                                       write_timeout=WRITE_SECONDS)
        except (serial.SerialException, OSError, ValueError, OverflowError) as error:
            reason = str(error).splitlines()[0]
            raise LinkError(f"Port {name} cannot be opened: {reason}; is the board plugged in, and "
                            f"no other program using it?") from None

    def send(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except serial.SerialTimeoutException:
            self._forget()
            raise LinkError(f"Port {self.name} takes no data: look whether the board has power, "
                            f"and plug it in again") from None
        except (serial.SerialException, OSError):
            raise self._gone() from None

    def receive(self, seconds: float) -> bytes:
        try:
            self._port.timeout = seconds
            first = self._port.read(1)
            return first + self._port.read(self._port.in_waiting) if first else b""
        except (serial.SerialException, OSError):
            raise self._gone() from None

    def close(self) -> None:
        self._port.close()

    def _forget(self) -> None:
        """Discards unsent bytes; else closing the port waits for them."""
        try:
            self._port.reset_output_buffer()
        except (serial.SerialException, OSError):
            raise self._gone() from None

    def _gone(self) -> LinkError:
        return LinkError(f"Port {self.name} went away; plug the board in again")
