"""One token after another, by one compiled network, with caches that stay where they are."""

import gc
import re
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lockstep
from accel.machine import isa
from accel.mapping.segment import AccelSegment
from bench.cpu.calls import chain
from compiler.errors import ArgumentError
from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate, optimize
from lockstep.testing.networks import decoders
from runtime.driver.decoding import Decoder
from tests.support.decoders import ONE_LAYER, TOKENS, both, machine, tokens

LLAMA = {"llama": ONE_LAYER["llama"]}
PLACES = 24         # of the accelerator, which has a stream for the first sixteen, too


def decoder(target: str = "cpu", count: int = TOKENS, **options) -> Decoder:
    _, step = both("llama", LLAMA, count)
    return lockstep.decoder(convert(step.int8), target, states=decoders.states(step.net), **options)


def accelerated() -> Decoder:
    """All tests have the same, which the cache compiles once."""
    return decoder("accel,cpu", PLACES, machine=machine())


def wanted(count: int = TOKENS) -> dict[str, np.ndarray]:
    whole, _ = both("llama", LLAMA, count)
    return evaluate(whole.graph, {"embeddings": tokens("llama", count)})


def test_each_token_is_that_of_the_whole() -> None:
    """Twice, the second time after all is forgotten."""
    step, logits = decoder(), wanted()["logits"]
    assert step.places == TOKENS
    for _ in range(2):
        for position, token in enumerate(tokens("llama")):
            assert step.position == position
            made = step({"embeddings": token[None]})
            assert [*made] == ["logits"]
            np.testing.assert_array_equal(made["logits"][0], logits[position], str(position))
        step.reset()


def test_it_goes_on_behind_what_another_network_made() -> None:
    step, whole, x = decoder(), wanted(), tokens("llama")
    step.remember({state.row: np.take(whole[state.row], range(5), state.axis)
                   for state in step.states})
    for position in (5, 6, 7):
        made = step({"embeddings": x[position:position + 1]})
        np.testing.assert_array_equal(made["logits"][0], whole["logits"][position])


def test_a_float_network_decodes_too() -> None:
    whole, one = both("llama", LLAMA)
    step = lockstep.decoder(convert(one.real), "cpu", states=decoders.states(one.net))
    x = tokens("llama")
    logits = evaluate(optimize(convert(whole.real)), {"embeddings": x})["logits"]
    for position in range(3):
        made = step({"embeddings": x[position:position + 1]})["logits"]
        np.testing.assert_allclose(made[0], logits[position], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_the_accelerator_puts_rows_where_they_belong(monkeypatch) -> None:
    """One stream for all tokens, of which the driver moves few words; no cache is copied twice."""
    step, whole = accelerated(), wanted(PLACES)
    (segment,) = step.module.accelerated
    assert [one.target for one in step.module.partition.segments] == ["host", "accel", "host"]
    assert isinstance(segment, AccelSegment)
    copied = Counter()
    copy_in = type(segment.device).copy_in
    monkeypatch.setattr(type(segment.device), "copy_in", lambda self, address, data: (
        copied.update({address: data.size}), copy_in(self, address, data))[1])
    caches = [slot for slot in segment.program.inputs
              if slot.name in {state.cache for state in step.states}]
    words = range(segment.program.bases["weights"])
    step.remember({state.row: np.take(whole[state.row], range(PLACES - TOKENS), state.axis)
                   for state in step.states})
    for position, token in enumerate(tokens("llama", PLACES)[-TOKENS:], PLACES - TOKENS):
        copied.clear()
        made = step({"embeddings": token[None]})
        np.testing.assert_array_equal(made["logits"][0], whole["logits"][position], str(position))
        assert step.runs and all(run.ok for run in step.runs)
        begins = {segment.place(slot): slot.size_bytes for slot in caches}
        moved = sum(size for address, size in copied.items() if any(
            begin <= address < begin + size_bytes for begin, size_bytes in begins.items()))
        assert moved == (sum(begins.values()) if position == PLACES - TOKENS else 0)
        written = sum(size for address, size in copied.items()
                      if address - segment.address in words)
        stores = sum(len(put.stores) for put in segment.puts)
        assert written == isa.WORD_BYTES * stores


def test_what_is_remembered_from_elsewhere_reaches_the_accelerator() -> None:
    step, whole, x = accelerated(), wanted(PLACES), tokens("llama", PLACES)
    for position in (0, 1):
        step({"embeddings": x[position:position + 1]})
    step.reset()
    step.remember({state.row: np.take(whole[state.row], range(4), state.axis)
                   for state in step.states})
    for position in (4, 5):
        made = step({"embeddings": x[position:position + 1]})
        np.testing.assert_array_equal(made["logits"][0], whole["logits"][position])


@pytest.mark.slow
def test_no_more_places_are_read_than_the_position_needs() -> None:
    """Tokens around the border of two streams, twice; all equal to those of the whole network."""
    step, whole, x = accelerated(), wanted(PLACES), tokens("llama", PLACES)
    for begin, places in ((13, 5), (0, 2), (15, 2)):
        step.reset()
        step.remember({state.row: np.take(whole[state.row], range(begin), state.axis)
                       for state in step.states})
        for position in range(begin, begin + places):
            made = step({"embeddings": x[position:position + 1]})["logits"]
            np.testing.assert_array_equal(made[0], whole["logits"][position], str(position))
            assert [run.places for run in step.runs] == [16 if position < 16 else 0]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "target"), [
    ("llama", "cpu"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("gpt", "accel,cpu"), ("gpt", "cpu"), ("llama", "accel,cpu")))])
