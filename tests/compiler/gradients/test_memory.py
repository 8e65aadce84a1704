"""What is computed twice: the choice against all choices there are, and the graph's values."""

from itertools import combinations, product

import numpy as np
import pytest

import lockstep
from compiler.gradients.memory import LittleMemory
from compiler.gradients.memory.chain import Links
from compiler.gradients.memory.choice import chosen, least_budget
from compiler.gradients.steps import TrainingStep, training_step
from compiler.graph import Builder, TensorType, evaluate, verify


def chain(rng: np.random.Generator, count: int) -> Links:
    """A chain whose links save some bytes and hand one value on."""
    saved, handed = rng.integers(1, 20, count), rng.integers(1, 9, count)
    crossing = np.zeros((count, count + 1))
    for cut in range(1, count + 1):
        crossing[:cut, cut] = handed[cut - 1] if cut < count else 0
    return Links(np.arange(count + 1), np.concatenate([[0], np.cumsum(saved)]), saved.astype(float),
                 crossing, rng.integers(0, 6, count).astype(float),
                 np.concatenate([[0], np.cumsum(rng.integers(1, 30, count))]).astype(float))


def cheapest(links: Links, budget: float) -> float:
    """The least cost of all ways to divide the chain into parts that are kept or computed again."""
    count, best = len(links.kept), np.inf
    for size in range(count):
        for inner in combinations(range(1, count), size):
            cuts = [0, *inner, count]
            for again in product((False, True), repeat=len(cuts) - 1):
                best = min(best, cost_of(links, cuts, again, budget))
    return best


def cost_of(links: Links, cuts: list[int], again: tuple[bool, ...], budget: float) -> float:
    stays = cost = 0.0
    for first, last, twice in zip(cuts, cuts[1:], again, strict=False):
        room = links.transient[first:last].max()
        inside = links.saved[last] - links.saved[first] if twice else links.kept[first:last].sum()
        if stays + inside + room > budget:
            return np.inf
        stays += links.crossing[first, last] if twice else inside
        cost += links.cost[last] - links.cost[first] if twice else 0
    return cost


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_costs_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links = chain(rng, int(rng.integers(3, 7)))
    least = least_budget(links)
    assert cheapest(links, least) < np.inf and cheapest(links, least * 0.97) == np.inf
    for budget in np.linspace(least, links.saved[-1] + 8, 6):
        parts = chosen(links, budget)
        assert parts is not None
        paid = sum(links.cost[last] - links.cost[first] for first, last in parts)
        assert paid == cheapest(links, budget)


def deep(layers: int) -> TrainingStep:
    """Products with two functions behind each, of 8 x 8."""
    rng, net = np.random.default_rng(1), Builder("deep")
    net.add_input("x", TensorType((8, 8), "float32"))
    value = "x"
    for number in range(layers):
        net.add_constant(f"w{number}", rng.standard_normal((8, 8)).astype(np.float32) / 3)
        net.emit("matmul", f"m{number}", [value, f"w{number}"], f"m{number}.y")
        net.emit("sin", f"s{number}", [f"m{number}.y"], f"s{number}.y")
        value = net.emit("tanh", f"t{number}", [f"s{number}.y"], f"t{number}.y")
    graph = lockstep.mean_squared_error(net.finish([value]), value)
    return training_step(graph, "loss", [f"w{number}" for number in range(layers)], lockstep.Sgd())


@pytest.mark.parametrize("factor", [1.0, 1.4])
def test_values_are_those_of_the_step(factor: float, rng: np.random.Generator) -> None:
    step = deep(40)
    ways = LittleMemory(step)
    little = ways.within(ways.least * factor)
    assert little is not None and len(little.graph.nodes) > len(step.graph.nodes)
    given = {"x": rng.standard_normal((8, 8)).astype(np.float32),
             "target": rng.standard_normal((8, 8)).astype(np.float32), **step.first,
             step.rate: np.array(0.1, np.float32), step.time: np.array(0)}
    wanted, made = evaluate(step.graph, given), evaluate(verify(little.graph), given)
    assert {name: array.tobytes() for name, array in made.items()} == {
        name: array.tobytes() for name, array in wanted.items()}


def test_what_is_cheaper_is_kept_where_there_is_room() -> None:
    ways = LittleMemory(deep(40))
    counts = []
    for factor in (1.0, 1.5, 2.0, 100.0):
        little = ways.within(ways.least * factor)
        assert little is not None
        counts.append(sum(node.name.endswith(".again") for node in little.graph.nodes))
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[1] and counts[-1] == 0
    assert ways.within(ways.least / 2) is None
