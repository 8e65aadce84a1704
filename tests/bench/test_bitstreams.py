"""The table of bitstreams, from records as builds write them."""

import json

from bench.fpga import cores


def record(board: str, mhz: float, **changed) -> dict:
    used = {"luts": 1200, "registers": 900, "multipliers": 7, "block_rams": 14}
    return {"board": board, "config": "tiny-1x4x4", "machine": "ab", "clock_hz": 80_000_000,
            "mhz": mhz, "peak_gops": 2.56, "seeds": {"1": mhz}, "used": used,
            "available": {name: 10 * count for name, count in used.items()}, **changed}


def run(*arguments: str) -> int:
    return cores.BENCH.main(["--only", "bitstreams", *arguments])


def test_the_fastest_of_each_board_and_machine(monkeypatch, tmp_path, capsys):
    for number, one in enumerate((record("b", 81.5), record("b", 84.25), record("a", 90.0))):
        (tmp_path / f"{number}.json").write_text(json.dumps(one))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{cores.BEGIN}old\n{cores.END}after\n")
    monkeypatch.setattr(cores, "PAGE", page)
    assert run("--write", "--records", *map(str, sorted(tmp_path.glob("*.json")))) == 0
    text = capsys.readouterr().out
    _, _, first, second = text.splitlines()
    assert first == ("| a | tiny-1x4x4 | 1,200 (10%) | 900 (10%) | 7 (10%) | 14 (10%) | 80 (90) "
                     "| 2.56 | 1 |")
    assert "80 (84.25)" in second
    assert page.read_text() == f"before\n{cores.BEGIN}{text}{cores.END}after\n"


def test_nothing_to_tell(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    assert run() == 2
    assert "no bitstream was built here" in capsys.readouterr().err
    (tmp_path / "x.json").write_text("{}")
    assert run("--records", str(tmp_path / "x.json")) == 2
    assert "not the record of a build" in capsys.readouterr().err


def test_the_page_has_a_place_for_the_table():
    text = cores.PAGE.read_text()
    assert text.count(cores.BEGIN) == text.count(cores.END) == 1
