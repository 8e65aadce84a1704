"""Every declared instruction is executed, or a reason names the layer and the condition: where a
test takes the condition away, the instruction runs.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from accel.machine.intrinsics import SHIPPED, Declaration, vector_op
from accel.machine.machine import Machine
from accel.answers.instructions import NO_END, NO_SUM, InstructionAnswer, answers
from accel.mapping.target import AccelTarget
from compiler import te
from compiler.te import Axis, Expr, Var
from compiler.tensorize import Intrinsic, Operand
from examples.machines.published.array_128 import requantize_add
from tests.support.integer_graphs import Net
from tests.support.machines import TINY, example
from tests.support.softmax_graphs import softmax_graph

WIDE = Machine(replace(TINY.config, name="1x4x16", block_out=16, wgt_bytes=4096, acc_bytes=8192,
                       out_bytes=4096, res_bytes=4096, par_bytes=8192))
WITHOUT_GEMM = tuple(one for one in SHIPPED if one.name != "gemm")


def gemm_like(name: str, product: Callable[..., Expr], columns: Callable[[int], int] = int,
              op: str = "sum") -> Declaration:
    """An instruction of gemm that reduces `product` of x, w and their lanes b, o and i."""
    def build(config) -> tuple[Intrinsic, ...]:
        b, o = Axis(Var("lane_b"), config.batch), Axis(Var("lane_o"), config.block_out)
        i = te.reduce_axis(config.block_in, "lane_i")
        x = te.placeholder((b.extent, config.block_in), "int8", "inp")
        w = te.placeholder((o.extent, columns(config.block_in)), "int8", "wgt")
        value = {"sum": te.sum, "max": te.max}[op](product(x, w, b.var, o.var, i.var), i)
        return (Intrinsic(name, "gemm", Operand("dst", (b.extent, o.extent), "int32",
                                                (("acc", "int32"),)),
                          (Operand("inp", x.shape, "int8", (("inp", "int8"),)),
                           Operand("wgt", w.shape, "int8", (("wgt", "int8"),))),
                          (b, o), value, op, loops=6),)

    return Declaration(name, "gemm", build)


def wide(value: Expr) -> Expr:
    return value.astype("int32")


def low(value: Expr) -> Expr:
    return wide(value) << 28 >> 28


def high(value: Expr) -> Expr:
    return wide(value) >> 4


def difference(x, w, b, o, i) -> Expr:
    return wide(x[b, i]) - wide(w[o, i])


def ternary(x, w, b, o, i) -> Expr:
    code = wide(w[o, i // 4]) >> wide(2 * (i % 4)) & 3
    return te.select(code > 1, 0 - wide(x[b, i]), te.select((code & 1) > 0, wide(x[b, i]), 0))


PRODUCTS = {
    "pairs of 4 bits": (gemm_like("own", lambda x, w, b, o, i: low(x[b, i]) * low(w[o, i])
                                  + high(x[b, i]) * high(w[o, i])), "its sum of "),
    "ternary": (gemm_like("own", ternary, lambda n: n // 4), "its sum of select("),
    "squared distance": (gemm_like("own", lambda *at: difference(*at) * difference(*at)),
                         r"its sum of \(inp - wgt\) \* \(inp - wgt\) "),
    "distance": (gemm_like("own", lambda *at: te.abs(difference(*at))),
                 r"its sum of abs\(inp - wgt\) "),
    "greatest sum": (gemm_like("own", lambda x, w, b, o, i: wide(x[b, i]) + wide(w[o, i]),
                               op="max"), r"its max of inp \+ wgt ")}


def machine_with(*own: Declaration, before: tuple[Declaration, ...] = SHIPPED) -> Machine:
    return Machine(TINY.config, (*before, *own))


def told(machine: Machine, net: Net, *outputs: str) -> dict[str, InstructionAnswer]:
    graph = net.graph(*outputs)
    program = AccelTarget(machine).compile(graph).program
    return {one.name: one for one in answers(machine, [program], graph, [graph], {})}


def convolution() -> tuple[Net, str]:
    net = Net(1)
    return net, net.conv(net.input(1, 8, 4, 4), 8, (3, 3))


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_no_product(name: str) -> None:
    own, begin = PRODUCTS[name]
    answer = told(machine_with(own), *convolution())["own"]
    assert (answer.executed, answer.layers) == (0, ())
    assert answer.reason.startswith(begin.replace("\\", ""))
    assert answer.reason.endswith(" is no sum of products of one element of inp and one of wgt, "
                                  "each once; nearest is qconv2d_0 (qconv2d), which is one")


def test_a_product_in_another_order_is_as_good_and_runs_alone() -> None:
    def turned(x, w, b, o, i) -> Expr:
        return wide(x[b, i]) * wide(w[o, 3 - i])

    own = gemm_like("turned", turned)
    answer = told(machine_with(own), *convolution())["turned"]
    assert answer.reason == ("at qconv2d_0 (qconv2d) another instruction takes as few cycles, and "
                             "no more weights")
    answer = told(machine_with(own, before=WITHOUT_GEMM), *convolution())["turned"]
    assert answer.executed > 0 and answer.layers == ("qconv2d_0",) and not answer.reason


def test_sparse_products_are_slower_for_dense_weights() -> None:
    machine, net = example("sparse"), Net(1)
    x = net.input(1, 16, 4, 4)
    dense = net.conv(x, 16, (3, 3))
    reason = told(machine, net, dense)["sparse"].reason
    assert reason.startswith("slower at qconv2d_0 (qconv2d) by ") and reason.endswith(" cycles")
    net = Net(1)
    dense = net.conv(net.input(1, 32, 4, 4), 32, (3, 3))
    weights = net.constants[net.nodes[0].inputs[1]]
    weights[:, 2::4], weights[:, 3::4] = 0, 0
    assert told(machine, net, dense)["sparse"].executed > 0


def test_a_record_that_no_pattern_fills() -> None:
    record = te.record("answers_slopes", slope="int32", by="int32")
    own = vector_op("sloped", lambda a, slope, by: te.clamp(
        te.select(a < 0, (a * slope) >> (by & 31), a), -128, 127), a=("res",), record=record)
    net = Net(1)
    answer = told(machine_with(own), net, net.rescale(net.input(1, 4, 2, 2)))["sloped"]
    assert answer.reason == ("its record answers_slopes has fields of its own, slope and by, that "
                             "no pattern fills")


@pytest.mark.parametrize("relu, left", [(0, "affine_relu"), (1, "affine")])
def test_an_end_of_float_products_that_none_has(relu: int, left: str) -> None:
    """Products of floats fill the record that is declared for them."""
    fp8, net = example("fp8"), Net(1)
    types = {"element": fp8.config.operand, "weight": fp8.config.weight}
    y = net.add_node("fdense", net.input(2, 4, dtype="uint8"), net.constant(np.zeros((3, 4), "u1")),
                     *(net.constant(np.ones(3, np.float32)) for _ in range(2)), relu=relu,
                     lanes=fp8.config.block_in, **types)
    answers = told(fp8, net, y)
    assert answers[left].reason == NO_END
    assert answers[{"affine": "affine_relu", "affine_relu": "affine"}[left]].executed > 0


def test_sums_that_no_operator_alone_reads() -> None:
    machine, net = machine_with(requantize_add), Net(1)
    x = net.input(1, 4, 3, 3)
    assert told(machine, net, net.add(x, net.rescale(x)))["requantize_add"].reason == NO_SUM
    made = net.conv(x, 4, (1, 1))
    net.nodes[-1] = replace(net.nodes[-1], attrs={**net.nodes[-1].attrs, "lo": -128, "hi": 127})
    answer = told(machine, net, net.add(made, x))["requantize_add"]
    assert answer.executed > 0 and len(answer.layers) == 1


def distance(net: Net, function: str) -> str:
    x, y = net.input(1, 4, 3, 3), net.input(1, 4, 3, 3, name="y")
    return net.add_node("qmap", x, y, function=function)


ABSDIFF = vector_op("absdiff", lambda a, b: te.abs(a - b))


def test_an_expression_that_no_layer_has() -> None:
    """The nearest layer is told with what it has instead: there the instruction is executed."""
    net = Net(1)
    answer = told(machine_with(ABSDIFF), net, distance(net, "min(max((x0 - x1), -128), 127)"))
    reason = answer["absdiff"].reason
    assert reason.startswith("no layer computes abs(a - b); nearest is qmap_0 (qmap), which ")
    net = Net(1)
    answer = told(machine_with(ABSDIFF), net, distance(net, "min(abs((x0 - x1)), 127)"))["absdiff"]
    assert (answer.executed > 0, answer.layers, answer.reason) == (True, ("qmap_0",), "")


def test_an_instruction_that_is_slower() -> None:
    """Sums alone leave their scale to others; where there is no other sum, it is used."""
    net = Net(1)
    x, y = net.input(1, 4, 3, 3), net.input(1, 4, 3, 3, name="y")
    answer = told(machine_with(), net, net.add(x, y))["add"]
    assert answer.reason.startswith("slower at qadd_0 (qadd) by ")
    assert answer.reason.endswith(" instead of add_scaled")
    before = tuple(one for one in SHIPPED if one.name != "add_scaled")
    assert told(machine_with(before=before), net, net.nodes[-1].outputs[0])["add"].executed > 0


def test_lanes_of_others() -> None:
    def build(config) -> tuple[Intrinsic, ...]:
        shape = (config.batch, config.block_out)
        b, o = Axis(Var("lane_b"), shape[0]), Axis(Var("lane_o"), shape[1])
        a = te.placeholder(shape, "int32", "a")
        return (Intrinsic("swap", "vector", Operand("dst", shape, "int32", (("acc", "int32"),)),
                          (Operand("a", shape, "int32", (("acc", "int32"),)),), (b, o),
                          a[b.var, shape[1] - 1 - o.var], "assign", loops=5),)

    answer = told(machine_with(Declaration("swap", "vector", build)), *convolution())["swap"]
    assert answer.reason == ("it computes lanes from other lanes, and layers compute each element "
                             "from those at its own place")


@pytest.mark.parametrize(("name", "instruction", "reason"), [
    ("argmax", "argmax", "no layer takes the least of bias - (a << 16) over a row"),
    ("depthwise", "mac", "no layer on the accelerator convolves each channel by itself"),
    ("normalize", "row_squares", "no layer sums a * a over a row")])
def test_examples_without_their_layer(name: str, instruction: str, reason: str) -> None:
    assert told(example(name), *convolution())[instruction].reason.startswith(reason)


def test_examples_with_their_layer() -> None:
    net = Net(1)
    place = net.add_node("qargmax", net.input(1, 8, 3, 3), axis=1)
    assert told(example("argmax"), net, place)["argmax"].layers == ("qargmax_0",)
    net = Net(1)
    x = net.conv(net.input(1, 16, 5, 5), 16, (3, 3), group=16)
    assert told(example("depthwise", WIDE), net, x)["mac"].layers == ("qconv2d_0",)


def test_shipped_instructions_answer_too() -> None:
    found = told(machine_with(), *convolution())
    assert [*found] == [one.name for one in SHIPPED if one.unit in ("gemm", "vector")]
    assert all(bool(one.executed) != bool(one.reason) for one in found.values())
    assert found["gemm"].layers == found["requantize"].layers == ("qconv2d_0",)
    assert not any(one.own for one in found.values())


def test_nothing_on_the_accelerator() -> None:
    net = Net(1)
    graph = net.graph(net.rescale(net.input(1, 4, 2, 2)))
    found = answers(machine_with(), [], graph, [], {"qrescale_0": "acc of the machine holds int16"})
    assert {(one.executed, one.reason) for one in found} == {
        (0, "no layer of the network runs on the accelerator; qrescale_0 (qrescale) is on the "
         "host: acc of the machine holds int16")}


def test_products_of_other_types() -> None:
    """A machine of int4 leaves products of int8 to the host."""
    net = Net(1)
    x = net.conv(net.input(1, 4, 4, 4), 4, (1, 1))
    graph = net.graph(net.rescale(x))
    part = replace(graph, nodes=graph.nodes[1:], inputs=(x,), constants={},
                   values={name: type_ for name, type_ in graph.values.items()
                           if name in (x, *graph.outputs)})
    machine = machine_with()
    found = answers(machine, [AccelTarget(machine).compile(part).program], graph, [part],
                    {"qconv2d_0": "its weight is int8; gemm takes int4"})
    assert found[0].reason == ("the network has no products of weights on the accelerator; "
                               "qconv2d_0 (qconv2d) is on the host: its weight is int8; gemm takes "
                               "int4")


def softmax_machine(**changes) -> Machine:
    from examples.machines import softmax       # its machine takes seconds to be declared

    computes = replace(softmax.instruction.computes, **changes)
    return Machine(replace(TINY.config, structure=softmax.structure),
                   (*SHIPPED, replace(softmax.instruction, computes=computes)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("changes, length, reason", [
    ({}, 8, ""),
    ({"operators": ("qbelow_max", "qbelow_max")}, 8,
     "no layer computes qbelow_max and qbelow_max, each from the one before alone"),
    ({"cycles": lambda n: 10**6}, 8,
     "qbelow_max and qsoftmax of y take fewer cycles otherwise"),
    ({}, 4 * 64 + 4, "qbelow_max and qsoftmax of y have other rows than it takes")],
    ids=["executed", "no operators", "slow", "long"])
def test_an_instruction_of_a_stream_unit_answers(changes, length, reason):
    machine, graph = softmax_machine(**changes), softmax_graph((8, length))
    program = AccelTarget(machine).compile(graph).program
    found = {one.name: one for one in answers(machine, [program], graph, [graph], {})}["softmax"]
    assert (found.reason, found.unit, found.own) == (reason, "stream", True)
    assert found.layers == (() if reason else ("y",))


def test_an_instruction_may_say_of_no_operators_that_it_computes_them():
    from examples.machines import softmax

    machine = Machine(replace(TINY.config, structure=softmax.structure),
                      (*SHIPPED, replace(softmax.instruction, computes=None)))
    graph = softmax_graph((8, 8))
    program = AccelTarget(machine).compile(graph).program
    found = {one.name: one for one in answers(machine, [program], graph, [graph], {})}["softmax"]
    assert found.reason == "its declaration says of no operators of networks that it computes them"
