"""What an example is: an algorithm in one paragraph, a schedule in another, and how it is shown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import Program, lower, program_text, verify
from compiler.schedule import Schedule
from compiler.te import Tensor, is_float
from compiler.tensorize import Intrinsic

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Example:
    """`algorithm` says what is computed, `schedule` how, `reference` the same in NumPy.

    A reference takes the inputs and gives the outputs by name. `intrinsics` are those that the
    schedule hands nests to.
    """

    name: str
    algorithm: Callable[[], Sequence[Tensor]]
    schedule: Callable[[Schedule], None]
    reference: Callable[[Arrays], Arrays]
    intrinsics: Sequence[Intrinsic] = ()

    def program(self) -> Program:
        """The program before the schedule."""
        return lower(self.algorithm(), self.name)

    def scheduled(self) -> Schedule:
        steps = Schedule(self.program())
        self.schedule(steps)
        return steps

    def text(self) -> str:
        """The program, then every step and the program after it."""
        parts = [program_text(self.program())]
        parts += [f"# {step}\n{program_text(program)}" for step, program in self.scheduled().steps]
        return "\n".join(parts)

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Random inputs: small whole numbers for integers, normal ones for floats."""
        rng = np.random.default_rng(seed)
        return {b.name: rng.normal(size=b.shape).astype(b.dtype) if is_float(b.dtype)
                else rng.integers(-9, 9, b.shape).astype(b.dtype) for b in self.program().inputs}

    def differences(self, seed: int = 0) -> Iterator[str]:
        """Steps after which native code does not give what the reference does."""
        inputs = self.inputs(seed)
        wanted = self.reference(inputs)
        for step, program in (("algorithm", self.program()), *self.scheduled().steps):
            found = build(verify(program)).compute(inputs)
            if not all(np.allclose(found[name], array, rtol=1e-5, atol=1e-5)
                       for name, array in wanted.items()):
                yield step
