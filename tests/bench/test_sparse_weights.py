"""The figures of sparse weights: the digits network on all three machines."""

import pytest

from bench.accelerator.weights import BENCH


@pytest.mark.slow
def test_the_digits(capsys):
    assert BENCH.main(["--only", "sparse", "digits"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {(weights, machine): tuple(map(int, numbers)) for _, weights, machine, *numbers in rows}
    assert found["dense", "gemm"] == found["dense", "sparse"] == found["2:4", "gemm"]
    for machine in ("sparse", "halved"):
        assert all(few < all_ for few, all_ in zip(found["2:4", machine], found["dense", "gemm"],
                                                   strict=True)) or machine == "sparse"
        assert found["2:4", machine][2] < 0.7 * found["dense", "gemm"][2]
    assert found["dense", "halved"][3] == 128
