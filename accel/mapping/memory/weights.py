"""Packs constant weights as declared products of gemm take them, found in their bodies.

A body that sums products of an element of inp and an element of wgt has *slots*: slot j of output o
multiplies the weight at a fixed place of the entry with one input, which is fixed as well, or which
bits of another place of the entry choose. `Slots.pack` puts a layer's weights into slots, whatever
the pattern is; weights for which an entry has no slot left go into another pass over the same
inputs, and so does what weights have beyond the type that gemm takes. NumPy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.operators.blocked import Blocks, Product
from compiler.ir.arithmetic import apply_expr
from compiler.ops.records.weights import terms_of
from compiler.te import Binary, Cast, Expr, Read, Reduce, Var, numpy_dtype, walk
from compiler.tensorize import Intrinsic

CODES = 256
"""Values of a place that chooses an input."""

MOST_TERMS = 3
"""Terms of a sum of weights: those of 16 bits would take hundreds of products of int8."""


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of a product, [outputs, terms] each.

    entry : the shape of weights in an entry.
    values : where the weight of a slot lies, counted in elements of the entry.
    chooses : where the bits lie that choose its input.
    codes : [outputs, terms, inputs], these bits for each input; -1 where it cannot be chosen.
    """

    entry: tuple[int, ...]
    values: np.ndarray
    chooses: np.ndarray
    codes: np.ndarray

    @property
    def dense(self) -> bool:
        """True if the entry is a matrix [outputs, inputs], as the shipped product takes it."""
        outputs, terms, inputs = self.codes.shape
        return (self.entry == (outputs, inputs) and terms == inputs
                and np.array_equal(self.values.reshape(-1), np.arange(outputs * inputs))
                and np.array_equal(self.codes == 0, np.broadcast_to(np.eye(inputs, dtype=bool),
                                                                    self.codes.shape))
                and not (self.codes > 0).any())

    def pack(self, weights: np.ndarray) -> np.ndarray | None:
        """int8 [..., outputs, inputs] as [..., passes, *entry]; None where an input has no slot.

        Each input takes the first free slot that reaches it.
        """
        outputs, terms, inputs = self.codes.shape
        left, passes = weights.reshape(-1, outputs, inputs).copy(), list[np.ndarray]()
        while not passes or left.any():
            entries = np.zeros((len(left), prod(self.entry)), np.uint8)
            taken = np.zeros((len(left), outputs, terms), bool)
            for i, j in self._reached():
                place, output = np.nonzero((left[:, :, i] != 0) & ~taken[:, :, j]
                                           & (self.codes[:, j, i] >= 0))
                entries[place, self.values[output, j]] = left[place, output, i].view(np.uint8)
                entries[place, self.chooses[output, j]] |= self.codes[output, j, i].astype(np.uint8)
                taken[place, output, j], left[place, output, i] = True, 0
            if not taken.any() and passes:
                return None
            passes.append(entries.view(np.int8))
        packed = np.stack(passes, axis=1)
        return packed.reshape(*weights.shape[:-2], len(passes), *self.entry)

    def _reached(self) -> list[tuple[int, int]]:
        """The inputs, each with the slots of some output that reach it, in order."""
        return [(i, j) for i, j in np.argwhere((self.codes >= 0).any(axis=0).T).tolist()]


@cache
def products_of(machine: Machine) -> tuple[Product | None, ...]:
    """The products of a machine that take constant weights, in order of opcodes; None is the one
    that takes a matrix as it is, which computed matrices need. A machine whose products are of
    another kind has None: instructions are matched all the same."""
    found = [(body, slots_of(body)) for body in machine.of_unit("gemm")]
    forms = dict.fromkeys(None if slots.dense else Product(body) for body, slots in found
                          if slots is not None)
    return tuple(forms) or (None,)


@cache
def multipliers_of(machine: Machine) -> tuple[Intrinsic, ...]:
    """The instructions of vector that add the product of an int8 element of res and of a number of
    eight bits in a record to acc: tried with all of both."""
    return tuple(body for body in machine.of_unit("vector") if _multiplies(body))


def _multiplies(body: Intrinsic) -> bool:
    names = {operand.name: operand for operand in body.operands}
    if (body.update != "sum" or body.immediates or body.reduce_axes or set(names) != {"a", "b"}
            or dict(names["a"].storage).get("res") != "int8" or "par" not in names["b"].scopes):
        return False
    reads = {node for node in walk(body.value) if isinstance(node, Read)}
    whole = tuple(axis.var for axis in body.axes)
    if any(node.indices != whole for node in reads) or set(whole) & (
            set(walk(body.value)) - {index for node in reads for index in node.indices}):
        return False
    every = np.arange(-128, 128).astype(numpy_dtype(names["a"].dtype))
    a, b = every.reshape(-1, 1), every.reshape(1, -1)
    known = {node: {"a": a, "b": b}[node.buffer.name] for node in reads}
    try:
        return bool((apply_expr(body.value, known) == a * b).all())
    except AssertionError:          # an expression that is no arithmetic
        return False


