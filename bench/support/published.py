"""Published machines beside ours: what others published, what ours takes, and the page of both.

A machine is a file ``NAME.py`` of `MACHINES`; its docstring says what was published of its build,
and under `LACKS` what our fields cannot say of it. `RECORDS` has

``NAME.toml``  the published figures, with sources, conditions, and why ours takes another time
``NAME.json``  what ours takes, as ``--only published --keep`` of `accelerator.networks` writes it

`docs/published.md` is made of the three.
"""

import ast
import json
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lockstep
from accel.figures.layers import layer_rows
from accel.machine.machine import Machine
from accel.sim.timed import cycle
from bench.support.micro_code import loaded_bytes
from bench.frame import Sheet
from compiler.errors import RequestError
from compiler.files import write_text
from lockstep.testing import zoo

ROOT = Path(__file__).parents[2]
MACHINES = ROOT / "examples" / "machines" / "published"
RECORDS = ROOT / "bench" / "inputs" / "published"
LACKS = "Not said by ours:"
ENDS = ("quantize", "dequantize", "to_int8", "to_uint8")
"""What the host does before the first layer and after the last."""

WIDTH = 120
HEAD = (
    "Each file of `examples/machines/published` is a machine that others have published, as far as "
    "[our fields](geometry.md) can say it. Every command takes it, such as `lockstep check "
    "--machine examples/machines/published/vta.py --count 100`. The command below runs networks of "
    "`lockstep.testing` on each in the cycle simulator, and prints what this page has; `--machine "
    "vta` takes one machine, `--only published vit_small` one network. With `--keep` it writes the "
    "figures anew, and `pytest tests/bench/test_published.py --update-golden` then the page.",
    "```\npython -m bench accelerator.networks --only published\n```",
    "Cycles are for one image. `array` is the share of the array's products that are useful, "
    "`bound` the share that padding to whole blocks leaves, `host` the segments of the host "
    "between the first layer and the last, whose time does not count. `same layers` are our cycles "
    "of those layers that the published figure has, and `ratio` is ours by theirs. Below stands "
    "what a figure is, and why ours differs.")
COLUMNS = ("machine", "network", "cycles", "array", "bound", "DRAM, MB", "host", "same layers",
           "published", "ratio")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure that was published of a machine, and the network that is put beside it.

    network, images : of `lockstep.testing.zoo`, and how many images ours computes at once. size :
        of an image; 0: the network's own.
    said : the figure in its own unit; "" where none was published.
    cycles : for one image; 0 where none follow from what was said.
    conditions : its network, memory and clock, and how cycles follow from what was said.
    source : where it was published, and when.
    leaves_out : layers of ours that the figure is without.
    differences : each with its reason.
    """

    network: str
    images: int = 1
    size: int = 0
    said: str = ""
    cycles: int = 0
    conditions: str = ""
    source: str = ""
    leaves_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ours:
    """What ours takes for one image: cycles, those of the `same_layers` as the published figure's,
    percent of the array that are useful, and that padding leaves, bytes of DRAM, and segments of
    the host in between. `hash` is the machine's. `micro_code` are bytes that our words would load
    as micro-operations, where the published machine has a buffer of these.
    """

    network: str
    hash: str
    cycles: int
    same_layers: int
    array: float
    bound: float
    dram_bytes: int
    host: int
    micro_code: int = 0


def names() -> list[str]:
    """The names of all published machines."""
    return sorted(path.stem for path in MACHINES.glob("*.py"))


def file_of(name: str) -> str:
    """The file of a published machine; any other name stays what it is."""
    return str(MACHINES / f"{name}.py") if name in names() else name


def figures(name: str) -> list[Figure]:
    """The published figures of a machine."""
    return [_figure(entry) for entry in _record(name)["figure"]]


def _figure(entry: Mapping[str, Any]) -> Figure:
    plain: dict[str, Any] = {field: tuple(value) if isinstance(value, list) else value
                             for field, value in entry.items()}
    return Figure(**plain)


def kept(name: str) -> dict[str, Ours]:
    """What ours takes, by network, as it was last written."""
    path = RECORDS / f"{name}.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    return {row["network"]: Ours(**row) for row in rows}


def compare(sheet: Sheet) -> None:
    """Runs the networks that the sheet asks for, and prints ours beside theirs."""
    for name, machine in sheet.machines_or(names()).items():
        if name not in names():
            raise RequestError(f"--machine must be one of {', '.join(names())} for published, not "
                               f"{name!r}")
        wanted = [figure for figure in figures(name) if figure.network in sheet.cases]
        found = {figure.network: measured(machine, figure, _record(name).get("micro_code", 0))
                 for figure in wanted}
        for network, ours in found.items():
            sheet.figure(f"{name}_{network}_cycles", ours.cycles)
            sheet.row({"machine": name, **asdict(ours)})
        before = kept(name)
        if sheet.keep:
            rows = [asdict((before | found)[figure.network]) for figure in figures(name)
                    if figure.network in before | found]
            write_text(RECORDS / f"{name}.json", json.dumps(rows, indent=1) + "\n")
        elif any(before.get(network) != ours for network, ours in found.items()):
            print(f"{name}: docs/published.md has other figures; --keep writes these")
            sheet.require(False)
        print("\n".join([*table({name: found}), "", *explained(wanted, found)]), flush=True)


def measured(machine: Machine, figure: Figure, micro_code: int = 0) -> Ours:
    """Compiles a network for a machine, and simulates its cycles; `micro_code` are the bytes of a
    buffer of micro-operations that the published machine has."""
    model = zoo.build(figure.network, figure.size or None, figure.images, int8=True)
    module = lockstep.compile(model, "accel,cpu", machine=machine, sim="cycle")
    rows, products, cycles, loaded = [], 0, 0, 0
    for segment in module.accelerated:
        run = cycle.simulate(machine, segment.program, values=False)
        rows += layer_rows(machine, segment.program, segment.work, run)
        products += sum(work.products for group in segment.work for work in group)
        cycles += run.cycles
        loaded += loaded_bytes(machine, segment.program, micro_code) if micro_code else 0
    parts = [{*row.name.split(" + ")} for row in rows]
    unknown = {*figure.leaves_out} - set().union(*parts)
    if unknown:
        raise RequestError(f"{figure.network} has no layer {', '.join(sorted(unknown))} to leave "
                           f"out; it has {', '.join(row.name for row in rows)}")
    left_out = sum(row.cycles for row, names in zip(rows, parts, strict=True)
                   if names <= {*figure.leaves_out})
    macs, array = sum(row.macs for row in rows), machine.config.macs_per_cycle
    host = [segment for segment in module.partition.segments
            if segment.target == "host" and any(node.op not in ENDS for node in segment.nodes)]
    return Ours(network=figure.network, hash=machine.hash, cycles=round(cycles / figure.images),
                same_layers=round((cycles - left_out) / figure.images),
                array=round(100 * macs / (cycles * array), 1),
                bound=round(100 * macs / (products * array), 1),
                dram_bytes=round(sum(row.dram_bytes for row in rows) / figure.images),
                host=len(host), micro_code=round(loaded / figure.images))


def table(found: Mapping[str, Mapping[str, Ours]]) -> Iterator[str]:
    """Ours beside theirs, by machine and network."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|---|" + "--:|" * (len(COLUMNS) - 2)
    for name, rows in found.items():
        published = {figure.network: figure.cycles for figure in figures(name)}
        for network, ours in rows.items():
            theirs = published[network]
            cells = (name, network, f"{ours.cycles:,}", f"{ours.array:.1f}%", f"{ours.bound:.1f}%",
                     f"{ours.dram_bytes / 1e6:.1f}", str(ours.host))
            beside = ((f"{ours.same_layers:,}", f"{theirs:,}", f"{ours.same_layers / theirs:.2f}")
                      if theirs else ("–", "–", "–"))
            yield f"| {' | '.join((*cells, *beside))} |"


