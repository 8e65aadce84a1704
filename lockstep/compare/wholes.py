"""Whole inferences of machines side by side: accelerator, host and copies."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from lockstep.compare.networks import NetworkCycles
from lockstep.printing.lines import say
from lockstep.printing.table import show_columns
from runtime.whole import HostPart, division_difference


def show_wholes(results: Mapping[str, Sequence[NetworkCycles]], titles: Sequence[str],
                unit: str) -> None:
    """Show the time, the energy and the accuracy of whole inferences, and where two machines divide
    a network in another way. `unit` is that of accuracies.
    """
    first = next(iter(results.values()))[0].beside
    every = [one for some in results.values() for one in some]
    more: list[tuple[str, Callable[[NetworkCycles], float | None], float, str]] = []
    if any(one.joules for one in every):
        more.append(("whole uJ", lambda one: one.whole_joules, 1e6, "absent"))
    if any(one.accuracy is not None for one in every):
        more.append((f"accuracy {unit}".strip(), lambda one: one.accuracy, 1.0, "-"))
    head = ["network", "machine", "accelerator ms", "host ms", "copies ms", "whole ms",
            "on the host", *(name for name, *_ in more)]
    rows = [[name, title, *_row(one), *(_number(of(one), scale, absent)
                                        for _, of, scale, absent in more)]
            for name, some in results.items() for title, one in zip(titles, some, strict=True)]
    show_columns(f"whole inferences, one step after the other; the host is {_named(first)}", head,
                 rows, 2)
    for name, (here, *others) in results.items():
        for title, there in zip(titles[1:], others):
            if text := division_difference(name, here.beside.layers, there.beside.layers):
                say(f"! {title} divides otherwise than {titles[0]}: {text}")


def _row(one: NetworkCycles) -> Iterator[str]:
    beside, whole = one.beside, one.beside.seconds_with(one.seconds)
    yield from (f"{1e3 * seconds:,.4g}" for seconds in (
        one.seconds, beside.seconds, beside.copy_seconds, whole))
    yield _on_host(len(beside.layers), 1 - one.seconds / whole if whole else 0.0)


def _number(value: float | None, scale: float, absent: str) -> str:
    return absent if value is None else f"{scale * value:,.4g}"


def _on_host(count: int, share: float) -> str:
    return f"{count} {'layer' if count == 1 else 'layers'}, {share:.0%}"


def _named(part: HostPart) -> str:
    return f"{part.host}, {'measured' if part.is_measured else 'by counts'}"
