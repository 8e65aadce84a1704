"""Operators that the accelerator has never heard of, computed by what their expressions match."""

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.mapping.selecting.selection import select
from accel.mapping.target import AccelTarget
from compiler import te
from compiler.graph import Graph
from compiler.ops import registry
from compiler.ops.integers.arithmetic import requantize
from compiler.ops.records.broadcasting import broadcast, broadcast_shape
from compiler.ops.records.operator import Kind, Numbers, Operator
from compiler.te import Expr
from compiler.tensorize import cover
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import TINY, machine
from tests.support.slow_cases import each_once

ABSDIFF = vector_op("absdiff", lambda a, b: te.abs(a - b))
MACHINES = {"tiny": TINY, "pynq": Machine(preset("pynq-1x16x16")),
            "batches of two": machine("2x8x8"),
            "absdiff": Machine(TINY.config, (*SHIPPED, ABSDIFF))}
MULT, SHIFT, LO, HI = 45000, 22, -100, 127


def record(name: str, element: Callable[..., Expr], meaning: Callable) -> Operator:
    """An operator of any number of inputs, which broadcast."""
    def define(attrs, inputs, name):
        shape = broadcast_shape(*(x.shape for x in inputs))
        return te.compute(shape, lambda *i: element(*(broadcast(x, i) for x in inputs)), name)

    return Operator(name=name, summary=name, inputs="x, ...", define=define,
                    meaning=lambda attrs, *x: meaning(*x), numbers=Numbers.INTEGER,
                    kind=Kind.ELEMENTWISE)


def of_tables(name: str, element: Callable[..., Expr], meaning: Callable) -> Operator:
    """An operator of one input and tables."""
    def define(attrs, inputs, name):
        x, *tables = inputs
        return te.compute(x.shape, lambda *i: element(word(x[i]), *tables), name)

    return Operator(name=name, summary=name, inputs="x, table, ...", define=define,
                    meaning=lambda attrs, *x: meaning(*x), numbers=Numbers.INTEGER,
                    kind=Kind.ELEMENTWISE)


def word(element: Expr) -> Expr:
    return element.astype("int32")


def scaled(total: Expr, zp: int = 3) -> Expr:
    return requantize(total, te.const(-70, "int32"), te.const(MULT, "uint16"),
                      te.const(SHIFT, "uint8"), zp, LO, HI).astype("int8")


def rounded(total: np.ndarray, mult=MULT, shift=SHIFT, zp: int = 3) -> np.ndarray:
    return np.clip(np.rint((total - 70.0) * mult / 2.0**shift) + zp, LO, HI).astype(np.int8)


def big(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64)


