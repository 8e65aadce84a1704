"""Load and store: each byte of a run goes to its place, once; packed elements are unpacked.

The stepper that both have cuts a run into steps. By induction over cycles: its registers are, after
any number of chunks, those of the run that it took; so each chunk that it writes takes, in each
lane, the byte of the run that belongs there.
"""

from collections.abc import Iterator
from dataclasses import replace

from accel.formal.claims import Claim, all_of
from accel.formal.logic import Answer, Logic, Term
from accel.formal.unrolled import Unrolled
from accel.hw.moving.dma import Stepper
from accel.hw.moving.unpack import Unpack
from accel.machine.config import WEIGHT_BITS

_WIDE = 40              # bits of addresses and counts, in which nothing wraps


def stepper_claims(stepper: Stepper, name: str, instruction: str) -> Iterator[Claim]:
    yield Claim(f"{name}: each byte of a run goes to its place, once", instruction,
                lambda seconds: _Steps(stepper).decide(seconds))


def unpack_claims(unpack: Unpack, name: str, instruction: str) -> Iterator[Claim]:
    yield Claim(f"{name}: packed elements are extended by their signs", instruction,
                lambda seconds: _unpacked(unpack, seconds))


class _Steps:
    """A stepper that has taken a run, `source` to `target`, and has written `done` chunks of it.

    `steps` counts the steps of the run so far. What was taken before the run is in its first
    `again` beats.
    """

    def __init__(self, stepper: Stepper) -> None:
        self.logic = logic = Logic()
        self.hardware = Unrolled(logic, stepper)
        inputs, outputs = (stepper.signature.members[end].signature.members["payload"].shape
                           for end in "io")
        self.inputs, self.outputs = inputs, outputs
        self.lanes = stepper.bus_bytes
        self.n = (self.lanes - 1).bit_length()
        self.run = {name: logic.symbol(f"run_{name}", inputs[name].width)
                    for name, _ in inputs if inputs[name].width}
        self.steps, self.done = (logic.symbol(name, _WIDE) for name in ("steps", "done"))

    def wide(self, term: Term) -> Term:
        return self.logic.widened(term, _WIDE, False)

    def number(self, value: int) -> Term:
        return self.logic.number(value, _WIDE)

    def plus(self, *terms: Term) -> Term:
        total = self.number(0)
        for term in terms:
            total = self.logic.binary("add", total, self.wide(term))
        return total

    def less(self, a: Term, b: Term) -> Term:
        return self.logic.binary("sub", self.wide(a), self.wide(b))

    def equal(self, a: Term, b: Term) -> Term:
        """In the bits of the narrower."""
        width = min(self.logic.width(a), self.logic.width(b))
        return self.logic.compared("eq", self.logic.bits(a, 0, width), self.logic.bits(b, 0, width))

    def offset(self, address: Term) -> Term:
        return self.wide(self.logic.bits(address, 0, self.n)) if self.n else self.number(0)

    def place(self, address: Term) -> Term:
        """The beat, or chunk, that an address is in."""
        return self.logic.binary("shr", self.wide(address), self.number(self.n))

    # ---- what a run is -------------------------------------------------------------------------

    @property
    def again(self) -> Term:
        return self.wide(self.run["again"]) if "again" in self.run else self.number(0)

    @property
    def beats(self) -> Term:
        """The beats that a run touches, less one; likewise `chunks`."""
        return self.place(self.plus(self.offset(self.run["source"]), self.run["run"]))

    @property
    def chunks(self) -> Term:
        return self.place(self.plus(self.offset(self.run["target"]), self.run["run"]))

    @property
    def lower(self) -> Term:
        """A truth: the offset of the target is the smaller one."""
        logic = self.logic
        return logic.binary("and", logic.inverted(self.run["fill"]), logic.compared(
            "ult", self.offset(self.run["target"]), self.offset(self.run["source"])))

    @property
    def passed(self) -> Term:
        """A truth: the first beat need not be taken alone, as the run before has taken it."""
        return self.logic.every((self.lower, self.logic.any(self.beats),
                                 self.logic.any(self.again)))

    @property
    def early(self) -> Term:
        """A truth: the first step takes a beat and writes nothing."""
        return self.logic.every((self.lower, self.logic.any(self.beats),
                                 self.logic.inverted(self.passed)))

    def given(self) -> list[Term]:
        """Overlapping runs share beats that the run has."""
        return [self.logic.compared("ule", self.again, self.plus(self.beats, self.number(1)))]

    # ---- its registers -------------------------------------------------------------------------

    def state(self, cycle: int, steps: Term, done: Term) -> list[Term]:
        logic, signal, equal = self.logic, self.register, self.equal
        run, early = self.run, self.early
        to_read = self.less(self.beats, self.plus(self.passed, steps))   # beats, less one
        over = logic.compared("ugt", self.plus(self.passed, steps), self.beats)
        reads = logic.binary("and", logic.inverted(run["fill"]), logic.inverted(over))
        taken = logic.chosen(over, self.plus(self.beats, self.number(1)), self.plus(
            self.passed, steps))
        late = logic.binary("or", run["fill"], logic.binary(
            "and", self.lower, logic.inverted(logic.any(self.beats))))
        apart = self.less(self.less(run["source"], run["target"]), self.number(1))
        truths = [
            logic.compared("ule", done, self.chunks),
            logic.compared("eq", steps, self.plus(done, logic.binary("and", early, logic.binary(
                "or", logic.any(done), logic.inverted(signal("skip", cycle)))))),
            equal(signal("skip", cycle), logic.binary("and", early, logic.inverted(
                logic.any(steps)))),
            equal(signal("first", cycle), logic.inverted(logic.any(done))),
            equal(signal("last", cycle), logic.compared("eq", done, self.chunks)),
            equal(signal("chunks", cycle), self.less(self.chunks, done)),
            equal(signal("reads", cycle), reads),
            logic.implied(reads, equal(signal("beats", cycle), to_read)),
            equal(signal("chunk", cycle), self.plus(self.place(run["target"]), done)),
            logic.implied(logic.inverted(run["fill"]), equal(signal("beat", cycle), self.plus(
                self.place(run["source"]), taken))),
            equal(signal("fill", cycle), run["fill"])]
        if self.n:
            truths += [
                equal(signal("first_lane", cycle), self.offset(run["target"])),
                equal(signal("last_lane", cycle), self.offset(self.plus(
                    self.offset(run["target"]), run["run"]))),
                equal(signal("late_after", cycle), logic.chosen(late, self.number(-1), apart)),
                equal(signal("rotate", cycle), logic.chosen(run["fill"], self.number(0), self.less(
                    run["target"], run["source"])))]
        # Beats that the run before took are passed first.
        gone = logic.compared("uge", self.plus(self.passed, steps), self.again)
        truths.append(logic.implied(reads, equal(signal("fresh", cycle), gone)))
        if "again" in run:
            truths.append(logic.implied(logic.binary("and", reads, logic.inverted(gone)), equal(
                signal("again", cycle), self.less(self.again, self.plus(self.passed, steps)))))
        if "tag" in run:
            truths.append(equal(signal("tag", cycle), run["tag"]))
        return truths

    def register(self, name: str, cycle: int) -> Term:
        return self.hardware.signal(name, cycle)

    def step(self, field: str, cycle: int = 0) -> Term:
        return self.hardware.part("o__payload", self.outputs, field, cycle)

    # ---- the claim -----------------------------------------------------------------------------

    def decide(self, seconds: float) -> Answer:
        logic, port = self.logic, self.hardware.port
        busy = port("busy", 0)
        accept, fire = (logic.binary("and", port(f"{end}__valid", 0), port(f"{end}__ready", 0))
                        for end in "io")
        taken = [logic.compared("eq", self.hardware.part("i__payload", self.inputs, name, 0), value)
                 for name, value in self.run.items()]
        starts = logic.every((accept, *taken))
        end, write = self.step("end"), self.step("write")
        inside = self.state(0, self.steps, self.done)
        goes_on = logic.every((busy, fire, logic.inverted(end)))
        stays = logic.every((busy, logic.inverted(fire)))
        zero = self.number(0)
        claims = [
            *(logic.implied(starts, truth) for truth in self.state(1, zero, zero)),
            logic.implied(accept, port("busy", 1)),
            logic.implied(logic.every((busy, logic.inverted(logic.binary("and", fire, end)))),
                          logic.inverted(accept))]
        then = [*(logic.implied(goes_on, truth) for truth in self.state(
                    1, self.plus(self.steps, self.number(1)), self.plus(self.done, write))),
                *(logic.implied(stays, truth) for truth in self.state(1, self.steps, self.done)),
                logic.implied(logic.binary("or", goes_on, stays), port("busy", 1)),
                self.equal(end, logic.binary("and", write, logic.compared(
                    "eq", self.done, self.chunks))),
                *(truth for lane in range(self.lanes) for truth in self._lane(lane))]
        first = all_of(logic, claims, self.given(), seconds)
        if not first.proved:
            return first
        second = all_of(logic, then, (*self.given(), *inside, busy), seconds - first.seconds)
        return replace(second, seconds=first.seconds + second.seconds)

    def _lane(self, lane: int) -> Iterator[Term]:
        """Truths: a lane of a chunk is written where the run is, with the byte that it has."""
        logic, run = self.logic, self.run
        whole = self.plus(logic.binary("shl", self.plus(self.done), self.number(self.n)),
                          self.number(lane))            # from the begin of the first chunk
        begin = self.offset(run["target"])
        inside = logic.every((
            self.step("write"), logic.compared("ule", begin, whole),
            logic.compared("ule", whole, self.plus(begin, run["run"]))))
        mask = logic.bits(self.step("mask"), lane, 1)
        yield self.equal(mask, inside)
        if not self.n:
            return
        moves = logic.binary("and", mask, logic.inverted(run["fill"]))
        byte = self.plus(self.offset(run["source"]), self.less(whole, begin))
        # The lane in the beats before the rotation.
        before = logic.bits(self.less(self.number(lane), self.step("rotate")), 0, self.n)
        late = logic.bits(logic.binary("shr", self.step("late"), logic.widened(
            before, self.lanes, False) if self.lanes > self.n else logic.bits(
                before, 0, self.lanes)), 0, 1)
        beat = self.less(self.step("beat"), late)
        yield logic.implied(moves, self.equal(before, self.offset(byte)))
        yield logic.implied(moves, self.equal(logic.bits(
            beat, 0, logic.width(self.step("beat"))), self.plus(
                self.place(run["source"]), self.place(byte))))


