"""The probe's example, on the smallest machine."""

import re
import sys

from examples import probe_rtl


def test_the_example_stops_pokes_and_ends(monkeypatch, capsys, tmp_path):
    path = tmp_path / "made" / "probe.vcd"
    monkeypatch.setattr(sys, "argv", ["probe_rtl", "--vcd", str(path)])
    assert probe_rtl.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"instruction \d+ \(gemm\) works from cycle", lines[0])
    assert lines[1].endswith("the first of x; bit 6 is inverted")
    assert [line.split()[0] for line in lines[3:7]] == ["load", "gemm", "vector", "store"]
    assert "done; " in lines[7] and "; 0 of" not in lines[7]
    assert path.stat().st_size > 10_000
