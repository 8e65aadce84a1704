"""Static memory planning: where the values of a computation lie in one block of memory.

A computation is a sequence of tasks. A value lives from the task that writes it to the last that
reads it; values that live at one time lie apart, others may share bytes. The same holds for the
workspaces of a task, which live in it alone. A result may take the place of an operand that
nobody reads any more where the task permits it, or lie over a part of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

LINE = 64       # bytes that every place is aligned to: a cache line, a vector of AVX-512


@dataclass(frozen=True, slots=True)
class MemoryTask:
    """The values that a task reads, the value that it writes and the bytes of its workspaces.

    `overwritable` are those of `reads` of which no element is read after the element of the result
    at its place was written. `leads` has reads that the result may lie over, if it begins so many
    bytes before them at least.
    """

    reads: tuple[str, ...]
    writes: str
    workspaces: tuple[int, ...] = ()
    overwritable: tuple[str, ...] = ()
    leads: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Span:
    """`size` bytes that are in use from task `first` to task `last`, both included.

    `values` lie in them, one after the other.
    """

    values: tuple[str, ...]
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Offsets in bytes into a block of `size` bytes: of values by name, and of the workspaces of
    each task.

    `live` is what is in use in the task that uses most, of a result and operands that it may lie
    over the larger: no plan with these spans is smaller.
    `unshared` is the sum of all spans, the size without sharing.
    """

    places: Mapping[Span, int]
    offsets: Mapping[str, int]
    workspaces: tuple[tuple[int, ...], ...]
    size: int
    live: int
    unshared: int

    def __str__(self) -> str:
        lines = [f"{offset:>12} {span.size:>12} {span.first:>6} {span.last:>6}  "
                 f"{', '.join(span.values)}" for span, offset
                 in sorted(self.places.items(), key=lambda item: (item[1], item[0].first))]
        head = f"{'offset':>12} {'bytes':>12} {'first':>6} {'last':>6}  values"
        return "\n".join([f"memory {self.size} bytes, largest live set {self.live}, "
                          f"without sharing {self.unshared}", head, *lines]) + "\n"


def plan_memory(tasks: Sequence[MemoryTask], sizes: Mapping[str, int],
                alignment: int = LINE) -> MemoryPlan:
    """Before: tasks in the order of execution, and the bytes of each value that is to be placed;
    what they do not name lies elsewhere. After: spans that meet in time are apart in space, at
    multiples of `alignment`; but for a result and an operand that it may lie over, which meet in
    its task alone. Equal computations get equal plans.

    The largest spans are placed first, each in the smallest gap that holds it; of several orders
    among them the one that needs least memory is taken.
    """
    values = _value_spans(tasks, sizes, alignment)
    scratch = tuple(
        tuple(Span((f"workspace {place} of {task.writes}",), _rounded(size, alignment), number,
                   number)
              for place, size in enumerate(task.workspaces))
        for number, task in enumerate(tasks))
    spans = [*values, *(span for group in scratch for span in group)]
    leads = _leads(tasks, values, alignment)
    places = min((_placed(sorted(spans, key=order), leads) for order in _ORDERS), key=_end)
    if leads:
        places = _improved(places, leads)
    return MemoryPlan(
        MappingProxyType(places),
        MappingProxyType({value: places[span] for span in values for value in span.values}),
        tuple(tuple(places[span] for span in group) for group in scratch),
        _end(places), _largest_live_set(spans, leads), sum(span.size for span in spans))


_ORDERS = (
    lambda span: (-span.size, span.first, span.values),
    lambda span: (-span.size * (span.last - span.first + 1), span.first, span.values),
    lambda span: (span.first - span.last, -span.size, span.first, span.values),
    lambda span: (span.first, -span.size, span.values),
)


TRIES = 40              # other orders in which spans are placed where results may lie over operands
MANY = 256              # spans, of more of which fewer orders are tried


