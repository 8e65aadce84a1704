"""Faults in the source of hardware, for tests that proofs find them."""

import importlib
import inspect
import types
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A piece of a module's source, and what stands there instead."""

    module: str
    right: str
    wrong: str

    def module_with_it(self) -> types.ModuleType:
        whole = importlib.import_module(self.module)
        text = inspect.getsource(whole)
        assert text.count(self.right) == 1, self.right
        made = types.ModuleType(self.module)
        made.__package__ = whole.__package__
        exec(compile(text.replace(self.right, self.wrong), whole.__file__ or "", "exec"),
             made.__dict__)
        return made


DATAPATH, UPDATE, HAZARDS = (f"accel.hw.compute.{name}" for name in (
    "datapath", "update", "hazards"))
OPERANDS = "accel.hw.vector.operands"
QUEUE, TOKENS, ARBITER, DMA, UNPACK = (f"accel.hw.{name}" for name in (
    "queue", "core.tokens", "moving.arbiter", "moving.dma", "moving.unpack"))

BODIES = [
    ("requantize", "most = Cat((~sign).replicate(bits - 1), sign)",
     "most = Cat(sign.replicate(bits - 1), sign)"),
    ("requantize", "rest = Cat(y[:amount + 1].any(), y[amount + 1:])",
     "rest = Cat(y[:amount].any(), y[amount + 1:])"),
    ("requantize", "(y >> 2) + (guard & (sticky | odd))", "(y >> 2) + guard"),
    ("sub", 'case "sub", (a, b): return a - b', 'case "sub", (a, b): return b - a'),
    ("max", "return (a - b)[-1]", "return (a - b)[-2]"),
    ("gemm", '{"sum": a + b,', '{"sum": a | b,'),
    ("add_scaled", "before = (self.selected(bodies, stage - 1, 0) if stage else",
     "before = (self.selected(bodies, stage - 1, 0) if stage > 1 else"),
    ("copy", "value = emission.at(self.plan.value, index, 0, self.plan.latency)",
     "value = emission.at(self.plan.value, index, 0, self.plan.latency + 1)"),
    ("shr", "test = n[low + position]", "test = n[low]"),
    ("lookup", "self.argument(operation, k, index, term, before=1) for k in range(2))\n"
     "        port, number", "self.argument(operation, k, index, term, before=0) for k in range(2)"
     ")\n        port, number"),
]
