"""Serial ports that do not do what they should; a pseudo-terminal is one."""

import os
import tty

import pytest

from fpga.link import serial_port
from fpga.link.host import HostLink, LinkError
from fpga.link.serial_port import SerialLine


@pytest.fixture
def port(monkeypatch):
    """Name of a port behind which nobody reads."""
    monkeypatch.setattr(serial_port, "WRITE_SECONDS", 0.1)
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    yield os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def test_a_port_that_takes_no_data_is_given_up(port):
    """Its buffer has a few KiB."""
    line = SerialLine(port, 1_000_000)
    with pytest.raises(LinkError, match=f"^Port {port} takes no data: look whether the board has "
                                        "power, and plug it in again$"):
        for _ in range(1000):
            line.send(bytes(1000))
    line.close()


def test_a_link_on_a_port_that_takes_no_data(port):
    line = SerialLine(port, 10_000_000)
    with pytest.raises(LinkError, match="takes no data|does not answer"):
        HostLink(line).write(0, bytes(1 << 20))
    line.close()


def test_what_is_sent_arrives():
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    line = SerialLine(os.ttyname(theirs), 115_200)
    line.send(b"request")
    assert os.read(ours, 100) == b"request"
    os.write(ours, b"answer")
    assert line.receive(5.0) == b"answer"
    line.close()
    os.close(ours)
    os.close(theirs)
