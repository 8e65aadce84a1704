"""Names of networks in the place of files, in every command that takes a network."""

import argparse
from pathlib import Path

import pytest

from compiler.errors import RequestError
from lockstep import cli
from lockstep.options import network_files
from lockstep.options.network_files import may_be_name, network_file
from lockstep.options.paths import ModelFile, find_networks
from lockstep.testing.models import DIGITS, DIGITS_FLOAT


def positions(parser: argparse.ArgumentParser, name: str = ""):
    """Every positional argument of a parser and its commands, with the command's name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from positions(inner, f"{name} {word}".strip())
        elif not action.option_strings:
            yield name, action


def test_every_command_with_a_network_takes_names() -> None:
    taking = {name for name, action in positions(cli.make_parser())
              if "resnet18@64" in (action.help or "")}
    found_later = {"explore", "intrinsic bench"}            # these have sizes of their own
    assert taking == found_later | {"run", "compile", "show", "inspect", "export", "quantize",
                                    "tune", "train", "fpga run"}
    assert taking - found_later == {name for name, action in positions(cli.make_parser())
                                    if getattr(action.type, "__name__", "").endswith("model_file")}


def test_a_name_becomes_its_file(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {"model": ModelFile("digits"), "file": ModelFile("digits.onnx"), "number": 3}
    quantized = {"model": ModelFile("digits"), "calibration": ["x.npz"]}
    find_networks(arguments)
    find_networks(quantized)
    assert arguments == {"model": DIGITS, "file": Path("digits.onnx"), "number": 3}
    assert quantized["model"] == DIGITS_FLOAT
    assert arguments["model"].title == "digits" and arguments["file"].title == "digits.onnx"


def test_a_file_of_that_name_is_taken(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert may_be_name("digits")
    Path("digits").write_text("")
    assert not may_be_name("digits") and not may_be_name("a/digits") and not may_be_name("x.onnx")


def test_a_network_is_built_for_its_size(monkeypatch) -> None:
    built = []
    monkeypatch.setattr(network_files, "_built", lambda *given: built.append(given) or Path("x"))
    network_file("resnet18")
    network_file("resnet18@64", int8=False)
    network_file("keywords", 49)
    assert built == [("resnet18", "resnet18", 32, True), ("resnet18@64", "resnet18", 64, False),
                     ("keywords", "keywords", 49, True)]


@pytest.mark.parametrize(("text", "message"), [
    ("resnet81", "'resnet81' must be a file that exists, or a network of lockstep.testing: digits, "
                 "resnet18, "),
    ("digits@9", "'digits@9' must be digits, whose images have one size"),
    ("resnet18@9", "'resnet18@9': size must be 32 to 1024, not 9"),
])
def test_names_of_no_network_are_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        network_file(text)
    assert str(refused.value).startswith(message)


def test_compile_takes_a_name(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compile", "digits", "--target", "cpu", "-o", "d.lockstep"]) == 0
    assert "d.lockstep: digits-int8.onnx for cpu" in capsys.readouterr().out
