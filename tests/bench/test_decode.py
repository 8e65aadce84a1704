"""The measure of decoders: tokens by one stream."""

import pytest

from bench.accelerator.transformers import BENCH, sizes_of


@pytest.mark.slow
def test_small_decoder_is_equal_and_measured(capsys) -> None:
    assert BENCH.main(["--only", "llama", "--layers", "1", "--width", "64", "--places", "8",
                       "--tokens", "2"]) == 0
    *_, equal, tokens, cycles, bus = capsys.readouterr().out.splitlines()
    assert (equal, tokens) == ("tokens_equal 2", "tokens 2")
    assert int(cycles.split()[1]) > 0 and 0 < float(bus.split()[1]) < 100


def test_sizes_are_those_of_published_decoders() -> None:
    assert sizes_of("gpt", 12, 768).hidden == 3072
    llama = sizes_of("llama", 12, 768)
    assert (llama.heads, llama.groups, llama.depth, llama.hidden) == (12, 4, 64, 2048)


@pytest.mark.slow
def test_long_context_of_a_small_decoder_is_right_and_measured(capsys) -> None:
    assert BENCH.main(["--only", "long_context", "--layers", "1", "--width", "64", "--places", "24",
                       "--weight-bits", "4"]) == 0
    found = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert found["equal"] == "True" and found["places_read"] == "24"
    assert int(found["token_cycles"]) > 0 and 0 < float(found["compile_gigabytes"]) < 1


def test_long_context_has_one_position() -> None:
    assert BENCH.main(["--only", "long_context", "--at", "64"]) == 2
    assert BENCH.main(["--only", "long_context", "--at", "1,2"]) == 2
