"""Texts that name targets; networks on a third target, declared here, by a list and by cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import lockstep
import runtime
from accel.machine.config import preset
from accel.machine.machine import Machine
from compiler.cpu_gpu_backends.cpu.segment import HostSegment
from compiler.graph import Builder, Graph, Node, TensorType, evaluate
from compiler.graph.division.partition import Copy, Segment
from compiler.graph.division.protocols import (CannotCompile, Compiled, Crossing, Executable,
                                               Outcome, Priced, Row, Target, plain)
from runtime import TargetError
from runtime.driver.costs import busiest, elapsed
from runtime.driver.targets import Placed, request
from tests.support.integer_graphs import Net


@dataclass(frozen=True)
class NumpyPart:
    """A segment in NumPy: what it compiles to, and what is executed."""

    graph: Graph
    kind: ClassVar[str | None] = None
    text: Sequence[str] = ()
    stages: Mapping[str, Any] = field(default_factory=dict)
    device: None = None
    program: None = None
    work: Sequence[Sequence[Any]] = ()

    def on(self, device: object) -> Executable:
        return self

    def __call__(self, values: Mapping[str, np.ndarray]) -> Outcome:
        return Outcome(evaluate(self.graph, values))

    def rows(self, run: object) -> list[Row]:
        return []

    def profile(self, values: Mapping[str, np.ndarray]) -> tuple[Outcome, list[Row]]:
        return self(values), [{"name": self.graph.name, "op": "numpy", "seconds": 0.0, "cycles": 0}]


@dataclass(frozen=True)
class NumpyTarget:
    """Float arithmetic in NumPy, at a price: so many seconds a node."""

    seconds: float
    name: str = "numpy"
    fingerprint: str = np.__version__

    def refusal(self, graph: Graph, node: Node) -> str | None:
        return None if node.op in ("neg", "abs", "relayout") else "numpy has two operators"

    def borders(self, graph: Graph):
        return plain(graph)

    def compile(self, graph: Graph) -> Compiled:
        return NumpyPart(graph)


@dataclass(frozen=True, slots=True)
class NodePrices:
    """Prices of a target by given times of its nodes. Nothing is copied."""

    target: Target
    seconds: Callable[[Node], float]
    start_seconds: float = 0.0

    def assumed(self) -> dict[str, dict[str, Any]]:
        return {}

    def start(self) -> float:
        return self.start_seconds

    def node(self, node: Node) -> float:
        return self.seconds(node)

    def segment(self, graph: Graph) -> Priced:
        return Priced(self.target.compile(graph), self.least(graph))

    def least(self, graph: Graph) -> float:
        return self.start_seconds + sum(map(self.seconds, graph.nodes))

    def crossing(self, value: str, kind: TensorType, outwards: bool, last: bool = False
                 ) -> Crossing:
        return Crossing()


def placed(where: str) -> Placed:
    return at(NumpyTarget(float(where or 1e-9)))


def at(target: NumpyTarget) -> Placed:
    """Places the target with its own price."""
    prices = NodePrices(target, lambda node: target.seconds)
    return Placed(target, priced=lambda graph, measure: prices)


@pytest.fixture(autouse=True)
def numpy_target(monkeypatch) -> None:
    monkeypatch.setattr("runtime.driver.targets._registered", {})
    runtime.register("numpy", placed)


@pytest.fixture
def slow_host(monkeypatch) -> None:
    """A node on the host takes a millisecond."""
    def measured(what: str, run: object) -> float:
        return 1e-3 * int(what.split()[2]) if what.startswith("segment") else 0.0
    monkeypatch.setattr("runtime.driver.costs.measured", measured)


def network() -> Graph:
    """Integer convolutions, between them float operators, of which NumPy has some."""
    net = Net(3)
    x = net.conv(net.input(1, 4, 6, 6), 4, (3, 3), pads=(1, 1, 1, 1))
    y = net.add_node("neg", net.add_node("dequantize", x, scale=0.1, zp=-4))
    y = net.add_node("abs", net.add_node("floor", y))
    return net.graph(net.conv(net.add_node("quantize", y, scale=0.5, zp=3), 4, (1, 1)))


def given(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8)
            for name in graph.inputs}


def on(module: runtime.Module) -> dict[str, str]:
    """The target of each operator."""
    return {node.op: one.target for one in module.partition.segments for node in one.nodes
            if node.op != "relayout"}


EVERYWHERE = {"qconv2d": "accel", "dequantize": "host", "neg": "numpy", "floor": "host",
              "abs": "numpy", "quantize": "host"}


def test_it_is_a_target() -> None:
    target: Target = NumpyTarget(1.0)
    assert isinstance(target, Target) and isinstance(target.compile(network()), Compiled)


@pytest.mark.parametrize("text", ["accel:tiny-1x4x4,numpy", "accel:tiny-1x4x4,numpy,cpu",
                                  "numpy,accel:tiny-1x4x4"])
def test_a_list_gives_each_operator_to_the_first_that_has_it(text: str) -> None:
    graph = network()
    module = lockstep.compile(graph, text)
    assert on(module) == EVERYWHERE
    for _ in range(2):
        for name, wanted in evaluate(graph, given(graph)).items():
            np.testing.assert_array_equal(module(given(graph))[name], wanted)
    many = module.run_many([given(graph)] * 3)
    assert [{*one} for one in many] == [set(graph.outputs)] * 3
    assert {row["device"] for row in module.profile(given(graph))} == {"accel", "host", "numpy"}


def test_the_processor_may_come_first() -> None:
    module = lockstep.compile(network(), "cpu,numpy,accel:tiny-1x4x4")
    assert set(on(module).values()) == {"host"}


@pytest.mark.parametrize(("seconds", "there"), [("1e-9", True), ("1.0", False)])
def test_costs_decide_over_three_targets(seconds: str, there: bool, slow_host) -> None:
    graph = network()
    module = lockstep.compile(graph, f"auto:accel:tiny-1x4x4,numpy:{seconds},cpu", cache=False)
    assert on(module) == (EVERYWHERE if there else {**EVERYWHERE, "neg": "host", "abs": "host"})
    assert module.auto is not None and {"accel", "numpy", "host"} == set(
        next(iter(module.auto["nodes"].values())))
    for name, wanted in evaluate(graph, given(graph)).items():
        np.testing.assert_array_equal(module(given(graph))[name], wanted)


def test_a_pin_names_any_of_the_targets() -> None:
    graph = network()
    module = lockstep.compile(graph, "accel:tiny-1x4x4,numpy", pins={"neg": "host"})
    assert on(module) == {**EVERYWHERE, "neg": "host"}
    assert "numpy: it is pinned to the host" in "; ".join(module.partition.reasons.values())
    with pytest.raises(lockstep.ArgumentError) as refusal:
        lockstep.compile(graph, "accel:tiny-1x4x4,numpy", pins={"neg": "gpu"})
    assert str(refusal.value) == ("pins must be 'host' or 'accel' or 'numpy' by name, not "
                                  "'neg': 'gpu'")


def test_what_no_file_can_hold_is_refused(tmp_path) -> None:
    module = lockstep.compile(network(), "accel:tiny-1x4x4,numpy")
    with pytest.raises(lockstep.ArtifactError) as refusal:
        module.save(tmp_path / "m.lockstep")
    assert "only programs of the accelerator and code of the host" in str(refusal.value)


def test_two_accelerators() -> None:
    """The second takes what is pinned to it."""
    graph = network()
    first, second = "accel:tiny-1x4x4", "accel:pynq-1x16x16"
    convolutions = [node.name for node in graph.nodes if node.op == "qconv2d"]
    module = lockstep.compile(graph, f"{first},{second}", pins={convolutions[1]: second})
    where = {node.name: one.target for one in module.partition.segments for node in one.nodes}
    assert [where[name] for name in convolutions] == ["accel", second]
    for name, wanted in evaluate(graph, given(graph)).items():
        np.testing.assert_array_equal(module(given(graph))[name], wanted)


@pytest.mark.parametrize(("text", "names", "auto"), [
    ("cpu", ["cpu"], False),
    ("accel:tiny-1x4x4", ["accel:tiny-1x4x4"], False),
    ("accel:a,b.toml,cpu", ["accel:a,b.toml", "cpu"], False),
    ("auto:tiny-1x4x4", ["accel:tiny-1x4x4"], True),
    ("auto:dir/file.toml", ["accel:dir/file.toml"], True),
    ("auto:accel:tiny-1x4x4,cpu", ["accel:tiny-1x4x4", "cpu"], True),
    ("auto:accel:a,accel:b,numpy:2", ["accel:a", "accel:b", "numpy:2"], True),
    ("accel", ["accel:pynq-1x16x16"], False),
    ("auto:accel", ["accel:pynq-1x16x16"], True),
    ("accel:a,accel,cpu", ["accel:a", "accel:pynq-1x16x16", "cpu"], False),
    ("accel,cpu:12", ["accel:pynq-1x16x16", "cpu:12"], False),
    ("accel:a,cpu:2:plain", ["accel:a", "cpu:2:plain"], False), ("cpu:plain", ["cpu:plain"], False),
    ("cuda", ["cuda"], False), ("cuda:1,cpu", ["cuda:1", "cpu"], False),
    ("accel:a,cuda:emulated,opencl:Portable,cpu",
     ["accel:a", "cuda:emulated", "opencl:Portable", "cpu"], False),
])
def test_texts_name_targets(text: str, names: list[str], auto: bool) -> None:
    found = request(text)
    assert (list(found.names), found.auto) == (names, auto)


@pytest.mark.parametrize("text", [
    "", "cpu:", "cpu:0", "cpu:1.5", "cpu:-1", "cpu:1000",
    "cpu:plain:2", "cpu:0:plain", "cpu:2plain", "cpu::plain",
    "cuda:", "cuda:x", "cuda:-1", "opencl:",
    "accel:", "auto:", "auto", "gpu", "cpu,", ",cpu", "cpu,gpu", "numpy:",
    None, 3, b"cpu"])
def test_other_texts_are_refused(text: Any) -> None:
    with pytest.raises(TargetError) as refusal:
        request(text)
    assert str(refusal.value) == (
        f"Target must be accel:MACHINE, auto:MACHINE, cpu, cpu:THREADS, cpu:plain, cuda, "
        f"opencl, metal, numpy, or a list of targets, not {text!r}; a machine is a preset or a "
        f"file")


def test_the_processor_is_named_once() -> None:
    with pytest.raises(TargetError, match="^Target must name each of its targets once, not "):
        request("cpu,cpu:2")


def test_threads_of_the_processor_are_another_compilation() -> None:
    """Also of one that is in the cache."""
    net = Builder("net")
    net.add_input("x", TensorType((512, 300), "float32"))
    graph = net.finish([net.emit("exp", "exp", ["x"], "y")])
    x = np.random.default_rng(0).standard_normal((512, 300)).astype(np.float32)
    modules = [lockstep.compile(graph, target) for target in ("cpu", "cpu:2", "cpu", "cpu:2")]
    found = []
    for module in modules:
        host = module.steps[0].compiled
        assert isinstance(host, HostSegment) and host.steps[0].kernel
        found.append(b"GOMP_parallel" in host.steps[0].kernel.code)
    assert found == [False, True, False, True]
    assert len({module({"x": x})["y"].tobytes() for module in modules}) == 1


@pytest.mark.parametrize("machine", ["tiny-1x4x4", Path("tiny-1x4x4")])
def test_a_name_of_a_machine_stands_where_accel_stands_alone(machine: str | Path) -> None:
    assert request("auto:accel,cpu", machine).title == "auto:accel:tiny-1x4x4,cpu"


def test_a_machine_is_that_of_accel_alone() -> None:
    machine = Machine(preset("tiny-1x4x4"))
    asked: list[Machine] = []
    request("accel:pynq-1x16x16,accel", machine).placed(asked.append)
    assert asked[0].config.name == "pynq-1x16x16" and asked[1] is machine


@pytest.mark.parametrize("text", ["cpu", "accel:tiny-1x4x4", "auto:tiny-1x4x4"])
def test_a_machine_needs_its_place(text: str) -> None:
    with pytest.raises(TargetError) as refusal:
        request(text, "tiny-1x4x4")
    assert str(refusal.value) == ("Target must say accel alone where a machine is given beside it, "
                                  f"not {text!r}")


@pytest.mark.parametrize("text", ["cpu,numpy,cpu", "accel,accel:pynq-1x16x16"])
def test_a_target_that_is_named_twice_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="^Target must name each of its targets once, not "):
        request(text)


def test_what_a_target_cannot_have_after_all_is_no_candidate(slow_host) -> None:
    """`auto` takes another division, and says which one it could not have."""
    class Fickle(NumpyTarget):
        def compile(self, graph: Graph) -> Compiled:
            raise CannotCompile("numpy is out of order")

    runtime.register("numpy", lambda where: at(Fickle(1e-9)))
    module = lockstep.compile(network(), "auto:accel:tiny-1x4x4,numpy")
    assert "numpy" not in on(module).values() and module.auto is not None
    assert any("numpy is out of order" in note for note in module.auto["notes"])


def test_one_machine_for_each_name() -> None:
    asked: list[Machine] = []
    request("accel:tiny-1x4x4,accel:pynq-1x16x16").placed(asked.append)
    assert [machine.config.name for machine in asked] == ["tiny-1x4x4", "pynq-1x16x16"]


def copy(value: str, source: str, target: str) -> Copy:
    return Copy(value, source, target)


def part(target: str, inputs: str, outputs: str) -> Segment:
    return Segment(target, (), tuple(inputs.split()), tuple(outputs.split()))


def test_what_does_not_wait_is_done_at_the_same_time() -> None:
    """Two branches on two targets, then a third segment that reads both."""
    steps = [copy("x", "host", "accel"), part("accel", "x", "a"), part("host", "x", "b"),
             copy("a", "accel", "host"), part("host", "a b", "y")]
    assert elapsed(steps, [1, 5, 4, 1, 2]) == 1 + 5 + 1 + 2
    assert elapsed(steps, [1, 2, 9, 1, 2]) == 9 + 2
    assert busiest(steps, [1, 5, 4, 1, 2]) == 1 + 5 + 1


def test_what_waits_is_done_one_after_the_other() -> None:
    chain = [part("host", "x", "a"), copy("a", "host", "accel"), part("accel", "a", "b"),
             copy("b", "accel", "host"), part("host", "b", "y")]
    seconds = [0.1, 0.2, 0.3, 0.4, 0.5]
    assert elapsed(chain, seconds) == sum(seconds)
    assert busiest(chain, seconds) == pytest.approx(0.9)
    assert elapsed([], []) == busiest([], []) == 0.0
