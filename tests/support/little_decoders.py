"""Little decoders: tensors as GGUF names them, and what NumPy makes of a sequence."""

import numpy as np


def llama(rng, words: int = 40) -> dict[str, np.ndarray]:
    """The tensors of a Llama: 2 layers of 64 channels, 4 heads, 2 of keys."""
    def drawn(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    found = {"token_embd.weight": drawn(words, 64) * 8, "output_norm.weight": 1 + drawn(64),
             "output.weight": drawn(words, 64)}
    for layer in range(2):
        found |= {f"blk.{layer}.{name}.weight": drawn(*shape) for name, shape in {
            "attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64),
            "ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}.items()}
        found |= {f"blk.{layer}.{name}.weight": 1 + drawn(64) for name in ("attn_norm", "ffn_norm")}
    return found


def gpt(rng, words: int = 40) -> dict[str, np.ndarray]:
    """The tensors of a GPT-2 of as many; words are read from the embeddings."""
    def drawn(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    found = {"token_embd.weight": drawn(words, 64) * 8, "position_embd.weight": drawn(16, 64) * 4,
             "output_norm.weight": 1 + drawn(64), "output_norm.bias": drawn(64)}
    for layer in range(2):
        for name, shape in {"attn_qkv": (192, 64), "attn_output": (64, 64), "ffn_up": (96, 64),
                            "ffn_down": (64, 96)}.items():
            found[f"blk.{layer}.{name}.weight"] = drawn(*shape)
            found[f"blk.{layer}.{name}.bias"] = drawn(shape[0])
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = 1 + drawn(64)
            found[f"blk.{layer}.{name}.bias"] = drawn(64)
    return found


def llama_logits(tensors, tokens) -> np.ndarray:
    """Logits of all tokens, in float64: pairs of neighbours are turned, heads share keys."""
    def norm(x, weight):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-3) * weight

    def turned(x):
        angle = np.arange(len(x))[:, None] * 500.0 ** (-np.arange(8) / 8)
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None]
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)

    x = tensors["token_embd.weight"][tokens].astype(float)
    for layer in range(2):
        w = {name.split(".")[2]: array for name, array in tensors.items()
             if name.startswith(f"blk.{layer}.")}
        y = norm(x, w["attn_norm"])
        query, key, value = ((y @ w[f"attn_{part}"].T).reshape(len(x), -1, 16) for part in "qkv")
        query, key = turned(query), turned(key)
        x = x + attended(query, key.repeat(2, 1), value.repeat(2, 1)) @ w["attn_output"].T
        y = norm(x, w["ffn_norm"])
        gate = y @ w["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["ffn_up"].T)) @ w["ffn_down"].T
    return norm(x, tensors["output_norm.weight"]) @ tensors["output.weight"].T


def attended(query, key, value) -> np.ndarray:
    scores = np.einsum("ihd,jhd->hij", query, key) / 4
    scores = np.where(np.tri(len(query), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", weights, value).reshape(len(query), -1)


def gpt_logits(tensors, tokens) -> np.ndarray:
    def norm(x, name):
        centered = x - x.mean(axis=-1, keepdims=True)
        return (centered / np.sqrt((centered ** 2).mean(axis=-1, keepdims=True) + 1e-3)
                * tensors[f"{name}.weight"] + tensors[f"{name}.bias"])

    def product(x, name):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    x = (tensors["token_embd.weight"][tokens] + tensors["position_embd.weight"][:len(tokens)]
         ).astype(float)
    for layer in range(2):
        at = f"blk.{layer}."
        parts = product(norm(x, at + "attn_norm"), at + "attn_qkv").reshape(len(x), 3, 4, 16)
        x = x + product(attended(*parts.swapaxes(0, 1)), at + "attn_output")
        y = product(norm(x, at + "ffn_norm"), at + "ffn_up")
        y = y * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3)))
        x = x + product(y, at + "ffn_down")
    return norm(x, "output_norm") @ tensors["token_embd.weight"].T


def states_of(graph) -> dict[str, str]:
    """The outputs with new rows by the caches that they belong to."""
    return {name: f"{name.removesuffix('.past')}.out" for name in graph.inputs
            if name.endswith(".past")}
