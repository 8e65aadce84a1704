"""Mappings as input of Timeloop: factors are those of the tiles, and nothing is left out."""

from dataclasses import replace
from math import prod

import pytest

from accel.mapping.compiled import CompiledSegment
from accel.mapping.plans.work import block_products
from accel.mapping.target import AccelTarget
from accel.mapping.texts.timeloop_text import (DIMENSIONS, mapped, timeloop_text, unmapped)
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

yaml = pytest.importorskip("yaml", reason="comes with the extra pool")


@pytest.fixture(scope="module")
def compiled() -> CompiledSegment:
    net = Net(4)
    x = net.input(1, 8, 8, 8)
    y = net.conv(x, 12, (3, 2), pads=(1, 1, 1, 0), strides=(1, 2))
    return AccelTarget(TINY).compile(net.graph(net.dense(net.flatten(net.average(y)), 6)))


def documents(compiled: CompiledSegment) -> list:
    assert compiled.way is not None
    return [*yaml.safe_load_all(timeloop_text(TINY, compiled.way.groups).body)]


def factors(nest: dict) -> dict[str, int]:
    pairs = (word.split("=") for word in nest["factors"].split())
    return {name: int(value) for name, value in pairs}


def test_loops_of_all_levels_are_the_problem(compiled) -> None:
    found = [document for document in documents(compiled) if document]
    parts = [part for group in compiled.way.groups for part in group if not unmapped(part)]
    assert len(found) == len(parts) == 2
    for document, part in zip(found, parts):
        instance, nests = document["problem"]["instance"], [
            nest for nest in document["mapping"] if nest["type"] != "bypass"]
        assert all(sorted(nest["permutation"]) == sorted(DIMENSIONS) for nest in nests)
        tables = [factors(nest) for nest in nests]
        assert all(prod(table[name] for table in tables) == instance[name] for name in DIMENSIONS)
        steps = prod(value for nest, table in zip(nests, tables) if nest["type"] == "temporal"
                     for value in table.values())
        assert steps >= block_products(part.layer) > 0
        assert mapped(TINY.config, part).lanes == {"C": 4, "M": 4, "N": 1}


def test_every_buffer_keeps_one_operand(compiled) -> None:
    document = next(filter(None, documents(compiled)))
    spaces = [space["name"] for space in document["problem"]["shape"]["data-spaces"]]
    rules = [rule for rule in document["mapping"] if rule["type"] == "bypass"]
    assert [rule["target"] for rule in rules] == ["acc", "wgt", "inp"]
    assert sorted(rule["keep"][0] for rule in rules) == sorted(spaces)
    assert all(sorted(rule["keep"] + rule["bypass"]) == sorted(spaces) for rule in rules)


def test_the_operand_that_stays_decides_the_order(compiled) -> None:
    (part, *_), *_ = compiled.way.groups
    orders = {}
    for stationary, by_rows in (("w", False), ("input", False), ("", True)):
        changed = replace(part, tiles=replace(part.tiles, stationary=stationary, by_rows=by_rows))
        document = yaml.safe_load(timeloop_text(TINY, [(changed,)]).body)
        orders[stationary] = document["mapping"][0]["permutation"]
    assert orders["w"].index("M") > orders["w"].index("Q")          # outermost: channels
    assert orders["input"].index("M") < orders["input"].index("P")
    assert orders[""].index("P") < orders[""].index("M") < orders[""].index("Q")


def test_what_is_not_said_has_a_reason(compiled) -> None:
    assert compiled.way is not None
    text = timeloop_text(TINY, compiled.way.groups).body
    assert ": no mapping, since it has no products\n" in text
    grouped = Net(4)
    x = grouped.input(1, 8, 6, 6)
    made = AccelTarget(TINY).compile(grouped.graph(grouped.conv(x, 8, (3, 3), pads=(1, 1, 1, 1),
                                                                group=8)))
    assert made.way is not None
    assert timeloop_text(TINY, made.way.groups).body.endswith(
        "no mapping, since its groups have weights of their own\n")
