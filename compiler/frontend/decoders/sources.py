"""Files and folders of weights, alike whatever their format."""

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from compiler.frontend.building.refusal import ImportRefused

LLAMA, GPT = "llama", "gpt2"


class Shaped(Protocol):
    """A tensor that was not read yet; a product is [outputs, inputs]."""

    @property
    def shape(self) -> tuple[int, ...]: ...


class WeightSource(Protocol):
    """Sizes by the keys, and tensors by the names, that GGUF has for them. `form` is `LLAMA` or
    `GPT`; where `pairs`, channels that a rotary position turns together lie side by side.
    """

    @property
    def path(self) -> Path: ...
    @property
    def form(self) -> str: ...
    @property
    def pairs(self) -> bool: ...
    @property
    def tensors(self) -> Mapping[str, Shaped]: ...

    def told(self, key: str) -> Any:
        """The value of a key; None where it is absent."""
        ...

    def titled(self, key: str) -> str:
        """The file's name of a key."""
        ...

    def called(self, tensor: str) -> str:
        """The file's name of a tensor, there or not."""
        ...

    def read(self, tensor: str) -> np.ndarray:
        """A tensor as float32. Raises ImportRefused for a type that is not taken."""
        ...


def opened(path: Path) -> mmap.mmap:
    """The bytes of a file. Raises ImportRefused."""
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ImportRefused(f"{path}: no such file; give the path of one") from None
    except (OSError, ValueError) as error:      # a folder, an empty file
        raise ImportRefused(f"{path}: cannot be read: {error}") from None
