"""Hosts as tables, and the cycles of operators by counts."""

from pathlib import Path

import pytest

from compiler.graph.graph import Graph, Node, TensorType
from runtime.pricing.counting import node_cycles
from runtime.pricing.hosts import (SHIPPED, HostTableError, host_of, host_table, host_text,
                                   known_host)
from runtime.pricing.link import LINK

HOST = host_table()


def cycles(op: str, *shapes: tuple[int, ...], result: tuple[int, ...], **attrs) -> float:
    names = [f"x{place}" for place in range(len(shapes))]
    values = {name: TensorType(shape, "float32") for name, shape in zip(names, shapes)}
    node = Node(op, op, tuple(names), ("y",), attrs)
    graph = Graph("g", tuple(names), ("y",), (node,), values | {"y": TensorType(result, "float32")})
    return node_cycles(graph, node, HOST)


def test_the_link_of_the_shipped_host_is_what_auto_assumes() -> None:
    assert HOST.link == LINK


def test_this_processor_has_no_table() -> None:
    assert known_host("this") is host_of(host_text("this")) is None


def test_a_process_elsewhere_knows_a_host_by_its_text() -> None:
    assert host_of(host_text("table")) == HOST


def test_an_element_costs_its_accesses_and_operations() -> None:
    each = 3 * HOST.access + HOST.operation + HOST.iteration
    assert cycles("add", (1, 8), (1, 8), result=(1, 8)) == HOST.operator + 8 * each


def test_functions_and_quotients_have_costs_of_their_own() -> None:
    plain = cycles("relu", (1, 64), result=(1, 64))
    assert cycles("exp", (1, 64), result=(1, 64)) == plain + 64 * (HOST.function - HOST.operation)
    assert cycles("div", (1, 64), (1, 64), result=(1, 64)) - cycles(
        "mul", (1, 64), (1, 64), result=(1, 64)) == 64 * (HOST.division - HOST.operation)


def test_a_product_costs_each_of_its_terms() -> None:
    wide, narrow = (cycles("matmul", (2, terms), (terms, 3), result=(2, 3)) for terms in (16, 8))
    each = 2 * HOST.access + 2 * HOST.operation + HOST.iteration
    assert wide - narrow == 2 * 3 * 8 * each


def test_a_view_costs_nothing() -> None:
    assert cycles("reshape", (2, 8), result=(1, 16), shape=(1, 16)) == 0


@pytest.mark.parametrize(("old", "new", "message"), [
    ("mhz = 1000", "mhz = 0", "mhz must be a number above 0, not 0"),
    ("access = 1 ", "", "cycles must have access"),
    ("access = 1 ", "access = -1 ", "cycles.access must be a number, at least 0, not -1"),
    ("access = 1 ", "access = 1\nspeed = 2", "cycles must have operation, division, function, "
     "access, iteration, operator, source alone, not speed"),
    ("bytes_per_second = 400e6", "bytes_per_second = 0",
     "link.bytes_per_second must be above 0, not 0"),
    ('{"45nm" = 70.0, "7nm" = 21.0}', "70", "energy.pj_per_cycle must be a table of numbers by "
                                            "process, not 70"),
    ('name = "in', 'name = 1 # "', "name must be a text, not 1")])
def test_wrong_tables(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SHIPPED.read_text()
    assert old in text
    (file := tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(HostTableError) as refused:
        host_table(str(file))
    assert str(refused.value) == f"Host {file}: {message}"


def test_wrong_names(tmp_path: Path) -> None:
    with pytest.raises(HostTableError, match="^Host must be table, this or a .toml file, not 'me'"):
        host_table("me")
    with pytest.raises(HostTableError, match="cannot be read"):
        host_table(str(tmp_path / "none.toml"))
