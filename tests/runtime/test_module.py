"""Compiled networks: host and accelerator in turn, what is refused, what is the same twice."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import lockstep
from accel.machine.config import ConfigError
from accel.machine.program import AccelProgram
from accel.machine.status import Run, Status
from accel.mapping.target import AccelTarget
from accel.mapping.texts import STAGES
from accel.sim.meaning.functional import simulate
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.frontend import ImportRefused, convert
from compiler.graph import Graph, evaluate
from runtime import (DeviceError, InputError, Module, SimulatedDevice, TargetError, compile,
                     compile_graph)
from tests.support.limit_cases import QdqModel
from runtime.driver.pipeline import COMPUTED_SCALES, NEARLY
from tests.support.integer_graphs import Net
from tests.support.machines import SHORT, TINY

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
PIXELS = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


def module_of(graph: Graph, machine=TINY) -> Module:
    return compile_graph(graph, AccelTarget(machine), SimulatedDevice(machine, simulate))


def assert_right(module: Module, inputs: dict[str, np.ndarray]) -> tuple[Run, ...]:
    for name, array in inputs.items():
        module.set_input(name, array)
    runs = module.run()
    for name, wanted in evaluate(module.graph, inputs).items():
        np.testing.assert_array_equal(module.get_output(name), wanted)
        assert module.get_output(name).dtype == wanted.dtype
    return runs


def alternating(net: Net) -> Graph:
    """Float arithmetic of the host between two layers of the accelerator, twice."""
    x = net.input(2, 3, 6, 6, dtype="float32")
    for _ in range(2):
        x = net.conv(net.add_node("quantize", x, scale=1.0, zp=3), 3, (3, 3), pads=(1, 1, 1, 1))
        x = net.add_node("relu", net.add_node("dequantize", x, scale=0.5, zp=-4))
    return net.graph(x)


def test_host_and_accelerator_take_turns() -> None:
    net = Net(1)
    module = module_of(alternating(net))
    assert [step.segment.target for step in module.steps] == ["host", "accel", "host", "accel",
                                                             "host"]
    assert len(module.accelerated) == 2
    assert len(assert_right(module, net.samples())) == 2


def test_a_module_runs_again_on_other_inputs() -> None:
    net = Net(1)
    module = module_of(alternating(net))
    assert_right(module, net.samples())
    assert_right(module, net.samples())


def test_a_layer_that_is_refused_runs_on_the_host() -> None:
    net = Net(2)
    x = net.rescale(net.input(1, 4, 6, 6))
    y = net.rescale(net.slice(x, (0, 1, 1), (0, 4, 3)))
    module = module_of(net.graph(y), SHORT)
    assert [step.segment.target for step in module.steps] == ["accel", "host", "accel"]
    assert list(module.partition.reasons) == ["slice_1"]
    assert_right(module, net.samples())


def test_inputs_that_are_outputs_and_inputs_in_any_order() -> None:
    net = Net(3)
    x, z = net.input(1, 4, 3, 3), net.input(1, 4, 3, 3, name="z")
    module = module_of(net.graph(net.add(x, z), z))
    given = net.samples()
    given["x"] = np.asfortranarray(given["x"])
    assert_right(module, given)


def test_an_output_that_is_a_constant() -> None:
    net = Net(4)
    x, k = net.input(1, 4), net.constant(np.arange(3, dtype=np.int32))
    assert_right(module_of(net.graph(net.rescale(x), k)), net.samples())


def test_the_host_alone() -> None:
    net = Net(5)
    module = compile_graph(alternating(net), None)
    assert [step.segment.target for step in module.steps] == ["host"]
    assert module.accelerated == () and set(module.partition.reasons.values()) == {
        "the target is the host"}
    assert assert_right(module, net.samples()) == ()


@pytest.mark.parametrize("target", ["accel:tiny-1x4x4", "cpu"])
def test_digits(target: str) -> None:
    module = lockstep.compile(DIGITS / "digits-int8.onnx", target)
    assert_right(module, {"image": PIXELS})


def test_a_float_model_runs_on_the_host() -> None:
    module = compile(DIGITS / "digits-float.onnx", "accel:tiny-1x4x4")
    assert module.graph.notes[0].startswith("nothing runs on the accelerator: it computes int8, ")
    assert "give calibration samples" in module.graph.notes[0]
    assert [step.segment.target for step in module.steps] == ["host"]
    module.set_input("image", PIXELS)
    assert module.run() == ()
    wanted = evaluate(module.graph, {"image": PIXELS})["logits"]
    np.testing.assert_allclose(module.get_output("logits"), wanted, rtol=1e-4, atol=1e-4)


def test_a_network_that_is_almost_quantized_says_what_it_lacks() -> None:
    """Where two layers are in float, the one that lacks less is named."""
    one = QdqModel()
    x = one.requantized(one.real_input(1, 4, 6, 6))
    far = one.add("ConvTranspose", one.add("Sin", x), one.weight(4, 4, 1, 1, axis=1), name="far")
    near = one.add("ConvTranspose", one.add("Cos", x), one.weight(4, 4, 1, 1, axis=1),
                   name="near")
    y = one.add("Add", far, one.add("Tanh", one.requantized(near)))
    module = compile(convert(one.model(y)), "accel:tiny-1x4x4")
    assert module.graph.notes[0] == (
        f"{NEARLY.format('int8')}near (convtranspose2d): its input 'cos_5.out' is not quantized: "
        f"cos_5 (cos) stands behind the DequantizeLinear")
    assert not module.accelerated
    for machine, told in (("int16_deep", "it computes int16, and no layer"),
                          ("fp8", "it multiplies float8_e4m3fn, and no layer")):
        module = compile(convert(one.model(y)), f"accel:examples/machines/{machine}.py")
        assert module.graph.notes[0].startswith(f"nothing runs on the accelerator: {told}")


def test_a_network_with_scales_of_its_own_is_not_told_to_be_calibrated() -> None:
    """The quantizer refuses it."""
    model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
        g (float[1,4] x) => (float[1,2] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
        { q, s, z = DynamicQuantizeLinear(x)
          d = DequantizeLinear(q, s, z)
          y = MatMul(d, w) }''')
    notes = compile(model, "accel:tiny-1x4x4").graph.notes
    assert notes[0] == COMPUTED_SCALES and "calibration" not in notes[0]


def test_without_integerize_nothing_is_an_integer_layer() -> None:
    module = compile(DIGITS / "digits-int8.onnx", "accel:tiny-1x4x4", integerize=False)
    assert not any(node.op.startswith("qconv") for node in module.graph.nodes)
    assert [step.segment.target for step in module.steps] == ["host"]


def test_compiling_twice_gives_the_same_words() -> None:
    one, other = (compile(DIGITS / "digits-int8.onnx", "accel:tiny-1x4x4",
                          cache=False).accelerated[0].program
                  for _ in range(2))
    np.testing.assert_array_equal(one.words, other.words)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.labels == other.labels


def test_every_pass_is_shown_to_after() -> None:
    seen: list[str] = []
    compile(DIGITS / "digits-int8.onnx", "accel:tiny-1x4x4",
            after=lambda index, name, graph: seen.append(name))
    assert seen[0] == "import" and "integerize" in seen
    on_the_host = [*(one.name for one in CpuTarget().passes()), "fuse", "plan-memory", "kernels"]
    assert seen[seen.index("partition"):] == ["partition", "layout", *on_the_host, *STAGES]


def refused(act, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refusal:
        act()
    assert str(refusal.value) == message


@pytest.fixture
def module() -> Module:
    net = Net(6)
    x, z = net.input(1, 4), net.input(1, 4, name="z")
    return module_of(net.graph(net.add(x, z)))


def test_an_input_of_another_name_is_refused(module: Module) -> None:
    refused(lambda: module.set_input("y", np.zeros((1, 4), np.int8)), InputError,
            "Input must be one of x, z, not 'y'")


def test_an_input_of_another_shape_or_type_is_refused(module: Module) -> None:
    for array, found in ((np.zeros((4,), np.int8), "int8 of shape (4,)"),
                         (np.zeros((1, 4), np.float32), "float32 of shape (1, 4)")):
        refused(lambda array=array: module.set_input("x", array), InputError,
                f"Input x must be int8 of shape (1, 4), not {found}")


def test_an_input_that_is_not_set_is_refused(module: Module) -> None:
    module.set_input("x", np.zeros((1, 4), np.int8))
    refused(module.run, InputError, "Input z must be set before the network runs")


def test_an_output_before_the_run_or_of_another_name_is_refused(module: Module) -> None:
    (name,) = module.graph.outputs
    for wanted in (name, "logits"):
        refused(lambda wanted=wanted: module.get_output(wanted), InputError,
                f"Output must be one of {name}, and the network must have run, not {wanted!r}")


@pytest.mark.parametrize("target", ["accelerator", "accel:", "cpu:0", "gpu", ""])
def test_an_unknown_target_is_refused(target: str) -> None:
    refused(lambda: compile(DIGITS / "digits-int8.onnx", target), TargetError,
            f"Target must be accel:MACHINE, auto:MACHINE, cpu, cpu:THREADS, cpu:plain, "
            f"cuda, opencl, metal, or "
            "a list of "
            f"targets, not {target!r}; a machine is a preset or a file")


def test_an_unknown_machine_is_refused() -> None:
    refused(lambda: compile(DIGITS / "digits-int8.onnx", "accel:pynk"), ConfigError,
            "Machine must be one of ecp5-1x16x16, ecp5-1x2x2, ecp5-1x8x8, pynq-1x16x16, "
            "tiny-1x4x4, a .toml or .py file or a folder with __init__.py, not 'pynk'")


def test_an_unknown_simulator_is_refused() -> None:
    refused(lambda: compile(DIGITS / "digits-int8.onnx", "accel:tiny-1x4x4", sim="fast"),
            ValueError, "Simulator must be one of functional, cycle, slice, verilator, not 'fast'")


def test_a_model_that_is_not_there_is_refused(tmp_path) -> None:
    path = tmp_path / "none.onnx"
    refused(lambda: compile(path), ImportRefused,
            f"{path}: no such file; give the path of an ONNX model")


def test_a_run_that_fails_names_the_instruction() -> None:
    def fail(machine, program: AccelProgram, memory) -> Run:
        return Run(Status.DEADLOCK, "gemm", 1, memory, waiting={"gemm": 1})

    net = Net(7)
    graph = net.graph(net.conv(net.input(1, 4, 3, 3), 4, (1, 1)))
    module = compile_graph(graph, AccelTarget(TINY), SimulatedDevice(TINY, fail))
    module.set_input("x", np.zeros((1, 4, 3, 3), np.int8))
    with pytest.raises(DeviceError) as failure:
        module.run()
    assert str(failure.value) == ("deadlock: gemm, instruction 1 (waiting: gemm at 1) qconv2d_0")
    assert failure.value.run.status is Status.DEADLOCK


class Foreign:
    """An array of another library, in the host's memory (device 1) or not."""

    def __init__(self, array: np.ndarray, device: int = 1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        if self.device != 1:
            raise BufferError("it lies elsewhere")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_arrays_of_other_libraries_are_shared() -> None:
    net = Net(7)
    x, z = net.input(1, 4), net.input(1, 4, name="z")
    module = module_of(net.graph(net.add(x, z), z))
    given = net.samples()
    made = module({"x": Foreign(given["x"]), "z": Foreign(given["z"])})
    assert np.shares_memory(made["z"], given["z"])
    wanted = evaluate(module.graph, given)
    for name, array in made.items():
        np.testing.assert_array_equal(array, wanted[name])
        assert np.shares_memory(np.from_dlpack(array), array)


def test_what_is_no_array_of_the_host(module: Module) -> None:
    with pytest.raises(InputError, match="in the host's memory: it lies elsewhere$"):
        module.set_input("x", Foreign(np.zeros((1, 4), np.int8), device=2))
    refused(lambda: module.set_input("x", [[1], [2, 3]]), InputError,
            "Input x must be an array in the host's memory: setting an array element with a "
            "sequence. The requested array has an inhomogeneous shape after 1 dimensions. The "
            "detected shape was (2,) + inhomogeneous part.")