def _improved(places: dict[Span, int], leads: Mapping[tuple[Span, Span], int]) -> dict[Span, int]:
    """Places spans in further orders: backwards in time, so that each operand comes to lie where
    its result lets it; and, time and again, first the one that came to lie furthest out.
    """
    best = places
    for order in (list(places), sorted(places, key=lambda span: (-span.last, span.values)),
                  sorted(places, key=lambda span: (-span.first, span.values))):
        for _ in range(max(1, TRIES * MANY // max(MANY, len(order)))):
            places = _placed(order, leads)
            best = min(best, places, key=_end)
            furthest = max(order, key=lambda span: places[span] + span.size)
            if furthest is order[0]:
                break
            order = [furthest, *(span for span in order if span is not furthest)]
    return best


def _rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _value_spans(tasks: Sequence[MemoryTask], sizes: Mapping[str, int],
                 alignment: int) -> list[Span]:
    """One span for each value, or for a chain of values that take each other's place."""
    last = {value: number for number, task in enumerate(tasks) for value in task.reads}
    spans: dict[str, Span] = {}
    for number, task in enumerate(tasks):
        value = task.writes
        if value not in sizes:
            continue
        end = max(last.get(value, number), number)
        size = _rounded(sizes[value], alignment)
        before = next((spans[read] for read in task.overwritable if read in spans
                       and spans[read].last == number and spans[read].size >= size), None)
        if before is None:
            spans[value] = Span((value,), size, number, end)
            continue
        joined = Span((*before.values, value), before.size, before.first, end)
        spans.update(dict.fromkeys(joined.values, joined))
    return list(dict.fromkeys(spans.values()))


def _leads(tasks: Sequence[MemoryTask], spans: Sequence[Span], alignment: int
           ) -> dict[tuple[Span, Span], int]:
    """By how much the span of a result must begin before that of an operand which ends in the same
    task, where it may lie over it.
    """
    by_value = {value: span for span in spans for value in span.values}
    leads = {}
    for number, task in enumerate(tasks):
        result = by_value.get(task.writes)
        for value, size in task.leads.items():
            operand = by_value.get(value)
            if result and operand and result.first == number == operand.last:
                leads[result, operand] = _rounded(size, alignment)
    return leads


def _placed(spans: Sequence[Span], leads: Mapping[tuple[Span, Span], int]) -> dict[Span, int]:
    """Places each span in the smallest gap between the earlier spans that are in use in the same
    task; at their end where no gap fits. To an operand that it may lie over a result ends at its
    lead; to the result such an operand begins later than it does.
    """
    first, last, size = (np.array([getattr(span, name) for span in spans], np.int64)
                         for name in ("first", "last", "size"))
    begin = np.zeros(len(spans), np.int64)
    over, under = dict[int, list[tuple[int, int]]](), dict[int, list[tuple[int, int]]]()
    numbers = {span: number for number, span in enumerate(spans)} if leads else {}
    for (result, operand), lead in leads.items():
        over.setdefault(numbers[operand], []).append((numbers[result], lead))
        under.setdefault(numbers[result], []).append((numbers[operand], lead))
    for number in range(len(spans)):
        meets = np.flatnonzero((first[:number] <= last[number]) & (first[number] <= last[:number]))
        later, until = begin[meets], begin[meets] + size[meets]
        for other, lead in over.get(number, ()):        # this is the operand
            until[meets == other] = begin[other] + min(lead, size[other])
        for other, lead in under.get(number, ()):       # this is the result
            later[meets == other] += max(0, size[number] - lead)
        order = np.lexsort((size[meets], later))
        ends = np.maximum.accumulate(np.append(0, until[order]))
        gaps = later[order] - ends[:-1]
        fitting = np.flatnonzero(gaps >= size[number])
        begin[number] = ends[fitting[np.argmin(gaps[fitting])] if fitting.size else -1]
    return dict(zip(spans, begin.tolist(), strict=True))


def _end(places: Mapping[Span, int]) -> int:
    return max((offset + span.size for span, offset in places.items()), default=0)


def _largest_live_set(spans: Sequence[Span], leads: Mapping[tuple[Span, Span], int]) -> int:
    """The most bytes in use in one task; of a result and operands that it may lie over only what is
    larger.
    """
    change: dict[int, int] = {}
    for span in spans:
        change[span.first] = change.get(span.first, 0) + span.size
        change[span.last + 1] = change.get(span.last + 1, 0) - span.size
    shared: dict[Span, int] = {}
    for result, operand in leads:
        shared[result] = shared.get(result, 0) + operand.size
    for result, size in shared.items():
        change[result.first] -= min(result.size, size)
        change[result.first + 1] = change.get(result.first + 1, 0) + min(result.size, size)
    live = most = 0
    for task in sorted(change):
        live += change[task]
        most = max(most, live)
    return most
