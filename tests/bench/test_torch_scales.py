"""Scales that are stored compare equal, and one that is altered is found and named."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

from bench.torch_scales import main


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("scales") / "before.npz"
    assert main(["--store", str(path), "keywords"]) == 0
    return path


def altered(stored: Path, path: Path, change) -> list[str]:
    """Arguments that compare with a copy of the file that `change` has been at."""
    with np.load(stored) as values:
        arrays = dict(values)
    change(arrays)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return ["--compare", str(path)]


def of_kind(arrays: dict[str, np.ndarray], suffix: str) -> str:
    return next(name for name in arrays if name.endswith(suffix))


def test_the_same_network_has_the_same_scales(stored: Path, capsys) -> None:
    with np.load(stored) as values:
        kinds = {name.rpartition("_")[2] for name in values}
        count = len(values)
    assert kinds == {"scale", "point", "quantized", "keywords/layers"}
    assert main(["--compare", str(stored)]) == 0
    assert capsys.readouterr().out == f"keywords: {count} values, 0 differ\n"


@pytest.mark.parametrize("suffix", ["_scale", "_zero_point", "_quantized"])
def test_a_value_that_differs_is_named(stored: Path, tmp_path, capsys, suffix: str) -> None:
    changed = []

    def change(arrays: dict[str, np.ndarray]) -> None:
        name = of_kind(arrays, suffix)
        changed.append(name)
        arrays[name] = (np.nextafter(arrays[name], np.float32(9)) if suffix == "_scale"
                        else arrays[name] + 1 if suffix == "_zero_point" else np.array("0" * 64))

    assert main(altered(stored, tmp_path / "a.npz", change)) == 1
    first, line = capsys.readouterr().out.splitlines()
    assert first.endswith(" values, 1 differ") and line.startswith(f"  {changed[0]}: ")


def test_a_value_that_is_lost_is_named(stored: Path, tmp_path, capsys) -> None:
    arguments = altered(stored, tmp_path / "a.npz",
                        lambda arrays: arrays.pop(of_kind(arrays, "_scale")))
    assert main(arguments) == 1
    assert ": nothing became float32[" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--store", "x.npz", "alexnet"], "NAME must be one of "),
    (["--compare", "{missing}"], "cannot be read"),
    (["--compare", "{stored}", "lstm"], "must have lstm; it has keywords"),
    ([], "one of the arguments --store --compare is required"),
])
def test_refusals(stored: Path, tmp_path, capsys, arguments, message: str) -> None:
    places = {"missing": tmp_path / "none.npz", "stored": stored}
    with pytest.raises(SystemExit) as end:
        main([argument.format(**places) for argument in arguments])
    assert end.value.code == 2 and message in capsys.readouterr().err
