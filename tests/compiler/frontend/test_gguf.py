"""Decoders of GGUF files, compared with NumPy over whole sequences, and with ggml's own reader."""

import struct

import numpy as np
import onnx.reference
import pytest

import lockstep
from accel.machine.loading import load_machine
from bench.accelerator.weights import with_bits
from compiler.frontend import ImportRefused
from compiler.frontend.decoders import gguf
from compiler.frontend.decoders.blocks import TYPES
from compiler.frontend.models import graph_of, read_file
from lockstep.cli import main
from tests.support import little_decoders
from tests.support.gguf_files import BLOCKS, CODES, GPT, LLAMA, blocks, tensor, write
from tests.support.little_decoders import gpt_logits, llama_logits, states_of

READS = {kind.name: kind.read for kind in TYPES.values() if kind.read}


# Blocks

def by_hand(kind: str, block: bytes) -> list[float]:
    """The numbers of a block, one after another, as ggml's text has them."""
    def half(place: int) -> float:
        return float(np.frombuffer(block, np.float16, 1, place)[0])

    def nibble(place: int, upper: bool) -> int:
        return block[place] >> 4 if upper else block[place] & 15

    if kind == "Q4_0":
        return [half(0) * (nibble(2 + i % 16, i >= 16) - 8) for i in range(32)]
    if kind == "Q4_1":
        return [half(0) * nibble(4 + i % 16, i >= 16) + half(2) for i in range(32)]
    if kind == "Q8_0":
        return [half(0) * struct.unpack_from("b", block, 2 + i)[0] for i in range(32)]
    if kind == "Q4_K":
        return [half(0) * sub_scale(block, i // 32)[0]
                * nibble(16 + 32 * (i // 64) + i % 32, i % 64 >= 32)
                - half(2) * sub_scale(block, i // 32)[1] for i in range(256)]
    found = []
    for i in range(256):
        place = i % 128
        low = nibble(64 * (i // 128) + place % 64, place >= 64)
        high = block[128 + 32 * (i // 128) + place % 32] >> 2 * (place // 32) & 3
        (scale,) = struct.unpack_from("b", block, 192 + i // 16)
        found.append(half(208) * scale * ((low | high << 4) - 32))
    return found


def sub_scale(block: bytes, j: int) -> tuple[int, int]:
    """The scale and the offset of eight that Q4_K packs into twelve bytes."""
    packed = block[4:16]
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    return (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4,
            packed[j + 4] >> 4 | packed[j] >> 6 << 4)


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_are_the_numbers_of_the_text(kind, rng) -> None:
    drawn = blocks(kind, 5, rng)
    wanted = np.array([by_hand(kind, bytes(block)) for block in drawn])
    found = READS[kind](drawn)
    assert found.dtype == np.float32 and found.shape == (5, BLOCKS[kind][0])
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [*BLOCKS, "BF16", "F16"])
def test_blocks_are_those_of_the_wheel(kind, rng) -> None:
    gguf, quants = pytest.importorskip("gguf"), pytest.importorskip("gguf.quants")
    drawn = (blocks(kind, 40, rng) if kind in BLOCKS
             else rng.standard_normal(80).astype(np.float16).view(np.uint8).reshape(-1, 2))
    wanted = quants.dequantize(drawn.reshape(1, -1), gguf.GGMLQuantizationType[kind]).reshape(-1)
    np.testing.assert_array_equal(READS[kind](drawn).reshape(-1), wanted)


# Networks

FORMS = {"llama": (LLAMA, little_decoders.llama, llama_logits),
         "gpt": (GPT, little_decoders.gpt, gpt_logits)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", FORMS)
def test_a_decoder_makes_the_logits_of_the_whole_sequence(form, tmp_path, rng) -> None:
    metadata, drawn, logits = FORMS[form]
    tensors = drawn(rng)
    path = write(tmp_path / "m.gguf", metadata, {name: tensor(array) for name, array
                                                 in tensors.items()})
    graph = graph_of(path)
    assert graph.values["layer0.keys.past"].shape[0] == 16
    decode = lockstep.decoder(path, "cpu", states=states_of(graph))
    tokens = rng.integers(0, 40, 9)
    found = [decode({"token": np.array([token])})["logits"][0] for token in tokens]
    np.testing.assert_allclose(found, logits(tensors, tokens), atol=2e-4)


def test_places_are_what_is_asked_for(tmp_path, rng) -> None:
    path = write(tmp_path / "m.gguf", LLAMA, {name: tensor(array) for name, array
                                              in little_decoders.llama(rng).items()})
    graph = graph_of(path, {"places": 6})
    assert graph.values["layer1.values.past"].shape == (2, 16, 6)
    feeds = {name: np.zeros(graph.values[name].shape, graph.values[name].dtype)
             for name in graph.inputs}
    reference = onnx.reference.ReferenceEvaluator(read_file(path).model)
    wanted = np.asarray(list(reference.run(["logits"], feeds))[0])
    module = lockstep.compile(path, "cpu", shapes={"places": 6})
    np.testing.assert_allclose(module(feeds)["logits"], wanted, atol=1e-4)


@pytest.mark.parametrize("kind", ["Q4_0", pytest.param("Q8_0", marks=pytest.mark.slow)])
def test_files_of_blocks_are_their_numbers(kind, tmp_path, rng) -> None:
    tensors = little_decoders.llama(rng)
    stored = {name: tensor(array, kind if array.ndim == 2 else "F32")
              for name, array in tensors.items()}
    path = write(tmp_path / "m.gguf", LLAMA, stored, version=2)
    read = gguf.read(path)
    rounded = {name: read.read(name) for name in tensors}
    assert np.abs(rounded["output.weight"] - tensors["output.weight"]).max() > 1e-4
    decode = lockstep.decoder(path, "cpu", states=states_of(graph_of(path)))
    found = [decode({"token": np.array([token])})["logits"][0] for token in (3, 1, 4)]
    np.testing.assert_allclose(found, llama_logits(rounded, np.array([3, 1, 4])), atol=2e-4)


@pytest.mark.slow
def test_q4_0_is_taken_as_groups_of_32(tmp_path, rng) -> None:
    """Weights of few bits in groups are those of the file, and one segment of the accelerator. One
    layer has all kinds of products.
    """
    drawn = {name: array for name, array in little_decoders.llama(rng).items()
             if not name.startswith("blk.1.")}
    path = write(tmp_path / "m.gguf", LLAMA | {"llama.block_count": 1}, {
        name: tensor(array, "Q4_0" if array.ndim == 2 else "F32") for name, array in drawn.items()})
    samples = samples_of(path, rng)
    quantized = lockstep.quantize(path, samples, weight_bits=4, weight_groups=32, scale_bits=16)
    constants, file = quantized.graph.constants, gguf.read(path)
    for part in ("gate", "up", "down"):
        real = (constants[f"layer0.{part}.weight_quantized"]
                * constants[f"layer0.{part}.weight_scale"])
        wanted = file.read(f"blk.0.ffn_{part}.weight").T
        assert np.abs(real - wanted).max() < 2e-4 * np.abs(wanted).max()
    machine = with_bits(load_machine("examples/machines/normalize.py"), 4)
    module = lockstep.compile(quantized.graph, "accel,cpu", machine=machine, sim="functional")
    assert len(module.accelerated) == 1
    feeds = {name: array[7] for name, array in samples.items()}
    np.testing.assert_array_equal(module(feeds)["logits"], lockstep.compile(
        quantized.graph, "cpu")(feeds)["logits"])


def samples_of(path, rng) -> dict[str, np.ndarray]:
    """The inputs of sixteen tokens in a row, with the caches that the float network fills."""
    module = lockstep.compile(path, "cpu")
    values, states = module.graph.values, states_of(module.graph)
    caches = {name: np.zeros(values[name].shape, np.float32) for name in states}
    runs = []
    for place in range(16):
        runs.append({"token": rng.integers(0, 40, 1), "position": np.array([place]),
                     **{name: cache.copy() for name, cache in caches.items()}})
        outputs = module(runs[-1])
        for name, output in states.items():
            at = place if "keys" in name else (..., slice(place, place + 1))
            caches[name][at] = outputs[output]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


# Refusals

def refusal(path) -> str:
    with pytest.raises(ImportRefused) as refused:
        graph_of(path)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)
    return str(refused.value).removeprefix(f"{path}: ")


def without(name: str):
    return lambda metadata, tensors: tensors.pop(name)


def told(**keys):
    return lambda metadata, tensors: metadata.update(
        {name.replace("__", "."): value for name, value in keys.items()})


def put(name: str, found):
    return lambda metadata, tensors: tensors.update({name: found})


@pytest.mark.parametrize(("change", "shown"), [
    (told(general__architecture="mamba"),
     "architecture must be llama or gpt2, not 'mamba'; build the network around the file's "
     "tensors, and export that to ONNX"),
    (told(llama__expert_count=8),
     "llama.expert_count must be absent, not 8: experts are not taken"),
    (told(llama__rope__scaling__type="yarn"),
     "llama.rope.scaling.type must be absent, not 'yarn': scaled positions are not taken"),
    (told(llama__block_count="two"),
     "llama.block_count must be an integer of at least 1, not 'two'"),
    (told(llama__attention__head_count=3),
     "64 channels must be divided by 3 heads of an even depth, and these by 2 of keys"),
    (told(llama__rope__dimension_count=8),
     "llama.rope.dimension_count must be 16, the depth of a head, not 8"),
    (without("blk.1.ffn_up.weight"), "has no tensor blk.1.ffn_up.weight, which a network of the "
                                     "architecture llama needs"),
    (put("blk.0.attn_q.bias", tensor(np.zeros(64))),
     "blk.0.attn_q.bias must be absent: a network of the architecture llama has no such tensors"),
    (put("output.weight", tensor(np.zeros((40, 32)))),
     "tensor output.weight must be [40, 64], not [40, 32]"),
    (put("output.weight", ((40, 64), 11, bytes(2000))),
     "tensor output.weight must be of F32, F16, Q4_0, Q4_1, Q8_0, Q4_K, Q6_K or BF16, not Q3_K; "
     "quantize the file to one of these"),
    (put("output.weight", ((40, 64), 99, bytes(2000))),
     "tensor output.weight must be of F32, F16, Q4_0, Q4_1, Q8_0, Q4_K, Q6_K or BF16, not unknown "
     "type 99; quantize the file to one of these"),
    (put("output.weight", ((40, 64), CODES["Q4_K"], bytes(2000))),
     "rows of tensor output.weight must be blocks of 256 numbers, as Q4_K has them, not 64 "
     "numbers")])
def test_what_is_not_taken_is_said_in_one_line(change, shown, tmp_path, rng) -> None:
    metadata = dict(LLAMA)
    tensors = {name: tensor(array) for name, array in little_decoders.llama(rng).items()}
    change(metadata, tensors)
    assert refusal(write(tmp_path / "m.gguf", metadata, tensors)) == shown


def test_files_that_are_cut_off(tmp_path, rng) -> None:
    path = write(tmp_path / "m.gguf", LLAMA, {name: tensor(array) for name, array
                                              in little_decoders.llama(rng).items()})
    whole = path.read_bytes()
    for count in (5, 20, 30, 100, 500, 1500, 4000, len(whole) - 8):
        path.write_bytes(whole[:count])
        assert "cut off, fetch it again" in refusal(path)
    path.write_bytes(b"FUGG" + whole[4:])
    assert refusal(path) == "must be a GGUF file of little endian; convert it"
    path.write_bytes(b"GGUF\1" + whole[5:])
    assert refusal(path) == "must be of version 2 or 3 of GGUF, not 1; convert it"


def test_commands_take_the_file(tmp_path, rng, capsys) -> None:
    path = write(tmp_path / "m.gguf", LLAMA, {name: tensor(array) for name, array
                                              in little_decoders.llama(rng).items()})
    assert main(["run", str(path), "--target", "cpu", "--shape", "places=8"]) == 0
    capsys.readouterr()
    assert main(["run", str(tmp_path / "none.gguf"), "--target", "cpu"]) == 2
    assert "no such file" in capsys.readouterr().err
