"""Processors that code is generated for: this computer, or another one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import llvmlite.binding as llvm

from compiler.cpu_gpu_backends.llvm.instruction_sets import (INSTRUCTION_SETS,
                                                              InstructionSet)
from compiler.errors import Error

WITHOUT = "LOCKSTEP_CPU_WITHOUT"
"""Environment variable: features of this computer that kernels must do without, ``a,b,...``."""

_DEPENDENTS = {"avx": ("avx", "fma", "f16c"), "avx2": ("avx512", "avx10", "avxvnni"),
               "avx512f": ("avx512", "avx10"), "fma": ("avx512", "avx10"), "amx-tile": ("amx",)}
"""Feature to the prefixes of the features that depend on it."""

_WITH_TILES = ("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d",
               "diamondrapids")
"""Models that have ``amx-int8``, the oldest first."""


ROUNDED = ("float16", "float32", "float64")
"""Types of floats that most processors round to integers by an instruction."""


class MachineError(Error):
    """A machine or feature is not available; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor, in LLVM's words.

    Parameters
    ----------
    triple : architecture, vendor, operating system.
    cpu : the model that instructions are scheduled for.
    features : what the processor has, in order of their names.
    absent : features that it lacks although `cpu` may have them.
    """

    triple: str
    cpu: str
    features: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        return self.triple.partition("-")[0]

    @property
    def size_type(self) -> str:
        """LLVM type of C's ``size_t``."""
        short = self.architecture.endswith("32") or self.architecture.startswith(("arm", "thumb"))
        return "i32" if short else "i64"

    @property
    def is_bare(self) -> bool:
        """True if it has no operating system that puts code wherever there is room."""
        return self.architecture.startswith("wasm") or self.is_small

    @property
    def is_small(self) -> bool:
        """True if it is a microcontroller: a short stack, no vectors, and no instructions for
        float64.
        """
        return "-none-" in self.triple

    @property
    def instructions(self) -> InstructionSet:
        """The vector instructions that kernels use: the first of the table that it has."""
        return next(one for one in INSTRUCTION_SETS if self.has(*one.needs)
                    and self.architecture.startswith(one.architecture)
                    and (not one.models or self.cpu in one.models)
                    and (not one.small or self.is_small))

    @property
    def floats(self) -> tuple[str, ...]:
        """The types of floats that it computes with by instructions; for others LLVM calls the
        compiler's run-time library.
        """
        if self.is_small:
            return ("float16", "float32") if self.has("vfp4d16sp") else ()
        return ROUNDED

    @property
    def fuses(self) -> bool:
        """True if fused multiply-adds of float32 requantize faster than float64."""
        return bool(self.instructions.rounds) and self.has(self.instructions.rounds)

    @property
    def unrolls(self) -> bool:
        """True if LLVM unrolls loops that it is asked to; elsewhere it would warn of each."""
        return not self.is_small and self.architecture != "riscv64"

    @property
    def rounds(self) -> tuple[str, ...]:
        """The types of floats that instructions round to integers; for others LLVM would call the
        C library.
        """
        if self.is_small:
            return self.floats
        x86 = {"sse4.1", "avx", "avx2", "avx512f"}
        if self.architecture.startswith("arm") or (
                self.architecture == "x86_64" and not x86 & set(self.features)):
            return ()
        return ROUNDED

    def has(self, *features: str) -> bool:
        return set(features) <= set(self.features)

    def without(self, *features: str) -> "Processor":
        """The processor without these features and all that need them."""
        if unknown := sorted(set(features) - set(self.features) - set(self.absent)):
            raise MachineError(f"Feature to do without must be one that this processor has "
                               f"({', '.join(self.features)}), not {unknown[0]!r}")
        prefixes = tuple(p for feature in features for p in _DEPENDENTS.get(feature, ()))
        gone = {f for f in self.features if f in features or f.startswith(prefixes)}
        return replace(self, features=tuple(f for f in self.features if f not in gone),
                       absent=tuple(sorted({*self.absent, *gone})))


MACHINES = {
    "x86-64": Processor("x86_64-unknown-linux-gnu", "x86-64", ("sse2",)),
    "x86-64-v3": Processor("x86_64-unknown-linux-gnu", "x86-64-v3", ("avx2", "fma")),
    "x86-64-v4": Processor("x86_64-unknown-linux-gnu", "x86-64-v4",
                           ("avx2", "avx512bw", "avx512f", "fma")),
    "aarch64": Processor("aarch64-unknown-linux-gnu", "generic", ("dotprod", "neon")),
    "armv8-a": Processor("aarch64-unknown-linux-gnu", "generic", ("neon",)),
    "armv7": Processor("armv7-unknown-linux-gnueabihf", "cortex-a7", ("neon", "vfp4")),
    "cortex-m7": Processor("thumbv7em-unknown-none-eabihf", "cortex-m7", ("vfp4d16sp",),
                           ("fp64",)),
    "riscv32": Processor("riscv32-unknown-none-elf", "generic-rv32", ("c", "m")),
    "riscv64": Processor("riscv64-unknown-linux-gnu", "generic-rv64", ("a", "c", "d", "f", "m")),
    "wasm32": Processor("wasm32-unknown-unknown", "generic", ("bulk-memory", "simd128")),
}
"""Machines by name, for cross compilation."""


def host() -> Processor:
    """This computer, without the features in the environment variable `WITHOUT`."""
    names = [name.strip() for name in os.environ.get(WITHOUT, "").split(",") if name.strip()]
    try:
        return _host().without(*names)
    except MachineError as error:
        raise MachineError(f"{WITHOUT}: {error}") from None


@cache
def _host() -> Processor:
    features = llvm.get_host_cpu_features()
    return Processor(llvm.get_process_triple(), _model(llvm.get_host_cpu_name(), features),
                     tuple(sorted(name for name, there in features.items() if there)),
                     tuple(sorted(name for name, there in features.items() if not there)))


def _model(name: str, features: Mapping[str, bool]) -> str:
    """The model that is called so, or that its features tell: some virtual machines number their
    processor as an older one.
    """
    return _WITH_TILES[0] if features.get("amx-int8") and name not in _WITH_TILES else name


@cache
def target_machine(machine: Processor) -> llvm.TargetMachine:
    """LLVM's code generator, at the highest level of optimization: position-independent code where
    an operating system loads it.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    flags = [f"+{name}" for name in machine.features] + [f"-{name}" for name in machine.absent]
    try:
        target = llvm.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise MachineError(f"Triple must be one that LLVM knows, not {machine.triple!r}: "
                           f"{error}") from None
    return target.create_target_machine(cpu=machine.cpu, features=",".join(flags), opt=3,
                                        reloc="static" if machine.is_bare else "pic",
                                        codemodel="default")


def linker(machine: Processor) -> llvm.LLJIT:
    """Links code into this process, by JITLink: LLVM's older linker ends the process where parts of
    a library come to lie more than 2 GiB apart, as around a large array.
    """
    return llvm.create_lljit_compiler(target_machine(machine), use_jit_link=True)