def _unpacked(unpack: Unpack, seconds: float) -> Answer:
    """Every byte of the port, a cycle later, for each number of bits."""
    logic = Logic()
    hardware = Unrolled(logic, unpack)
    data, given, claims = hardware.input("data", 0), [], []
    address, mask = hardware.input("addr", 0), hardware.input("mask", 0)
    written, marks = hardware.output("write__data", 1), hardware.output("write__mask", 1)
    code = hardware.input("bits", 0)
    for bits in unpack.weight_bits:
        number = WEIGHT_BITS.index(bits)
        here = logic.compared("eq", code, logic.number(number, logic.width(code)))
        given.append(here)
        elements = logic.width(data) // bits
        parts = logic.width(written) // 8 // elements
        for place in range(logic.width(written) // 8):
            element, part = place % elements, place // elements
            inside = logic.bits(mask, element * bits // 8, 1)
            free = parts.bit_length() - 1
            if free:
                inside = logic.binary("and", inside, logic.compared("eq", logic.bits(
                    address, 0, free), logic.number(part, free)))
            mark = logic.bits(marks, place, 1)
            value = logic.widened(logic.bits(data, element * bits, bits), 8, True)
            claims += [logic.implied(here, logic.compared("eq", mark, inside)),
                       logic.implied(logic.binary("and", here, mark), logic.compared(
                           "eq", logic.bits(written, 8 * place, 8), value))]
    return all_of(logic, claims, [logic.some(given)], seconds)
