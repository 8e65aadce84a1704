"""How long does the proof of a program take, and does it refuse every one whose tokens are wrong?

`time` compiles ResNet-50 with random int8 weights (random weights change no address), then proves
it again, whole and with one token lost. Prints the instructions of the program, seconds of
processor time of the proof, and of the proof that fails, message included.

`faults` changes the tokens of compiled programs at random: a bit of one instruction's waits or
signals is deleted, duplicated onto another instruction of the unit, moved there, or turned to
another unit; or a whole token, signal and wait, is deleted, or its signal or wait moved. The proof
must refuse the program, unless `tests.support.happens_before` finds by exhaustion that the fault is
redundant: then the program is still legal, and the proof must accept it. It must accept every
compiled program too. Prints the missed faults, then `token_faults`, `token_faults_redundant`,
`token_faults_missed` (accepted, and not legal), `token_faults_false_alarms` (refused, and legal).
Exit status 1 if there is one of the last two.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import process_time

from accel.machine import isa
from accel.machine.config import UNITS
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.target import AccelTarget
from accel.proof.legal import IllegalProgram, prove
from bench.frame import Bench, Sheet
from tests.support.networks import convolution_graph, resnet50_graph
from tests.support.happens_before import Judge, Masks
from compiler.latency_hiding import Tokens as UnitTokens, pair_tokens
from lockstep.testing.models import DIGITS
from runtime import compile as compile_model

EXAMPLES = Path(__file__).parents[2] / "examples"
PRESETS = ("tiny-1x4x4", "ecp5-1x8x8", "pynq-1x16x16")
WAITS, SIGNALS = 1, 2           # bytes of a word
Tokens = list[Masks]

BENCH = Bench(__file__, __doc__, "pynq-1x16x16", seed=1)
BENCH.option("--size", type=int, default=224, help="pixels of ResNet-50's image, each way")
BENCH.option("--faults", type=int, default=200, help="how many")


@BENCH.part()
def time(sheet: Sheet) -> None:
    machine = sheet.machine
    program = AccelTarget(machine).compile(resnet50_graph(sheet.size)).program
    sheet.figure("proof_instructions", program.count)
    begin = process_time()
    prove(machine, program)
    sheet.figure("proof_seconds", process_time() - begin, ".2f")
    faulty = lose_token(machine, program)
    begin = process_time()
    try:
        prove(machine, faulty)
    except IllegalProgram as error:
        sheet.figure("proof_refusal_seconds", process_time() - begin, ".2f")
        print(error)
    else:
        print("a program that has lost a token must be refused")
        sheet.require(False)


@BENCH.part()
def faults(sheet: Sheet) -> None:
    print("seed", sheet.seed)
    random = Random(sheet.seed)
    programs = list(subjects())
    found: list[Fault] = []
    for number, one in enumerate(programs):
        count = sheet.faults // len(programs) + (number < sheet.faults % len(programs))
        made = list(examine(one, count, random, len(found)))
        found += made
        print(f"{one.program.count:5} instructions, {_summary(made[1:])}: {one.name}")
    _judge(sheet, found)


def lose_token(machine: Machine, program: AccelProgram) -> AccelProgram:
    """The stream without the first token from load to gemm in its second half."""
    stream = program.instructions(machine)
    pairs = pair_tokens([one.unit for one in stream],
                        [UnitTokens(one.waits, one.signals) for one in stream])
    pair = pairs["load", "gemm"]
    token = pair.first_signal(program.count // 2)
    assert token is not None
    words = program.words.copy()
    words[pair.waits[token], WAITS] &= ~isa.unit_mask(["load"]) & 0xFF
    words[pair.signals[token], SIGNALS] &= ~isa.unit_mask(["gemm"]) & 0xFF
    return replace(program, words=words)


@dataclass(frozen=True)
class Subject:
    """A compiled program to make faults in."""

    name: str
    machine: Machine
    program: AccelProgram
    judge: Judge


@dataclass(frozen=True)
class Fault:
    """A change of a subject's tokens, and the verdicts of both judges (empty: legal)."""

    subject: str
    kind: str
    text: str
    refusal: str
    judgement: str

    @property
    def missed(self) -> bool:
        return bool(self.judgement) and not self.refusal

    @property
    def false_alarm(self) -> bool:
        return bool(self.refusal) and not self.judgement


