"""``lockstep configs [NAME]``: the shipped geometries, or one of them in full.

The text of one geometry is TOML that every ``--machine`` reads back, so that
``lockstep configs tiny-1x4x4 > mine.toml`` starts a geometry of one's own.
"""

import argparse

HEADINGS = ("name", "array", "macs/cycle", "inp", "wgt", "res", "par", "acc", "out", "tab", "bus",
            "MHz")


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "configs", help="list the geometries that are shipped, or print one as TOML",
        description="List the shipped geometries, or print one as TOML to copy and change.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a preset's name or a TOML file")
    return parser


def run(args: argparse.Namespace) -> int:
    from accel.machine.config import load, preset, preset_names

    if args.name is None:
        print(listing([preset(name) for name in preset_names()]))
    else:
        print(in_full(load(args.name)), end="")
    return 0


def size(size_bytes: int) -> str:
    """Bytes in the largest binary unit that divides them: ``32K``, ``1536``."""
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def array(config) -> str:
    return f"{config.batch}x{config.block_in}x{config.block_out}"


def listing(configs) -> str:
    """A table of geometries: sizes in bytes with K = 1024, bus in bytes a cycle."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for config in configs:
        sizes = (size(buffer.size_bytes) for buffer in config.buffers.values())
        rows.append((config.name, array(config), str(config.macs_per_cycle), *sizes,
                     str(config.bus_bytes), str(config.clock_mhz)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) if index == 0 else cell.rjust(width)
                               for index, (cell, width) in enumerate(zip(row, widths)))
                     for row in rows)


def in_full(config) -> str:
    """The geometry as TOML, with what follows from it as comments."""
    lines = [f"# array {array(config)}: {config.macs_per_cycle} multiply-accumulates a cycle"]
    lines += [f"# {buffer.name}: {buffer.depth} entries of {buffer.entry_bytes} bytes"
              for buffer in config.buffers.values()]
    return "\n".join(lines) + "\n" + config.to_toml()