def test_a_batch_of_sequences(kind: str, target: str) -> None:
    """All at one position; each token is that of the whole network, which has a batch, too."""
    batch, count = 2, 18
    whole, one = both(kind, {kind: replace(ONE_LAYER[kind], batch=batch)}, count)
    x = tokens(kind, count, batch)
    wanted = evaluate(whole.graph, {"embeddings": x})
    options: dict[str, Any] = {"machine": machine()} if target != "cpu" else {}
    step = lockstep.decoder(convert(one.int8), target, states=decoders.states(one.net), **options)
    assert [segment.target for segment in step.module.partition.segments] == (
        ["host"] if target == "cpu" else ["host", "accel", "host"])
    for begin in (0, 15):
        step.reset()
        step.remember({state.row: np.take(wanted[state.row], range(begin), state.axis)
                       for state in step.states})
        for position in range(begin, begin + 3):
            made = step({"embeddings": x[:, position:position + 1]})["logits"]
            np.testing.assert_array_equal(made[:, 0], wanted["logits"][:, position], str(position))
            assert [run.places for run in step.runs] == (
                [] if target == "cpu" else [16 if position < 16 else 0])


def test_there_is_room_for_so_many_tokens() -> None:
    step, (x, *_) = decoder(), tokens("llama")
    for _ in range(TOKENS):
        step({"embeddings": x[None]})
    with pytest.raises(lockstep.InputError, match="^Tokens must be at most 8, not 9$"):
        step({"embeddings": x[None]})


def test_inputs_wrong() -> None:
    step, (x, *_) = decoder(), tokens("llama")
    with pytest.raises(lockstep.InputError, match="^Input position must not be given: the decoder "
                                                  "has it$"):
        step({"embeddings": x[None], "position": np.array([1])})
    with pytest.raises(lockstep.InputError, match=r"^Rows of layer0.\w+.\w+ must be given, too$"):
        step.remember({})
    rows = {state.row: np.zeros((3, 1, 1), np.float32) for state in step.states}
    with pytest.raises(lockstep.InputError, match=re.escape(
            "must have a shape like ('N', 2, 8), with one N for all, not (3, 1, 1)")):
        step.remember(rows)
    with pytest.raises(ArgumentError, match="^states must name a cache and its row at least$"):
        lockstep.decoder("x.onnx", states={})


@pytest.mark.slow
def test_tokens_and_calls_in_threads_leave_nothing_behind() -> None:
    """What Python has allocated after some rounds, and after more, each with new threads."""
    step, module = decoder(), lockstep.compile(chain("product", 3), "cpu")
    x, token = {"x": np.ones((1, 8), np.float32)}, {"embeddings": tokens("llama")[:1]}

    def rounds(count: int) -> int:
        for _ in range(count):
            with ThreadPoolExecutor(4) as pool:
                wait([pool.submit(module, x) for _ in range(32)])
            for number in range(6 * TOKENS):
                if number % TOKENS == 0:
                    step.reset()
                step(token)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    rounds(1)
    tracemalloc.start()
    few = rounds(2)
    more = rounds(4)
    tracemalloc.stop()
    assert more - few < 4096         # 128 calls and 24 * TOKENS tokens
