"""The graph as a value: types, attributes, text."""

from types import MappingProxyType

import numpy as np
import pytest

from compiler.graph import Attrs, Builder, Graph, Node, TensorType

SMALL = """\
graph small {
  input x: float32[1,4]
  const one: float32[] = 1.0
  const w: float32[2,4] crc32=7a0a407c
  h: float32[1,2] = dense(x, w) {trans_b=1}  # fc
  y: float32[1,2] = add(h, one)  # shift
  output y: float32[1,2]
  note fc is slow
}
"""


@pytest.fixture
def small() -> Graph:
    builder = Builder("small")
    builder.add_input("x", TensorType((1, 4), "float32"))
    builder.add_constant("one", np.array(1, np.float32))
    builder.add_constant("w", np.arange(8, dtype=np.float32).reshape(2, 4))
    builder.emit("dense", "fc", ["x", "w"], "h", trans_b=1)
    builder.emit("add", "shift", ["h", "one"], "y")
    builder.notes.append("fc is slow")
    return builder.finish(["y"])


def test_text(small: Graph) -> None:
    assert str(small) == SMALL


def test_text_shows_changed_weights(small: Graph) -> None:
    constants = {**small.constants, "w": -small.constants["w"]}
    other = Graph("small", ("x",), ("y",), small.nodes, small.values, constants, small.notes)
    assert str(other) != SMALL
    assert str(other).replace("crc32=281c4cc0", "crc32=7a0a407c") == SMALL


def test_neighbours(small: Graph) -> None:
    fc, shift = small.nodes
    assert small.producers() == {"h": fc, "y": shift}
    assert small.consumers() == {
        "x": (fc,), "one": (shift,), "w": (fc,), "h": (shift,), "y": ()}
    assert small.node("shift") is shift


def test_node_name_wrong(small: Graph) -> None:
    with pytest.raises(KeyError, match=r"^\"node must be one of fc, shift, not 'conv'\"$"):
        small.node("conv")


def test_constants_are_read_only_copies(small: Graph) -> None:
    array = np.ones(3, np.float32)
    graph = Graph("g", (), ("a",), (), {"a": TensorType((3,), "float32")}, {"a": array})
    array[0] = 7
    assert graph.constants["a"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"^assignment destination is read-only$"):
        graph.constants["a"][0] = 2
    with pytest.raises(TypeError, match="does not support item assignment"):
        small.values["x"] = TensorType((), "int8")  # pyright: ignore[reportIndexIssue]


def test_attrs_are_a_hashable_mapping() -> None:
    attrs = Attrs({"pads": [1, np.int64(2)], "axis": np.int32(0), "scale": np.float32(0.5)})
    assert dict(attrs) == {"axis": 0, "pads": (1, 2), "scale": 0.5}
    assert type(attrs["scale"]) is float
    assert hash(attrs) == hash(Attrs({"axis": 0, "pads": (1, 2), "scale": 0.5}))
    assert attrs == Attrs({"axis": 0, "scale": 0.5, "pads": (1, 2)})
    assert str(attrs) == "axis=0, pads=(1,2), scale=0.5"


@pytest.mark.parametrize(("other", "equal"), [
    (Attrs({"axis": 1}), True), ({"axis": 1}, True), (MappingProxyType({"axis": 1}), True),
    (Attrs({"axis": 2}), False), ({}, False), (None, False)])
def test_attrs_compare_as_mappings(other: object, equal: bool) -> None:
    attrs = Attrs({"axis": 1})
    assert (attrs == other, other == attrs) == (equal, equal)


def test_nodes_compare_by_value() -> None:
    one = Node("relu", "r", ("x",), ("y",), {"a": 1})
    assert one == Node("relu", "r", ("x",), ("y",), {"a": 1})
    assert one != Node("relu", "r", ("x",), ("y",), {"a": 2})
    assert len({one, one}) == 1


@pytest.mark.parametrize("value", [True, None, 1j, (1, 2.5)])
def test_attribute_type_wrong(value: object) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011, compared below
        Attrs({"a": value})
    assert str(refusal.value) == (
        f"attribute 'a' must be an int, float, str or tuple of ints, not {value!r}")


def test_dtype_wrong() -> None:
    with pytest.raises(ValueError, match=r"^dtype must be one of float32, int8, .*, float4_e2m1fn, "
                                         r"not 'complex64'$"):
        TensorType((1,), "complex64")


@pytest.mark.parametrize("shape", [(0,), (-1, 2), (1.5,), (True,)])
def test_shape_wrong(shape: tuple) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011, compared below
        TensorType(shape, "int8")
    assert str(refusal.value) == f"shape must hold integers of at least 1, not {shape!r}"


def test_too_many_dimensions_wrong() -> None:
    assert len(TensorType((1,) * 64, "int8").shape) == 64
    with pytest.raises(ValueError, match="^shape must have 64 dimensions at most, not 65$"):
        TensorType((1,) * 65, "int8")


def test_too_many_elements_wrong() -> None:
    TensorType((1 << 60, 7), "int8")
    with pytest.raises(ValueError, match=r"^shape must hold less than 2\^63 elements, not "
                                         r"\(1152921504606846976, 8\)$"):
        TensorType((1 << 60, 8), "int8")
