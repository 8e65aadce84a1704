"""``python -m bench``."""

from bench.__main__ import AREAS, benchmarks, main, question


def test_each_benchmark_is_in_one_area():
    assert sorted(name for names in AREAS.values() for name in names) == [*benchmarks()]


def test_the_list(capsys):
    main()
    said = " ".join(capsys.readouterr().out.split())
    for name in benchmarks():
        assert question(name) and f"bench.{name} {question(name)}" in said
