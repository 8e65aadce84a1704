"""Decoders of folders with config.json and safetensors, compared with NumPy."""

import json
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lockstep
from compiler.frontend import ImportRefused
from compiler.frontend.decoders import hub
from compiler.frontend.kinds import HUB, kind_of
from compiler.frontend.models import graph_of
from tests.support import little_decoders
from tests.support.little_decoders import gpt_logits, llama_logits, states_of

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
         "rms_norm_eps": 1e-3, "rope_theta": 500.0, "hidden_act": "silu"}
GPT = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_inner": 96, "n_head": 4,
       "n_positions": 16, "layer_norm_epsilon": 1e-3, "activation_function": "gelu_new"}
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


def stored(path: Path, tensors, dtype: str = "F32") -> None:
    """Writes a file of safetensors from the format's description."""
    header: dict[str, Mapping[str, object]] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in tensors.items():
        begin = len(data)
        data += np.ascontiguousarray(array, DTYPES.get(dtype, np.float32)).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def hub_names(form: str, tensors) -> dict[str, np.ndarray]:
    """The tensors as the hub has them: pairs of channels half a head apart, GPT-2's products as
    [inputs, outputs]."""
    made = {}
    names = {own: name for name, own in hub.PARTS[form].items()}
    for name, array in tensors.items():
        layer, _, rest = name.removeprefix("blk.").partition(".") if "blk" in name else ("", "",
                                                                                         name)
        part, _, role = rest.rpartition(".")
        if form == "llama" and part in ("attn_q", "attn_k"):
            array = array.reshape(-1, 8, 2, 64).swapaxes(1, 2).reshape(array.shape)
        if form == "gpt2" and layer and array.ndim == 2:
            array = array.T
        before = {"llama": f"model.layers.{layer}.", "gpt2": f"h.{layer}."}[form] if layer else (
            "model." if form == "llama" and part != "output" else "")
        made[f"{before}{names[part]}.{role}"] = array
    if form == "gpt2":
        made["h.0.attn.bias"] = np.tri(16)[None, None]
    return made


def folder(path: Path, form: str, tensors, dtype: str = "F32", **changes) -> Path:
    config = {"llama": LLAMA, "gpt2": GPT}[form]
    (path / "config.json").write_text(json.dumps({**config, **changes}))
    names = hub_names(form, tensors)
    parts = list(names)
    for number in range(2):         # two files, as large networks have them
        stored(path / f"model-{number}.safetensors",
               {name: names[name] for name in parts[number::2]}, dtype)
    return path


@pytest.mark.parametrize(("form", "dtype"), [
    ("llama", "F32"), ("gpt2", "F32"), ("llama", "BF16"), ("gpt2", "F16")])
def test_a_decoder_makes_the_logits_of_the_whole_sequence(form, dtype, tmp_path, rng) -> None:
    drawn, logits = {"llama": (little_decoders.llama, llama_logits),
                     "gpt2": (little_decoders.gpt, gpt_logits)}[form]
    tensors = {name: array.astype(DTYPES[dtype]).astype(np.float32)
               for name, array in drawn(rng).items()}
    path = folder(tmp_path, form, tensors, dtype)
    assert kind_of(path) is HUB
    decode = lockstep.decoder(path, "cpu", states=states_of(graph_of(path)))
    tokens = rng.integers(0, 40, 7)
    found = [decode({"token": np.array([token])})["logits"][0] for token in tokens]
    np.testing.assert_allclose(found, logits(tensors, tokens), atol=2e-4)


def test_newer_folders_tell_positions_in_a_key_of_their_own(tmp_path, rng) -> None:
    tensors = little_decoders.llama(rng)
    path = folder(tmp_path, "llama", tensors, rope_theta=None,
                  rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    decode = lockstep.decoder(path, "cpu", states=states_of(graph_of(path)))
    found = [decode({"token": np.array([token])})["logits"][0] for token in (3, 1, 4)]
    np.testing.assert_allclose(found, llama_logits(tensors, np.array([3, 1, 4])), atol=2e-4)


# Refusals

def refusal(path: Path) -> str:
    with pytest.raises(ImportRefused) as refused:
        graph_of(path)
    assert str(refused.value).startswith(f"{path}") and "\n" not in str(refused.value)
    return str(refused.value).removeprefix(f"{path}").removeprefix(": ")


@pytest.mark.parametrize(("changes", "shown"), [
    ({"model_type": "mamba"}, "model_type in config.json must be llama or gpt2, not 'mamba'; "
                              "export the network to ONNX"),
    ({"hidden_act": "relu"}, "hidden_act in config.json must be silu, not 'relu'"),
    ({"quantization_config": {"bits": 4}},
     "quantization_config in config.json must be None, not {'bits': 4}"),
    ({"rope_scaling": {"rope_type": "llama3"}},
     "rope_type must be absent, not 'llama3': scaled positions are not taken"),
    ({"head_dim": 32}, "head_dim must be 16, the depth of a head, not 32"),
    ({"num_hidden_layers": 3}, "has no tensor 2.input_layernorm.weight, which a network of the "
                               "architecture llama needs"),
    ({"intermediate_size": 64}, "tensor model.layers.0.mlp.gate_proj.weight must be [64, 64], not "
                                "[96, 64]")])
def test_what_is_not_taken_is_said_in_one_line(changes, shown, tmp_path, rng) -> None:
    assert refusal(folder(tmp_path, "llama", little_decoders.llama(rng), **changes)) == shown


def test_types_and_damage_are_named(tmp_path, rng) -> None:
    path = folder(tmp_path, "llama", little_decoders.llama(rng), "I32")
    assert "must be of F32, F16 or BF16, not I32; save the network in one of these" in refusal(path)
    folder(path, "llama", little_decoders.llama(rng))
    first = path / "model-0.safetensors"
    whole = first.read_bytes()
    first.write_bytes(whole[:-8])
    assert "it is cut off, fetch it again" in refusal(path)
    first.write_bytes(whole[:100])
    assert refusal(path).endswith("its header is damaged or cut off; fetch the file again")
    (path / "config.json").write_text("{")
    assert "config.json: cannot be read" in refusal(path)