def subject(name: str, config: str, program: AccelProgram) -> Subject:
    machine = load_machine(config)
    return Subject(f"{name} on {machine.config.name}", machine, program, Judge(machine, program))


def convolution(config: str, channels: int, size: int, threads: int, **shape: int) -> Subject:
    graph = convolution_graph(channels, channels, size, **shape)
    program = AccelTarget(load_machine(config), threads).compile(graph).program
    return subject(f"{channels} channels, {size}x{size}, {threads} threads", config, program)


def digits(config: str) -> Subject:
    module = compile_model(DIGITS, f"accel:{config}")
    segment, = module.accelerated
    return subject("digits", config, segment.program)


def subjects() -> Iterator[Subject]:
    for config in (*PRESETS, *sorted(map(str, (EXAMPLES / "geometries").glob("*.toml")))):
        yield digits(config)
    yield convolution("tiny-1x4x4", 16, 16, 1)
    yield convolution("tiny-1x4x4", 16, 16, 2)
    yield convolution("tiny-1x4x4", 32, 14, 1, stride=2)
    yield convolution("ecp5-1x8x8", 32, 14, 2, stride=2)
    yield convolution("ecp5-1x8x8", 64, 14, 2, kernel=1)
    yield convolution("ecp5-1x8x8", 64, 28, 1)
    yield convolution("pynq-1x16x16", 64, 28, 2)


class _NoFault(Exception):
    """A fault of this kind is impossible here."""


class _Faulty:
    """The tokens of a subject, while a fault is planted."""

    def __init__(self, judge: Judge, random: Random):
        self.units, self.random = judge.units, random
        self.tokens: Tokens = list(judge.tokens)

    def bits(self) -> list[tuple[int, int, str]]:
        """Every token bit: instruction, side (0: waits, 1: signals), the other unit."""
        return [(index, side, unit) for index, masks in enumerate(self.tokens)
                for side in (0, 1) for unit in masks[side]]

    def set(self, index: int, side: int, unit: str, present: bool) -> None:
        masks = list(self.tokens[index])
        masks[side] = tuple(one for one in UNITS if (one in masks[side] if one != unit
                                                     else present))
        self.tokens[index] = (masks[0], masks[1])

    def elsewhere(self, index: int, side: int, unit: str) -> int:
        """Another instruction of the same unit without that bit; half of the time a near one."""
        free = [k for k, masks in enumerate(self.tokens) if k != index
                and self.units[k] == self.units[index] and unit not in masks[side]]
        if not free:
            raise _NoFault
        near = sorted(free, key=lambda k: abs(k - index))[:4]
        return self.random.choice(self.random.choice([near, free]))

    def token(self) -> tuple[str, str, int, int]:
        """A token: from, to, who signals it, who takes it."""
        source, target = self.random.choice(sorted({(self.units[k], unit) for k, side, unit
                                                    in self.bits() if side}))
        signals = [k for k, side, unit in self.bits() if side
                   and (self.units[k], unit) == (source, target)]
        waits = [k for k, side, unit in self.bits() if not side
                 and (unit, self.units[k]) == (source, target)]
        number = self.random.randrange(len(signals))
        return source, target, signals[number], waits[number]


_SIDES = ("waits", "signals")


def _delete(one: _Faulty) -> str:
    index, side, unit = one.random.choice(one.bits())
    one.set(index, side, unit, False)
    return f"{_SIDES[side]} {unit} of {index}"


def _duplicate(one: _Faulty) -> str:
    index, side, unit = one.random.choice(one.bits())
    other = one.elsewhere(index, side, unit)
    one.set(other, side, unit, True)
    return f"{_SIDES[side]} {unit} of {index} onto {other}"


def _move(one: _Faulty) -> str:
    index, side, unit = one.random.choice(one.bits())
    other = one.elsewhere(index, side, unit)
    one.set(other, side, unit, True)
    one.set(index, side, unit, False)
    return f"{_SIDES[side]} {unit} of {index} to {other}"