def in_entries(weights: np.ndarray, blocks: Blocks) -> tuple[np.ndarray, Blocks]:
    """Packed weights [..., block_out, block_in] as the product of `blocks` takes them, and blocks
    that know in how many passes. Refuses weights that have no slot."""
    terms = terms_of(weights, blocks.weight, MOST_TERMS)
    if terms is None:
        raise LoweringError(f"its weights must be sums of {MOST_TERMS} {blocks.weight}, not reach "
                            f"{weights.min()} and {weights.max()}")
    if blocks.product is None:
        entries, matrix = [term[..., None, :, :] for term in terms], terms[0].shape[-2:]
    else:
        entries, matrix = _in_slots(terms, blocks.product), blocks.product.entry
    packed = np.concatenate(entries, axis=weights.ndim - 2)
    passes = packed.shape[weights.ndim - 2]
    if passes == 1:
        packed = packed.reshape(*weights.shape[:-2], *matrix)
    return packed, replace(blocks, passes=passes)


def _in_slots(terms: Sequence[np.ndarray], product: Product) -> list[np.ndarray]:
    """Terms of weights in the slots of a product, [..., passes, *entry]."""
    slots = slots_of(product.body)
    packed = [None if slots is None else slots.pack(term) for term in terms]
    found = [entries for entries in packed if entries is not None]
    if len(found) < len(packed):
        raise LoweringError(f"{product.body.name} has no place for some of its weights")
    return found


@cache
def slots_of(body: Intrinsic) -> Slots | None:
    """The slots of a product; None where it is none, or where slots share what they need."""
    match body.value:
        case Reduce("sum", Binary("mul", Cast(Read() as x), Cast(Read() as w)),
                    ((Var(), _),)) if body.update == "sum" and len(body.operands) == 2:
            pass
        case _:
            return None
    inp, wgt = body.operands
    if {x.dtype, w.dtype} != {"int8"}:
        return None
    if x.buffer.name != inp.name:
        x, w = w, x
    if (x.buffer.name, w.buffer.name) != (inp.name, wgt.name) or len(x.indices) != 2:
        return None
    row, column = (axis.var for axis in body.axes)
    read = {node for node in walk(x.indices[1]) if isinstance(node, Read)}
    if (x.indices[0] != row or row in {*walk(w), *walk(x.indices[1])} or len(read) > 1
            or any(isinstance(node, Read) for index in w.indices for node in walk(index))):
        return None
    (term, terms), = body.reduce_axes
    outputs = body.axes[1].extent
    lanes: dict[Expr, np.ndarray] = {column: np.arange(outputs).reshape(-1, 1, 1),
                                     term: np.arange(terms).reshape(1, -1, 1)}
    return _slots(x, w, next(iter(read), None), lanes, (outputs, terms), inp.shape[1])


def _slots(x: Read, w: Read, chooser: Read | None, lanes: dict[Expr, np.ndarray],
           shape: tuple[int, int], inputs: int) -> Slots | None:
    """The slots of ``x * w``, where `chooser` is read in the index of x."""
    values = _places(w, lanes, shape)
    chooses, known = values, dict(lanes)
    if chooser is not None:
        if chooser.dtype != "int8" or any(isinstance(n, Read) for i in chooser.indices
                                          for n in walk(i)):
            return None
        chooses = _places(chooser, lanes, shape)
        known[chooser] = np.arange(CODES).astype(np.uint8).view(np.int8).reshape(1, 1, -1)
    index = np.broadcast_to(apply_expr(x.indices[1], known),
                            (*shape, CODES if chooser is not None else 1))
    if index.min() < 0 or index.max() >= inputs:
        return None
    mask = _deciding(index)
    if not _apart(values, chooses, mask):
        return None
    codes = np.full((*shape, inputs), -1)
    for code in reversed(range(index.shape[-1])):
        output, slot = np.nonzero((code & ~mask) == 0)
        codes[output, slot, index[output, slot, code]] = code
    return Slots(w.buffer.shape, values, chooses, codes)


def _places(read: Read, lanes: dict[Expr, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The places that a slot reads, counted in elements of the operand."""
    at = [np.broadcast_to(apply_expr(index, lanes), (*shape, 1))[..., 0]
          for index in read.indices]
    return np.ravel_multi_index(at, read.buffer.shape)


def _deciding(index: np.ndarray) -> np.ndarray:
    """The bits of its place that decide the input of a slot."""
    mask, codes = np.zeros(index.shape[:2], int), np.arange(index.shape[-1])
    for bit in range((index.shape[-1] - 1).bit_length()):
        mask |= (index != index[..., codes ^ 1 << bit]).any(axis=-1) * (1 << bit)
    return mask


def _apart(values: np.ndarray, chooses: np.ndarray, mask: np.ndarray) -> bool:
    """True if no two slots share a weight, nor bits."""
    bits = (chooses[..., None] * 8 + np.arange(8))[(mask[..., None] >> np.arange(8) & 1) == 1]
    return (len(np.unique(values)) == values.size and len(np.unique(bits)) == bits.size
            and not np.isin(bits // 8, values).any())
