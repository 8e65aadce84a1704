"""Placement by cost: against all placements of small graphs, of two and of three targets; pins,
refusals, bounded states.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest

from compiler.graph import Builder, Graph, Node, TensorType, divide
from compiler.graph.division.partition import ACCEL, HOST
from compiler.graph.division.placement import PinRefused, moves, pinned, place, prefer, price

TARGETS = (HOST, ACCEL)
THREE = (HOST, ACCEL, "third")


@dataclass
class Table:
    """Costs as written; what is not there costs `otherwise`, None is impossible."""

    nodes: dict[tuple[str, str], float | None] = field(default_factory=dict)
    copies: dict[tuple[str, str, str], float] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    otherwise: float = 0
    targets: Sequence[str] = TARGETS

    def node(self, node: Node, target: str) -> float | None:
        return self.nodes.get((node.name, target), self.otherwise)

    def copy(self, value: str, source: str, target: str) -> float:
        assert source != target and self.targets[0] in (source, target)
        return self.copies.get((value, source, target), self.otherwise)

    def start(self, target: str) -> float:
        return self.starts.get(target, self.otherwise)


def chain(*ops: str) -> Graph:
    builder = Builder("chain")
    value = builder.add_input("x", TensorType((3,), "float32"))
    for index, op in enumerate(ops):
        value = builder.emit(op, f"n{index}", [value], f"v{index}")
    return builder.finish([value])


def random_graph(rng: np.random.Generator, most: int) -> Graph:
    """Up to so many nodes; half of the graphs are chains with short branches, the others wild."""
    builder, wild = Builder("random"), rng.random() < 0.5
    values = [builder.add_input(name, TensorType((3,), "float32")) for name in ("x0", "x1")]
    values.append(builder.add_constant("k", np.ones(3, np.float32)))
    for index in range(int(rng.integers(1, most + 1))):
        reach = len(values) if wild else min(3, len(values))
        read = [values[-int(rng.integers(1, reach + 1))] for _ in range(rng.integers(1, 3))]
        values.append(builder.emit("add" if len(read) == 2 else "relu", f"n{index}", read,
                                   f"v{index}"))
    outputs = {values[int(rng.integers(len(values)))] for _ in range(3)} if wild else values[-1:]
    return builder.finish(sorted(outputs))


def random_table(rng: np.random.Generator, graph: Graph, targets: Sequence[str]) -> Table:
    """Integers, so that sums are exact; copies and starts weigh more or less than nodes."""
    copy, start = (int(most) for most in rng.integers(1, 7, 2))
    table = Table(starts={target: int(rng.integers(start)) for target in targets}, targets=targets)
    for node in graph.nodes:
        table.nodes |= {(node.name, target): int(rng.integers(10)) for target in targets}
        if rng.random() < 0.3:
            table.nodes[node.name, targets[int(rng.integers(len(targets)))]] = None
    home, *others = targets
    table.copies = {(value, *ends): int(rng.integers(copy)) for value in graph.values
                    for other in others for ends in ((other, home), (home, other))}
    return table


def cases(count: int, most: int, targets: Sequence[str] = TARGETS,
          ) -> Iterator[tuple[Graph, Table, np.random.Generator]]:
    for seed in range(count):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, most)
        yield graph, random_table(rng, graph, targets), rng


def cheapest(graph: Graph, table: Table, pins: Mapping[str, str]) -> float:
    """Over all placements."""
    choices = [[target for target in ([pins[node.name]] if node.name in pins else table.targets)
                if table.node(node, target) is not None] for node in graph.nodes]
    names = [node.name for node in graph.nodes]
    return min(price(graph, dict(zip(names, chosen)), table) for chosen in product(*choices))


def test_no_placement_is_cheaper() -> None:
    for graph, table, _ in cases(500, 7):
        placement = place(graph, table)
        assert placement.exact
        assert placement.seconds == price(graph, placement.targets, table)
        assert placement.seconds == cheapest(graph, table, {}), f"{graph}\n{table}"


def test_no_placement_with_the_same_pins_is_cheaper() -> None:
    for graph, table, rng in cases(200, 6):
        pins = {
            node.name: target for node in graph.nodes for target in TARGETS
            if table.node(node, target) is not None and rng.random() < 0.3}
        placement = place(graph, table, pins)
        assert placement.exact and pins.items() <= placement.targets.items()
        assert placement.seconds == cheapest(graph, table, pins), f"{graph}\n{table}\n{pins}"


def test_no_placement_on_three_targets_is_cheaper() -> None:
    for graph, table, _ in cases(30, 7, THREE):
        placement = place(graph, table)
        assert placement.exact
        assert placement.seconds == price(graph, placement.targets, table)
        assert placement.seconds == cheapest(graph, table, {}), f"{graph}\n{table}"


def test_no_placement_of_the_last_nodes_on_three_targets_is_cheaper() -> None:
    """Longer graphs, whose first nodes are pinned."""
    for graph, table, rng in cases(30, 12, THREE):
        able = {node.name: [one for one in THREE if table.node(node, one) is not None]
                for node in graph.nodes}
        pins = {node.name: able[node.name][int(rng.integers(len(able[node.name])))]
                for node in graph.nodes[:-5]}
        least = cheapest(graph, table, pins)
        assert place(graph, table, pins).seconds == least, f"{graph}\n{table}\n{pins}"


def test_what_joins_an_earlier_segment_may_need_more_segments_later() -> None:
    """The chain to d needs accel, host, accel, host. With x on the accelerator its reader p joins
    the second segment of the accelerator, but r needs one after q, and s one after r: third, accel,
    third. With x on the host: accel, third.
    """
    builder = Builder("branches")
    builder.add_input("i", TensorType((3,), "float32"))
    nodes = {"a": ("i", ACCEL), "b": ("a", HOST), "c": ("b", ACCEL), "d": ("c", HOST),
             "x": ("i", None), "y": ("x", ACCEL), "z": ("y", HOST), "other": ("i", None),
             "p": ("z", ACCEL), "q": ("d", "third"), "r": ("d", ACCEL), "s": ("r", "third")}
    for name, (read, _) in nodes.items():
        builder.emit("relu", name, [read], name)
    graph = builder.finish(["other", "p", "q", "s"])
    table = Table({(name, other): None for name, (_, target) in nodes.items() for other in THREE
                   if other != (target or other)}, starts=dict.fromkeys(THREE, 10), targets=THREE)
    table.nodes |= {("x", "third"): None, ("x", HOST): 1,
                    ("other", "third"): None, ("other", HOST): 30}
    found = place(graph, table)
    assert (found.targets["x"], found.targets["other"], found.seconds) == (HOST, ACCEL, 61)
    assert found.seconds == cheapest(graph, table, {})


def test_what_two_others_exchange_goes_over_the_home_once() -> None:
    """One copy home, which a second reader and an output share, and one to each reader."""
    builder = Builder("exchange")
    builder.add_input("x", TensorType((3,), "float32"))
    builder.emit("relu", "made", ["x"], "v")
    builder.emit("neg", "read", ["v"], "y")
    builder.emit("neg", "again", ["v"], "z")
    graph = builder.finish(["v", "y", "z"])
    table = Table(copies={("x", HOST, ACCEL): 1, ("v", ACCEL, HOST): 10, ("v", HOST, "third"): 100,
                          ("y", "third", HOST): 1000, ("z", "third", HOST): 1000}, targets=THREE)
    targets = {"made": ACCEL, "read": "third", "again": "third"}
    assert price(graph, targets, table) == place(graph, table, targets).seconds == 2111
    assert [str(one) for one in divide(graph, targets, {}).copies] == [
        "copy x: host -> accel", "copy v: accel -> host", "copy v: host -> third",
        "copy y: third -> host", "copy z: third -> host"]


def test_a_price_is_that_of_the_division() -> None:
    """Its segments, copies and nodes, counted one by one."""
    for graph, table, _ in (*cases(100, 9), *cases(50, 9, THREE)):
        targets = place(graph, table).targets
        divided = divide(graph, targets, {}, table.start)
        total = sum(table.copy(copy.value, copy.source, copy.target) for copy in divided.copies)
        for segment in divided.segments:
            total += table.start(segment.target)
            total += sum(table.node(node, segment.target) or 0 for node in segment.nodes)
        assert total == price(graph, targets, table)


def test_with_few_states_a_placement_is_possible_and_says_what_it_is() -> None:
    for graph, table, _ in (*cases(100, 7), *cases(50, 7, THREE)):
        placement = place(graph, table, states=1)
        assert placement.seconds == price(graph, placement.targets, table) < float("inf")
        best = place(graph, table).seconds
        assert placement.seconds == best if placement.exact else placement.seconds >= best
        assert placement.seconds <= min(prefer(graph, (one,), table).seconds
                                        for one in table.targets)


def test_a_placement_of_few_states_is_moved_until_that_makes_it_no_cheaper() -> None:
    for graph, table, _ in (*cases(100, 9), *cases(30, 9, THREE)):
        placement = place(graph, table, states=1)
        options = {
            node.name: [one for one in table.targets if table.node(node, one) is not None]
            for node in graph.nodes}
        assert all(price(graph, other, table) >= placement.seconds
                   for other in moves(graph, placement.targets, options, table))


def test_moves_go_to_each_other_target() -> None:
    graph = chain("relu", "neg")
    options = {"n0": THREE, "n1": (HOST, "third")}
    found = [dict(one) for one in moves(graph, {"n0": ACCEL, "n1": HOST}, options,
                                        Table(otherwise=1, targets=THREE))]
    assert found == [{"n0": HOST, "n1": HOST}, {"n0": "third", "n1": HOST},
                     {"n0": ACCEL, "n1": "third"}, {"n0": "third", "n1": "third"}]


def test_moves_are_those_of_segments_layers_and_nodes() -> None:
    """One kernel of the host can have them all; the last one stays where it is."""
    graph = chain("relu", "neg", "relu", "neg")

    def moved(*chosen: str) -> list[set[str]]:
        targets: dict[str, str] = dict(zip(("n0", "n1", "n2", "n3"), chosen, strict=True))
        options: dict[str, Sequence[str]] = {**dict.fromkeys(targets, TARGETS), "n3": (ACCEL,)}
        return [{name for name in targets if other[name] != targets[name]}
                for other in moves(graph, targets, options, Table(otherwise=1))]

    assert moved(HOST, HOST, ACCEL, ACCEL) == [{"n0", "n1"}, {"n2"}, {"n0"}, {"n1"}]
    assert moved(HOST, ACCEL, HOST, ACCEL) == [{"n0"}, {"n1"}, {"n2"}, {"n0", "n2"}]


def test_a_wide_graph_beyond_the_states_is_not_exact() -> None:
    """Values of which each may be anywhere, and all are live at once."""
    builder, rng = Builder("wide"), np.random.default_rng(1)
    x = builder.add_input("x", TensorType((3,), "float32"))
    values = [builder.emit("relu", f"r{i}", [x], f"v{i}") for i in range(8)]
    total = values[0]
    for i, value in enumerate(values[1:]):
        total = builder.emit("add", f"a{i}", [total, value], f"t{i}")
    graph = builder.finish([total])
    table = Table({(node.name, target): float(rng.integers(1, 9)) for node in graph.nodes
                   for target in TARGETS}, otherwise=1)
    assert place(graph, table).exact
    few = place(graph, table, states=2)
    assert not few.exact and few.seconds >= place(graph, table).seconds


def test_a_long_chain_is_exact() -> None:
    graph = chain(*["relu"] * 300)
    rng = np.random.default_rng(2)
    table = Table({(node.name, target): float(rng.integers(1, 9)) for node in graph.nodes
                   for target in TARGETS}, otherwise=3)
    placement = place(graph, table, states=16)
    assert placement.exact
    assert placement.seconds < min(prefer(graph, (target,), table).seconds for target in TARGETS)


def test_a_copy_there_and_back_can_cost_more_than_the_operator_saves() -> None:
    graph = chain("identity", "relu", "identity")
    table = Table({("n0", ACCEL): None, ("n2", ACCEL): None, ("n1", ACCEL): 1, ("n1", HOST): 4},
                  otherwise=2)
    assert set(place(graph, table).targets.values()) == {HOST}
    table.nodes["n1", HOST] = 20
    assert place(graph, table).targets["n1"] == ACCEL


def test_branches_share_segments() -> None:
    """Two branches in turn, a host and an accelerator node each, start two segments, not four."""
    builder = Builder("branches")
    x = builder.add_input("x", TensorType((3,), "float32"))
    ends = []
    for name in "ab":
        middle = builder.emit("identity", f"{name}0", [x], f"{name}.middle")
        ends.append(builder.emit("relu", f"{name}1", [middle], f"{name}.end"))
    graph = builder.finish(ends)
    able = {f"{name}{i}": (HOST, ACCEL)[i] for name in "ab" for i in range(2)}
    table = Table({(name, target): 0 if able[name] == target else None for name in able
                   for target in TARGETS}, starts={HOST: 100, ACCEL: 100})
    assert place(graph, table).seconds == 200


def test_a_graph_without_nodes() -> None:
    placement = place(Builder("none").finish([]), Table())
    assert (dict(placement.targets), placement.seconds, placement.exact) == ({}, 0, True)


def test_a_node_that_nobody_takes_is_refused() -> None:
    graph = chain("relu")
    with pytest.raises(ValueError, match=r"^n0 \(relu\): host and accel cannot take it$"):
        place(graph, Table({("n0", HOST): None, ("n0", ACCEL): None}))


def takes_relu(node: Node, target: str) -> str | None:
    return None if target == HOST or node.op == "relu" else f"there is no {node.op}"


def test_a_node_that_none_of_three_takes_is_refused() -> None:
    table = Table(dict.fromkeys(("n0", target) for target in THREE), targets=THREE)
    with pytest.raises(ValueError, match=r"^n0 \(relu\): host, accel and third cannot take it$"):
        place(chain("relu"), table)


def test_preference_is_an_order() -> None:
    """What none of the preferred targets takes goes to the first of all that does."""
    graph = chain("relu", "relu", "relu", "relu")
    table = Table({("n0", "third"): None, ("n1", "third"): None, ("n1", ACCEL): None,
                   ("n2", HOST): None}, targets=THREE)
    assert prefer(graph, ("third", ACCEL), table).targets == {
        "n0": ACCEL, "n1": HOST, "n2": "third", "n3": "third"}
    assert prefer(graph, (HOST,), table).targets == {
        "n0": HOST, "n1": HOST, "n2": ACCEL, "n3": HOST}


def test_pins_name_nodes_or_operators() -> None:
    graph = chain("relu", "identity", "relu")
    assert pinned(graph, {"relu": ACCEL}, takes_relu) == {"n0": ACCEL, "n2": ACCEL}
    assert pinned(graph, {"relu": ACCEL, "n2": HOST}, takes_relu) == {"n0": ACCEL, "n2": HOST}
    assert pinned(graph, {}, takes_relu) == {}


@pytest.mark.parametrize(("pins", "message"), [
    ({"conv": HOST}, "Pin must name a layer or an operator of the network, not 'conv'; its "
                     "operators are identity, relu"),
    ({"n1": ACCEL}, "n1 (identity) must not be pinned to accel: there is no identity"),
    ({"identity": ACCEL}, "n1 (identity) must not be pinned to accel: there is no identity"),
])
def test_pins_that_cannot_be(pins: dict[str, str], message: str) -> None:
    with pytest.raises(PinRefused) as refusal:
        pinned(chain("relu", "identity"), pins, takes_relu)
    assert str(refusal.value) == message