def _turn(one: _Faulty) -> str:
    index, side, unit = one.random.choice(one.bits())
    free = [name for name in UNITS if name not in one.tokens[index][side]]
    if not free:
        raise _NoFault
    other = one.random.choice(free)
    one.set(index, side, unit, False)
    one.set(index, side, other, True)
    return f"{_SIDES[side]} {unit} of {index} to {other}"


def _delete_token(one: _Faulty) -> str:
    source, target, signal, wait = one.token()
    one.set(signal, 1, target, False)
    one.set(wait, 0, source, False)
    return f"{source} {signal} to {target} {wait}"


def _turn_token(one: _Faulty) -> str:
    """Turns a token to another unit, where the next instruction takes it."""
    source, target, signal, wait = one.token()
    unit = one.random.choice([name for name in UNITS if name != target])
    takers = [k for k in range(signal + 1, len(one.units)) if one.units[k] == unit
              and source not in one.tokens[k][0]]
    if not takers or unit in one.tokens[signal][1]:
        raise _NoFault
    one.set(signal, 1, target, False)
    one.set(wait, 0, source, False)
    one.set(signal, 1, unit, True)
    one.set(takers[0], 0, source, True)
    return f"{source} {signal} to {target} {wait}, now to {unit} {takers[0]}"


FAULTS: dict[str, Callable[[_Faulty], str]] = {
    "delete": _delete, "duplicate": _duplicate, "move": _move, "turn": _turn,
    "delete token": _delete_token, "turn token": _turn_token}
"""Kinds of faults by name. Moves and whole tokens keep counters balanced, which makes them hard to
find.
"""
_TURNS = ("move", "delete token", "move", "turn token", "delete", "duplicate", "turn")


def make_fault(one: Subject, kind: str, random: Random) -> tuple[Tokens, str]:
    while True:
        faulty = _Faulty(one.judge, random)
        try:
            text = FAULTS[kind](faulty)
        except _NoFault:
            continue
        return faulty.tokens, text


def with_tokens(program: AccelProgram, tokens: Sequence[Masks]) -> AccelProgram:
    words = program.words.copy()
    for word, (waits, signals) in zip(words, tokens, strict=False):
        word[WAITS], word[SIGNALS] = isa.unit_mask(waits), isa.unit_mask(signals)
    return replace(program, words=words)


def refusal(one: Subject, tokens: Sequence[Masks]) -> str:
    """The proof's message; empty if it accepts the program."""
    try:
        prove(one.machine, with_tokens(one.program, tokens))
    except IllegalProgram as error:
        return str(error).splitlines()[1]
    return ""


def examine(subject: Subject, count: int, random: Random, first: int = 0) -> Iterator[Fault]:
    """The subject itself (kind ``none``), then random faults in it, the kinds in turns."""
    own = subject.judge.tokens
    yield Fault(subject.name, "none", "", refusal(subject, own), subject.judge.fault(own))
    for number in range(first, first + count):
        kind = _TURNS[number % len(_TURNS)]
        tokens, text = make_fault(subject, kind, random)
        yield Fault(subject.name, kind, text, refusal(subject, tokens),
                    subject.judge.fault(tokens))


def _summary(faults: Sequence[Fault]) -> str:
    refused = sum(bool(fault.refusal) for fault in faults)
    redundant = sum(not fault.judgement for fault in faults)
    return f"{len(faults):3} faults, {refused:3} refused, {redundant:2} redundant"


def _judge(sheet: Sheet, found: Sequence[Fault]) -> None:
    faults = [fault for fault in found if fault.kind != "none"]
    for kind in FAULTS:
        print(f"{kind:12} {_summary([fault for fault in faults if fault.kind == kind])}")
    for fault in found:
        if fault.missed:
            print(f"MISSED: {fault.subject}: {fault.kind} {fault.text}: {fault.judgement}")
        if fault.false_alarm:
            print(f"FALSE ALARM: {fault.subject}: {fault.kind} {fault.text}: {fault.refusal}")
    sheet.figure("token_faults", len(faults))
    sheet.figure("token_faults_redundant", sum(not fault.judgement for fault in faults))
    sheet.figure("token_faults_missed", sum(fault.missed for fault in found))
    sheet.figure("token_faults_false_alarms", sum(fault.false_alarm for fault in found))
    sheet.require(not any(fault.missed or fault.false_alarm for fault in found))
