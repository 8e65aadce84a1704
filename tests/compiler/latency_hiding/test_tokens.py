"""Inserted tokens make random streams legal, and spend nothing on what follows anyway."""

import itertools
from collections import deque

import numpy as np
import pytest

from compiler.latency_hiding import AddressSet, Event, Tokens, check, insert_tokens

UNITS: tuple[str, ...] = ("load", "gemm", "vector", "store")
SIZES = {"a": 12, "b": 7, "dram": 20}
INITIAL = {memory: ((0, size),) for memory, size in SIZES.items()}


def random_access(rng: np.random.Generator) -> AddressSet:
    memory = str(rng.choice(list(SIZES)))
    size = SIZES[memory]
    write = bool(rng.random() < 0.4)
    if rng.random() < 0.5:
        start = int(rng.integers(size))
        stop = int(rng.integers(start, min(size, start + 4) + 1))
        return AddressSet(memory, (start, stop), write)
    return AddressSet(memory, rng.permutation(size)[:rng.integers(0, 4)], write)


def random_stream(seed: int, count: int) -> list[Event]:
    rng = np.random.default_rng(seed)
    return [Event(str(rng.choice(UNITS)),
                  tuple(random_access(rng) for _ in range(rng.integers(0, 4))), f"e{i}")
            for i in range(count)]


def addresses(event: Event, write: bool) -> set[tuple[str, int]]:
    return {(access.memory, int(address)) for access in event.accesses if access.write == write
            for address in np.arange(SIZES[access.memory])[access.index]}


def conflict(earlier: Event, later: Event) -> bool:
    reads, writes = addresses(earlier, False), addresses(earlier, True)
    return bool(writes & addresses(later, True) or writes & addresses(later, False)
                or reads & addresses(later, True))


def edges(tokens: list[Tokens], events: list[Event]) -> list[tuple[int, int]]:
    """Token edges, the k-th signal matched with the k-th wait."""
    signals, result = {}, []
    for i, (event, token) in enumerate(zip(events, tokens)):
        result += [(signals[unit, event.unit].popleft(), i) for unit in token.waits]
        for unit in token.signals:
            signals.setdefault((event.unit, unit), deque()).append(i)
    assert not any(signals.values())
    return result


def closure(events: list[Event], token_edges: list[tuple[int, int]]) -> np.ndarray:
    """Which event is known to finish before which other starts, or is of its unit."""
    before = np.array([[i < j and a.unit == b.unit for j, b in enumerate(events)]
                       for i, a in enumerate(events)])
    for i, j in token_edges:
        before[i, j] = True
    for k in range(len(events)):
        before |= before[:, k:k + 1] & before[k]
    return before


def ordered(events: list[Event], token_edges: list[tuple[int, int]]) -> bool:
    before = closure(events, token_edges)
    return all(before[i, j] or events[i].unit == events[j].unit
               for i, j in itertools.combinations(range(len(events)), 2)
               if conflict(events[i], events[j]))


def without(tokens: list[Tokens], events: list[Event], edge: tuple[int, int]) -> list[Tokens]:
    producer, consumer = edge
    result = list(tokens)
    signals, waits = tokens[producer].signals, tokens[consumer].waits
    result[producer] = Tokens(tokens[producer].waits,
                              tuple(u for u in signals if u != events[consumer].unit))
    result[consumer] = Tokens(tuple(u for u in waits if u != events[producer].unit),
                              result[consumer].signals)
    return result


def execute(events: list[Event], order: list[tuple[str, int]]) -> dict[str, np.ndarray]:
    """Every event reads at its start and, when it finishes, writes a hash of what it read."""
    memory = {name: np.arange(size, dtype=np.int64) for name, size in SIZES.items()}
    read: dict[int, int] = {}
    for action, i in order:
        if action == "start":
            seen = [memory[m][a] for m, a in sorted(addresses(events[i], False))]
            read[i] = hash((i, *map(int, seen)))
        else:
            for m, a in sorted(addresses(events[i], True)):
                memory[m][a] = read[i] + a
    return memory


def random_timing(events: list[Event], tokens: list[Tokens], seed: int) -> list[tuple[str, int]]:
    """Starts and finishes of the events under random delays of in-order, overlapping units."""
    rng = np.random.default_rng(seed)
    counters = dict.fromkeys(itertools.product(UNITS, UNITS), 0)
    waiting = {u: deque(i for i, e in enumerate(events) if e.unit == u) for u in UNITS}
    running: dict[str, int | None] = dict.fromkeys(UNITS)
    order: list[tuple[str, int]] = []
    for _ in range(100 * len(events) + 100):
        unit = str(rng.choice(UNITS))
        i = running[unit]
        if i is not None:
            for target in tokens[i].signals:
                counters[unit, target] += 1
            order.append(("finish", i))
            running[unit] = None
        elif waiting[unit] and all(counters[u, unit] for u in tokens[waiting[unit][0]].waits):
            i = running[unit] = waiting[unit].popleft()
            for source in tokens[i].waits:
                counters[source, unit] -= 1
            order.append(("start", i))
        if len(order) == 2 * len(events):
            return order
    raise AssertionError("the stream does not end")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(60))
def test_tokens_order_every_conflict(seed):
    events = random_stream(seed, 40)
    tokens = insert_tokens(events, UNITS)
    assert ordered(events, edges(tokens, events))
    assert check(events, tokens, INITIAL) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(40))
