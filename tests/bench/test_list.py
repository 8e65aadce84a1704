"""``python -m bench``: the list of benchmarks, and what runs one."""

import importlib
import re
from pathlib import Path

import pytest

from bench.__main__ import ALONE, AREAS, benchmarks, main, question
from bench.frame import HERE, Bench
from bench.scoreboard import read_table

EVERY = [name for area in AREAS for name in benchmarks(area)]
NO_BENCHMARKS = {"inputs", "support", "values", "__pycache__"}


def test_every_folder_is_an_area_or_has_no_benchmarks():
    folders = {path.name for path in HERE.iterdir() if path.is_dir()}
    assert folders - NO_BENCHMARKS == set(AREAS)
    assert len(EVERY) + len(ALONE) <= 40
    assert all(len([*folder.glob("*.py")]) <= 20 for folder in HERE.rglob("*") if folder.is_dir())


def test_the_list(capsys):
    assert main([]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in EVERY:
        assert question(name) and f"{name} {question(name)}" in said
    assert all(f"bench.{name} {question(name)}" in said for name in ALONE)


@pytest.mark.parametrize("name", EVERY)
def test_each_has_parts_that_options_fit(name, capsys):
    bench = importlib.import_module(f"bench.{name}").BENCH
    assert isinstance(bench, Bench) and bench.name == name
    assert any(not part.extra for part in bench.parts)
    assert all(part.has(case) for part in bench.parts for case in part.default)
    with pytest.raises(SystemExit, match="0"):
        bench.main(["--help"])
    assert f"usage: python -m bench {name} " in capsys.readouterr().out


@pytest.mark.parametrize("name", EVERY)
def test_folders_and_files_of_the_house_are_there(name):
    constants = vars(importlib.import_module(f"bench.{name}")).values()
    assert all(path.exists() for path in constants
               if isinstance(path, Path) and HERE.parent in path.parents)


def commands() -> list[tuple[str, list[str]]]:
    """Benchmarks with the options that the scoreboard and the pages give them."""
    found = [(row.command[3], [*row.command[4:]]) for row in read_table()
             if row.command[:3] == ("python", "-m", "bench")]
    pages = [path.read_text() for path in (*(HERE.parent / "docs").glob("*.md"),
                                           HERE.parent / "README.md")]
    told = re.findall(r"python -m bench (\w+\.\w+)(?: --only ([a-z]\w*(?: [a-z]\w*)*))?",
                      "\n".join(pages))
    return found + [(name, ["--only", *only.split()] if only else []) for name, only in told]


def test_commands_of_the_scoreboard_and_of_pages_fit():
    every = commands()
    assert len(every) > 80
    for name, options in every:
        assert name in EVERY, name
        bench = importlib.import_module(f"bench.{name}").BENCH
        assert [*bench.chosen(bench.parser.parse_args(options).only)], (name, options)


def test_an_unknown_benchmark_is_refused(capsys):
    assert main(["speed"]) == 2
    assert capsys.readouterr().err.startswith("bench: NAME must be one of accelerator.energy, ")
