"""Segments as programs: where tensors lie, what reads what, what the host is told."""

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction
from accel.mapping.memory.layout import pack_params
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from accel.sim.meaning.functional import simulate
from compiler.graph import Graph, Segment, evaluate, partition, subgraph
from tests.support.integer_graphs import Net, assert_right, run_program
from tests.support.machines import MACHINES, SHORT, TINY, example, machine

TWO = machine("2x8x8")


def residual(net: Net) -> str:
    x = net.input(3, 5, 6, 7)
    stem = net.conv(x, 12, (3, 3), pads=(1, 1, 1, 1), pad_value=4)
    branch = net.conv(net.rescale(stem), 12, (3, 3), pads=(1, 1, 1, 1))
    return net.add(net.max_pool(branch, (3, 3), (1, 1), (1, 1, 1, 1)), stem)


@pytest.mark.parametrize("name", ["tiny-1x4x4", "2x8x8", "1x32x16"])
def test_a_residual_network(name: str) -> None:
    net = Net(2)
    y = residual(net)
    logits = net.dense(net.flatten(net.average(y)), 10)
    graph = net.graph(logits)
    program = assert_right(MACHINES[name], graph, net.samples())
    assert [layer for both, _ in program.layers for layer in both.split(" + ")] == [
        node.name for node in graph.nodes if node.op != "reshape"]
    assert [end for _, end in program.layers] == sorted(end for _, end in program.layers)
    assert program.layers[-1][1] == program.count - 1
    assert [slot.logical for slot in (*program.inputs, *program.outputs)] == [(3, 5, 6, 7), (3, 10)]


def test_labels_name_the_layer() -> None:
    net = Net(2)
    graph = net.graph(residual(net))
    program = AccelTarget(TINY).compile(graph).program
    begin = 0
    for layer, end in program.layers:
        assert {label.split()[0] for label in program.labels[begin:end]} == set(layer.split(" + "))
        begin = end


def test_a_layer_loads_while_the_one_before_it_is_computed() -> None:
    """Tokens order what meets in memory or in a buffer; the end of a layer is no barrier."""
    net = Net(2)
    y = net.conv(net.input(1, 8, 20, 20), 8, (3, 3), pads=(1, 1, 1, 1))
    program = AccelTarget(TINY).compile(net.graph(net.conv(y, 8, (3, 3)))).program
    run = cycle.simulate(TINY, program, values=False)
    (_, middle), (_, end) = program.layers[:2]
    units = [Instruction.decode(TINY, int.from_bytes(word.tobytes(), "little")).unit
             for word in program.words[:end]]
    begun = {unit: run.start[middle + units[middle:].index(unit)] for unit in ("load", "gemm")}
    computed = max(run.retire[at] for at in range(middle) if units[at] == "gemm")
    assert begun["load"] < computed < run.retire[:middle].max()
    assert begun["gemm"] < run.retire[:middle].max()


def test_two_outputs() -> None:
    net = Net(3)
    x = net.input(1, 4, 5, 5)
    y = net.conv(x, 8, (3, 3))
    z = net.max_pool(y)
    program = assert_right(TINY, net.graph(z, y), net.samples())
    assert [slot.name for slot in program.outputs] == [z, y]
    assert program.activations_bytes == 0           # what is an output is not kept twice


def test_an_output_that_is_used_inside_is_not_overwritten() -> None:
    net = Net(4)
    y = net.rescale(net.input(1, 8, 6, 6))
    z = y
    for _ in range(4):
        z = net.rescale(z)
    assert_right(TINY, net.graph(y, z), net.samples())


def test_an_input_of_two_layers() -> None:
    net = Net(5)
    x = net.input(2, 6, 5, 4)
    y = net.add(net.rescale(x), net.conv(x, 6, (1, 1)))
    assert_right(TWO, net.graph(net.add(x, y)), net.samples())