def test_every_token_is_needed_or_implied_and_the_check_knows_which(seed):
    events = random_stream(seed, 24)
    tokens = insert_tokens(events, UNITS)
    all_edges = edges(tokens, events)
    for edge in all_edges:
        rest = [e for e in all_edges if e != edge]
        found = check(events, without(tokens, events, edge), INITIAL)
        assert (not found) == ordered(events, rest)
        assert all(v.kind == "unordered" for v in found)


def test_most_tokens_are_needed():
    """The scan is greedy, so a later token may imply an earlier one, but seldom does."""
    idle = total = 0
    for seed in range(20):
        events = random_stream(seed, 24)
        all_edges = edges(insert_tokens(events, UNITS), events)
        total += len(all_edges)
        idle += sum(ordered(events, [e for e in all_edges if e != edge]) for edge in all_edges)
    assert idle <= 0.02 * total


@pytest.mark.parametrize("seed", range(25))
def test_random_timings_end_with_the_memory_of_stream_order(seed):
    events = random_stream(seed, 40)
    tokens = insert_tokens(events, UNITS)
    plain = [(action, i) for i in range(len(events)) for action in ("start", "finish")]
    expected = execute(events, plain)
    for timing in range(4):
        found = execute(events, random_timing(events, tokens, timing))
        for memory in SIZES:
            np.testing.assert_array_equal(found[memory], expected[memory])


def test_streams_without_tokens_do_go_wrong():
    events = random_stream(0, 40)
    expected = execute(events, [(a, i) for i in range(40) for a in ("start", "finish")])
    found = execute(events, random_timing(events, [Tokens()] * 40, 1))
    assert any((found[memory] != expected[memory]).any() for memory in SIZES)


def produce_then_consume(count: int) -> list[Event]:
    """`count` loads, then `count` readers of one of them each."""
    return ([Event("load", (AddressSet("a", (i, i + 1), True),)) for i in range(count)]
            + [Event("gemm", (AddressSet("a", (i, i + 1)),)) for i in range(count)])


def outstanding(tokens: list[Tokens], events: list[Event]) -> int:
    """The most tokens of one pair that wait to be taken at any point of the stream."""
    levels: dict[tuple[str, str], int] = {}
    most = 0
    for event, token in zip(events, tokens):
        for unit in token.waits:
            levels[unit, event.unit] -= 1
        for unit in token.signals:
            levels[event.unit, unit] = levels.get((event.unit, unit), 0) + 1
            most = max(most, levels[event.unit, unit])
    return most


def test_the_capacity_of_a_counter_coarsens_tokens():
    events = produce_then_consume(600)
    tokens = insert_tokens(events, UNITS)
    assert outstanding(tokens, events) == 255
    assert check(events, tokens, {}) == []
    assert tokens[600 + 253].waits == tokens[600 + 254].waits == ("load",)
    assert all(token.waits == () for token in tokens[600 + 255:])
    assert tokens[599].signals == ("gemm",)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("capacity", [1, 2])
def test_small_capacities_are_kept_on_random_streams(seed, capacity):
    events = random_stream(seed, 40)
    tokens = insert_tokens(events, UNITS, capacity)
    assert outstanding(tokens, events) <= capacity
    assert ordered(events, edges(tokens, events))


def test_double_buffering_leaves_units_free_to_overlap():
    """Two copies of a buffer: load of tile t waits for the gemm of tile t - 2 alone."""
    events = []
    for tile in range(4):
        half = (8 * (tile % 2), 8 * (tile % 2) + 8)
        events.append(Event("load", (AddressSet("inp", half, True),)))
        events.append(Event("gemm", (AddressSet("inp", half),)))
    tokens = insert_tokens(events, UNITS)
    assert edges(tokens, events) == [(0, 1), (2, 3), (1, 4), (4, 5), (3, 6), (6, 7)]


def test_an_ordering_through_a_third_unit_gets_no_token():
    events = [Event("load", (AddressSet("a", (0, 1), True),)),
              Event("gemm", (AddressSet("a", (0, 1)), AddressSet("b", (0, 1), True))),
              Event("vector", (AddressSet("a", (0, 1)), AddressSet("b", (0, 1))))]
    assert insert_tokens(events, UNITS) == [
        Tokens(signals=("gemm",)), Tokens(("load",), ("vector",)), Tokens(("gemm",))]


def test_readers_need_no_order_among_themselves():
    events = [Event(unit, (AddressSet("a", (0, 4)),)) for unit in UNITS]
    assert insert_tokens(events, UNITS) == [Tokens()] * 4


def test_unknown_unit_wrong():
    with pytest.raises(ValueError, match=r"^Unit of 'copy x' must be one of load, gemm, vector, "
                                         r"store, not 'dma'$"):
        insert_tokens([Event("dma", (), "copy x")], UNITS)


def test_capacity_wrong():
    with pytest.raises(ValueError, match="^Capacity of a counter must be at least 1, not 0$"):
        insert_tokens([], UNITS, 0)


@pytest.mark.parametrize(("addresses", "message"), [
    ((3, 2), r"Interval of a must be (start, stop) with 0 <= start <= stop, not (3, 2)"),
    ((-1, 2), r"Interval of a must be (start, stop) with 0 <= start <= stop, not (-1, 2)"),
    (np.zeros(2), "Addresses of a must be a vector of integers, not float64 of shape (2,)"),
    (np.array([3, -4]), "Addresses of a must not be negative, not -4"),
])
def test_addresses_wrong(addresses, message):
    with pytest.raises(ValueError) as refusal:     # noqa: PT011 - the whole message is compared
        AddressSet("a", addresses)
    assert str(refusal.value) == message
