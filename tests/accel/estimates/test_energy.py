"""Energy: counts by hand times the table's figures."""

from dataclasses import replace

import numpy as np
import pytest

from accel.datapath.plan import plan
from accel.estimates.energy import (ENERGY_UNITS, energy, energy_units, idle_pj, leakage_watts,
                                    prices)
from accel.estimates.silicon import memory_kib
from accel.estimates.tables import EnergyTable
from accel.estimates.technology import Technology, TechnologyError, load_technology, technology_of
from accel.figures.accesses import AccessProfile
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.sim.timed import cycle
from accel.sim.programs.generate import generate
from tests.support.machines import MACHINES, SPARSE, example
from tests.support.structures import reversed_but_vectors

MACHINE = Machine(preset("tiny-1x4x4"))
BUILT = load_technology("45nm")


def changed(**fields) -> EnergyTable:
    """The energies at 45 nm with other values of these fields."""
    assert BUILT.energies is not None
    return replace(BUILT.energies, **fields)


TABLE = changed()


def used(machine: Machine, *instructions: Instruction, **memory):
    program = AccelProgram.assemble(machine, [*instructions, finish()], io_bytes=4096)
    run = cycle.simulate(machine, program, values=False, **memory)
    return energy(AccessProfile.of(machine, program, run), machine, BUILT)


def test_a_gemm_instruction_by_hand() -> None:
    """Ten block products of 1 x 4 x 4, of which eight are added to acc."""
    loops = [{"extent": 2, "dst": 1}, {"extent": 5, "a": 1, "b": 1}]
    found = used(MACHINE, Instruction("gemm", "gemm", {"banks": 1, "reset": 1, "loops": loops}))
    assert found.operations == {"multiply8x8": 10 * 16, "add17": 10 * 8, "add18": 10 * 4,
                                "add32": 8 * 4}
    pipeline = 160 + 256 + 72               # bits of the three stages, as str(plan) has them
    operators = 10 * (16 * 0.2 + 8 * TABLE.add.at(17) + 4 * TABLE.add.at(18)) + 8 * 4 * 0.1
    registers = 10 * (pipeline + 2 * 4 * 32) * (0.00794 + 0.00106)
    assert found.units["gemm"] == pytest.approx((operators + registers) * 1e-12)
    assert found.units["inp"] == pytest.approx(10 * 10 * (2048 / 8192) ** 0.5 * 32 / 64 * 1e-12)
    assert found.units["wgt"] == pytest.approx(10 * 10 * (4096 / 8192) ** 0.5 * 128 / 64 * 1e-12)
    acc = MACHINE.config.buffers["acc"].size_bytes / 2      # a bank
    assert found.units["acc"] == pytest.approx(18 * TABLE.access_pj(acc, 128) * 1e-12)
    assert found.units["dram"] == pytest.approx(2 * 512 * 20.3 * 1e-12)      # the two words
    assert not any(found.units[unit] for unit in ("res", "par", "out", "tab", "vector", "load"))


def test_a_load_and_a_store_by_hand() -> None:
    """Four runs of 8 bytes on a bus of 4: two beats and two chunks each, 64 bits of registers for
    either; and the two words, or three, of 512 bits.
    """
    line = {"extent": 4, "dram": 100, "buffer": 8}
    fields = {"run": 8, "base": 0, "dram": 0, "loops": [line]}
    for unit, buffer, extra in (("load", 0, 3 * 512), ("store", 5, 3 * 512)):
        found = used(MACHINE, Instruction(unit, unit, {"buffer": buffer, **fields}),
                     Instruction(unit, unit, {"buffer": buffer, **fields}))
        bits = 2 * 4 * 2 * 32
        assert found.units[unit] == pytest.approx(
            2 * bits * 2 * TABLE.register_pj * 1e-12), unit
        assert found.units["dram"] == pytest.approx((bits + extra) * TABLE.dram_pj * 1e-12)


