"""Text of an LLVM module to machine code in this process."""

import ctypes
import ctypes.util
import re
from functools import cache

import llvmlite.binding as llvm

__all__ = ["Library", "assembly", "library", "machine", "optimized"]


@cache
def machine() -> llvm.TargetMachine:
    """This computer, with everything that its processor can do."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(),
                                        features=llvm.get_host_cpu_features().flatten(), opt=3)


def _optimized(text: str) -> llvm.ModuleRef:
    host = machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = host.triple, str(host.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization = True
    passes = llvm.create_pass_builder(host, options)
    passes.getModulePassManager().run(module, passes)
    return module


def optimized(text: str) -> str:
    """The module after LLVM's passes, at their highest level."""
    return str(_optimized(text))


def assembly(text: str) -> str:
    """The module as assembly of this computer."""
    return machine().emit_assembly(_optimized(text))


@cache
def _c_library() -> ctypes.CDLL:
    """Where the mathematical functions are: in the process already, or in a library apart."""
    process = ctypes.CDLL(None)
    return process if hasattr(process, "expf") else ctypes.CDLL(ctypes.util.find_library("m"))


_MATH = ("exp", "log", "tanh", "erf", "fmod", "floor", "ceil", "rint")


class Library:
    """Machine code in memory. Keeps it alive as long as the functions of it that are in use."""

    def __init__(self, text: str):
        self.image = machine().emit_object(_optimized(text))
        self._jit = llvm.create_lljit_compiler(machine())
        link = llvm.JITLibraryBuilder().add_object_img(self.image).add_current_process()
        for name in (f"{stem}{suffix}" for stem in _MATH for suffix in ("", "f")):
            address = ctypes.cast(getattr(_c_library(), name), ctypes.c_void_p).value
            link.import_symbol(name, address)
        self._names = re.findall(r"^define \w+ @(\w+)\(", text, re.MULTILINE)
        for name in self._names:
            link.export_symbol(name)
        self._tracker = link.link(self._jit, "library")

    def address(self, name: str) -> int:
        return self._tracker[name]


@cache
def library(text: str) -> Library:
    """Compiled once for each text and process."""
    return Library(text)