def test_an_input_that_is_an_output() -> None:
    net = Net(5)
    x = net.input(2, 6, 5, 4)
    program = assert_right(TWO, net.graph(x, net.rescale(x)), net.samples())
    first, second = program.outputs
    assert (first.offset, first.layout) == (program.inputs[0].offset, "NHWC")
    assert second.layout == "N/b H W b C"


def test_outputs_that_are_views() -> None:
    net = Net(6)
    pooled = net.average(net.input(3, 10, 4, 4))
    flat = net.flatten(pooled)
    program = assert_right(TWO, net.graph(flat, pooled), net.samples())
    assert program.outputs[0].offset == program.outputs[1].offset
    assert [slot.logical for slot in program.outputs] == [(3, 10), (3, 10, 1, 1)]


def test_a_flattened_image_as_an_output_is_in_the_networks_order() -> None:
    """The dense layer behind it may be refused for its size: then the host reads the view."""
    net = Net(6)
    graph = net.graph(net.flatten(net.rescale(net.input(3, 5, 2, 3))))
    assert_right(TWO, graph, net.samples())


def test_a_view_of_an_input() -> None:
    net = Net(7)
    flat = net.flatten(net.input(2, 3, 4, 5))
    assert_right(TINY, net.graph(net.dense(flat, 6)), net.samples())
    assert_right(TINY, net.graph(flat), net.samples())


def test_values_share_memory_when_their_lives_allow() -> None:
    net = Net(8)
    x = net.input(1, 4, 8, 8)
    for _ in range(6):
        x = net.rescale(x)
    program = assert_right(TINY, net.graph(x), net.samples())
    assert program.activations_bytes == 2 * 4 * 8 * 8


