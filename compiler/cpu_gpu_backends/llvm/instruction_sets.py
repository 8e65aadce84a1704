"""The vector instructions of processors, a record each: all that the compiler knows of them.

Which of them a processor has, `Processor.instructions` says: the first of the table that fits.
From the record follow the schedules of kernels (`cpu.schedules.vectors`) and the intrinsics that
these use (`intrinsics.cpu`). Features and instructions are called as LLVM calls them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

AMX_BYTES = ("amx-int8", "amx-tile")
AMX_BFLOAT16 = ("amx-bf16", "amx-tile")


@dataclass(frozen=True, slots=True)
class TileCosts:
    """The waits of a step in a tile of float32 sums. The unit is a product of two vectors.

    `weight` is the wait for a vector of weights from an outer cache, `pixel` the wait for a pixel
    from the nearest cache. `registers` is the number of registers for a tile and its operands (0:
    as many as for all results). Weights are fetched `ahead` by so many bytes.
    """

    weight: float = 4
    pixel: float = 0.5
    registers: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class ByteDot:
    """An instruction that adds four products of bytes of type `a` with signed ones to each lane.

    Its operands are vectors of words of 32 bits, or, where `by_bytes`, of bytes. Without the
    feature `unless` it does not exist, and a `signed` one takes its place, of bytes less 128.
    """

    a: str
    needs: tuple[str, ...]
    instruction: str
    by_bytes: bool = False
    unless: str = ""
    signed: str = ""


@dataclass(frozen=True, slots=True)
class WordDot:
    """An instruction that adds two products of words of 16 bits in each lane."""

    needs: str
    instruction: str


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """The vectors of some processors.

    Parameters
    ----------
    name : as `docs/cpu.md` lists it.
    needs : features by which a processor is known to have it.
    architecture : what the name of its architecture begins with.
    models : the processors that have it; all where there are none.
    small : only microcontrollers have it.
    lanes : numbers of float32 in a register.
    registers : how many hold a tile of a result.
    registers_of_models : how many models of cost count with.
    scalar : there are no vectors; a register holds one number.
    costs : of tiles in blocks of channels.
    alignment : bytes, of the arrays of exported networks.
    dots : instructions for products of bytes.
    sums : registers that hold sums of such products; or those of words, and weights.
    words : what adds them where a processor has none of these; None: they are added step by step.
    words_apart : registers that `words` takes.
    in_words : weights of int8 are stored in words where no instruction multiplies bytes, because
        that was measured to be faster.
    suffix : of the name of the intrinsic that `words` makes, where other records have these lanes.
    fused : features for a product and a sum of float32 at once.
    rounds : the feature for requantization by these; "" where float64 takes no longer.
    scales : the instruction that multiplies float32 by powers of two.
    tiles : features for tiles of bytes in registers of their own.
    """

    name: str
    needs: tuple[str, ...] = ()
    architecture: str = ""
    models: tuple[str, ...] = ()
    small: bool = False
    lanes: int = 4
    registers: int = 8
    registers_of_models: int = 16
    scalar: bool = False
    costs: TileCosts = TileCosts()
    alignment: int = 16
    dots: tuple[ByteDot, ...] = ()
    sums: int = 8
    words: WordDot | None = None
    words_apart: int = 6
    in_words: bool = False
    suffix: str = ""
    fused: tuple[str, ...] = ()
    rounds: str = ""
    scales: str = ""
    tiles: tuple[str, ...] = ()

    def sums_words(self, has: Callable[..., bool]) -> bool:
        """True if products of words are added faster than those of bytes, which no instruction of
        a processor that has these features adds."""
        return self.in_words and has(*((self.words.needs,) if self.words else self.needs))


AVX512 = InstructionSet(
    "AVX-512", ("avx512f",), lanes=16, registers=16, registers_of_models=32, alignment=64, sums=24,
    dots=(ByteDot("uint8", ("avx512vnni",), "llvm.x86.avx512.vpdpbusd.512"),),
    words=WordDot("avx512bw", "llvm.x86.avx512.pmaddw.d.512"), fused=("avx512f",),
    scales="llvm.x86.avx512.mask.scalef.ps.512", tiles=("avx512vnni", *AMX_BYTES))

# Two products of 512 bits a cycle, as many as loads: a product for every load leaves no time for
# the lines that come into the nearest cache.
AVX512_TWICE = replace(
    AVX512, name="AVX-512, two products a cycle", costs=TileCosts(3, 1.2, 32, 2048),
    models=("skylake-avx512", "cascadelake", "cooperlake", "icelake-server", "sapphirerapids",
            "emeraldrapids", "graniterapids", "graniterapids-d", "znver5"))

AVX2 = InstructionSet(
    "AVX2", ("avx2",), lanes=8, registers=14, alignment=64, sums=14,
    dots=(ByteDot("uint8", ("avxvnni",), "llvm.x86.avx512.vpdpbusd.256"),),
    words=WordDot("avx2", "llvm.x86.avx2.pmadd.wd"), in_words=True, fused=("avx2", "fma"),
    rounds="fma")

_SDOT = "llvm.aarch64.neon.sdot.v4i32.v16i8"
NEON = InstructionSet(
    "NEON", ("neon",), "aarch64", registers=16, sums=24, words_apart=4, in_words=True,
    rounds="neon",
    dots=(ByteDot("int8", ("dotprod", "neon"), _SDOT, by_bytes=True),
          ByteDot("uint8", ("dotprod", "neon"), "llvm.aarch64.neon.usdot.v4i32.v16i8",
                  by_bytes=True, unless="i8mm", signed=_SDOT)))

ANY = InstructionSet("any other", words=WordDot("sse2", "llvm.x86.sse2.pmadd.wd"))
SIMD128 = replace(ANY, name="WebAssembly", needs=("simd128",),
                  words=WordDot("simd128", "llvm.wasm.dot"), suffix="_wasm")
SCALAR = replace(ANY, name="RISC-V without vectors", architecture="riscv", scalar=True)
SMALL = replace(ANY, name="microcontrollers", small=True, registers=4, scalar=True)

INSTRUCTION_SETS = (AVX512_TWICE, AVX512, AVX2, NEON, SMALL, SCALAR, SIMD128, ANY)
"""In the order in which processors are asked for them; all have the last."""
