"""Whole inferences on several machines in the terminal: accelerator, host and copies."""

from collections.abc import Iterator, Mapping, Sequence

from lockstep.compare.networks import NetworkCycles
from lockstep.printing.lines import say
from lockstep.printing.table import show_columns
from runtime.whole import HostPart, division_difference

__all__ = ["show_wholes"]


def show_wholes(results: Mapping[str, Sequence[NetworkCycles]], titles: Sequence[str],
                unit: str) -> None:
    """Show the time, the energy and the accuracy of whole inferences, and where two machines divide
    a network in another way. `unit` is that of accuracies.
    """
    first = next(iter(results.values()))[0].beside
    known = any(one.accuracy is not None for some in results.values() for one in some)
    head = ["network", "machine", "accelerator ms", "host ms", "copies ms", "whole ms",
            "on the host", "whole uJ", *([f"accuracy {unit}".strip()] if known else [])]
    rows = [[name, title, *_row(one, known)] for name, some in results.items()
            for title, one in zip(titles, some, strict=True)]
    show_columns(f"whole inferences, one step after the other, at the machine's clock; the host "
                 f"is {_named(first)}", head, rows, 2)
    for name, (here, *others) in results.items():
        for title, there in zip(titles[1:], others):
            if text := division_difference(name, here.beside.layers, there.beside.layers):
                say(f"! {title} divides otherwise than {titles[0]}: {text}")


def _row(one: NetworkCycles, known: bool) -> Iterator[str]:
    beside, whole = one.beside, one.beside.seconds_with(one.seconds)
    yield from (f"{1e3 * seconds:,.4g}" for seconds in (
        one.seconds, beside.seconds, beside.copy_seconds, whole))
    yield _on_host(len(beside.layers), 1 - one.seconds / whole if whole else 0.0)
    joules = one.whole_joules
    yield "absent" if joules is None else f"{1e6 * joules:,.4g}"
    if known:
        yield "-" if one.accuracy is None else f"{one.accuracy:,.4g}"


def _on_host(count: int, share: float) -> str:
    return f"{count} {'layer' if count == 1 else 'layers'}, {share:.0%}"


def _named(part: HostPart) -> str:
    return f"{part.host}, {'measured' if part.is_measured else 'by counts'}"
