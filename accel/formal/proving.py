"""Proofs of a machine: the claims about its core, and what became of each."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Fragment

from accel.formal.accumulators import hazard_claims, update_claims
from accel.formal.arbiters import arbiter_claims
from accel.formal.claims import SECONDS, Claim
from accel.formal.datapaths import datapath_claims
from accel.formal.logic import Answer, Logic, ProofError
from accel.formal.moving import stepper_claims, unpack_claims
from accel.formal.operands import operand_claims
from accel.formal.queues import queue_claims, relay_claims
from accel.formal.tokens import token_claims
from accel.hw.compute.hazards import Hazards
from accel.hw.compute.update import Update
from accel.hw.core.core import Core
from accel.hw.core.tokens import Tokens
from accel.hw.moving.arbiter import Arbiter
from accel.hw.moving.dma import Stepper
from accel.hw.moving.unpack import Unpack
from accel.hw.queue import Queue, Relay
from accel.hw.vector.operands import Operands
from accel.machine.machine import Machine
from accel.machine.structure import FETCH, UnitKind

Tell = Callable[[Claim, Answer | None, int, int], None]
"""Is told of each claim before and after it is decided, its number, and how many there are."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim and its answer."""

    claim: Claim
    answer: Answer


@dataclass(frozen=True, slots=True)
class Proofs:
    """The claims about a machine, and what became of them.

    Parameters
    ----------
    unclaimed : instructions that no claim is about, each with the reason.
    seconds : that all took together.
    """

    machine: Machine
    proofs: tuple[Proof, ...]
    unclaimed: tuple[str, ...]
    seconds: float

    @property
    def refuted(self) -> list[Proof]:
        return [one for one in self.proofs if one.answer.proved is False]

    def as_json(self) -> dict[str, Any]:
        return {"machine": self.machine.config.name, "hash": self.machine.hash,
                "seconds": round(self.seconds, 1), "unclaimed": list(self.unclaimed),
                "claims": [{"claim": one.claim.name, "instruction": one.claim.instruction,
                            "proved": one.answer.proved, "seconds": round(one.answer.seconds, 2),
                            "values": one.answer.values, "reason": one.answer.reason}
                           for one in self.proofs]}


def prove(machine: Machine, seconds: float = SECONDS, only: str = "",
          progress: Tell = lambda *told: None) -> Proofs:
    """Decide the claims about a machine, each in at most so many seconds.

    With `only`, those whose names have this text. Raises ProofError where the solver is absent.
    """
    begin = time.monotonic()
    Logic()                     # refuses before anything is made
    every = list(claims_of(machine))
    claims = [claim for claim in every if only in claim.name]
    proofs = []
    for number, claim in enumerate(claims):
        progress(claim, None, number, len(claims))
        try:
            answer = claim.decide(seconds)
        except ProofError as error:
            answer = Answer(None, 0.0, reason=str(error))
        proofs.append(Proof(claim, answer))
        progress(claim, answer, number + 1, len(claims))
    return Proofs(machine, tuple(proofs), tuple(_unclaimed(machine, every)),
                  time.monotonic() - begin)


def claims_of(machine: Machine) -> Iterator[Claim]:
    """The claims about a machine: of each instruction's body, then of the parts of its core. Parts
    that are the same are claimed once."""
    yield from datapath_claims(machine)
    seen = set()
    for path, part in parts_of(machine):
        for claim in _claims(machine, path, part):
            key = _likeness(part)
            if key is None or key not in seen:
                yield claim
        seen.add(_likeness(part))


def parts_of(machine: Machine) -> Iterator[tuple[str, Any]]:
    """The components of a machine's core, each with its path."""
    def within(fragment: Fragment, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for origin in fragment.origins or ():
            yield ".".join(path), origin
        for inner, name, _ in fragment.subfragments:
            yield from within(inner, (*path, name or "part"))

    yield from within(Fragment.get(Core(machine), None), ())


def _claims(machine: Machine, path: str, part: Any) -> Iterator[Claim]:
    def instruction() -> str:
        """The only one of the unit in which the part is."""
        return machine.of_unit(path.partition(".")[0])[0].name

    match part:
        case Queue(): yield from queue_claims(part, path)
        case Relay(): yield from relay_claims(part, path)
        case Update(): yield from update_claims(part, path)
        case Hazards(): yield from hazard_claims(part, path)
        case Operands(): yield from operand_claims(part, path)
        case Tokens(): yield from token_claims(part, path)
        case Arbiter(): yield from arbiter_claims(part, path)
        case Stepper(): yield from stepper_claims(part, path, instruction())
        case Unpack(): yield from unpack_claims(part, path, instruction())


def _likeness(part: Any) -> Any:
    """A value that queues, or relays, have in common which claims cannot tell apart; None for other
    parts."""
    match part:
        case Queue(): return "queue", part.width, part.depth, part.latency, part.pause
        case Relay(): return "relay", part.width
    return None


def _unclaimed(machine: Machine, claims: Iterable[Claim]) -> Iterator[str]:
    """The instructions without a claim, each with the reason."""
    claimed = {claim.instruction for claim in claims}
    kinds = {UnitKind.GEMM: "a systolic array computes it", UnitKind.STREAM: "its component is not "
             "an expression"}
    for name in machine.opcodes:
        if machine.unit_of(name) == FETCH:
            yield f"{name}: fetch performs it"
        elif name not in claimed:
            yield f"{name}: {kinds[machine.structure.unit(machine.unit_of(name)).kind]}"


def counted(proofs: Sequence[Proof]) -> str:
    """Counts of claims that are proved, refuted, and not decided, as text."""
    numbers = {"proved": True, "refuted": False, "not decided": None}
    return ", ".join(f"{count} {word}" for word, proved in numbers.items() if (
        count := sum(one.answer.proved is proved for one in proofs)))
