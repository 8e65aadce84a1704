"""``lockstep diff``: two machines, on a small network."""

import json
import re
from pathlib import Path

from lockstep.cli import main


def test_diff_shows_layers_and_units(capsys, tmp_path: Path) -> None:
    report = tmp_path / "d.json"
    assert main(["diff", "tiny-1x4x4", "ecp5-1x8x8", "--network", "digits", "--json", str(report)]
                ) == 0
    out = capsys.readouterr().out
    here, there = json.loads(report.read_text())["networks"]["digits"]
    for (name, cycles, _, bound), (_, other, _, after) in zip(here["rows"], there["rows"]):
        bounds = re.escape(bound if bound == after else f"{bound} -> {after}")
        assert re.search(rf"^{re.escape(name)} +{cycles:,} +{other:,} .*{bounds or '-'}", out,
                         re.MULTILINE)
    assert re.search(rf"^gemm: busy cycles +{here['busy']['gemm']:,} +{there['busy']['gemm']:,} ",
                     out, re.MULTILINE)
    assert sum(row[1] for row in here["rows"]) == here["cycles"]
    assert re.search(r"^luts +[\d,]+ ±\d+%", out, re.MULTILINE) and "mhz" in out
