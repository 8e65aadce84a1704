"""Tables of energies: published figures, power laws, refusals."""

import tomllib

import pytest

from accel.estimates.tables import (DATA, SECTIONS, EnergyTableError, energy_table, energy_tables)


def test_shipped_tables_give_what_is_published() -> None:
    assert energy_tables() == ["45nm", "7nm"]
    table = energy_table("45nm")
    assert [table.add.at(bits) for bits in (8, 16, 32)] == pytest.approx([0.03, 0.05, 0.1])
    assert [table.multiply.at(bits) for bits in (8, 32)] == pytest.approx([0.2, 3.1])
    sizes = [8 << 10, 32 << 10, 1 << 20]
    assert [table.sram.at(size) for size in sizes] == pytest.approx([10, 20, 100])
    assert table.access_pj(8 << 10, 128) == pytest.approx(20)
    assert 64 * table.dram_pj == pytest.approx(1300, rel=0.01)
    assert dict(table.sources).keys() == SECTIONS.keys() == dict(energy_table("7nm").sources).keys()
    assert energy_table("7nm").multiply.at(8) == 0.07


def test_power_laws_between_and_beyond() -> None:
    sram = energy_table("45nm").sram
    assert sram.at(16 << 10) == pytest.approx(10 * 2 ** 0.5)        # 4 times the size, twice the pJ
    assert sram.at(2 << 10) == pytest.approx(5)
    assert sram.at(4 << 20) / sram.at(1 << 20) == pytest.approx((100 / 20) ** (2 / 5))


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
    ('name = "45nm"', "name = 45", "name must be a text, not 45"),
    ('name = "45nm"', 'name = "mine"\nlogic = 3', "cannot be read: "),
    ("[leakage]", "[leaks]", "the table lacks leakage"),
])
def test_refused_tables(tmp_path, before, after, message) -> None:
    text = (DATA / "energy-45nm.toml").read_text()
    assert before in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(before, after))
    with pytest.raises(EnergyTableError) as error:
        energy_table(path)
    assert str(error.value).startswith(f"Energy table {path}: {message}") or (
        message.startswith("cannot") and message in str(error.value))


def test_a_figure_without_a_source_is_refused(tmp_path) -> None:
    table = tomllib.loads((DATA / "energy-45nm.toml").read_text())
    text = (DATA / "energy-45nm.toml").read_text().replace(table["dram"]["source"], "")
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(EnergyTableError, match="dram.source must be a text that says where"):
        energy_table(path)


def test_a_name_that_is_no_table(tmp_path) -> None:
    with pytest.raises(EnergyTableError, match="one of 45nm, 7nm or a .toml file, not '3nm'"):
        energy_table("3nm")
    with pytest.raises(EnergyTableError, match="cannot be read"):
        energy_table(tmp_path / "none.toml")
