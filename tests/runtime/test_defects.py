"""Layers whose mapping fails inside: the host computes them, and one line says that it is a defect.
"""

import numpy as np
import pytest

import accel.mapping.programs
import accel.mapping.target as mapping
import lockstep
from accel.mapping.target import AccelTarget
from accel.proof.batches import IllegalProgram
from compiler.defects import DefectError
from compiler.graph import Graph, evaluate
from runtime.driver.auto import greedy
from runtime.module import Module
from runtime.driver.targets import Placed, Targets
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

STEPS = {
    "build_layers": lambda node, *rest: node.name,
    "require_instructions": lambda machine, operator, *rest: operator.output.name,
    "lower": lambda machine, program, places, layer, *rest: layer,
}
"""Functions of the mapping, and the layer that a call is about."""

REASON = "this is a defect, please report it: "


def network() -> tuple[Net, Graph]:
    net = Net(3)
    x = net.conv(net.input(1, 4, 6, 6), 4, pads=(1, 1, 1, 1))
    return net, net.graph(net.max_pool(net.add(x, net.rescale(x))))


@pytest.fixture
def lenient(monkeypatch) -> None:
    """Defects are told, as users see them."""
    monkeypatch.delenv("LOCKSTEP_STRICT")


@pytest.fixture
def failing(monkeypatch):
    """Lets a step of the mapping fail where it meets the layer `qadd_2`."""
    def fail(step: str, error: Exception) -> None:
        home = accel.mapping.programs if step == "lower" else mapping
        was = getattr(home, step)

        def broken(*args):
            if STEPS[step](*args).startswith("qadd_2"):
                raise error
            return was(*args)
        monkeypatch.setattr(home, step, broken)
    return fail


def compiled(graph: Graph, target: str = "accel:tiny-1x4x4", **options) -> Module:
    return lockstep.compile(graph, target, cache=False, **options)


def assert_made_good(net: Net, graph: Graph, module: Module) -> None:
    samples = net.samples()
    np.testing.assert_array_equal(module(samples)[graph.outputs[0]],
                                  evaluate(graph, samples)[graph.outputs[0]])


@pytest.mark.parametrize("step", STEPS)
def test_a_layer_that_fails_is_on_the_host(lenient, failing, caplog, step: str) -> None:
    """Where it is asked about, or later, while its segment is compiled."""
    net, graph = network()
    failing(step, KeyError("a page"))
    module = compiled(graph)
    assert_made_good(net, graph, module)
    assert module.partition.stay == {"qadd_2": f"{REASON}KeyError: 'a page'"}
    assert {record.getMessage().replace(" (qadd)", "") for record in caplog.records} == {
        f"qadd_2: {REASON}KeyError: 'a page'"}


@pytest.mark.parametrize("target", ["accel:tiny-1x4x4", "auto:tiny-1x4x4"])
def test_a_layer_of_an_illegal_program_is_on_the_host(lenient, monkeypatch, target: str) -> None:
    """Only the proof of the whole program finds it."""
    net, graph = network()
    was = mapping.prove

    def strict_proof(machine, program) -> None:
        was(machine, program)
        if any("qadd_2" in layer for layer, _ in program.layers):
            raise IllegalProgram("Instruction 6 reaches byte 9\na page", (), ["qadd_2"])

    monkeypatch.setattr(mapping, "prove", strict_proof)
    module = compiled(graph, target)
    assert_made_good(net, graph, module)
    assert module.partition.stay["qadd_2"] == (
        f"{REASON}IllegalProgram: Instruction 6 reaches byte 9")


def test_a_defect_of_no_known_layer_is_one_of_all(lenient, monkeypatch) -> None:
    net, graph = network()
    monkeypatch.setattr(mapping, "prove", raising(IndexError("out of range")))
    module = compiled(graph)
    assert_made_good(net, graph, module)
    assert {*module.partition.stay} == {node.name for node in graph.nodes}


@pytest.mark.parametrize("step", ["build_layers", "lower"])
def test_where_defects_are_errors_one_is_raised(lenient, failing, step: str) -> None:
    _, graph = network()
    failing(step, KeyError("a page"))
    with pytest.raises(DefectError, match=f"^qadd_2.*: {REASON}KeyError: 'a page'$"):
        compiled(graph, strict=True)
    assert compiled(graph).partition.stay


def test_a_state_of_the_computer_is_no_defect(lenient, monkeypatch) -> None:
    _, graph = network()
    monkeypatch.setattr(mapping, "prove", raising(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        compiled(graph)


def raising(error: Exception):
    def broken(*args) -> None:
        raise error
    return broken


def test_what_a_target_refuses_in_its_segment_is_elsewhere() -> None:
    """The reason is its own; nobody is told of a defect."""
    class Picky(AccelTarget):
        def refusals_inside(self, part: Graph, whole: Graph) -> dict[str, str]:
            return {node.name: "it stands alone" for node in part.nodes if node.op == "qmaxpool"}

    _, graph = network()
    parts = greedy(graph, Targets([Placed(Picky(TINY))]))
    assert parts.stay == {"qmaxpool_3": "it stands alone"}
