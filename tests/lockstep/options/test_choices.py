import argparse
import importlib

import pytest

from compiler.errors import RequestError
from lockstep.options.choices import OneOf, Parser

LETTERS, NUMBERS = {"a": 1, "b": 2}, (None, "some", "many")


def parser() -> Parser:
    made = Parser(prog="planted")
    made.add_argument("--letter", type=OneOf(f"{__name__}:LETTERS", first=("z",)))
    made.add_argument("--number", default=0, type=OneOf(
        f"{__name__}:NUMBERS", names=lambda numbers: range(len(numbers)), convert=int))
    return made


@pytest.fixture(autouse=True)
def found(monkeypatch) -> None:
    """The registries of this module, which has no name to import it by."""
    monkeypatch.setattr(importlib, "import_module", lambda name: argparse.Namespace(
        LETTERS=LETTERS, NUMBERS=NUMBERS))


def test_names_of_a_registry_are_taken() -> None:
    args = parser().parse_args(["--letter", "z", "--number", "2"])
    assert (args.letter, args.number) == ("z", 2)
    assert vars(parser().parse_args([])) == {"letter": None, "number": 0}


def test_help_shows_the_names() -> None:
    assert "[--letter {z,a,b}] [--number {0,1,2}]" in parser().format_help()


@pytest.mark.parametrize(("line", "message"), [
    (["--letter", "c"], "argument --letter: invalid choice: 'c' (choose from 'z', 'a', 'b') (see "
                        "planted --help)"),
    (["--number", "3"], "argument --number: invalid choice: 3 (choose from 0, 1, 2) (see planted "
                        "--help)"),
    (["--number", "x"], "argument --number: invalid choice: 'x' (choose from 0, 1, 2) (see "
                        "planted --help)")])
def test_another_name_wrong(line, message) -> None:
    with pytest.raises(RequestError) as raised:
        parser().parse_args(line)
    assert str(raised.value) == message


def test_nothing_is_imported_before_a_name_is_asked(monkeypatch) -> None:
    monkeypatch.setattr(importlib, "import_module", None)
    parser().parse_args([])
