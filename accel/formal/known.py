"""Knowledge of the instructions of a machine, kept in the cache: proofs, and how often random
programs ran each. It counts for the machine, and for the hardware's sources, as they were."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from accel.formal.proving import Proofs
from accel.machine.machine import Machine
from accel.sim.rtl.gateware import files_in, gateware_files, texts_of
from compiler.kept import CacheError, note, noted
from compiler.native import digest

_PROOFS, _RUNS = "proofs", "checked"


@dataclass(frozen=True, slots=True)
class Known:
    """Parameters
    ----------
    proved : what proved it, and when; empty if nothing did.
    refuted : the claim that does not hold; empty if none is known.
    ran : how often programs of `lockstep check` ran it, on simulators that agreed.
    """

    proved: str = ""
    refuted: str = ""
    ran: int = 0


def keep_proofs(proofs: Proofs) -> None:
    """Keep what became of the claims about instructions, beside that of other claims."""
    from importlib.metadata import version

    machine, kept = proofs.machine, _read(_PROOFS, proofs.machine)
    said = f"Bitwuzla {version('bitwuzla')}, {date.today()}"
    for one in proofs.proofs:
        before = kept.get(one.claim.name, {})
        if one.claim.instruction and (one.answer.proved is not None or not before):
            kept[one.claim.name] = {"instruction": one.claim.instruction, "by": said,
                                    "proved": one.answer.proved}
    _write(_PROOFS, machine, kept)


def keep_runs(machine: Machine, ran: Mapping[str, int]) -> None:
    """Keep how often each instruction ran, with what ran before."""
    total = Counter(_read(_RUNS, machine))
    total.update(ran)
    _write(_RUNS, machine, total)


def known(machine: Machine) -> dict[str, Known]:
    """Knowledge of each instruction of a machine."""
    claims, ran = _read(_PROOFS, machine), _read(_RUNS, machine)
    result = {}
    for name in machine.opcodes:
        own = {claim: one for claim, one in claims.items() if one["instruction"] == name}
        proved = [one["by"] for one in own.values() if one["proved"]]
        refuted = [claim for claim, one in own.items() if one["proved"] is False]
        whole = proved and len(proved) == len(own)
        result[name] = Known(proved[0] if whole else "", refuted[0] if refuted else "",
                             ran.get(name, 0))
    return result


def _key(kind: str, machine: Machine) -> str:
    files = gateware_files() + (files_in("accel/formal") if kind == _PROOFS else [])
    return digest([machine.hash, texts_of(*files)])


def _read(kind: str, machine: Machine) -> dict:
    return json.loads(noted(kind, _key(kind, machine)) or "{}")


def _write(kind: str, machine: Machine, kept: dict) -> None:
    """Without a cache that can be written nothing is remembered, which is no reason to fail."""
    with suppress(CacheError):
        note(kind, _key(kind, machine), json.dumps(kept))
