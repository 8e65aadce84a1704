"""The exploration benchmark, on machines whose time a formula gives."""

from pathlib import Path

import pytest

from bench.robustness.killed import exploring, killed
from bench.searches.explore import BENCH, FromGrid, volume_share
from compiler.tune.records import Records
from tests.support.exploring import NETWORK, MadeUp, exploration

SPACE = ("block_in=4,8,16", "bus_bytes=4,8,16", "wgt=same,double,quadruple")


def test_a_search_is_judged_by_the_grid(tmp_path: Path) -> None:
    with Records(tmp_path / "r.sqlite") as records:
        whole = exploration(records, *SPACE)
        whole.run(MadeUp())
    seen = {whole.trial(NETWORK, point).id: whole.known(NETWORK, point)
            for point, _ in whole.measured.values()}
    assert len(seen) == 27
    shares = [volume_share(whole, seen, NETWORK, "cycles,bytes", "search", 0, share, str(folder))
              for share in (0.04, 0.6, 1.0) if (folder := tmp_path / str(share)).mkdir() is None]
    assert 0 <= shares[0] < shares[1] <= shares[2] == 1
    trial = whole.trial(NETWORK, whole.space.base)
    run = FromGrid(seen)
    assert [*run(iter([trial]))] == [(trial, seen[trial.id])] and run.count == 1


def test_what_a_part_needs_must_be_given(capsys) -> None:
    for part, option in (("front", "--db"), ("new", "--model")):
        assert BENCH.main(["--only", part]) == 2
        assert f"bench searches.explore: {option} must be given" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_explorations_find_the_same() -> None:
    record, seconds = killed(exploring(("block_out=4,8", "bus_bytes=4,8"), trials=4), 3, 0)
    assert seconds.keys() == {"grid", "search"}
    assert {name: record.counts[name] for name in (
        "killed_wrong", "killed_leftovers", "killed_grid", "killed_search", "later_runs_grid",
        "later_runs_search")} == {"killed_wrong": 0, "killed_leftovers": 0, "killed_grid": 3,
                                  "killed_search": 3, "later_runs_grid": 1, "later_runs_search": 1}
