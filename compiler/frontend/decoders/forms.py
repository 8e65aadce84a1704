"""Decoders of files and folders of weights: sizes by what they tell, weights by their names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite, sqrt
from pathlib import Path

import numpy as np

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.decoders import gguf, hub
from compiler.frontend.decoders.layers import DecoderSizes, Shape
from compiler.frontend.decoders.sources import GPT, LLAMA, Shaped, WeightSource
from compiler.frontend.decoders.writer import StepWriter, gpt_step, llama_step
from compiler.frontend.onnx.nodes.writer import Loaded

Array = np.ndarray
BASE = 10000.0              # of the angles of rotary positions
EMBEDDINGS, WORDS = "token_embd.weight", "output.weight"

NAMES = {
    "norm1": "attn_norm", "norm2": "ffn_norm", "attention.query": "attn_q",
    "attention.key": "attn_k", "attention.value": "attn_v", "attention.output": "attn_output",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down", "fc1": "ffn_up", "fc2": "ffn_down"}
"""What files call the parts of a layer."""

JOINED = ("attention.query", "attention.key", "attention.value")
"""The parts that GPT-2 has in one tensor, in this order."""

ABSENT = {"expert_count": "experts", "rope.scaling.type": "scaled positions"}
"""Keys of what is not taken, unless their value is 0 or none."""


def convert(path: Path) -> Loaded:
    """The step of the decoder in a GGUF file or a folder of the hub, as an ONNX model. Raises
    ImportRefused.
    """
    found = _Decoder(hub.read(path) if path.is_dir() else gguf.read(path))
    step = llama_step if found.form == LLAMA else gpt_step
    loaded = step(StepWriter(path.stem, found.weight), found.sizes, found.number("context_length"))
    found.require_all()
    return loaded


@dataclass(slots=True)
class _Decoder:
    """A file as one of the two networks. `read` are the tensors that the network has."""

    file: WeightSource
    sizes: DecoderSizes = field(init=False)
    read: set[str] = field(default_factory=set)

    def __post_init__(self):
        for key, what in ABSENT.items():
            if self.file.told(key) not in (None, 0, "none"):
                raise self.refused(f"{self.file.titled(key)} must be absent, not "
                                   f"{self.file.told(key)!r}: {what} are not taken")
        heads, width = self.number("attention.head_count"), self.number("embedding_length")
        groups = self.number("attention.head_count_kv", heads)
        if width % heads or heads % groups or width // heads % 2:
            raise self.refused(f"{width} channels must be divided by {heads} heads of an even "
                               f"depth, and these by {groups} of keys")
        for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
            depth = self.number(key, width // heads)
            if depth != width // heads:
                raise self.refused(f"{self.file.titled(key)} must be {width // heads}, the depth "
                                   f"of a head, not {depth}")
        norm = "layer_norm_rms_epsilon" if self.form == LLAMA else "layer_norm_epsilon"
        words = self.tensor(EMBEDDINGS).shape[0]
        self.sizes = DecoderSizes(
            self.number("block_count"), width, heads, heads // groups,
            self.number("feed_forward_length"), words,
            epsilon=self.real(f"attention.{norm}", 1e-5))

    @property
    def form(self) -> str:
        return self.file.form

    def number(self, key: str, default: int | None = None) -> int:
        """A count of the metadata, at least 1."""
        value = self.file.told(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.refused(f"{self.file.titled(key)} must be an integer of at least 1, not "
                               f"{value!r}")
        return value

    def real(self, key: str, default: float) -> float:
        value = self.file.told(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or not isfinite(value) or value <= 0:
            raise self.refused(f"{self.file.titled(key)} must be a number above 0, not {value!r}")
        return value

    def refused(self, what: str) -> ImportRefused:
        return ImportRefused(f"{self.file.path}: {what}")

    def tensor(self, name: str) -> Shaped:
        if name not in self.file.tensors:
            raise self.refused(f"has no tensor {self.file.called(name)}, which a network of the "
                               f"architecture {self.form} needs")
        return self.file.tensors[name]

    def array(self, name: str, *shape: int) -> Array:
        """A tensor as float32, of this shape; -1 is any extent."""
        found = self.tensor(name).shape
        if len(found) != len(shape) or any(
                want not in (-1, own) for want, own in zip(shape, found, strict=True)):
            raise self.refused(f"tensor {self.file.called(name)} must be {list(shape)}, not "
                               f"{list(found)}")
        self.read.add(name)
        return self.file.read(name)

    def require_all(self) -> None:
        """Raises ImportRefused for a tensor that the network has not."""
        left = sorted(map(self.file.called, set(self.file.tensors) - self.read))
        if left:
            raise self.refused(f"{', '.join(left[:5])}{' ...' if len(left) > 5 else ''} must be "
                               f"absent: a network of the architecture {self.form} has no such "
                               "tensors")

    # The constants of the network, by its own names

    def weight(self, name: str, shape: Shape) -> Array:
        """The constant of this shape; products have [inputs, outputs], files the reverse."""
        if name == "embeddings":
            return self.array(EMBEDDINGS, self.sizes.words, *shape[1:])
        if name == "positions":
            return self.array("position_embd.weight", *shape)
        if name.startswith("rotary."):
            return self._turns(np.cos if name == "rotary.cosines" else np.sin)
        layer, role = name.rpartition(".")[::2]
        if layer == "norm":
            return self.array(f"output_norm.{role}", *shape)
        if layer == "words":
            return self.array(WORDS if WORDS in self.file.tensors else EMBEDDINGS,
                              *reversed(shape)).T
        return self._of_layer(layer.removesuffix(".add"), role, shape)

    def _of_layer(self, layer: str, role: str, shape: Shape) -> Array:
        number, part = layer.removeprefix("layer").split(".", 1)
        if self.form == GPT and part in JOINED:
            found = self._joined(f"blk.{number}.attn_qkv.{role}", part, shape)
        else:
            found = self.array(f"blk.{number}.{NAMES[part]}.{role}", *reversed(shape))
        if self.file.pairs and self.form == LLAMA and part in JOINED[:2]:
            found = self._halves(found)
        if part == JOINED[0]:
            found = found * np.float32(1 / sqrt(self.sizes.depth))
        return found.T

    def _joined(self, name: str, part: str, shape: Shape) -> Array:
        place, channels = JOINED.index(part), shape[-1]
        whole = self.array(name, len(JOINED) * channels, *shape[-2::-1])
        return whole[place * channels:(place + 1) * channels]

    def _halves(self, rows: Array) -> Array:
        """The rows of heads with the first of each pair of channels before all second ones: files
        have pairs side by side."""
        pairs = rows.reshape(-1, self.sizes.depth // 2, 2, rows.shape[-1])
        return pairs.swapaxes(1, 2).reshape(rows.shape)

    def _turns(self, function: Callable[[Array], Array]) -> Array:
        """[places, 1, depth]; files may have a divisor of each frequency."""
        depth = self.sizes.depth
        rates = self.real("rope.freq_base", BASE) ** -np.linspace(0, 1, depth // 2, False)
        if "rope_freqs.weight" in self.file.tensors:
            rates = rates / self.array("rope_freqs.weight", depth // 2)
        angles = np.outer(np.arange(self.number("context_length")), rates)
        return np.tile(function(angles), 2).astype(np.float32)[:, None]