def test_an_idle_machine_costs_leakage_alone() -> None:
    """The memory takes longer: only idle cycles are added, and all cost the same."""
    soon, late = used(MACHINE, latency=0), used(MACHINE, latency=5000)
    cycles = late.counts["cycles"] - soon.counts["cycles"]
    assert cycles >= 5000
    for unit in ENERGY_UNITS:
        assert (late.units[unit] == soon.units[unit]) == (unit != "idle"), unit
    each = (late.units["idle"] - soon.units["idle"]) / cycles
    assert each == pytest.approx(soon.units["idle"] / soon.counts["cycles"])
    kib = sum(buffer.size_bytes * (4 if name == "tab" else 1)       # a copy for each lookup
              for name, buffer in MACHINE.config.buffers.items()) / 1024
    memories = kib * 0.206e-3 / (MACHINE.config.clock_mhz * 1e6)
    assert memories < each < 3 * memories                   # registers and logic leak, too
    assert soon.leaked == pytest.approx(soon.units["idle"])
    assert prices(MACHINE, TABLE)["cycles"] == ("idle", 0)
    assert prices(MACHINE, changed(clock_pj=0.001))["cycles"][1] > 0


def test_leakage_that_is_absent_is_none() -> None:
    technology = technology_of(BUILT.text[:BUILT.text.index("[leakage]")])
    case = generate(MACHINE, 4)
    profile = AccessProfile.of(MACHINE, case.program, cycle.measure(MACHINE, case.program))
    found, whole = energy(profile, MACHINE, technology), energy(profile, MACHINE, BUILT)
    assert found.leaked is None and found.units["idle"] == 0 and whole.leaked
    assert found.joules == pytest.approx(whole.joules - whole.leaked)
    with pytest.raises(TechnologyError, match="^Technology must have energies, not 'ecp5'$"):
        energy(profile, MACHINE, "ecp5")


def test_a_machine_leaks_at_the_clock_of_the_technology() -> None:
    """Twice the clock, half the leakage; by the technology's clock, not by the machine's name."""
    watts = leakage_watts(MACHINE, TABLE) or 0.0
    fast = Machine(replace(MACHINE.config, clock_mhz=2 * MACHINE.config.clock_mhz))
    assert idle_pj(MACHINE, TABLE, 200) == pytest.approx(idle_pj(MACHINE, TABLE, 100) / 2)
    assert idle_pj(MACHINE, TABLE, 100) == pytest.approx(watts * 1e4) and (
        leakage_watts(fast, TABLE) == watts)
    case = generate(MACHINE, 4)
    profile = AccessProfile.of(MACHINE, case.program, cycle.measure(MACHINE, case.program))

    def leaked(machine: Machine, technology: Technology) -> float:
        return energy(profile, machine, technology).leaked or 0.0

    assert leaked(fast, BUILT) == pytest.approx(leaked(MACHINE, BUILT) / 2)
    assert leaked(fast, BUILT.at(100)) == leaked(MACHINE, BUILT.at(100))


MANY = {**MACHINES, "sparse": SPARSE, "bfloat16": example("bfloat16")}


