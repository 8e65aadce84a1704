"""The answer of an exploration, as plain data: points, the front, each field alone.

::

    {"base": POINT, "networks": [...], "objectives": [...], "axes": [...], "points": [POINT...],
     "failed": [...], "refused": [...], "sensitivity": [...], "host": {...},
     "quantized": [TEXT...], "made_for": [TEXT...]}

Points stand in the order in which they were measured, the base first. A point's `front` says
whether it lies on the front, its `rivals` are the numbers of those from which it is not
distinguishable (`PointIntervals.rivals`), its `built` is what tools made of its core (`BuiltCore`),
with how far off the estimates are. `other_division` says in which layers of the host a point
differs from the base. `quantized` and `made_for` tell of networks that were quantized here, and for
other machines.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runtime.driver.calibrated import origin_note
from runtime.exploring.cores import BuiltCore
from runtime.exploring.exploration import Exploration
from runtime.exploring.objectives import (OBJECTIVES, MeasuredPoint, Objective, ObjectiveError,
                                          joules_of)
from runtime.exploring.points import ExploredPoint
from runtime.pricing.hosts import known_host


def answer_of(exploration: Exploration) -> dict[str, Any]:
    """Everything that tables and pages show; JSON-serializable."""
    front = exploration.front()
    known = _columns(exploration)
    points = [_point(exploration, known, identity, front) for identity in exploration.measured]
    base, rivals = points[0], exploration.rivals()
    for point in points:
        point["changed_bounds"] = _changed_bounds(base, point)
        point["rivals"] = [_number(points, one) for one in rivals.get(point["identity"], ())]
    return {
        "base": exploration.space.base.machine.config.name,
        "networks": [network.name for network in exploration.networks],
        "technology": exploration.technology.plain,
        "strategy": exploration.strategy, "seed": exploration.seed,
        "combinations": exploration.space.size,
        "objectives": [_described(one, exploration) for one in known],
        "budgets": [f"{budget.objective.name} {'<=' if budget.most else '>='} {budget.limit:.10g}"
                    for budget in exploration.budgets],
        "axes": [{"name": axis.name, "options": list(axis.options)}
                 for axis in exploration.space.axes],
        "host": _host(exploration), "quantized": [*_quantized(exploration)],
        "made_for": [*_made_for(exploration)],
        "points": points, "front": [_number(points, identity) for identity in front],
        "failed": [{"changes": exploration.space.differences(point), "reason": reason}
                   for point, reason in exploration.failed.values()],
        "refused": [{"choices": dict(sorted(choices)), "reason": reason}
                    for choices, reason in sorted(exploration.refused.items(),
                                                  key=lambda item: sorted(item[0]))],
        "sensitivity": _sensitivity(exploration, points)}


def _columns(exploration: Exploration) -> list[Objective]:
    """The objectives that were asked for, and all others that every point has."""
    asked = list(exploration.objectives)
    others = [one for one in OBJECTIVES.values() if one not in asked
              and all(_has(one, figures) for _, figures in exploration.measured.values())]
    return asked + others


def _has(objective: Objective, figures: MeasuredPoint) -> bool:
    try:
        objective.of(figures)
    except ObjectiveError:
        return False
    return True


def _described(objective: Objective, exploration: Exploration) -> dict[str, Any]:
    shown = replace(objective, unit=_unit(objective, exploration))
    return {"name": shown.name, "unit": shown.unit, "title": shown.title,
            "meaning": shown.meaning, "greatest": shown.greatest,
            "asked": objective in exploration.objectives}


def _unit(objective: Objective, exploration: Exploration) -> str:
    units = [one.calibration.unit for one in exploration.networks if one.calibration]
    return units[0] if objective.name == "accuracy" and units else objective.unit


def _host(exploration: Exploration) -> dict[str, Any]:
    table = known_host(exploration.host)
    name = table.name if table else "this processor"
    return {"name": name, "is_measured": table is None, "text": (
        f"ms and energy are of whole inferences, one step after the other: the host is "
        f"{name}, {'measured' if table is None else 'by counts'}; cycles are the accelerator's")}


def _quantized(exploration: Exploration) -> Iterator[str]:
    """Tells the number of networks in int8 that the machines share, and that no weights are as
    narrow as machines could load them.
    """
    for network in exploration.networks:
        if network.calibration:
            digests = {one.digest for one in exploration.quantized_of(network)}
            yield (f"{network.name}: quantized for each machine; machines here: "
                   f"{len(exploration.measured)}, different networks: {len(digests)}")
            narrow = {bits for point, _ in exploration.measured.values()
                      for bits in point.machine.config.weight_bits if bits < 8}
            if narrow and "weight_bits" not in network.calibration.options:
                yield (f"{network.name}: weights have 8 bits on all machines; --weight-bits "
                       f"{min(narrow)} gives them fewer where machines load them")


def _made_for(exploration: Exploration) -> Iterator[str]:
    """Networks that were quantized for other machines than those that are measured."""
    machines = [point.machine for point, _ in exploration.measured.values()]
    for network in exploration.networks:
        if not network.calibration and (
                note := origin_note(network.name, network.path, machines)):
            yield note


def _point(exploration: Exploration, known: list[Objective], identity: str, front: list[str]
           ) -> dict[str, Any]:
    point, figures = exploration.measured[identity]
    space = exploration.space
    values = {one.name: list(one.of(figures)) for one in known}
    return {
        "identity": identity, "hash": point.machine.hash,
        "changes": space.differences(point), "geometry": space.geometry(point),
        "choices": dict(point.choices), "label": label_of(space.differences(point)),
        "effort": point.effort, "built": _built(exploration.built.get(point.machine.hash), values),
        "values": values, "front": identity in front,
        "over_budget": exploration.over_budget(figures),
        "host_layers": sum(len(one.host_layers) for one in figures.figures.values()),
        "host_share": values["host_ms"][0] / values["ms"][0] if values["ms"][0] else 0.0,
        "other_division": exploration.other_division(figures),
        "checked": exploration.checked.get(identity),
        "networks": {name: {
            "cycles": figures.cycles[name], "macs": one.macs, "dram_bytes": one.dram_bytes,
            "host": one.host, "joules": joules_of(figures, name),
            "host_layers": list(one.host_layers), "host_seconds": one.host_seconds,
            "copy_seconds": one.copy_seconds, "host_joules": one.host_joules,
            "accuracy": one.accuracy,
            "instructions": [
                {"name": name, "executed": executed, "reason": reason, "luts": luts}
                for name, executed, reason, luts in one.instructions],
            "layers": [{"name": layer, "cycles": cycles, "ideal_cycles": ideal,
                        "dram_bytes": moved, "bound": bound}
                       for layer, cycles, ideal, moved, bound in one.layers]}
            for name, one in figures.figures.items()},
        "bounds": bounds_of(figures)}


def _built(core: BuiltCore | None, values: Mapping[str, list[Any]]) -> dict[str, Any] | None:
    if core is None:
        return None
    return {"figures": dict(core.figures), "tools": list(core.tools), "device": core.device,
            "error": core.error, "off": {name: core.error_of(name, values[name][0])
                                         for name in core.figures}}


def label_of(changes: Mapping[str, list[Any]]) -> str:
    """The fields in which a point differs from the base, in a line."""
    return ", ".join(_change(name, *pair) for name, pair in changes.items()) or "base"


def _change(name: str, here: Any, there: Any) -> str:
    if name == "instructions":
        return " ".join([*(f"-{one}" for one in here), *(f"+{one}" for one in there)])
    return f"{name} {'+'.join(map(str, there)) if isinstance(there, list) else there}"


def bounds_of(figures: MeasuredPoint) -> dict[str, float]:
    """The bounds of the layers of all networks, each with its share of cycles, the greatest first.
    """
    cycles = Counter[str]()
    for one in figures.figures.values():
        for _, count, _, _, bound in one.layers:
            cycles[bound or "start and end"] += count
    total = sum(cycles.values()) or 1
    return {bound: count / total for bound, count in cycles.most_common()}


def _changed_bounds(base: Mapping[str, Any], point: Mapping[str, Any]) -> list[list[str]]:
    """Network, layer, and what bounds it in the base and here, where these differ."""
    found = []
    for name, network in point["networks"].items():
        before = {layer["name"]: layer["bound"] for layer in base["networks"][name]["layers"]}
        found += [[name, layer["name"], before[layer["name"]], layer["bound"]]
                  for layer in network["layers"]
                  if before.get(layer["name"], layer["bound"]) != layer["bound"]]
    return found


def _number(points: list[dict[str, Any]], identity: str) -> int:
    return next(number for number, point in enumerate(points) if point["identity"] == identity)


def _sensitivity(exploration: Exploration, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each axis what each option alone does to the base: the number of a point, or why there is
    none.
    """
    def row(option: str, found: ExploredPoint | str) -> dict[str, Any]:
        if isinstance(found, str):
            return {"option": option, "reason": found}
        if found.identity in exploration.measured:
            return {"option": option, "point": _number(points, found.identity)}
        reason = exploration.failed.get(found.identity, (found, "was not measured"))[1]
        return {"option": option, "reason": reason}

    return [{"axis": axis, "options": [row(option, found) for option, found in options.items()]}
            for axis, options in exploration.space.alone.items()]