RECORDS = (
    record("own_max", lambda a, b: te.maximum(a, b), np.maximum),
    record("own_min_of_three", lambda a, b, c: te.minimum(te.minimum(a, b), c),
           lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    record("own_sum", lambda a, b: a + b, lambda a, b: (big(a) + b).astype(np.int8)),
    record("own_difference", lambda a, b: te.clamp(word(a) - word(b), -90, 127).astype("int8"),
           lambda a, b: np.clip(big(a) - b, -90, 127).astype(np.int8)),
    record("own_distance", lambda a, b: scaled(te.abs(word(a) - word(b)) * 40),
           lambda a, b: rounded(np.abs(big(a) - b) * 40)),
    record("own_other_distance", lambda a, b: scaled(te.maximum(word(a) - word(b),
                                                                word(b) - word(a)) * 40),
           lambda a, b: rounded(np.abs(big(a) - b) * 40)),
    record("own_product", lambda a, b: scaled((word(a) - 3) * (word(b) + 5)),
           lambda a, b: rounded((big(a) - 3) * (big(b) + 5))),
    record("own_square", lambda a: te.clamp(a.astype("int64") * a.astype("int64") - 1000,
                                            -128, 127).astype("int8"),
           lambda a: np.clip(big(a) * a - 1000, -128, 127).astype(np.int8)),
    record("own_scale", lambda a, mult, shift: requantize(
        word(a), te.const(-70, "int32"), mult.astype("uint16"), shift.astype("uint8"), 3, LO, HI
    ).astype("int8"), lambda a, mult, shift: rounded(big(a), mult, shift)),
    record("own_bias", lambda a, b: te.clamp(word(a) * 3 + b, -128, 127).astype("int8"),
           lambda a, b: np.clip(big(a) * 3 + b, -128, 127).astype(np.int8)),
    record("own_double", lambda a: (word(a) + word(a)).astype("int8"),
           lambda a: (big(a) * 2).astype(np.int8)),
    record("own_factor", lambda a, b: (word(a) * b).astype("int8"),
           lambda a, b: (big(a) * b).astype(np.int8)),
    record("own_quotient", lambda a, b: te.maximum(word(a) // 3, word(b)).astype("int8"),
           lambda a, b: np.maximum(big(a) // 3, b).astype(np.int8)),
    of_tables("own_table", lambda a, t: t[(a & 255).astype(te.INDEX)],
              lambda a, t: t[a.view(np.uint8)]),
    of_tables("own_sum_of_tables", lambda a, t, u: te.clamp(
        word(t[((a + a) & 255).astype(te.INDEX)]) + word(u[(a & 255).astype(te.INDEX)]),
        -128, 127).astype("int8"),
              lambda a, t, u: np.clip(big(t[(big(a) * 2) & 255]) + u[a.view(np.uint8)],
                                      -128, 127).astype(np.int8)),
    of_tables("own_tables", lambda a, *t: te.clamp(
        reduce(add, (word(one[(a & 255).astype(te.INDEX)]) for one in t)), -128, 127
    ).astype("int8"), lambda a, *t: np.clip(sum(big(one[a.view(np.uint8)]) for one in t),
                                            -128, 127).astype(np.int8)),
    of_tables("own_two_tables", lambda a, t, u: te.clamp(
        word(t[(a & 255).astype(te.INDEX)]) + word(t[((a + a) & 255).astype(te.INDEX)])
        + word(u[(a & 255).astype(te.INDEX)]), -128, 127).astype("int8"),
              lambda a, t, u: np.clip(big(t[a.view(np.uint8)]) + t[(big(a) * 2) & 255]
                                      + u[a.view(np.uint8)], -128, 127).astype(np.int8)),
)


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in RECORDS:
        monkeypatch.setitem(registry.OPERATORS, one.name, one)


def graph_of(op: str, *shapes: tuple[int, ...], between: bool = False) -> tuple[Net, Graph]:
    """The operator on inputs, or on results of layers."""
    net = Net(7)
    values = [net.input(*shape, name=f"in{place}") for place, shape in enumerate(shapes)]
    if between:
        values = [net.rescale(value) for value in values]
    result = net.add_node(op, *values)
    return net, net.graph(net.rescale(result) if between else result)


def instructions(machine: Machine, graph: Graph) -> list[str]:
    """Those that compute the operator of a graph with one node."""
    return [step.intrinsic.name for step in select(machine, graph, graph.nodes[0]).steps]


IMAGE, ROWS, HIGH = (2, 20, 5, 6), (7, 20), (2, 5, 20)
SAME = {"own_max": 2, "own_min_of_three": 3, "own_sum": 2, "own_difference": 2, "own_distance": 2,
        "own_other_distance": 2, "own_product": 2, "own_square": 1}


@each_once("op, name", [*SAME], [*MACHINES])
def test_inputs_of_one_shape(op: str, name: str) -> None:
    for shape, between in ((IMAGE, True), (ROWS, False), (HIGH, True)):
        net, graph = graph_of(op, *[shape] * SAME[op], between=between)
        assert_right(MACHINES[name], graph, net.samples())


BROADCAST = {
    "a number for each channel": (IMAGE, (2, 20, 1, 1)), "the other way": ((2, 20, 1, 1), IMAGE),
    "a number for each pixel": (IMAGE, (2, 1, 5, 6)), "one image": (IMAGE, (1, 20, 5, 6)),
    "one number": (IMAGE, (1, 1, 1, 1)), "one row": (IMAGE, (2, 20, 1, 6)),
    "one column": (IMAGE, (2, 20, 5, 1)), "both": ((2, 20, 1, 1), (1, 1, 5, 6)),
    "one row of a matrix": (ROWS, (1, 20)), "one column of a matrix": (ROWS, (7, 1)),
    "a matrix of one row": ((2, 5, 12), (1, 1, 12)), "few channels": ((1, 3, 5, 6), (1, 3, 1, 1)),
    "large": ((1, 40, 16, 16), (1, 40, 1, 1)),
}


@each_once("shapes, name", [*BROADCAST], ["tiny", "batches of two"])
def test_inputs_that_broadcast(shapes: str, name: str) -> None:
    for op, between in (("own_product", False), ("own_difference", True)):
        net, graph = graph_of(op, *BROADCAST[shapes], between=between)
        assert_right(MACHINES[name], graph, net.samples())


def test_what_broadcasts_is_loaded_once_for_a_block_of_channels() -> None:
    """Its load stands outside of the loops over rows and columns."""
    _, graph = graph_of("own_product", *BROADCAST["large"])
    program = AccelTarget(TINY).compile(graph).program
    outside = [at for at, label in enumerate(program.labels[:program.layers[0][1]])
               if "_output_x_o" not in label]
    words = program.instructions(TINY)
    assert {words[at].unit for at in outside} == {"load"} and len(outside) < 4


MAPS = {
    "requantize((x0 - 3) * (x1 + 128), 40000, 23, -7, -120, 127)": "sub add mul requantize",
    "clamp(max(abs(x0 - x1), x2) - 5, -128, 127)": "sub sub max max sub clamp",
}


@pytest.mark.parametrize("text", MAPS)
def test_functions_as_text(text: str) -> None:
    net = Net(3)
    values = [net.input(*IMAGE, name=f"in{place}") for place in range(2 + ("x2" in text))]
    graph = net.graph(net.add_node("qmap", *values, function=text))
    assert " ".join(instructions(TINY, graph)) == MAPS[text]
    assert_right(TINY, graph, net.samples())


@pytest.mark.slow
def test_every_simulator_computes_the_same() -> None:
    """On the RTL with an instruction of one's own, too."""
    net = Net(3)
    x, y = (net.rescale(net.input(1, 6, 4, 5, name=name)) for name in ("x", "y"))
    gate = net.add_node("own_product", x, net.average(y))
    graph = net.graph(net.add_node("own_distance", gate, y))
    samples = net.samples()
    for name in ("tiny", "absdiff"):
        program = assert_right(MACHINES[name], graph, samples)
        assert_simulators_agree(MACHINES[name], program, samples)


def table_of(net: Net, size: int = 256) -> str:
    return net.constant(net.rng.integers(-128, 128, size).astype(np.int8))


@each_once("shape, name", [IMAGE, ROWS, HIGH, (1, 3, 40, 50)], [*MACHINES])
def test_functions_as_tables(shape: tuple[int, ...], name: str) -> None:
    net = Net(3)
    x = net.add_node("qtable", net.input(*shape), table_of(net))
    y = net.add_node("qtable", net.rescale(x), table_of(net))
    graph = net.graph(y)
    assert instructions(MACHINES[name], graph) == ["lookup"]
    assert_right(MACHINES[name], graph, net.samples())


def test_a_table_behind_a_convolution_in_every_simulator() -> None:
    """Its tiles run between those of the convolution; the next one reads the result."""
    net = Net(3)
    x = net.conv(net.input(1, 8, 12, 11), 24, pads=(1, 1, 1, 1))
    x = net.add_node("qtable", x, table_of(net))
    x = net.add_node("qtable", net.conv(x, 9), table_of(net))
    samples = net.samples()
    program = assert_right(TINY, net.graph(x), samples)
    units = [words.unit for words in program.instructions(TINY)]
    assert units.count("vector") > 8
    assert_simulators_agree(TINY, program, samples)


def test_tables_within_an_operator() -> None:
    """Two tables, one read where a sum says, and read twice by an instruction of one's own."""
    steep = vector_op("steep", lambda a, table: table[(a + a) & 255] + table[a & 255])
    net = Net(3)
    first, second = table_of(net), table_of(net)
    graph = net.graph(net.add_node("own_two_tables", net.input(*IMAGE), first, second))
    for chosen, names in (
            (TINY, "lookup add lookup add lookup add clamp"),
            (Machine(TINY.config, (*SHIPPED, steep)), "steep lookup add clamp")):
        assert " ".join(instructions(chosen, graph)) == names
        assert_right(chosen, graph, net.samples())


def test_a_body_with_one_table_reads_no_two() -> None:
    steep = vector_op("steep", lambda a, table: table[(a + a) & 255] + table[a & 255])
    net = Net(3)
    first, second = table_of(net), table_of(net)
    graph = net.graph(net.add_node("own_sum_of_tables", net.input(*IMAGE), first, second))
    chosen = Machine(TINY.config, (*SHIPPED, steep))
    assert "steep" not in instructions(chosen, graph)
    assert_right(chosen, graph, net.samples())


def test_more_tables_than_the_buffer_holds_are_refused() -> None:
    for count, reason in ((8, None), (9, "tab needs 9 of 8 entries")):
        net = Net(3)
        tables = [table_of(net) for _ in range(count)]
        found = refused(net.graph(net.add_node("own_tables", net.input(*IMAGE), *tables)))
        assert found is None if reason is None else reason in (found or "")


def test_tables_that_are_refused() -> None:
    net = Net(3)
    graph = net.graph(net.add_node("own_table", net.input(*IMAGE), table_of(net, 300)))
    assert refused(graph) == "no vector instruction computes int32(x1[int64(uint8(x0))])"
    net = Net(3)
    graph = net.graph(net.add_node("own_table", net.input(*IMAGE), net.input(256, name="t")))
    assert refused(graph) == "its input has 1 dimensions; the accelerator takes 2 and more"
    few = tuple(one for one in SHIPPED if one.name != "lookup")
    net = Net(3)
    graph = net.graph(net.add_node("qtable", net.input(*IMAGE), table_of(net)))
    assert refused(graph, Machine(TINY.config, few)) == (
        "no vector instruction computes int32(x1[int64(uint8(x0))])")


COVERS = {
    "own_max": {"tiny": "max"}, "own_min_of_three": {"tiny": "min min"},
    "own_distance": {"tiny": "sub sub max mul requantize", "absdiff": "absdiff mul requantize"},
    "own_other_distance": {"tiny": "sub sub max mul requantize",
                           "absdiff": "absdiff mul requantize"},
    "own_product": {"tiny": "sub add mul requantize"}, "own_square": {"tiny": "mul sub clamp"},
    "own_sum": {"tiny": "add"}, "own_difference": {"tiny": "sub clamp"},
}


@pytest.mark.parametrize("op", COVERS)
def test_the_cheapest_composition_is_taken(op: str) -> None:
    _, graph = graph_of(op, *[IMAGE] * SAME[op])
    assert {name: " ".join(instructions(MACHINES[name], graph))
            for name in COVERS[op]} == COVERS[op]


def test_reading_one_buffer_twice_costs_a_cycle() -> None:
    """A body of one operand is taken before one of two that lie in one buffer."""
    twice = vector_op("twice", lambda a: a + a)
    _, graph = graph_of("own_double", IMAGE)
    assert instructions(TINY, graph) == ["add"]
    assert instructions(Machine(TINY.config, (*SHIPPED, twice)), graph) == ["twice"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", MACHINES)
def test_constants_of_channels_are_parameters(name: str) -> None:
    for shape, axis in ((IMAGE, 1), (ROWS, 1), ((2, 5, 20), 2)):
        net = Net(3)
        x = net.rescale(net.input(*shape))
        along = [shape[axis] if at == axis else 1 for at in range(len(shape))]
        mult = net.rng.integers(1 << 15, 1 << 16, along).astype(np.int32)
        shift = net.rng.integers(15, 18, along).astype(np.int32)
        y = net.add_node("own_scale", x, net.constant(mult), net.constant(shift))
        bias = net.rng.integers(-300, 300, along).astype(np.int32)
        z = net.add_node("own_bias", y, net.constant(bias))
        assert_right(MACHINES[name], net.graph(z), net.samples())


def test_a_constant_that_no_record_holds_is_copied_first() -> None:
    """mul takes no parameter for b that may need more than 16 bits, so copy brings it to acc."""
    net = Net(3)
    bias = net.rng.integers(0, 1 << 16, (1, 20, 1, 1)).astype(np.int32)
    y = net.add_node("own_factor", net.input(*IMAGE), net.constant(bias))
    graph = net.graph(y)
    assert instructions(TINY, graph) == ["copy", "mul"]
    assert_right(TINY, graph, net.samples())


def refused(graph: Graph, machine: Machine = TINY) -> str | None:
    return AccelTarget(machine).refusal(graph, graph.nodes[0])


def test_a_refusal_names_the_part_that_no_body_computes() -> None:
    _, graph = graph_of("own_quotient", IMAGE, IMAGE)
    assert refused(graph) == "no vector instruction computes x0 // 3"
    few = tuple(one for one in SHIPPED if one.name not in ("max", "sub"))
    _, graph = graph_of("own_distance", IMAGE, IMAGE)
    assert refused(graph, Machine(TINY.config, few)) == (
        "no vector instruction computes abs(x0 - x1)")
    assert refused(graph, Machine(TINY.config, (*few, ABSDIFF))) is None


def test_refused_inputs() -> None:
    net = Net(3)
    fixed = net.constant(net.rng.integers(-9, 9, IMAGE).astype(np.int8))
    graph = net.graph(net.add_node("own_max", fixed, fixed))
    assert refused(graph) == "all its inputs are constants"
    _, graph = graph_of("own_max", (20,), (20,))
    assert refused(graph) == "its input has 1 dimensions; the accelerator takes 2 and more"
    _, graph = graph_of("own_max", (2, 5, 12), (2, 1, 12))
    assert refused(graph) == ("an input of shape (2, 1, 12) is repeated to (2, 5, 12); the "
                              "accelerator repeats images, channels, rows and columns")
    net = Net(3)
    whole = net.constant(net.rng.integers(-9, 9, IMAGE).astype(np.int32))
    graph = net.graph(net.add_node("own_bias", net.input(*IMAGE), whole))
    assert refused(graph) == ("its constant of shape (2, 20, 5, 6) must be one number, or one for "
                              "each of 20 channels")


def test_a_vector_at_another_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def define(attrs, inputs, name):
        x, vector = inputs
        return te.compute(x.shape, lambda n, c, h, w: (
            word(x[n, c, h, w]) + vector[19 - c]).astype("int8"), name)

    monkeypatch.setitem(registry.OPERATORS, "own_turned", Operator(
        name="own_turned", summary="", inputs="x, vector", define=define,
        meaning=lambda attrs, x, vector: (x + vector[::-1, None, None]).astype(np.int8),
        numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE))
    net = Net(3)
    vector = net.constant(np.arange(20, dtype=np.int32))
    graph = net.graph(net.add_node("own_turned", net.input(*IMAGE), vector))
    assert refused(graph) == "its expression reads x1 at another place than its own"


def test_swapped_operands_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above compare would differ if a cover bound the operands of sub wrongly."""
    net, graph = graph_of("own_difference", IMAGE, IMAGE)
    right = cover.CoverStep.body

    def swapped(step, operand):
        names = dict(step.bound)
        if step.intrinsic.name != "sub":
            return right(step, operand)
        return right(cover.CoverStep(step.intrinsic, step.value, tuple(
            {"a": names["b"], "b": names["a"]}.items())), operand)

    monkeypatch.setattr(cover.CoverStep, "body", swapped)
    with pytest.raises(AssertionError, match="not equal"):
        assert_right(TINY, graph, net.samples())
