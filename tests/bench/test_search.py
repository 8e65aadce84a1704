"""The search benchmark, on a small product whose measured time is made up."""

import json
from pathlib import Path

import pytest

from bench import search
from bench.search import Search


def test_it_prints_a_line_for_each_shape_and_keeps_the_curves(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
        ) -> None:
    monkeypatch.setattr(search, "SHAPES", {"small": lambda: search.product(4, 16, 8)})
    monkeypatch.setattr(Search, "side_by_side", lambda self, plans: {
        plan: float(len(plan)) for plan in plans})
    monkeypatch.setattr(Search, "kernel", lambda self, plan: plan)
    monkeypatch.setattr(Search, "measured", lambda self, plan: float(len(plan)))
    file = tmp_path / "curves.json"
    assert search.main(["--shapes", "small", "--trials", "12", "--seeds", "2", "--strategies",
                        "guided,descent", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["small", "seed", "0"],
                                                        ["small", "seed", "1"]]
    assert [line.split()[0] for line in lines[2:]] == ["search_guided_random",
                                                       "search_descent_random"]
    curves = json.loads(file.read_text())
    assert [curve["seed"] for curve in curves] == [0, 1]
    for curve in curves:
        for name in ("guided", "descent", "random"):
            best = curve[name]["best"]
            assert len(best) == len(curve[name]["plans"]) == 12
            assert best == sorted(best, reverse=True)
            assert best[-1] == curve["final"][name] == min(map(len, curve[name]["plans"]))


def test_all_shapes_have_a_space() -> None:
    for shape in search.SHAPES:
        candidate, = Search(shape, ["random"], 1, 1, 0).explorers["random"].propose(1)
        assert candidate.plan


def test_a_kernel_is_measured() -> None:
    small = Search("pool", ["descent"], 1, 1, 0)
    candidate, = small.explorers["descent"].propose(1)
    result = small.result(candidate)
    assert result.unit == "s" and result.value is not None and result.value > 0
    assert small.result(candidate) is result            # measured once
    again, = small.side_by_side({candidate.plan}).values()
    assert 0.1 < again / result.value < 10


@pytest.mark.parametrize(("option", "known"), [("--shapes", search.SHAPES),
                                               ("--strategies", search.STRATEGIES)])
def test_unknown_names_are_refused(option: str, known, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        search.main([option, "none"])
    assert f"{option} must be of {', '.join(known)}, not 'none'" in capsys.readouterr().err
