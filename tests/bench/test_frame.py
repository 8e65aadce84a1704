"""The frame of benchmarks: which parts and cases run, what is printed and kept, what is refused."""

import json

import pytest

from bench.frame import HERE, Bench, Sheet
from compiler.errors import RequestError

TINY = "tiny-1x4x4"


def bench(**options) -> tuple[Bench, list[tuple[str, list[str]]]]:
    """A bench with two parts and an extra one, and what has run."""
    made, ran = Bench(str(HERE / "area" / "name.py"), "What?", **options), []

    @made.part(("a", "b"))
    def one(sheet: Sheet) -> None:
        ran.append(("one", sheet.cases))

    @made.part(("b", "c"), ["c"], is_open=True)
    def two(sheet: Sheet) -> None:
        ran.append(("two", sheet.cases))

    @made.part(("a", "e"), extra=True)
    def more(sheet: Sheet) -> None:
        ran.append(("more", sheet.cases))

    return made, ran


@pytest.mark.parametrize(("only", "wanted"), [
    ([], [("one", ["a", "b"]), ("two", ["c"])]),
    (["one"], [("one", ["a", "b"])]),
    (["more"], [("more", ["a", "e"])]),
    (["a"], [("one", ["a"])]),
    (["b"], [("one", ["b"]), ("two", ["b"])]),
    (["two", "b"], [("two", ["b"])]),
    (["more", "b"], [("one", ["b"]), ("two", ["b"]), ("more", ["a", "e"])]),
    (["net.onnx"], [("two", ["net.onnx"])]),
    (["more", "one", "a"], [("one", ["a"]), ("more", ["a"])])])
def test_parts_and_cases_are_named_alike(only, wanted):
    made, ran = bench()
    assert made.main(["--only", *only] if only else []) == 0
    assert ran == wanted


def test_an_unknown_name_is_refused(capsys):
    made, ran = bench()
    assert made.main(["--only", "one", "d"]) == 2
    assert ran == [] and capsys.readouterr().err == (
        "bench area.name: --only must be of a, b, c, e, more, one, two, not 'd'\n")


def test_a_case_of_an_extra_part_alone_is_refused(capsys):
    made, ran = bench()
    assert made.main(["--only", "a", "e"]) == 2
    assert ran == [] and capsys.readouterr().err == (
        "bench area.name: --only must name more beside 'e': an extra part runs only when it is "
        "named\n")


def test_figures_are_printed_and_kept(tmp_path, capsys):
    made = Bench(str(HERE / "name.py"), "What?", TINY, seed=3)
    made.option("--size", type=int, default=5, help="of it")

    @made.part()
    def part(sheet: Sheet) -> None:
        sheet.figure("share", sheet.size / 3, ".2f")
        sheet.row({"machine": sheet.machine.config.name})
        sheet.require(sheet.seed == 3)

    file = tmp_path / "f.json"
    assert made.main(["--json", str(file)]) == 0
    assert capsys.readouterr().out == "share 1.67\n"
    found = json.loads(file.read_text())
    assert [*found["machines"]] == [TINY] and found["seed"] == 3
    assert found["figures"] == {"share": 5 / 3} and found["rows"] == [{"machine": TINY}]
    assert made.main(["--seed", "4"]) == 1


@pytest.mark.parametrize(("machines", "said"), [
    (["nope"], "bench name: Machine must be one of "),
    ([TINY, "ecp5-1x8x8"], "bench name: --machine must be given once, not 2 times\n")])
def test_wrong_machines_are_refused(capsys, machines, said):
    made = Bench(str(HERE / "name.py"), "What?", TINY)
    made.part()(lambda sheet: print(sheet.machine))
    assert made.main([word for name in machines for word in ("--machine", name)]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_machines_of_a_part_stand_behind_those_of_the_command():
    made, seen = Bench(str(HERE / "name.py"), "What?", TINY), []
    made.part()(lambda sheet: seen.append([*sheet.machines_or(["ecp5-1x8x8"])]))
    assert made.main([]) == made.main(["--machine", TINY]) == 0
    assert seen == [["ecp5-1x8x8"], [TINY]]


def test_the_status_is_that_of_the_error(capsys):
    class Found(RequestError):
        exit_status = 1

    def part(sheet: Sheet) -> None:
        raise Found("a board is silent")

    made = Bench(str(HERE / "name.py"), "What?")
    made.part()(part)
    assert made.main([]) == 1
    assert capsys.readouterr().err == "bench name: a board is silent\n"
