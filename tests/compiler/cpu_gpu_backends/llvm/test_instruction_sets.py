"""The table of vector instructions is the one place that knows them."""

import re
from pathlib import Path

import pytest

from compiler.cpu_gpu_backends.cpu.schedules import vectors as schedules_vectors
from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import dot_of
from compiler.cpu_gpu_backends.cpu.schedules.vectors import vectors_of
from compiler.cpu_gpu_backends.llvm import instruction_sets
from compiler.cpu_gpu_backends.llvm.instruction_sets import (AVX512, INSTRUCTION_SETS,
                                                              InstructionSet)
from compiler.cpu_gpu_backends.llvm.machine import MACHINES, Processor

ROOT = Path(__file__).parents[4]
ABOUT_PROCESSORS = ("instruction_sets.py", "machine.py", "amx.py")
"""Files that may name features: the table, processors by name, and the registers of AMX."""

SERVER = Processor("x86_64-unknown-linux-gnu", "sapphirerapids", (
    "amx-int8", "amx-tile", "avx2", "avx512f", "avx512vnni"))


def test_every_record_is_that_of_a_processor() -> None:
    declared = {one for one in vars(instruction_sets).values() if isinstance(one, InstructionSet)}
    found = {machine.instructions for machine in (*MACHINES.values(), SERVER)}
    assert declared == set(INSTRUCTION_SETS) == found
    assert len({one.name for one in INSTRUCTION_SETS}) == len(INSTRUCTION_SETS)


@pytest.mark.parametrize("vectors", INSTRUCTION_SETS, ids=lambda one: one.name)
def test_every_record_is_on_the_page(vectors: InstructionSet) -> None:
    page = (ROOT / "docs" / "cpu.md").read_text()
    known = "".join(f"`{feature}`" for feature in vectors.needs)
    assert f"| {vectors.name} | {known}" in page


def test_no_other_file_names_a_feature() -> None:
    features = {feature for one in INSTRUCTION_SETS for feature in (
        *one.needs, *one.tiles, *(need for dot in one.dots for need in dot.needs),
        *([one.words.needs] if one.words else []))}
    spelled = re.compile("|".join(f'"{re.escape(feature)}"' for feature in features))
    naming = {path.name for path in (ROOT / "compiler").rglob("*.py")
              if spelled.search(path.read_text())}
    assert naming <= set(ABOUT_PROCESSORS)


@pytest.mark.parametrize(("without", "vectors"), [
    ("avx512vnni", "AVX-512, two products a cycle"), ("avx512f", "AVX2"), ("avx2", "any other")])
def test_a_processor_without_a_feature_has_the_next_record(without: str, vectors: str) -> None:
    left = SERVER.without(without)
    assert left.instructions.name == vectors
    assert not vectors_of(left).sums_bytes and not vectors_of(left).tiles


def test_features_decide_what_the_schedules_use(monkeypatch) -> None:
    monkeypatch.setattr(schedules_vectors, "grants_tiles", lambda: True)
    vectors = vectors_of(SERVER, threads=2)
    assert (vectors.lanes, vectors.threads) == (16, 2) and vectors.sums_bytes and vectors.tiles
    assert dot_of(vectors.instructions, vectors.sums_bytes).needs == AVX512.dots[0].needs
    assert not vectors.sums_words
