"""Networks that need more memory than they may take are refused before it is taken."""

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph import Builder, Graph, TensorType
from compiler.graph.room import RoomRefused, require_room
from runtime import compile_for

GIB = 1 << 28           # float32 elements


def relu(*shape: int) -> Graph:
    builder = Builder("net")
    x = builder.add_input("x", TensorType(shape, "float32"))
    return builder.finish((builder.emit("relu", "act", [x], "y"),))


def summed(*shape: int) -> Graph:
    """Small values around a large one."""
    builder = Builder("net")
    x = builder.add_input("x", TensorType(shape, "float32"))
    y = builder.emit("expand", "wide", [x], "y", shape=(3 * GIB, *shape[1:]))
    return builder.finish((builder.emit("reduce_sum", "sum", [y], "z", axes=(0,), keepdims=0),))


def test_what_fits_is_accepted() -> None:
    require_room(relu(GIB))


def test_inputs_and_outputs() -> None:
    with pytest.raises(RoomRefused) as refused:
        require_room(relu(GIB, 2))
    assert str(refused.value) == (
        "net: all inputs and outputs, float32[268435456,2], takes 4.0 GiB of memory, and it may "
        "take 2; make its shapes smaller or set LOCKSTEP_MEMORY, in GiB")


def test_a_node() -> None:
    with pytest.raises(RoomRefused) as refused:
        compile_for(summed(1), None, cache=False)
    assert str(refused.value).startswith(
        "net: wide (expand), float32[1] -> float32[805306368], takes 3.0 GiB of memory, and ")


def test_workspaces_of_the_host() -> None:
    """A pad is a few numbers, the padded copy of an image is not."""
    builder = Builder("net")
    x = builder.add_input("x", TensorType((1, 1, 4, 4), "float32"))
    w = builder.add_constant("w", np.ones((1, 1, 3, 3), np.float32))
    y = builder.emit("conv2d", "conv", [x, w], "y", strides=(1 << 15, 1 << 15),
                     pads=(1 << 14, 1 << 14, 1 << 14, 1 << 14))
    graph = builder.finish((y,))
    require_room(graph)
    with pytest.raises(RoomRefused, match=r"^net: what the host .* takes 4\.0 GiB"):
        CpuTarget().compile(graph)


def test_more_is_allowed_on_request(monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_MEMORY", "4.5")
    require_room(relu(GIB, 2))
    monkeypatch.setenv("LOCKSTEP_MEMORY", "0.5")
    with pytest.raises(RoomRefused, match=r"may take 0\.5; make"):
        require_room(relu(GIB))


@pytest.mark.parametrize("text", ["", "much", "0", "-1", "nan", "inf"])
def test_what_is_no_size(monkeypatch, text: str) -> None:
    monkeypatch.setenv("LOCKSTEP_MEMORY", text)
    with pytest.raises(RoomRefused) as refused:
        require_room(relu(2))
    assert str(refused.value) == f"LOCKSTEP_MEMORY must be a number of GiB above 0, not {text!r}"
