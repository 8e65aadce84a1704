"""The figures of weights of 4 bits: a small network, and that they say what was saved."""

import pytest

from bench.accelerator.weights import BENCH, saved


@pytest.mark.slow
def test_a_small_network(capsys):
    assert BENCH.main(["--only", "packed", "keywords", "--size", "32",
                       "--machine", "tiny-1x4x4"]) == 0
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert list(lines) == [f"keywords_{name}" for name in (
        "weights_saved", "bytes_saved", "cycles_saved_full", "cycles_saved_half",
        "cycles_saved_quarter", "fastest_layer")]
    numbers = {name: float(value) for name, value in lines.items()}
    assert 0 < numbers["keywords_weights_saved"] < 100
    assert numbers["keywords_bytes_saved"] < numbers["keywords_weights_saved"]
    assert numbers["keywords_fastest_layer"] >= 1


def test_a_share_of_what_was_there():
    assert (saved(200, 100), saved(3, 3), saved(1000, 999)) == ("50.0", "0.0", "0.1")


@pytest.mark.slow
def test_more_bits_of_significand_keep_more(capsys):
    assert BENCH.main(["--only", "floats", "digits"]) == 0
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
    kept = [float(lines[f"digits_{name}_decibels"]) for name in (
        "float8_e5m2", "float8_e4m3fn", "int8", "bfloat16")]
    assert kept == sorted(kept) and kept[0] > 15
    assert lines["digits_float8_e4m3fn_cycles"] == lines["digits_float8_e5m2_cycles"]
    assert int(lines["digits_bfloat16_cycles"]) > int(lines["digits_float8_e5m2_cycles"])
