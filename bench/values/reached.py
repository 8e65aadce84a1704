"""Operators of the compiler that graphs which are drawn have: all but those with a reason."""

from collections.abc import Iterable

from bench.values.draw import Trial
from bench.values.ways import optimized
from compiler.ops.packed import (channel_blocks, integer_winograd, last_convolutions,
                                 quantized_blocks, winograd)
from compiler.ops.registry import FAMILIES

_LAYOUT = "a back end makes it of another operator, for the layout of its images or its weights"
_LAYOUTS = (channel_blocks, integer_winograd, last_convolutions, quantized_blocks, winograd)

NOT_MADE: dict[str, str] = {
    **{operator.name: _LAYOUT for family in _LAYOUTS for operator in family.OPERATORS},
    **dict.fromkeys(("block_columns", "cut_planes", "packed_matmul", "qavgpool_lanes",
                     "relayout"), _LAYOUT),
    **dict.fromkeys(("quantized_map", "quantized_terms", "qterms"),
                    "the quantizer writes it for an instruction of a machine, as an operator that "
                    "ONNX does not have"),
    **dict.fromkeys(("numbers_in_bytes", "qgather", "qorder"),
                    "for machines that have an instruction of such rows"),
    "fake_quantize": "in training alone",
    **dict.fromkeys(("fconv2d", "fdense"), "for machines that multiply floats of few bits"),
    **dict.fromkeys(("encodefloat", "decodefloat"), "quantizations to floats of 8 bits are not "
                    "drawn; tests try all of their codes"),
    "bitcast": "inputs and outputs of types of 2 and 4 bits and of floats of 8 are not drawn; "
               "tests try all of their codes",
}
"""Operators that no front end makes of an ONNX file, or not of one that is drawn, and why."""


def wanted() -> list[str]:
    """Operators that graphs should have, in the registry's order."""
    return [operator.name for family in FAMILIES for operator in family.OPERATORS
            if operator.name not in NOT_MADE]


def in_graphs(trials: Iterable[Trial]) -> set[str]:
    """The operators of optimized graphs."""
    return {node.op for trial in trials
            for node in optimized(trial.model.SerializeToString(), True).nodes}
