"""Two runs give the same fingerprints, and whatever is altered is found and named."""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from bench.fingerprints import (SIZE, TARGETS, fixed_prices, made_up_seconds, main, network_in_c,
                                seeded)
from lockstep.testing import zoo
from runtime.driver import costs

OPTIONS = ["--networks", "keywords", "--targets", "cpu", "accel:2x8x8"]
KEY = "keywords int8 accel:2x8x8"


@pytest.fixture(scope="module")
def texts() -> Iterator[list[str]]:
    """The C text of each run of this module, so that a difference can be shown."""
    sources: list[str] = []

    def kept(*args, **options):
        files = network_in_c(*args, **options)
        sources.append(files.source)
        return files

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.fingerprints.network_in_c", kept)
        yield sources


@pytest.fixture(scope="module")
def stored(tmp_path_factory, texts: list[str]) -> Path:
    path = tmp_path_factory.mktemp("fingerprints") / "before.json"
    assert main(["-o", str(path), *OPTIONS]) == 0
    return path


def altered(stored: Path, path: Path, what: str, place: int | str, value: object) -> list[str]:
    """Arguments that compare with a copy of the file in which one value is another."""
    before = json.loads(stored.read_text())
    before[KEY][what][place] = value
    path.write_text(json.dumps(before))
    return ["--compare", str(path), "--networks", "keywords", "--targets", "accel:2x8x8"]


@pytest.mark.slow
def test_all_that_matters_is_recorded(stored: Path) -> None:
    found = json.loads(stored.read_text())
    assert list(found) == ["keywords int8 cpu", "keywords float32 cpu", KEY]
    assert not found["keywords int8 cpu"]["programs"]
    assert list(found["keywords int8 cpu"]["texts"]) == [
        "c weights", "c source", "c header"]
    one = found[KEY]
    assert [len(one[what]) for what in ("model", "programs", "cycles", "outputs", "segments",
                                        "copies")] == [1, 1, 1, 1, 3, 2]
    assert one["cycles"][0] > 1000
    assert one["outputs"] == found["keywords int8 cpu"]["outputs"]
    assert one["outputs"] != found["keywords float32 cpu"]["outputs"]
    assert one["segments"][0] == "cpu: features_QuantizeLinear"
    assert one["copies"][0] == "features_QuantizeLinear_Output_stored: cpu -> accel"


@pytest.mark.slow
def test_the_same_tree_differs_in_nothing(stored: Path, texts: list[str], capsys) -> None:
    before = len(texts)
    status = main(["--compare", str(stored)])
    for one, other in zip(texts[:before], texts[before:], strict=False):
        assert "\n".join(unified_diff(one.splitlines(), other.splitlines(), n=1)) == ""
    assert status == 0
    assert capsys.readouterr().out == "3 of 3 fingerprints compared, 0 differ\n"


@pytest.mark.parametrize(("what", "place"), [
    ("model", 0), ("programs", 0), ("cycles", 0), ("outputs", "logits"), ("segments", 1),
    ("copies", 1)])
def test_what_differs_is_named(stored: Path, tmp_path: Path, monkeypatch, capsys, what: str,
                               place: int | str) -> None:
    found = json.loads(stored.read_text())
    monkeypatch.setattr("bench.fingerprints.computed",
                        lambda keys, jobs: {key: found[key] for key in keys})
    assert main(altered(stored, tmp_path / "altered.json", what, place, "other")) == 1
    head, row, count = capsys.readouterr().out.splitlines()
    assert head.split() == ["network", "what", "before", "after"]
    assert re.split("  +", row)[:3] == [KEY, f"{what} {place}", "other"]
    assert count == "1 of 3 fingerprints compared, 1 differ"


def test_what_only_one_side_has_differs(stored: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    found = json.loads(stored.read_text())
    found[KEY]["programs"] = []
    monkeypatch.setattr("bench.fingerprints.computed",
                        lambda keys, jobs: {key: found[key] for key in keys})
    assert main(["--compare", str(stored)]) == 1
    row = capsys.readouterr().out.splitlines()[1]
    assert row.startswith(f"{KEY}  programs 0  ") and row.endswith("-")


def test_auto_asks_for_prices_that_are_made_up() -> None:
    with fixed_prices() as asked:
        assert costs.measured("segment of 3 nodes 77", lambda: None) == pytest.approx(120e-6)
    assert asked == ["segment of 3 nodes 77"]
    assert made_up_seconds("layout for accel of int8[1,2], NHWC in 2000 bytes") == pytest.approx(
        2e-6)


@pytest.mark.slow
def test_auto_divides_by_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(TARGETS, "auto:pynq-1x16x16", "auto:tiny-1x4x4")        # sooner compiled
    monkeypatch.setattr("bench.fingerprints.NODE_SECONDS", 1e-9)
    path = tmp_path / "auto.json"
    assert main(["-o", str(path), "--networks", "keywords", "--targets", "auto:pynq-1x16x16"]) == 0
    (found,) = json.loads(path.read_text()).values()
    assert not found["programs"] and len(found["segments"]) == 1


@pytest.mark.parametrize(("text", "message"), [
    ("{", "{} cannot be read: Expecting property name enclosed in double quotes: "
          "line 1 column 2 (char 1)"),
    ("[]", "{} must have networks and targets of this command, not ''"),
    ('{"lenet int8 cpu": {}}', "{} must have networks and targets of this command, "
                               "not 'lenet int8 cpu'"),
    ('{"keywords int8 cpu": {"model": 1}}',
     "{}: keywords int8 cpu must be a fingerprint that this command wrote"),
    ("{}", "{} has none of these networks on these targets"),
])
def test_a_file_that_cannot_be_compared_is_refused(tmp_path: Path, capsys, text: str,
                                                   message: str) -> None:
    path = tmp_path / "stored.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as error:
        main(["--compare", str(path)])
    assert error.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"fingerprints: error: {message.format(path)}")


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "-o FILE or --compare FILE must be given"),
    (["-o", "x.json", "--jobs", "0"], "--jobs must be at least 1, not 0"),
])
def test_wrong_requests_are_refused(capsys, arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"fingerprints: error: {message}"


@pytest.mark.parametrize("name", ["gpt_small", "gpt_small_step"])
def test_decoders_have_all_their_inputs(name: str) -> None:
    net = zoo.network(name, SIZE)
    shapes = {value: array.shape for value, array in seeded(net).items()}
    assert shapes == {value: net.shapes[value] for value in (net.source, *net.inputs)}
