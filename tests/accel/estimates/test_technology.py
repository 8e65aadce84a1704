"""Technologies: published figures, power laws, what is absent, the clock, refusals."""

from dataclasses import replace

import pytest

from accel.estimates.area import area
from accel.estimates.clock import clock
from accel.estimates.silicon import memory_kib, silicon_area
from accel.estimates.technology import (ASPECTS, DEFAULT, TechnologyError, load_technology,
                                        technologies, technology_of)
from accel.estimates.technology_files import DATA
from accel.machine.config import preset
from accel.machine.machine import Machine

MACHINE = Machine(preset("tiny-1x4x4"))
TEXT = (DATA / "technology-45nm.toml").read_text()


def energies(name: str):
    found = load_technology(name).energies
    assert found is not None
    return found


def test_shipped_energies_are_what_is_published() -> None:
    assert technologies() == ["45nm", "7nm", "ecp5"] and DEFAULT == "45nm"
    table = energies("45nm")
    assert [table.add.at(bits) for bits in (8, 16, 32)] == pytest.approx([0.03, 0.05, 0.1])
    assert [table.multiply.at(bits) for bits in (8, 32)] == pytest.approx([0.2, 3.1])
    sizes = [8 << 10, 32 << 10, 1 << 20]
    assert [table.sram.at(size) for size in sizes] == pytest.approx([10, 20, 100])
    assert table.access_pj(8 << 10, 128) == pytest.approx(20)
    assert 64 * table.dram_pj == pytest.approx(1300, rel=0.01)
    assert energies("7nm").multiply.at(8) == 0.07


@pytest.mark.parametrize(("name", "has"), [("45nm", {"silicon", "energy", "leakage"}),
                                           ("7nm", {"energy"}), ("ecp5", {"fpga", "clock"})])
def test_what_a_technology_lacks_is_absent(name: str, has: set[str]) -> None:
    technology = load_technology(name)
    assert technology.has == has <= ASPECTS.keys() and all(technology.sources.values())
    assert (technology.energies is None) == ("energy" not in has)
    assert (technology.silicon is None) == ("silicon" not in has)
    assert technology_of(technology.text) == technology


def test_power_laws_between_and_beyond() -> None:
    sram = energies("45nm").sram
    assert sram.at(16 << 10) == pytest.approx(10 * 2 ** 0.5)        # 4 times the size, twice the pJ
    assert sram.at(2 << 10) == pytest.approx(5)
    assert sram.at(4 << 20) / sram.at(1 << 20) == pytest.approx((100 / 20) ** (2 / 5))


def test_the_clock_is_estimated_given_or_nominal() -> None:
    fast = Machine(replace(MACHINE.config, clock_mhz=800))
    assert load_technology("ecp5").clock(fast) == clock(MACHINE)    # its name makes it no faster
    nominal = load_technology("45nm")
    assert nominal.clock(fast).value == 800 and nominal.at(100).clock(fast).value == 100
    assert nominal.at(100).clock_text == (
        "the nominal clock, 100 MHz: 45nm has no estimate of clocks")
    given = technology_of('name = "mine"\n[clock]\nmhz = 450.5\nsource = "synthesis"').at(100)
    assert given.clock(fast).value == 450.5 and given.has == {"clock"}
    assert given.clock_text == "the clock of mine, 450.5 MHz"


def test_the_area_of_a_chip_is_gates_and_memories() -> None:
    silicon = load_technology("45nm").silicon
    assert silicon is not None
    assert 4 * silicon.sram_um2_per_kib == pytest.approx(152.57 * 113.4, rel=1e-3)
    found, gates = silicon_area(MACHINE, silicon), area(MACHINE).gates
    assert found.logic.value == pytest.approx(0.798e-6 * gates.value)
    assert found.memories.value == pytest.approx(4325e-6 * memory_kib(MACHINE))
    assert found.core.low == pytest.approx(found.memories.value + found.logic.low)
    assert found.core.low < found.core.value < found.core.high < 1
    config = MACHINE.config
    deep = silicon_area(Machine(replace(config, wgt_bytes=2 * config.wgt_bytes)), silicon)
    assert deep.memories.value - found.memories.value == pytest.approx(4 * 4325e-6)


@pytest.mark.parametrize(("before", "after", "message"), [
    ("pj = [10.0, 20.0, 100.0]", "pj = [10.0, 20.0]",
     "sram.pj must be a list of 3 numbers, as sram.bytes is, not [10.0, 20.0]"),
    ("pj = [10.0, 20.0, 100.0]", "pj = [10.0, 0, 100.0]",
     "sram.pj must be a list of numbers above 0, not [10.0, 0, 100.0]"),
    ("bits = [8, 16, 32]", "bits = [8, 8, 32]", "add.bits must be ascending, not [8, 8, 32]"),
    ("bits = [8, 16, 32]", 'bits = "wide"',
     "add.bits must be a list of numbers above 0, not 'wide'"),
    ("bit_pj = 20.3", "bit_pj = -1", "dram.bit_pj must be a number, at least 0, not -1"),
    ("bit_pj = 20.3", "bit_pj = nan", "dram.bit_pj must be a number, at least 0, not nan"),
    ("bit_pj = 20.3", "bit_pj = true", "dram.bit_pj must be a number, at least 0, not True"),
    ("row_pj = 0.0\n", "", "dram lacks row_pj"),
    ("row_pj = 0.0", "row_pj = 0.0\ncolumn_pj = 0.0",
     "dram has unknown fields column_pj; known are bit_pj, row_pj, source"),
    ("nand2_um2 = 0.798", "", "area lacks nand2_um2"),
    ("nand2_um2 = 0.798", 'nand2_um2 = 1\nmodel = "ecp5"',
     "area has unknown fields model; known are nand2_um2, sram_um2_per_kib, source"),
    ('name = "45nm"\n', "", "the file lacks name"),
    ('name = "45nm"', 'name = 45', "name must be a text, not 45"),
    ('name = "45nm"', 'name = "mine"\nlogic = 3', "cannot be read: "),
    ('name = "45nm"', 'name = "mine"\n[clock]\nmhz = 0\nsource = "me"\n',
     "clock.mhz must be a number above 0, not 0"),
    ('name = "45nm"', 'name = "mine"\n[clock]\nmodel = "ice40"\nsource = "me"\n',
     "clock.model must be 'ecp5', not 'ice40'"),
    ("[leakage]", "[leaks]", "the file has unknown fields leaks; known are name, area, clock, "),
    ("[logic]", "[area.logic]", "the file lacks logic"),
])
def test_refused_files(tmp_path, before, after, message) -> None:
    assert before in TEXT
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(before, after))
    with pytest.raises(TechnologyError) as error:
        load_technology(path)
    assert str(error.value).startswith(f"Technology {path}: {message}")


def test_a_figure_without_a_source_is_refused() -> None:
    text = TEXT.replace(load_technology("45nm").sources["dram"], "")
    with pytest.raises(TechnologyError, match="^dram.source must be a text that says where"):
        technology_of(text)


def test_a_file_of_nothing_is_refused() -> None:
    with pytest.raises(TechnologyError, match="^the file must have some of area, clock, add, "):
        technology_of('name = "nothing"')


def test_a_name_that_is_no_technology(tmp_path) -> None:
    with pytest.raises(TechnologyError, match="one of 45nm, 7nm, ecp5 or a .toml file, not '3nm'"):
        load_technology("3nm")
    with pytest.raises(TechnologyError, match="cannot be read"):
        load_technology(tmp_path / "none.toml")