def explained(some: Iterable[Figure], found: Mapping[str, Ours]) -> Iterator[str]:
    """What each figure is, and why ours differs."""
    for figure in some:
        said = f"{figure.said} ({figure.source})." if figure.said else "No figure was published."
        yield from _wrapped(f"- **{figure.network}**: {said} {figure.conditions}".rstrip())
        for difference in figure.differences:
            yield from _wrapped(f"  - {difference}")
        if loaded := figure.network in found and found[figure.network].micro_code:
            yield from _wrapped(
                "  - Micro-code: with two loops in a word, and the others as micro-operations, "
                f"our stream would load {loaded:,} bytes of these.")


def page() -> str:
    """Writes docs/published.md."""
    return "\n".join(_lines()).rstrip("\n") + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Published machines beside ours", "")
    for text in HEAD:
        yield from (*_wrapped(text), "")
    yield from (*table({name: kept(name) for name in names()}), "")
    lacks = {}
    for name in names():
        text, _, lacks[name] = _docstring(name).partition(LACKS)
        title = _record(name)["title"]
        yield from (f"## {title}", "", f"`examples/machines/published/{name}.py`", "")
        for paragraph in text.strip().split("\n\n"):
            yield from (*_wrapped(paragraph), "")
        yield from (*explained(figures(name), kept(name)), "")
    yield from ("## What our fields cannot say", "")
    for name, text in lacks.items():
        yield from (f"{_record(name)['title']}:", "", *_wrapped(text.strip()), "")


def _record(name: str) -> dict[str, Any]:
    return tomllib.loads((RECORDS / f"{name}.toml").read_text())


def _docstring(name: str) -> str:
    return ast.get_docstring(ast.parse(Path(file_of(name)).read_text())) or ""


def _wrapped(text: str) -> Iterator[str]:
    """The lines of a paragraph, or of items that begin with a dash; code stays as it is."""
    if text.startswith(("```", "    ")):
        yield from text.splitlines()
        return
    for item in text.replace("\n- ", "\0- ").split("\0"):
        indent = " " * (len(item) - len(item.lstrip()) + 2 * item.lstrip().startswith("- "))
        lead = item[:len(item) - len(item.lstrip())]
        yield from textwrap.wrap(" ".join(item.split()), WIDTH, initial_indent=lead,
                                 subsequent_indent=indent, break_long_words=False,
                                 break_on_hyphens=False)
