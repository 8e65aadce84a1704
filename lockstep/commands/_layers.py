"""The table that a run ends with."""

from collections.abc import Mapping
from typing import Any

__all__ = ["show"]


def show(figures: Mapping[str, Any]) -> None:
    """Print the layers, the sums and what ran on the host."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False)        # names are printed as they are
    timed = figures["cycles"] > 0
    table = Table(title=f"{figures['model']} on {figures['target']} ({figures['simulator']})")
    for heading in ("layer", "operator"):
        table.add_column(heading)
    for heading in ("cycles", "ideal", "MACs", "array busy", "DRAM bytes"):
        table.add_column(heading, justify="right")
    for layer in figures["layers"]:
        table.add_row(layer["name"], layer["op"], f"{layer['cycles']:,}" if timed else "-",
                      f"{layer['ideal_cycles']:,}", f"{layer['macs']:,}",
                      f"{layer['utilization']:.1%}" if timed and layer["macs"] else "-",
                      f"{layer['dram_bytes']:,}")
    if figures["layers"]:
        console.print(table)
    if timed:
        console.print(f"{figures['cycles']:,} cycles, {figures['seconds'] * 1e3:.3f} ms at the "
                      f"machine's clock, array busy {figures['utilization']:.1%}")
    for name, reason in figures["host"].items():
        console.print(f"on the host: {name} ({reason})", highlight=False)
    for note in figures["notes"]:
        console.print(note, highlight=False, markup=False)
    for output in figures["outputs"]:
        console.print(f"output {output['name']} {output['dtype']}{output['shape']} "
                      f"sha256 {output['sha256'][:16]}", highlight=False)
    if figures["seed"] is not None:
        console.print(f"random input, seed {figures['seed']}")
