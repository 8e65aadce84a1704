"""The records of operators of networks: one says all that the compiler knows of it.

The tensor expression gives the code, and the type of the result unless a rule with better refusals
stands beside it. The meaning in NumPy folds constants and judges the code. The other fields are
what fusion, clean-up, layout and quantization ask: none of them has a list of operators.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np

from compiler.ops.records.blocks import BlockForm
from compiler.ops.records.channels_last import ChannelsLast
from compiler.ops.records.integer_forms import IntegerForm
from compiler.ops.records.node import TensorType
from compiler.ops.records.rules import TypeRule, Types
from compiler.ops.records.weights import Weights
from compiler.te import Tensor

Array = np.ndarray
Attributes = Mapping
Inputs = Sequence[Tensor]
Define = Callable[[Attributes, Inputs, str], Tensor]
Meaning = Callable[..., Array]
Shapes = Sequence[tuple[int, ...] | None]


class Kind(IntEnum):
    """The kind of an operator for fusion, in the order of what may be done with it: a smaller one
    may stand where a greater may.

    | kind | element of the result | operators |
    |---|---|---|
    | elementwise | from the elements at its own place; one of the injective ones | relu, add |
    | injective | from few elements, by a formula | reshape, concat |
    | reduction | from all elements along some axes, each read once | globalavgpool |
    | complex | from many elements, each read many times; its result may be mapped | maxpool |
    | opaque | not said | gather |

    After T. Chen et al.: TVM, OSDI 2018, section 3.
    """

    ELEMENTWISE = 0
    INJECTIVE = 1
    REDUCTION = 2
    COMPLEX = 3
    OPAQUE = 4


class Numbers(Enum):
    """The numbers that an operator computes with."""

    ANY = "every element type that makes sense"
    FLOAT = "ONNX's meaning, on logical NCHW shapes"
    INTEGER = "int8 in stored form (uint8 is stored as x - 128), as docs/machine.md has it"
    CONVERSION = "between float or uint8 and int8 in stored form"


@dataclass(frozen=True, slots=True)
class Convolved:
    """Names of operators that convolve images with channels last.

    every : sums over all channels.
    apart : each channel by itself.
    direct : sums over all channels, of images that are read where they lie.
    """

    every: str
    apart: str
    direct: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Algebra:
    """The laws that hold for every element to the bit.

    unchanged : whether the result is the first input, from attributes and the types of inputs and
        result.
    neutral : the number that, as the second operand, changes nothing; -1 stands for all bits.
    commutes : the first operand may be `neutral` as well.
    idempotent : ``f(f(x)) = f(x)``; of two operands ``f(x, x) = x`` and
        ``f(f(x, a), a) = f(x, a)``; of a condition and two operands ``f(c, x, x) = x``.
    inverse : the operator that undoes this one.
    absorbs : an operator whose result may be replaced by its input, where this one reads it.
    never_minus_zero : the result is never -0.
    """

    unchanged: Callable[[Attributes, Types, TensorType], bool] | None = None
    neutral: int | None = None
    commutes: bool = False
    idempotent: bool = False
    inverse: str = ""
    absorbs: str = ""
    never_minus_zero: bool = False


class Range(NamedTuple):
    """Every element of a constant must be `wanted`; `fits` says which are."""

    role: str
    array: Array
    fits: Array
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """One operator of networks.

    What it is:

    name, summary, inputs, attributes : as docs/operators.md has them.
    define : ``define(attrs, inputs, name)`` is the result as a tensor called `name`; it refuses
        with ValueError or TypeError what does not fit. What it computes on the way is called
        `name` and a suffix.
    meaning : ``meaning(attrs, *arrays)`` is the same in NumPy, of the same type, for tensors
        without elements too. Integer operators and float quantization agree to the bit, sums of
        floats up to the order of addition.
    type : the type of the result, or TypeRefused; where there is none, `define` says it.
    numbers : what it computes with.

    What the graph's passes ask:

    kind : what it may be fused with.
    data_inputs : inputs that are data, the first ones; those that follow are parameters. None: all.
    parameters : the ranges of the parameters, which must then be constants.
    reads_small : it takes inputs of `compiler.te.SMALL`.
    by_rows : each row of the result, along the last axis, comes from that row of the first input.
    channels_last : how it computes the same with channels last; elementwise operators do unless
        told otherwise.
    blocks : how it computes the same on images in blocks of channels.
    algebra : what clean-up may take for granted.
    joins : each element of each input is read once, though the result is larger than any of them.
    view : whether the result is the input's elements as they lie there, from one to another: from
        attributes and the shapes of input and result.
    pixelwise : whether it does the same to every pixel, from attributes and the shapes of inputs
        (None where one is computed by the same kernel).
    contracts : it sums products of floats, and may round them once less.
    halves : its first two inputs are factors, which may be float16 or bfloat16 instead of float32:
        products are summed in float32 all the same.
    scales : it is a product of its first input and a weight, the first input behind its data; then
        come a bias, a multiplier and a shift of each channel, or a bias and an integer
        (`compiler.graph.lowering.scales_as_integers`).
    weights : how its second input is read where that is a constant: a factor for each channel goes
        into it.
    convolved : where it convolves images: the operators that do so with channels last.

    What quantization asks:

    integer : the integer operator that takes its place between quantizations.
    sums : the integer operator that gives its sums in planes, where nothing quantizes these.
    floats : the operator that multiplies floats of few bits, and stores such.
    hindrance : why that operator cannot have these attributes, or data of these shapes.
    constants : why a constant of a shape cannot have a scale of its own and stand in the place of
        data; where there is no such rule, none can.
    pads : the number that the pads of its windows hold, from attributes, where it is an integer.
    stored : the operator that does the same to int8 in stored form, where it has another name.
    bounds : least and greatest of what it leaves of all numbers; the integer operator before
        clamps to them.
    picks : its elements are those of its one input, chosen by place or by order: dequantization
        may follow instead of leading.
    places : the operator that gives, of int8 in stored form, the bytes of the places that this one
        gives, where ``last`` is 0: they follow from the order of the elements alone.
    fills : the same of its first input and of the number that its second one is, if it has one.
    homogeneous : ``f(s x) = s f(x)`` for every positive factor s of a channel.
    slope : the number s, 0 to 1, for which the result is the greater of x and s x; None where there
        is none. The integer operator before may compute both.
    below : whether an integer operator may have a multiplier and a shift of its own for what is
        below zero, its last two inputs: its result is then the greater of two.
    """

    name: str
    summary: str
    inputs: str
    attributes: str = ""
    define: Define
    meaning: Meaning
    type: TypeRule | None = None
    numbers: Numbers = Numbers.ANY

    kind: Kind = Kind.OPAQUE
    data_inputs: int | None = None
    parameters: Callable[[Sequence[Array]], Sequence[Range]] | None = None
    reads_small: bool = False
    by_rows: bool = False
    channels_last: ChannelsLast | None = None
    blocks: BlockForm | None = None
    algebra: Algebra = Algebra()
    joins: bool = False
    view: Callable[[Attributes, tuple[int, ...], tuple[int, ...]], bool] | None = None
    pixelwise: Callable[[Attributes, Shapes], bool] | None = None
    contracts: bool = False
    halves: bool = False
    scales: bool = False
    weights: Weights | None = None
    convolved: "Convolved | None" = None

    integer: IntegerForm | None = None
    sums: str = ""
    floats: str = ""
    hindrance: Callable[[Attributes, Sequence[tuple[int, ...]]], str | None] | None = None
    constants: Callable[[tuple[int, ...]], str | None] | None = None
    pads: Callable[[Attributes], int] | None = None
    stored: str = ""
    bounds: Callable[[Attributes], tuple[float, float]] | None = None
    picks: bool = False
    places: str = ""
    fills: bool = False
    homogeneous: bool = False
    slope: Callable[[Attributes], float | None] | None = None
    below: bool = False
