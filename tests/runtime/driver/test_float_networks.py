"""Float networks, quantized for machines of floats of few bits and compiled for them."""

import numpy as np
import onnx
import pytest

import lockstep
from accel.answers.instructions import NO_END
from accel.machine.machine import Machine
from compiler.graph import TensorType, evaluate
from compiler.graph.rewrite import Builder
from compiler.quantize.in_floats import InFloats
from compiler.quantize.ranges.refusal import QuantizeRefused
from examples.machines.fp8 import instructions
from runtime.driver.pipeline import ALIKE_FLOATS, IN_FLOAT, OTHER_FLOATS, is_about_float
from runtime.instructions import instruction_rows
from runtime.pricing.hosts import known_host
from runtime.whole import host_part
from tests.support.machines import TINY, example

FP8 = example("fp8")
BRAIN = Machine(TINY.config, instructions("bfloat16"))


@pytest.fixture
def network(rng):
    """A convolution with Relu, one behind it, and a dense layer; an image [1,3,5,5]."""
    builder = Builder("net")
    arrays = {"w": (6, 3, 3, 3), "b": (6,), "v": (4, 6, 1, 1), "m": (100, 7), "c": (7,)}
    for name, shape in arrays.items():
        builder.add_constant(name, rng.normal(size=shape).astype(np.float32))
    y = builder.add_input("x", TensorType((1, 3, 5, 5), "float32"))
    for op, inputs, attrs in (
            ("conv2d", "w b", {"strides": (1, 1), "pads": (1, 1, 1, 1)}), ("relu", "", {}),
            ("conv2d", "v", {"strides": (1, 1), "pads": (0, 0, 0, 0)}),
            ("reshape", "", {"shape": (1, 100)}), ("matmul", "m", {}), ("add", "c", {})):
        name = f"{op}_{len(builder.nodes)}"
        y = builder.emit(op, name, [y, *inputs.split()], f"{name}.out", **attrs)
    return builder.finish([y])


@pytest.mark.parametrize("machine", [
    pytest.param(FP8, marks=pytest.mark.slow), BRAIN],
    ids=["float8", "bfloat16"])
def test_networks_compute_what_their_graphs_mean(network, rng, machine):
    """To the bit, in the functional and in the cycle simulator; products are the machine's."""
    x = rng.normal(size=(3, 3, 5, 5)).astype(np.float32)
    made = lockstep.quantize(network, x, machine=machine)
    assert isinstance(made, InFloats)
    for sim in ("functional", "cycle"):
        module = lockstep.compile(made.graph, "accel", machine=machine, sim=sim)
        partition = module.partition
        there = [node for segment in partition.segments if segment.target == "accel"
                 for node in segment.nodes]
        assert sum(node.name in made.products for node in there) == 3
        found, = module({"x": x[:1]}).values()
        wanted, = evaluate(module.graph, {"x": x[:1]}).values()
        np.testing.assert_array_equal(found, wanted)


def test_options_of_integers_and_machines_without_layers_are_refused(network, rng):
    x = rng.normal(size=(1, 3, 5, 5)).astype(np.float32)
    with pytest.raises(QuantizeRefused, match="^weight_bits must be left out for machine"):
        lockstep.quantize(network, x, machine=FP8, weight_bits=4)
    mixed = Machine(TINY.config, (*(one for one in FP8.declarations if one.unit != "gemm"),
                                  *(one for one in instructions("float8_e5m2")
                                    if one.unit == "gemm")))
    with pytest.raises(QuantizeRefused, match=(
            r"^machine tiny-1x4x4 must multiply what it stores for a network that is quantized for "
            r"it, not float8_e5m2 and float8_e4m3fn$")):
        lockstep.quantize(network, x, machine=mixed)


def test_a_machine_of_other_elements_says_which_it_lacks(network, rng):
    made = lockstep.quantize(network, rng.normal(size=(1, 3, 5, 5)).astype(np.float32), machine=FP8)
    notes = lockstep.compile(made.graph, "accel:tiny-1x4x4").graph.notes
    assert notes[0] == OTHER_FLOATS.format("int8", "float8_e4m3fn")
    assert len(notes) > 3 and all(note.endswith(
        " stays in float: it does not stand between a DequantizeLinear and a QuantizeLinear of "
        "integers") for note in notes[1:])


def test_conversions_that_do_not_saturate_are_told(network, rng):
    made = lockstep.quantize(network, rng.normal(size=(1, 3, 5, 5)).astype(np.float32), machine=FP8)
    model = onnx.ModelProto.FromString(made.model.SerializeToString())
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            node.attribute.append(onnx.helper.make_attribute("saturate", 0))
    notes = lockstep.compile(model, "accel", machine=FP8).graph.notes
    assert notes[0] == ALIKE_FLOATS.format("float8_e4m3fn")


def test_a_float_network_is_told_what_the_machine_computes(network):
    notes = lockstep.compile(network, "accel", machine=FP8).graph.notes
    assert notes[0] == IN_FLOAT.format("float8_e4m3fn")


def test_instructions_that_no_layer_of_floats_executes(network, rng):
    x = rng.normal(size=(1, 3, 5, 5)).astype(np.float32)
    whole = lockstep.quantize(network, x, machine=FP8)
    assert isinstance(whole, InFloats)
    products = whole.products
    made = lockstep.quantize(network, x, machine=FP8, keep_float=products[:1])
    module = lockstep.compile(made.graph, "accel", machine=FP8)
    found = {one["name"]: one for one in instruction_rows(module, FP8)}
    assert found["affine"]["layers"] == products[1:] and found["affine"]["reason"] == ""
    assert found["affine_relu"]["reason"] == NO_END
    assert found["add"]["reason"] == ("products between conversions are the only layers of a "
                                      "machine that sums in float32")


@pytest.mark.parametrize("machine", [FP8, BRAIN], ids=["float8", "bfloat16"])
def test_a_network_of_which_a_part_stays_in_float_runs(network, rng, machine):
    """No note says that nothing does; conversions are no layers of the host."""
    x = rng.normal(size=(2, 3, 5, 5)).astype(np.float32)
    made = lockstep.quantize(network, x, machine=machine, keep_float=["matmul_4"])
    module = lockstep.compile(made.graph, "accel", machine=machine)
    assert not [note for note in module.graph.notes if is_about_float(note)]
    assert module.accelerated
    part = host_part(module, known_host("table"))
    assert part is not None and set(part.layers) <= {"reshape_3", "matmul_4", "add_5"}
    assert "matmul_4" in part.layers
