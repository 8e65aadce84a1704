"""Tokens by number: who gives each, who takes it, which is nearest to a place of the stream."""

from compiler.latency_hiding import TokenPair, Tokens, pair_tokens


def test_the_kth_signal_is_for_the_kth_wait():
    units = ["load", "load", "gemm", "load", "gemm"]
    tokens = [Tokens((), ("gemm",)), Tokens((), ("gemm", "store")), Tokens(("load",)),
              Tokens(("load",), ("gemm",)), Tokens(("load",), ("load",))]
    pairs = pair_tokens(units, tokens)
    assert pairs == {("load", "gemm"): TokenPair([0, 1, 3], [2, 4]),
                     ("load", "store"): TokenPair([1], []),
                     ("load", "load"): TokenPair([], [3]), ("gemm", "load"): TokenPair([4], [])}
    pair = pairs["load", "gemm"]
    assert [pair.given(token) for token in range(4)] == [0, 1, 3, None]
    assert [pair.taken(token) for token in range(3)] == [2, 4, None]


def test_the_nearest_tokens():
    pair = TokenPair([3, 5, 9], [4, 10])
    assert [pair.first_signal(at) for at in (0, 3, 4, 5, 6, 9, 10)] == [0, 0, 1, 1, 2, 2, None]
    assert [pair.last_wait(at) for at in (3, 4, 9, 10, 11)] == [None, 0, 0, 1, 1]
