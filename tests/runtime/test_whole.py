"""The host's part of an inference."""


import pytest

from accel.estimates.tables import EnergyTable
from accel.estimates.technology import load_technology
from accel.machine.loading import load_machine
from compiler.graph.division.partition import HOST
from compiler.tune.record import processor_name
from runtime import compile
from runtime.driver.quantization import quantize
from runtime.module import Module
from runtime.pricing.counting import node_cycles
from runtime.pricing.hosts import host_table, known_host
from runtime.whole import HostPart, division_difference, energy_refusal, host_key, host_part
from tests.support.whole import CHANNELS, SIZE, write_case

TABLE = host_table()


def energies_of(name: str) -> EnergyTable:
    found = load_technology(name).energies
    assert found is not None
    return found


ENERGIES = energies_of("45nm")


def part_of(module: Module, host: str, energies: EnergyTable | None = None) -> HostPart:
    found = host_part(module, known_host(host), energies)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> dict[str, Module]:
    """The network for a machine with `addrelu`, compiled for that and for one without `max`."""
    folder = tmp_path_factory.mktemp("case")
    write_case(folder)
    quantized = quantize(folder / "net.onnx", folder / "x.npz", machine=folder / "addrelu.py")
    return {name: compile(quantized.graph, machine=load_machine(folder / f"{name}.py"))
            for name in ("addrelu", "no_max")}


def test_every_operator_of_the_host_is_counted(modules) -> None:
    module = modules["no_max"]
    part = part_of(module, "table", ENERGIES)
    nodes = [node for step in module.steps if step.segment.target == HOST
             for node in step.segment.nodes]
    assert part.layers == ("relu",) and len(part.operators) == len(nodes) == 3
    cycles = sum(node_cycles(module.partition.graph, node, TABLE) for node in nodes)
    assert part.seconds == pytest.approx(cycles / (TABLE.mhz * 1e6))


def test_every_tensor_that_crosses_the_link_is_counted(modules) -> None:
    part, tensor = part_of(modules["addrelu"], "table"), CHANNELS * SIZE * SIZE
    assert (part.copies, part.copied_bytes) == (2, 2 * tensor)
    assert part.copy_seconds == pytest.approx(
        2 * TABLE.link.copy_seconds(tensor) + TABLE.link.start_seconds)
    assert part.layers == () and part_of(modules["no_max"], "table").copies == 5


def test_energy_is_of_cycles_and_of_bytes(modules) -> None:
    part = part_of(modules["addrelu"], "table", ENERGIES)
    cycles = part.seconds * TABLE.mhz * 1e6
    bits = 8 * TABLE.moves_per_byte * part.copied_bytes
    assert part.joules == pytest.approx(1e-12 * (70 * cycles + ENERGIES.dram_pj * bits))
    assert part_of(modules["addrelu"], "table").joules is None


def test_this_processor_is_measured_and_has_no_energy(modules) -> None:
    part = part_of(modules["no_max"], "this", ENERGIES)
    assert part.host == f"this processor ({processor_name()})"
    assert part.is_measured and part.seconds > 0 and part.joules is None and part.operators == ()
    assert host_key("this") != host_key("table")
    assert energy_refusal("this", ENERGIES).startswith("the energy of this processor is absent: ")
    assert energy_refusal("table", ENERGIES) == ""


def test_the_energy_of_a_process_may_be_absent(modules) -> None:
    from dataclasses import replace

    other = replace(ENERGIES, name="3nm")
    assert part_of(modules["addrelu"], "table", other).joules is None
    assert "has no energy.pj_per_cycle for '3nm'" in energy_refusal("table", other)


def test_the_whole_adds_up(modules) -> None:
    part = part_of(modules["no_max"], "table")
    plain = part.plain(1e-3)
    assert plain["whole_seconds"] == 1e-3 + part.seconds + part.copy_seconds
    assert plain["share"] == pytest.approx(1 - 1e-3 / plain["whole_seconds"])


def test_divisions_differ_by_layers() -> None:
    assert division_difference("net", ("a",), ("a",)) == ""
    assert division_difference("net", ("a",), ("b", "c")) == (
        "net: b, c on the host, not the accelerator; a on the accelerator, not the host")
