"""Decoding: a network of one step makes one token after another, and remembers those before. ::

    step = decoder("llama-step.onnx", "accel,cpu", states={"layer0.keys.past": "layer0.keys.out"})
    logits = step({"embeddings": token})["logits"]
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accel.machine.status import Run
from compiler.errors import ArgumentError
from compiler.frontend.models import Model, graph_of
from compiler.graph.division.states import State, with_stored_states
from compiler.graph.division.protocols import KeepsInputs
from compiler.graph.passes.pipeline import optimize
from runtime.driver.compilation import compile as compile_module
from runtime.module import InputError, Module

Values = dict[str, np.ndarray]


class Decoder:
    """A module of one step, and the states between its steps.

    A call takes the other inputs of the step, without position and caches, and gives its other
    outputs; then the rows are in the caches, and the next position follows. `runs` has those of
    the accelerator in the last call. An accelerator keeps the caches in its memory: only what
    changes is copied to it.
    """

    def __init__(self, module: Module, states: Sequence[State], position: str = "position"):
        self.module, self.states, self._input = module, tuple(states), position
        self.runs: tuple[Run, ...] = ()
        module.require_input(position, (1,), np.dtype(np.int64))
        for segment in module.accelerated:
            if isinstance(segment, KeepsInputs):
                segment.keep({state.cache for state in states})
        self.reset()

    @property
    def places(self) -> int:
        """The number of tokens that it can make."""
        return min(state.places for state in self.states)

    @property
    def position(self) -> int:
        """The number of tokens that are remembered."""
        return self._position

    def reset(self) -> None:
        """Forgets all tokens."""
        self._position = 0
        self._caches = {state.cache: state.empty() for state in self.states}

    def remember(self, rows: Mapping[str, Any]) -> None:
        """Puts the rows of several tokens behind those that are there, by the names of outputs:
        those that a network made that takes them all at once. Numbers are real.
        """
        missing = [state.row for state in self.states if state.row not in rows]
        if missing:
            raise InputError(f"Rows of {missing[0]} must be given, too")
        arrays = [(state, np.asarray(rows[state.row])) for state in self.states]
        counts = {array.shape[state.axis] for state, array in arrays}
        (count,) = counts if len(counts) == 1 else (-1,)
        for state, array in arrays:
            shape = (*state.type.shape[:state.axis], count, *state.type.shape[state.axis + 1:])
            if array.shape != shape:
                raise InputError(f"Rows of {state.row} must have a shape like "
                                 f"{(*shape[:state.axis], 'N', *shape[state.axis + 1:])}, with one "
                                 f"N for all, not {array.shape}")
        self._require_room(count)
        for state, array in arrays:
            state.put(self._caches[state.cache], state.stored(array), self._position)
        self._position += count

    def __call__(self, inputs: Mapping[str, Any]) -> Values:
        """One step."""
        self._require_room(1)
        for name in inputs:
            if name == self._input or name in self._caches:
                raise InputError(f"Input {name} must not be given: the decoder has it")
        module = self.module
        for name, array in {**inputs, **self._caches,
                            self._input: np.array([self._position], np.int64)}.items():
            module.set_input(name, array)
        self.runs = module.run()
        made = {name: module.get_output(name) for name in module.graph.outputs}
        for state in self.states:
            state.put(self._caches[state.cache], made.pop(state.row), self._position)
            for segment in module.accelerated:
                if isinstance(segment, KeepsInputs):
                    segment.note(state.cache, self._caches[state.cache])
        self._position += 1
        return made

    def _require_room(self, count: int) -> None:
        if self._position + count > self.places:
            raise InputError(f"Tokens must be at most {self.places}, not {self._position + count}")


def decoder(model: Model, target: str = "accel", *, states: Mapping[str, str],
            position: str = "position", **options) -> Decoder:
    """Compiles a network of one step, once for all positions.

    Parameters
    ----------
    model, target, options : as `runtime.compile` has them.
    states : for each input that is a cache, the output that has its new row.
    position : the input that says how many tokens are in the caches, an int64 [1].

    The network must read of a cache only the places before the position: what is behind them is
    masked. Where that is seen, an accelerator reads no more places than it needs. Raises
    ArgumentError for states that are none.
    """
    if not states:
        raise ArgumentError("states must name a cache and its row at least")
    graph, stored = with_stored_states(optimize(graph_of(model)), states)
    return Decoder(compile_module(graph, target, **options), stored, position)
