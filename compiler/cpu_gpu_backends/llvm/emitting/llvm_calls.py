"""The argument of a declared intrinsic's rule: it writes the intrinsic's instructions.

A rule ``lower(call) -> bool`` writes LLVM IR through `LlvmCall.w` and returns whether it
could. Where it returns False, or the machine lacks a feature that the intrinsic needs, the loop
nest itself is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.llvm.machine import Processor
from .writer import LlvmType, Writer, memory_type


@dataclass(frozen=True, slots=True)
class LlvmTile:
    """An operand's tile in memory: its first element, and the distance of neighbours in each of
    its dimensions, in elements.
    """

    pointer: str
    pitches: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class LlvmCall:
    """One use of an intrinsic.

    Parameters
    ----------
    w : the writer of the function.
    machine : the target, which has all that the intrinsic needs.
    contract : whether products may be fused with sums.
    tiles : by name of the operand, the destination among them.
    begins : whether the reduction begins here, as an ``i1``; ``true`` and ``false`` are literal.
    prepare : ``prepare(name, told)``: see `frame.PREPARATIONS`; False where the function is
        prepared otherwise already.
    """

    w: Writer
    machine: Processor
    contract: bool
    tiles: Mapping[str, LlvmTile]
    begins: str
    prepare: Callable[[str, object], bool]

    def at(self, name: str, *indices: int | str) -> str:
        """Pointer to an element of a tile; texts among the indices are values of type ``i64``."""
        w, tile, fixed, moving = self.w, self.tiles[name], 0, "0"
        for index, pitch in zip(indices, tile.pitches, strict=True):
            if isinstance(index, int):
                fixed += index * pitch
            else:
                term = w.op(f"mul nsw i64 {index}, {pitch}")
                moving = term if moving == "0" else w.op(f"add nsw i64 {moving}, {term}")
        kind, pointer = memory_type(tile.dtype), tile.pointer
        if moving != "0":
            pointer = w.op(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {moving}")
        return w.op(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {fixed}") if fixed else (
            pointer)

    def either(self, begin: Callable[[], None], resume: Callable[[], None]) -> None:
        """Writes one of two: `begin` where the reduction begins, `resume` where it continues."""
        if self.begins in ("true", "false"):
            (begin if self.begins == "true" else resume)()
            return
        w = self.w
        first, more, done = w.name("begin"), w.name("resume"), w.name("begun")
        w.branch(self.begins, first, more)
        for label, write in ((first, begin), (more, resume)):
            w.label(label)
            write()
            w.jump(done)
        w.label(done)

    def initial(self, kind: LlvmType, neutral: str, load: Callable[[], list[str]],
                count: int) -> list[str]:
        """`count` values that a reduction starts from: neutral ones where it begins, else what
        `load` loads.
        """
        blocks, loaded = [], []

        def resume() -> None:
            loaded.extend(load())
            blocks.append(self.w.block)

        self.either(lambda: blocks.append(self.w.block), resume)
        if len(blocks) < 2:
            return loaded or [neutral] * count
        return [self.w.op(f"phi {kind} [ {neutral}, %{blocks[0]} ], [ {value}, %{blocks[1]} ]")
                for value in loaded]

    def fold(self, count: int, kind: LlvmType, values: Sequence[str],
             step: Callable[[str, list[str]], list[str]]) -> list[str]:
        """``values = step(index, values)`` for every index from 0 to `count`."""
        if count == 1:
            return step("0", list(values))
        w = self.w
        head, done, before = w.name("steps"), w.name("done"), w.block
        w.jump(head)
        w.label(head)
        following = f"%{w.name('next')}"
        phis = len(w.lines)                 # written once the values from the loop's end are known
        index, carried = f"%{w.name('step')}", [f"%{w.name()}" for _ in values]
        results = step(index, carried)
        w.do(f"{following} = add nuw nsw i64 {index}, 1")
        back = w.block
        w.branch(w.op(f"icmp ult i64 {following}, {count}"), head, done)
        w.lines[phis:phis] = [
            f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{back} ]",
            *(f"  {name} = phi {kind} [ {first}, %{before} ], [ {result}, %{back} ]"
              for name, first, result in zip(carried, values, results, strict=True))]
        w.label(done)
        return results
