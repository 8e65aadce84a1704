"""Files of standard cells: what is read of them, and functions as truth tables."""

import gzip
import itertools
import random
from pathlib import Path

import pytest

from asic import liberty
from asic.functions import truth_table
from asic.library import LibraryError, read_library, ready_library

CELLS = Path(__file__).with_name("cells.lib")


def test_a_library_is_read():
    cells = read_library(CELLS, 130.0)
    assert (cells.name, cells.volts, cells.nand2_um2) == ("round", 2.0, 5.0)
    assert cells.gates == {"INV": 4.0, "BUF": 6.0, "NAND": 5.0, "XOR": 10.0, "DFF": 20.0}
    assert cells.flip_flops == ("DFF",)
    assert cells.gating == {"GATE": 12.0}
    assert cells.unused == ("GATE", "PAD")
    assert (cells.buffer, cells.buffer_output, cells.pin_pf) == ("BUF", "Y", pytest.approx(0.01))
    assert cells.leakage_unit == 1e-9


def test_a_packed_library_is_read(tmp_path):
    path = tmp_path / "cells.lib.gz"
    path.write_bytes(gzip.compress(CELLS.read_bytes()))
    assert read_library(path, 130.0).gates == read_library(CELLS, 130.0).gates


def test_attributes_without_semicolons_and_continued_lines():
    library = liberty.parse("""
library (one) {
  /* a } in a comment */
  values ( \\
     "1, 2", \\
     "3, 4")
  text : "a ; and a { in it";
  cell (X) { area : 3
    footprint : y }
}""")
    assert library.values["text"] == "a ; and a { in it"
    assert library.values["values"].replace("\n", "").split() == ['1,', '2",', '"3,', '4']
    (cell,) = library.groups
    assert cell.values == {"area": "3", "footprint": "y"}


@pytest.mark.parametrize(("text", "said"), [
    ("library (a) {", "it must have one group library, which ends"),
    ("cell (a) { }", "it must have one group library"),
    ("library (a) { } }", "a } without its {"),
    ("library (a) { 12 { } }", "a group must begin with its kind and name"),
])
def test_what_is_no_liberty_is_refused(tmp_path, text, said):
    path = tmp_path / "x.lib"
    path.write_text(text)
    with pytest.raises(LibraryError, match=f"--liberty .*x.lib must be Liberty: .*{said}"):
        read_library(path, 45.0)


@pytest.mark.parametrize(("without", "said"), [
    ("NAND", "must have a NAND of two inputs"), ("BUF", "must have a buffer"),
    ("DFF", "must have a flip-flop"), ("nom_voltage", "must have nom_voltage")])
def test_a_library_without_what_is_needed_is_refused(tmp_path, without, said):
    path = tmp_path / "x.lib"
    text = CELLS.read_text()
    path.write_text(text.replace(f"cell ({without})", "unknown (it)")
                    .replace(f"{without} :", "unknown :"))
    with pytest.raises(LibraryError, match=said):
        read_library(path, 45.0)


@pytest.mark.parametrize(("old", "new", "said"), [
    ('time_unit : "1ns"', 'time_unit : "fast"', "a unit of a library must be like 1ns, not 'fast'"),
    ("capacitive_load_unit (1, pf)", "capacitive_load_unit (pf)", "a unit of a library must be")])
def test_units_that_are_none_are_refused(tmp_path, old, new, said):
    path = tmp_path / "x.lib"
    path.write_text(CELLS.read_text().replace(old, new))
    with pytest.raises(LibraryError, match=said):
        read_library(path, 45.0)


def test_a_file_that_cannot_be_unpacked_is_refused(tmp_path):
    path = tmp_path / "x.lib.gz"
    path.write_bytes(b"\x1f\x8b" + bytes(40))
    with pytest.raises(LibraryError, match="--liberty .*x.lib.gz must be"):
        read_library(path, 45.0)


@pytest.mark.parametrize("function", ["!(A B)", "(A B)'", "!A + !B", "!(A & B)"])
def test_a_nand_is_known_by_what_it_does(tmp_path, function):
    """A smaller cell that looks alike, !A B, is none."""
    path = tmp_path / "x.lib"
    other = CELLS.read_text().replace('"!(A B)"', f'"{function}"').replace(
        "area : 10; cell_leakage_power : 3", "area : 1; cell_leakage_power : 3").replace(
        '"A ^ B"', '"!A B"')
    path.write_text(other)
    assert read_library(path, 45.0).nand2_um2 == 5.0


def test_ready_libraries_are_named_with_their_package(monkeypatch):
    with pytest.raises(LibraryError, match="--library must be one of osu018"):
        ready_library("osu999")
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    with pytest.raises(LibraryError, match="apt install qflow-tech-osu035"):
        ready_library("osu035")


def _random_function(rng: random.Random, depth: int) -> tuple[str, str]:
    """A function as Liberty writes it, and as Python does."""
    if not depth:
        name = rng.choice(["A", "B1", "C", "D", "0", "1"])
        return name, {"0": "False", "1": "True"}.get(name, name)
    one, other = (_random_function(rng, depth - 1) for _ in range(2))
    pick = rng.randrange(5)
    if pick == 0:
        return f"!({one[0]})", f"(not ({one[1]}))"
    if pick == 1:
        return f"({one[0]})'", f"(not ({one[1]}))"
    if pick == 2:
        sign = rng.choice([" & ", "*", " "])
        return f"({one[0]}){sign}({other[0]})", f"(({one[1]}) and ({other[1]}))"
    sign, python = (rng.choice([" | ", "+"]), "or") if pick == 3 else (" ^ ", "!=")
    return f"({one[0]}{sign}{other[0]})", f"(bool({one[1]}) {python} bool({other[1]}))"


def test_functions_are_the_same_in_python():
    rng, names = random.Random(7), ("A", "B1", "C", "D")
    for _ in range(200):
        text, python = _random_function(rng, rng.randrange(1, 5))
        table = truth_table(text, names)
        for row, bits in enumerate(itertools.product((False, True), repeat=4)):
            given = dict(zip(names, bits[::-1], strict=True))
            assert bool(table >> row & 1) == bool(eval(python, {}, given)), text


def test_operators_bind_as_liberty_says():
    names = ("A", "B", "C")
    assert truth_table("A + B C", names) == truth_table("A | (B & C)", names)
    assert truth_table("A ^ B C", names) == truth_table("A ^ (B & C)", names)
    assert truth_table("A + B ^ C", names) == truth_table("A + (B ^ C)", names)
    assert truth_table("!A B", names) == truth_table("(!A) & B", names)
    assert truth_table("A B'", names) == truth_table("A & !B", names)


@pytest.mark.parametrize("text", ["", "A +", "(A", "A)", "A ? B", "Z"])
def test_what_is_no_function_is_refused(text):
    with pytest.raises(ValueError, match="must"):
        truth_table(text, ("A", "B"))