@pytest.mark.parametrize("name", MANY)
def test_layers_and_units_add_up(name) -> None:
    """Every count has a price; rows of memory as the table says."""
    machine = MANY[name]
    case = generate(machine, 2)
    program = replace(case.program, layers=(("first", case.program.count // 2),
                                            ("second", case.program.count - 1)))
    run = cycle.simulate(machine, program, case.memory, values=False, row_bytes=256, row_miss=5)
    profile = AccessProfile.of(machine, program, run)
    found = energy(profile, machine, replace(BUILT, energies=changed(row_pj=1000.0)))
    assert [layer.name for layer in found.layers] == ["first", "second", "finish"]
    assert sum(layer.joules for layer in found.layers) == pytest.approx(found.joules)
    for unit in ENERGY_UNITS:
        assert sum(layer.units[unit] for layer in found.layers) == pytest.approx(found.units[unit])
    assert sum(found.units.values()) == pytest.approx(found.joules)
    rows = found.units["dram"] - energy(profile, machine, BUILT).units["dram"]
    assert rows == pytest.approx(found.counts["dram.rows"] * 1000e-12) and rows > 0
    assert all(found.units[unit] > 0 for unit in ("dram", "inp", "wgt", "acc", "gemm", "vector"))
    assert sum(found.operations.values()) > 0


@pytest.mark.slow
def test_a_second_unit_of_vector_is_counted() -> None:
    """What a unit takes is its own; what load writes, it writes to a copy for each reader."""
    two = reversed_but_vectors(MACHINE.config)
    loops = [{"extent": 3, "dst": 1, "a": 1, "b": 1}]
    fields = {"a_source": 1, "b_source": 1, "loops": loops}
    load, alone = (Instruction("load", "load", {
        "run": 8, "buffer": machine.structure.buffer_names.index("res"),
        "loops": [{"extent": 4, "dram": 8}]}) for machine in (two, MACHINE))
    one = used(MACHINE, Instruction("add", "vector", {"destination": 1, **fields}))
    loaded = used(MACHINE, alone).units["res"]
    other = used(two, Instruction("add_vector2", "vector2", {"destination": 1, **fields}))
    assert energy_units(two) == (*ENERGY_UNITS[:-1], "out2", "vector2", "idle")
    assert other.units["vector"] == other.units["out"] == 0 < one.units["vector"]
    assert other.units["vector2"] == pytest.approx(one.units["vector"])
    assert other.units["out2"] == pytest.approx(one.units["out"])
    assert other.units["res"] == pytest.approx(one.units["res"])
    assert used(two, load).units["res"] == pytest.approx(2 * loaded)
    assert memory_kib(two) > memory_kib(MACHINE) + two.config.out_bytes / 1024


def test_runs_of_one_machine_add_up() -> None:
    case = generate(MACHINE, 4)
    run = cycle.measure(MACHINE, case.program)
    one = AccessProfile.of(MACHINE, case.program, run)
    twice = energy(AccessProfile.joined([one, one]), MACHINE)
    assert twice.joules == pytest.approx(2 * energy(one, MACHINE).joules)
    assert twice.technology == "45nm" and twice.plain["counts"] == twice.counts


def test_a_wider_entry_and_a_deeper_buffer_cost_what_they_should() -> None:
    base = prices(MACHINE, TABLE)
    deep = Machine(replace(MACHINE.config, wgt_bytes=4 * MACHINE.config.wgt_bytes))
    assert prices(deep, TABLE)["wgt.read"][1] == pytest.approx(2 * base["wgt.read"][1])
    wide = Machine(preset("ecp5-1x8x8"))
    products = prices(wide, TABLE)["gemm.gemm"][1] / base["gemm.gemm"][1]
    assert 3.5 < products < 4.5                             # of four times as many products


def test_registers_that_keep_their_values_are_written_only() -> None:
    """A copy has a value of 32 bits a lane; those of other bodies pass beside it."""
    switch = prices(MACHINE, changed(write_pj=0.0, logic_pj=0.0, switch_pj=1.0))
    write = prices(MACHINE, changed(switch_pj=0.0, logic_pj=0.0, write_pj=1.0))
    bodies = "vector.copy", "vector.requantize"
    (copy, product), (also, written) = ([known[body][1] for body in bodies]
                                        for known in (switch, write))
    lanes, latency = 4, plan(MACHINE, "vector").latency
    assert copy == pytest.approx(lanes * 32 * (latency + 3), abs=1)    # its operand, and acc's two
    assert copy < product < also < written


def test_bodies_cost_what_they_go_through() -> None:
    """A product needs a multiplier, a copy none; what other bodies use is not counted."""
    known = {key: pj for key, (_, pj) in prices(MACHINE, TABLE).items()}
    assert known["vector.requantize"] > known["vector.add"] > known["vector.copy"]
    multiplier = 4 * TABLE.multiply.at(np.sqrt(33 * 17))
    assert known["vector.mul"] - known["vector.add"] == pytest.approx(multiplier, rel=0.1)
