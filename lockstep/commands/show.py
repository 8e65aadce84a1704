"""``lockstep show STAGE MODEL``: what one stage of the compiler has made of a network."""

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any

from compiler.errors import RequestError
from lockstep.options.arguments import DEFAULT_THREADS, NETWORK, add_compilation
from lockstep.options.paths import model_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "show", help="print what one stage of the compiler has made of a network, or of one layer",
        description="Compile a network, and print the text of one stage, which compile --dump "
                    "writes for all of them. docs/tour.md follows one layer through all. Exit "
                    "status: 0 done, 2 the request was wrong.")
    parser.add_argument("stage", metavar="STAGE",
                        help="import, a pass, partition, layout; of an accelerator forms, layers, "
                             "tiles, loops, stream, program; of others their passes, fuse, "
                             "plan-memory, kernels; any other name lists those that there are. A "
                             "stage that comes more than once has its number before its name, as "
                             "in the files of --dump")
    parser.add_argument("model", metavar="MODEL", type=model_file, help=NETWORK)
    parser.add_argument("--layer", metavar="NAME", help="only what is said of this layer or node")
    add_compilation(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    print(shown(recorded(args), args.stage, args.layer), end="")
    return 0


def recorded(args: argparse.Namespace) -> Mapping[str, Any]:
    """Compiles the network, and keeps what each stage has made, by its number and name."""
    from compiler.graph.passes.pipeline import keep_in
    from lockstep.options.compilation import compiled, machine_of, target_of
    from runtime import SimulatedDevice, simulator

    args.target = target_of(args)
    args.threads = args.threads or DEFAULT_THREADS
    machine, stages = machine_of(args), dict[str, Any]()
    device = SimulatedDevice(machine, simulator("functional")) if machine else None
    compiled(args, device, keep_in(stages))
    return stages


def shown(stages: Mapping[str, Any], stage: str, layer: str | None = None) -> str:
    """The text of one stage, or what it says about one layer. Raises RequestError, with the names
    that there are, for an unknown stage or layer.
    """
    names = [name for name in stages if stage in (name, name[name.index("-") + 1:])]
    if len(names) != 1:
        raise RequestError(f"STAGE must be one of {', '.join(names or stages)}, not {stage!r}")
    result = stages[names[0]]
    if layer is None:
        return f"{result}".rstrip("\n") + "\n"
    known = _layers(result)
    if not known:
        raise RequestError(f"--layer must be left out with {stage}: its text names no layers")
    node = layer if layer in known else layer.rpartition(":")[0]       # of a part of a node
    if node not in known:
        raise RequestError(f"--layer must be one of {', '.join(known)}, not {layer!r}")
    return _about(result, node)


def _layers(result: Any) -> list[str]:
    """The layers, or nodes, that a stage's text is about."""
    from compiler.graph.graph import Graph
    from compiler.texts import PartedText, SegmentTexts

    if isinstance(result, SegmentTexts):
        return [name for _, part in result.results for name in _layers(part)]
    if isinstance(result, PartedText):
        return [*result.names]
    graph = result if isinstance(result, Graph) else getattr(
        getattr(result, "partition", result), "graph", None)
    return [node.name for node in graph.nodes] if graph else []


def _about(result: Any, layer: str) -> str:
    from compiler.texts import PartedText, SegmentTexts, wrapped

    if isinstance(result, SegmentTexts):
        return "\n".join(filter(None, (_about(part, layer) for _, part in result.results)))
    if isinstance(result, PartedText):
        return result.of(layer)
    lines = filter(_naming(layer), str(result).splitlines())
    return "".join(f"{part}\n" for line in lines for part in wrapped(line.strip(), 0))


def _naming(name: str) -> Callable[[str], Any]:
    """Finds a name that is no part of another one."""
    return re.compile(rf"(?<![\w.:/-]){re.escape(name)}(?![\w./-]|:\w)").search
