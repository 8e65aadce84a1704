"""The search benchmark, on a small product whose measured time is made up."""

import json
from pathlib import Path

import pytest

from bench.searches import strategies as search
from bench.searches.strategies import BENCH, Search


@pytest.mark.slow
def test_it_prints_a_line_for_each_shape_and_keeps_the_curves(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
        ) -> None:
    monkeypatch.setitem(search.SHAPES, "small", lambda: search.product(4, 16, 8))
    monkeypatch.setattr(Search, "side_by_side", lambda self, plans: {
        plan: float(len(plan)) for plan in plans})
    monkeypatch.setattr(Search, "kernel", lambda self, plan: plan)
    monkeypatch.setattr(Search, "measured", lambda self, plan: float(len(plan)))
    file = tmp_path / "curves.json"
    assert BENCH.main(["--only", "small", "--trials", "12", "--seeds", "2", "--strategies",
                       "guided", "descent", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["small", "seed", "0"],
                                                        ["small", "seed", "1"]]
    assert [line.split()[0] for line in lines[2:]] == ["search_guided_random",
                                                       "search_descent_random"]
    curves = json.loads(file.read_text())["rows"]
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
