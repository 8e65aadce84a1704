"""Folders of decoders as the Hugging Face hub has them: config.json, and weights in safetensors.

A file of safetensors begins with the length of its header, a JSON object that has the type, extents
and place of each tensor; data follow (github.com/huggingface/safetensors). Keys and tensors get the
names that GGUF files have for them.
"""

import json
import mmap
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.decoders.sources import GPT, LLAMA, opened

Array = np.ndarray
CONFIG = "config.json"
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
TAKEN = f"{', '.join([*DTYPES][:-1])} or {[*DTYPES][-1]}"

KEYS = {
    LLAMA: {"context_length": "max_position_embeddings", "embedding_length": "hidden_size",
            "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
            "attention.head_count": "num_attention_heads",
            "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
            "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta",
            "rope.scaling.type": "rope_type", "expert_count": "num_local_experts"},
    GPT: {"context_length": "n_positions", "embedding_length": "n_embd", "block_count": "n_layer",
          "feed_forward_length": "n_inner", "attention.head_count": "n_head",
          "attention.layer_norm_epsilon": "layer_norm_epsilon"}}
"""What config.json calls sizes."""

NEEDED = {
    LLAMA: {"hidden_act": ("silu",), "quantization_config": (None,)},
    GPT: {"activation_function": ("gelu_new", "gelu_pytorch_tanh"), "scale_attn_weights": (True,),
          "scale_attn_by_inverse_layer_idx": (False,), "quantization_config": (None,)}}
"""Values that keys must have, the first where they are absent."""

PARTS = {
    LLAMA: {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
            "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
            "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
            "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"},
    GPT: {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
          "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
          "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"}}
"""GGUF's names of the parts of a layer, and of what lies around layers."""

TURNED = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
"""The products of GPT-2 that are stored as [inputs, outputs]."""

PATTERN = re.compile(r"(?:model\.|transformer\.)?(?:(?:layers|h)\.(\d+)\.)?(.+)\.(weight|bias)")
BUFFERS = re.compile(r".*(\.attn\.(bias|masked_bias)|\.rotary_emb\.inv_freq)")


@dataclass(frozen=True, slots=True)
class HubTensor:
    """A tensor of a file, by the name that the file has for it. `shape` is that of GGUF, which has
    [outputs, inputs]."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: mmap.mmap
    start: int
    is_turned: bool


@dataclass(frozen=True, slots=True)
class HubFolder:
    """A `WeightSource`: sizes and weights of a folder."""

    path: Path
    form: str
    config: Mapping[str, Any]
    tensors: dict[str, HubTensor]
    pairs = False

    def told(self, key: str) -> Any:
        return self.config.get(self.titled(key))

    def titled(self, key: str) -> str:
        return KEYS[self.form].get(key, key)

    def called(self, tensor: str) -> str:
        if tensor in self.tensors:
            return self.tensors[tensor].name
        own = {made: name for name, made in PARTS[self.form].items()}
        part, _, role = tensor.removeprefix("blk.").rpartition(".")
        number, dot, inner = part.partition(".")
        return (f"{number}.{own.get(inner, inner)}.{role}" if dot
                else f"{own.get(part, part)}.{role}")

    def read(self, tensor: str) -> Array:
        """A tensor as float32. Raises ImportRefused for a type that is not taken."""
        found = self.tensors[tensor]
        if found.dtype not in DTYPES:
            raise ImportRefused(f"{self.path}: tensor {found.name} must be of {TAKEN}, not "
                                f"{found.dtype}; save the network in one of these")
        dtype, count = np.dtype(DTYPES[found.dtype]), prod(found.shape)
        if found.start + count * dtype.itemsize > len(found.data):
            raise ImportRefused(f"{self.path}: ends before the data of tensor {found.name}; it is "
                                "cut off, fetch it again")
        array = np.frombuffer(found.data, np.uint8, count * dtype.itemsize, found.start).view(dtype)
        shape = found.shape[::-1] if found.is_turned else found.shape
        array = array.reshape(shape).astype(np.float32)
        return array.T if found.is_turned else array


def read(path: Path) -> HubFolder:
    """The sizes of a folder, and where its tensors lie. Raises ImportRefused."""
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ImportRefused(f"{path / CONFIG}: cannot be read: {error}") from None
    form = config.get("model_type") if isinstance(config, dict) else None
    if form not in KEYS:
        raise ImportRefused(f"{path}: model_type in {CONFIG} must be {LLAMA} or {GPT}, not "
                            f"{form!r}; export the network to ONNX")
    for key, values in NEEDED[form].items():
        if config.get(key, values[0]) not in values:
            raise ImportRefused(f"{path}: {key} in {CONFIG} must be "
                                f"{' or '.join(map(str, values))}, not {config[key]!r}")
    tensors = {}
    for file in sorted(path.glob("*.safetensors")):
        tensors |= _tensors(file, form)
    return HubFolder(path, form, _completed(config), tensors)


def _completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """With what is told of rotary positions in a key of their own, and what GPT-2 leaves open."""
    turns = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = turns.get("rope_type", turns.get("type"))
    found = {**config, "rope_type": None if kind == "default" else kind}
    if "rope_theta" in turns:
        found["rope_theta"] = turns["rope_theta"]
    if found.get("n_inner") is None and isinstance(found.get("n_embd"), int):
        found["n_inner"] = 4 * found["n_embd"]
    return found


def _tensors(path: Path, form: str) -> dict[str, HubTensor]:
    """The tensors of one file, by GGUF's names; another one keeps its own."""
    data, found = opened(path), {}
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:8 + length])
        for name, told in header.items():
            if name != "__metadata__" and not BUFFERS.fullmatch(name):
                made = _named(name, form)
                turned = form == GPT and made.split(".")[-2] in TURNED and len(told["shape"]) == 2
                shape = tuple(map(int, told["shape"]))
                found[made] = HubTensor(name, shape[::-1] if turned else shape, told["dtype"],
                                        data, 8 + length + int(told["data_offsets"][0]), turned)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise ImportRefused(f"{path}: its header is damaged or cut off; fetch the file again"
                            ) from None
    return found


def _named(name: str, form: str) -> str:
    match = PATTERN.fullmatch(name)
    if match is None or match[2] not in PARTS[form]:
        return name
    layer = f"blk.{match[1]}." if match[1] else ""
    return f"{layer}{PARTS[form][match[2]]}.{match[3]}"
