"""Edits of the hardware, as a researcher would make them: one change of one file each.

An edited tree is a copy of the packages that the core is made from, with that change, and nothing
else; a child process whose path begins with it has that hardware.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("accel", "compiler")


@dataclass(frozen=True, slots=True)
class Edit:
    """`pattern` occurs once in `file`, below ``accel/hw``, and becomes `text`. `needs_values`: time
    depends on data from then on."""

    file: str
    pattern: str
    text: str
    needs_values: bool = False

    def applied(self, source: str) -> str:
        """The edited source. Raises ValueError if the pattern does not occur once."""
        result, count = re.subn(self.pattern, self.text, source)
        if count != 1:
            raise ValueError(f"{self.file}: the pattern must occur once, not {count} times: "
                             f"{self.pattern}")
        return result


_ORDER = (r"in \(self\._fetch, self\._store, self\._load\):"
          r"(\n +m\.d\.comb \+= client\.request\.ready)")

EDITS = {
    "a relay after fetch's requests": Edit(
        "core/fetch.py",
        r"( +)wiring\.connect\(m, requests\.o, wiring\.flipped\(self\.mem\.request\)\)",
        r"\1m.submodules.later = later = relay(burst_layout(self._machine.config), 1)\n"
        r"\1wiring.connect(m, requests.o, later.i)\n"
        r"\1wiring.connect(m, later.o, wiring.flipped(self.mem.request))"),
    "a queue of four before load's bursts": Edit(
        "moving/load.py", r"incoming = relay\(layout, timing\.relay_cycles\)",
        "incoming = Queue(layout, 4, timing.queue_cycles)"),
    "load goes before store": Edit(
        "moving/arbiter.py", _ORDER,
        r"in (self._fetch, self._load, self._store):\1"),
    "fetch comes last": Edit(
        "moving/arbiter.py", _ORDER,
        r"in (self._store, self._load, self._fetch):\1"),
    "a request in every other cycle": Edit(
        "moving/arbiter.py", r"free\.eq\(\(~request\.valid \| request\.ready\) & ~full\)",
        "free.eq(~request.valid & ~full)"),
    "half of the commands": Edit(
        "core/commands.py", r"depth, part_bits = self\._config\.queue_depth,",
        "depth, part_bits = (self._config.queue_depth + 1) // 2,"),
    "twice the room for written beats": Edit(
        "moving/store.py", r"self\.depth = (.+)\n", r"self.depth = 2 * \1\n"),
    "a register before an instruction is taken": Edit(
        "issue.py", r"armed\.eq\(Mux\(armed, ~self\.take, arming\)\),",
        'armed.eq(Mux(armed, ~self.take, arming & (waited := Signal(name="waited")))),\n'
        "                     waited.eq(arming & ~waited),"),
    "a register before tokens are granted": Edit(
        "core/tokens.py", r"m\.d\.sync \+= \[port\.signalled\.eq\(stands & fits\),",
        'later = Signal(name=f"{source}_later")\n'
        "            m.d.sync += [later.eq(stands & fits & ~later),\n"
        "                         port.signalled.eq(stands & fits & later),"),
    "the port takes a beat in every other cycle": Edit(
        "moving/beats.py", r"m\.d\.comb \+= \[self\.i\.ready\.eq\(~full\),",
        "turn = Signal()\n        m.d.sync += turn.eq(~turn)\n"
        "        m.d.comb += [self.i.ready.eq(~full & turn),"),
    "zeros pass at once": Edit(
        "moving/beats.py", r"m\.d\.comb \+= \[self\.i\.ready\.eq\(~full\),",
        "turn = Signal()\n        m.d.sync += turn.eq(~turn)\n"
        "        m.d.comb += [self.i.ready.eq(~full & (turn | ~self.i.p.data.any())),", True),
}
"""The changes by what they do. The last one makes time depend on data."""


def edited_tree(folder: Path, name: str) -> Path:
    """A copy of the packages below `folder`, with an edit."""
    edit = EDITS[name]
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package,
                        ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "accel" / "hw" / edit.file
    path.write_text(edit.applied(path.read_text()))
    return folder


def judged(folder: Path, machine: str, count: int, seed: int) -> dict[str, Any]:
    """What the child finds in an edited tree."""
    done = subprocess.run(
        [sys.executable, "-P", str(ROOT / "bench" / "support" / "edited.py"), machine, str(count),
         str(seed)], env=os.environ | {"PYTHONPATH": str(folder)}, cwd=folder,
        capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])