def test_weights_are_in_the_program_once_for_each_layer() -> None:
    net = Net(9)
    y = net.conv(net.conv(net.input(1, 4, 4, 4), 4, (1, 1)), 8, (1, 1))
    program = assert_right(TINY, net.graph(y), net.samples())
    sizes = [4 * 4, 4 * 8, 4 * 8, 8 * 8]            # weights and records of each
    assert program.weights.size == sum(-(-size // 64) * 64 for size in sizes)


def test_compiling_twice_gives_the_same_words() -> None:
    def compiled() -> AccelProgram:
        net = Net(10)
        return AccelTarget(TWO).compile(net.graph(residual(net))).program
    one, other = compiled(), compiled()
    assert (one.machine_hash, one.labels, one.layers) == (
        other.machine_hash, other.labels, other.layers)
    np.testing.assert_array_equal(one.words, other.words)
    np.testing.assert_array_equal(one.weights, other.weights)


def test_a_program_runs_again_on_other_inputs() -> None:
    net = Net(11)
    graph = net.graph(residual(net))
    program = AccelTarget(TINY).compile(graph).program
    for _ in range(2):
        inputs = net.samples()
        found = run_program(TINY, program, inputs, simulate)
        for name, array in evaluate(graph, inputs).items():
            np.testing.assert_array_equal(found[name], array)


def reasons(graph: Graph, machine: Machine = TINY) -> dict[str, str | None]:
    target = AccelTarget(machine)
    return {node.name: target.refusal(graph, node) for node in graph.nodes}


def test_nodes_that_the_accelerator_takes() -> None:
    net = Net(12)
    y = residual(net)
    assert set(reasons(net.graph(net.dense(net.flatten(y), 3))).values()) == {None}


def test_layers_are_refused_where_acc_holds_floats() -> None:
    net = Net(2)
    graph = net.graph(net.conv(net.input(1, 4, 5, 5), 8, (3, 3)))
    assert [AccelTarget(example("bfloat16")).refusal(graph, node) for node in graph.nodes] == [
        "acc of the machine holds float32; layers are summed in integers"]


def test_an_operator_that_it_lacks_is_refused() -> None:
    net = Net(12)
    y = net.add_node("dequantize", net.input(1, 4), scale=0.5, zp=0)
    assert reasons(net.graph(y)) == {"dequantize_0": "the accelerator has no operator dequantize"}


@pytest.mark.parametrize("shape", [(4,), (2, 2, 3), (2, 1, 1, 1, 2)])
def test_another_number_of_dimensions_is_refused(shape: tuple[int, ...]) -> None:
    net = Net(12)
    zeros, ones = ((number,) * len(shape) for number in (0, 1))
    graph = net.graph(net.add_node("pad", net.input(*shape), net.constant(np.int8(3)),
                                   mode="constant", before=zeros, after=ones))
    assert reasons(graph) == {"pad_0": f"its input has {len(shape)} dimensions; the accelerator "
                                       f"takes NCHW or NC"}


@pytest.mark.parametrize(("before", "after"), [
    ((2, 6), (2, 2, 3, 1)), ((2, 6), (3, 4)), ((2, 3, 2), (2, 6)), ((2, 3, 2, 2), (4, 6))])
def test_a_reshape_that_moves_channels_is_a_copy(before, after) -> None:
    net = Net(12)
    graph = net.graph(net.add_node("reshape", net.input(*before), shape=after))
    assert_right(TINY, graph, net.samples())


def test_a_flattened_image_for_others_than_dense_layers_is_a_copy() -> None:
    net = Net(12)
    flat = net.flatten(net.input(2, 2, 3, 3))
    program = assert_right(TINY, net.graph(net.rescale(flat), net.dense(flat, 4)), net.samples())
    assert [name for name, _ in program.layers] == ["reshape_0", "qrescale_1", "qdense_2"]


def test_batches_of_flattened_images_are_refused() -> None:
    """Images of a batch lie beside each other, pixel by pixel."""
    net = Net(12)
    flat = net.flatten(net.rescale(net.input(4, 2, 3, 3)))
    assert reasons(net.graph(net.rescale(flat)), TWO)["reshape_1"] == (
        "reshape from (4, 2, 3, 3) to (4, 18) is no copy in the order of either")


def test_around_a_layer_that_is_refused_others_run() -> None:
    """And what stands around it still runs on the accelerator, views of it included."""
    net = Net(13)
    x = net.rescale(net.input(1, 4, 6, 6))
    y = net.rescale(net.slice(x, (0, 1, 1), (0, 4, 3)))
    graph = net.graph(y)
    assert reasons(graph, SHORT) == {
        "qrescale_0": None, "qrescale_2": None,
        "slice_1": "it takes one of 3 channels; the accelerator takes neighbours"}
    target = AccelTarget(SHORT)
    parts = partition(graph, lambda node: target.refusal(graph, node))
    assert [segment.target for segment in parts.segments] == ["accel", "host", "accel"]
    values = net.samples()
    wanted = evaluate(graph, values)
    for segment in parts.segments:
        values |= _performed(SHORT, graph, segment, values)
    np.testing.assert_array_equal(values[y], wanted[y])


def _performed(machine: Machine, graph: Graph, segment: Segment, values) -> dict[str, np.ndarray]:
    part = subgraph(graph, segment)
    given = {name: values[name] for name in segment.inputs}
    if segment.target == "host":
        return evaluate(part, given)
    return run_program(machine, AccelTarget(machine).compile(part).program, given)


def test_a_program_has_nothing_that_memory_held_before(monkeypatch) -> None:
    net = Net(2)
    graph = net.graph(net.dense(net.flatten(net.input(1, 4, 1, 1)), 10))
    clean = AccelTarget(TINY).compile(graph).program

    def padded_with_remains(*args, **options) -> np.ndarray:
        packed = pack_params(*args, **options)
        remains = np.full(packed.nbytes, 0xa5, np.uint8).view(packed.dtype).reshape(packed.shape)
        for name in ("bias", "mult", "shift"):
            remains[name] = packed[name]
        return remains

    monkeypatch.setattr("accel.mapping.builders.products.pack_params", padded_with_remains)
    program = AccelTarget(TINY).compile(graph).program
    assert program.image().tobytes() == clean.image().tobytes()
