"""A board as a target: its text, its machine, and a network on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest

import lockstep
from accel.machine.config import preset
from accel.machine.machine import Machine
from fpga.device import BoardDevice
from fpga.link.host import HostLink
from runtime.driver.targets import TargetError, register, request
from runtime.tuning.pool import device_of
from runtime.tuning.trials import one_target
from tests.support.board_model import BoardModel

DIGITS = "examples/digits/digits-int8.onnx"
TINY = Machine(preset("tiny-1x4x4"))


@pytest.fixture(autouse=True)
def ports(monkeypatch) -> list[str | None]:
    """The ports that are opened: a model of a board is behind each."""
    monkeypatch.setattr("runtime.driver.targets._registered", {})
    target = import_module("fpga.target")
    register("board", target.board_target)              # where it was imported before
    ports: list[str | None] = []

    @contextmanager
    def opened(port: str | None, machine: Machine | None) -> Iterator[BoardDevice]:
        ports.append(port)
        yield BoardDevice(TINY, HostLink(BoardModel(TINY, 1 << 20)))

    monkeypatch.setattr(target, "opened", opened)
    one_target.cache_clear()
    return ports


def test_a_board_is_a_target_and_a_device(ports) -> None:
    placed = one_target("board:/dev/ttyUSB0")
    assert ports == ["/dev/ttyUSB0"]
    assert placed.name == device_of("board:/dev/ttyUSB0") == "board:/dev/ttyUSB0"
    assert placed.device.machine.hash == TINY.hash
    assert one_target("board:/dev/ttyUSB0") is placed       # the line is opened once


def test_an_emulated_board_has_no_port(ports) -> None:
    assert one_target("board:emulated").device.machine.hash == TINY.hash
    assert ports == [None]


def test_a_network_is_compiled_for_what_the_board_holds(ports) -> None:
    module = lockstep.compile(DIGITS, "board:/dev/ttyUSB0", cache=False)
    image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    wanted = lockstep.compile(DIGITS, "accel:tiny-1x4x4")({"image": image})["logits"]
    np.testing.assert_array_equal(module({"image": image})["logits"], wanted)


def test_a_board_has_a_port() -> None:
    with pytest.raises(TargetError, match="^Target must be .*, metal, board, or .*, not 'board:'"):
        request("board:")
