"""`searches.tuning`: what it prints, of few plans."""

import json
import re
from pathlib import Path

import pytest

from bench.searches import tuning


@pytest.mark.slow
def test_a_shape_is_measured(tmp_path: Path, capsys) -> None:
    path = tmp_path / "t.json"
    assert tuning.BENCH.main(["--only", "shapes", "matmul_1_512_1000", "--most", "4",
                              "--measurements", "3", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^matmul_1_512_1000: \d plans, own \d\.\d{3}, after 3 \d\.\d{3} of", out)
    assert re.search(r"^tuning_own_worst \d\.\d{3}\ntuning_searched_worst \d\.\d{3}$", out, re.M)
    row, = json.loads(path.read_text())["rows"]
    assert 3 <= row["plans"] <= 9 and min(row["own"], row["searched"], row["best"]) == 1.0


def test_tasks_are_the_products() -> None:
    for name in ("conv1x1_512_14", "matmul_64_192_768"):
        assert tuning.task_of(name).title.startswith(("conv2d_blocks_relu", "packed_matmul"))
