"""The rules of declarations: hardware and simulators compute all that they allow as it is declared.

Each rule is a function that says, in a sentence for each place, what is wrong with an instruction:
the operand or field, the rule, the reason. `RULES` is all of them; to lift a rule is to take it
out of the list. What only intervals of values tell (amounts of shifts, places of tables) is refused
where the datapath is planned (`accel.datapath.lowering`, `accel.datapath.plan`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from accel.machine import isa
from accel.machine.config import (ADDER_TREE, ELEMENTS, OUTPUT_STATIONARY, PARAM_BYTES,
                                  AccelConfig, ConfigError, element_bytes, one_of)
from accel.machine.immediates import NoRoom, whole_range
from accel.machine.declare import (TABLE, Declaration, InstructionForm, immediate_fields, kinds_of,
                                   known_immediates, unfit, unit_of)
from accel.machine.intrinsics import SHIPPED
from accel.machine.streams import ROWS, StreamForm, misfits
from accel.machine.structure import IMMEDIATE, Structure, UnitKind
from compiler.ops.integers.arithmetic import PARAM
from compiler.ops.patterns import Pattern
from compiler.te import (Binary, Cast, Const, Expr, Read, Reduce, Var, bits, is_float, is_integer,
                         is_record, is_signed, numpy_dtype, record_fields, substitute, walk)
from compiler.tensorize import Immediate, Intrinsic, Operand
from compiler.tensorize.cover import Uncovered, cover, leaf

TAKEN = frozenset({"dst", "a", "b", TABLE.name, *record_fields(PARAM), *immediate_fields("int8")})
"""Names that fields of records of one's own must not have."""

RESERVED_FIELDS = frozenset({"c", *(name for layout in isa.FORMATS.values() for name, _ in layout)})
"""Names that immediates of one's own must not have."""

RESERVED = {"finish": "fetch performs FINISH", "illegal": "unknown opcodes are called so"}
"""Names that instructions must not have, and why."""


_ELEMENT = "the elements of a systolic array have a multiplier and an adder, nothing else"


class DeclarationError(ConfigError):
    """Instructions that cannot be computed as they are declared: names the place and the rule."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The properties of an operand: its extents, the type that bodies read or write, and the type
    in which each buffer holds it."""

    shape: tuple[int, ...]
    dtype: str
    storage: Mapping[str, str]


Forms = tuple[InstructionForm, ...]
Rule = Callable[[AccelConfig, Declaration, Forms], Iterator[str]]


@lru_cache(64)
def checked(config: AccelConfig, declarations: tuple[Declaration, ...]
            ) -> tuple[AccelConfig, Mapping[str, Forms]]:
    """The geometry with the types that instructions declare, and each instruction's intrinsics by
    name, in order of opcodes; raise `DeclarationError` for what cannot be computed as declared.
    """
    config = typed(config, declarations)
    forms = {declaration.name: built(config, declaration) for declaration in declarations}
    require(config, declarations, forms)
    return config, forms


def typed(config: AccelConfig, declarations: Sequence[Declaration]) -> AccelConfig:
    """The geometry with the types of elements and the records that gemm and vector declare; where
    they disagree, that of the first, so that `require` refuses the others."""
    types: dict[str, str] = {}
    records: dict[str, None] = {}
    for declaration in declarations:
        if unit_of(config.structure, declaration.unit).kind in (UnitKind.GEMM, UnitKind.VECTOR):
            for form in built(config, declaration)[:1]:
                for operand in (form.dst, *form.operands):
                    for scope, dtype in operand.storage:
                        field = config.types.get(scope)
                        if field is not None and dtype in ELEMENTS[field]:
                            types.setdefault(field, dtype)
                        record = dtype.partition(".")[0]
                        if (config.elements.get(scope) == PARAM and is_record(record)
                                and record != PARAM):
                            records.setdefault(record)
    return replace(config, **types, records=tuple(records))


def require(config: AccelConfig, declarations: Sequence[Declaration],
            forms: Mapping[str, Forms]) -> None:
    """Raise `DeclarationError` with the first sentence that a rule yields."""
    for declaration in declarations:
        streams = unit_of(config.structure, declaration.unit).kind is UnitKind.STREAM
        for rule in STREAM_RULES if streams else RULES:
            for sentence in rule(config, declaration, forms[declaration.name]):
                raise DeclarationError(sentence)
    executed = {unit_of(config.structure, one.unit).name for one in declarations}
    _require_one_meaning({one.name: (one.unit, forms[one.name][0]) for one in declarations})
    _require_one_place(config)
    for unit in config.structure.names:
        if unit not in executed:
            raise DeclarationError(f"Machine must have an instruction of {unit}: there is no unit "
                                   f"that does nothing")


def _require_one_meaning(bodies: Mapping[str, tuple[str, InstructionForm]]) -> None:
    """Raise `DeclarationError` for an immediate that is another one in an instruction before; of
    each instruction its unit and its first form are given."""
    known: dict[tuple[str, str], tuple[str, Immediate]] = {}
    for name, (unit, body) in bodies.items():
        for imm in () if UnitKind(body.unit).moves else body.immediates:
            other, first = known.setdefault((unit, imm.name), (name, imm))
            if imm != first:
                raise DeclarationError(
                    f"Immediate {imm.name} of {name} must be {first.dtype} from {first.low} to "
                    f"{first.high}, as that of {other} is, not {imm.dtype} from {imm.low} to "
                    f"{imm.high}")


def _require_one_place(config: AccelConfig) -> None:
    """Raise `DeclarationError` for fields of one name in two records of one's own."""
    known: dict[str, str] = {}
    for record in config.records:
        for field in record_fields(record):
            if known.setdefault(field, record) != record:
                raise DeclarationError(f"Field {field} of record {record} must have another name: "
                                       f"{known[field]} has one that is called so")


def require_room(placed: Callable[[], object]) -> None:
    """Raise `DeclarationError` where immediates of one's own find no place in their words."""
    try:
        placed()
    except NoRoom as error:
        raise DeclarationError(
            f"Immediate {error.name} of {error.body} must fit its word: it takes {error.wanted} "
            f"bits, and {error.free} in a row are free in words that have it") from None


def require_names(structure: Structure, declarations: Sequence[Declaration]) -> None:
    """Raise `DeclarationError` for names and units, which are known before anything is built."""
    if not isinstance(declarations, tuple | list):
        raise DeclarationError(f"Instructions of a machine must be a tuple of declarations, "
                               f"not {type(declarations).__name__}")
    for declaration in declarations:
        if not isinstance(declaration, Declaration):
            raise DeclarationError(f"Instructions of a machine must be declarations, "
                                   f"not {declaration!r}")
    names = [declaration.name for declaration in declarations]
    for declaration in declarations:
        name, unit = declaration.name, declaration.unit
        if not isinstance(name, str) or not name.isidentifier():
            raise DeclarationError(f"Name of an instruction must be an identifier, not {name!r}")
        if name in RESERVED:
            raise DeclarationError(f"Instruction {name} must have another name: {RESERVED[name]}")
        if names.count(name) > 1:
            raise DeclarationError(f"Instruction {name} must be declared once")
        if not isinstance(unit, str) or structure.meant(unit) not in structure.names:
            raise DeclarationError(f"Unit of {name} must be one of {', '.join(structure.names)}, "
                                   f"not {unit!r}")
    if len(names) > 254:
        raise DeclarationError(f"Declarations must be at most 254 (8-bit opcodes), "
                               f"not {len(names)}")


def built(config: AccelConfig, declaration: Declaration) -> Forms:
    """Build the forms of a declaration; raise `DeclarationError` for what is no intrinsic."""
    forms = declaration.build(config)
    if not isinstance(forms, tuple | list):
        raise DeclarationError(f"Forms of {declaration.name} must be a tuple of intrinsics, "
                               f"not {type(forms).__name__}")
    for form in forms:
        if not isinstance(form, Intrinsic | StreamForm):
            raise DeclarationError(f"Forms of {declaration.name} must be intrinsics, not {form!r}")
    return tuple(forms)


# ---- rules -------------------------------------------------------------------------------------

def _kind(config: AccelConfig, declaration: Declaration) -> UnitKind:
    return unit_of(config.structure, declaration.unit).kind


def _forms_are_of_their_declaration(config, declaration, forms) -> Iterator[str]:
    kind = _kind(config, declaration).value
    for form in forms:
        for field, here in (("name", declaration.name), ("unit", kind)):
            there = getattr(form, field)
            if here != there:
                yield f"Forms of {declaration.name} must have its {field} {here}, not {there}"


def _bytes_are_moved_as_they_are(config, declaration, forms) -> Iterator[str]:
    kind = _kind(config, declaration)
    if kind.moves:
        shipped = next(instruction for instruction in SHIPPED if instruction.unit == kind)
        wanted = [repr(replace(form, name=declaration.name)) for form in shipped.build(config)]
        if [repr(form) for form in forms] != wanted:
            yield (f"Forms of {declaration.name} must be those of the shipped {kind}: "
                   f"the unit moves bytes as they are")


def _an_opcode_has_one_body(config, declaration, forms) -> Iterator[str]:
    if not _kind(config, declaration).moves and len(forms) != 1:
        yield (f"Instruction {declaration.name} must have one form, not {len(forms)}: an opcode of "
               f"{declaration.unit} has one body")


def _loops_are_in_the_word(config, declaration, forms) -> Iterator[str]:
    most = len(isa.decode(isa.LAYOUTS[_kind(config, declaration)], 0)["loops"])
    for form in forms:
        if form.loops not in range(most + 1):
            yield (f"Loops of {declaration.name} must be 0 to {most}, which its word has, "
                   f"not {form.loops!r}")


def _machines_have_no_features(config, declaration, forms) -> Iterator[str]:
    for form in forms:
        if form.needs:
            yield (f"Needs of {declaration.name} must be empty, not {', '.join(form.needs)}: a "
                   f"machine has what is declared for it")


def _names_differ(config, declaration, forms) -> Iterator[str]:
    for form in forms:
        names = [form.dst.name, *(operand.name for operand in (*form.operands, *form.immediates))]
        if form.dst.name != "dst":
            yield f"Destination of {declaration.name} must be named dst, not {form.dst.name}"
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield f"Operand {name} of {declaration.name} must be declared once"


def _immediates_are_fields(config, declaration, forms) -> Iterator[str]:
    name, kind = declaration.name, _kind(config, declaration)
    if kind.moves:
        return
    known, taken = known_immediates(kind, config.output), RESERVED_FIELDS
    if kind is UnitKind.STREAM:
        taken = frozenset({ROWS, TABLE.name, *(field for field, _ in isa.STREAM)})
    for imm in forms[0].immediates:
        field = known.get(imm.name)
        if field is None:
            yield from _not_a_field(imm, f"Immediate {imm.name} of {name}", taken)
        elif field != imm:
            yield (f"Immediate {imm.name} of {name} must be {field.dtype} from {field.low} to "
                   f"{field.high}, as its field is, not {imm.dtype} from {imm.low} to {imm.high}")


def _not_a_field(imm: Immediate, described: str, taken: Collection[str]) -> Iterator[str]:
    """The reason why an immediate of one's own cannot be a field of its word."""
    if not isinstance(imm.name, str) or not imm.name.isidentifier():
        yield f"{described} must have an identifier for a name"
    elif imm.name in taken:
        yield f"{described} must have another name, as words have a field {imm.name}"
    if not is_integer(imm.dtype) or bits(imm.dtype) > 32:
        yield f"{described} must be an integer of at most 32 bits, not {imm.dtype}"
        return
    if not all(isinstance(end, int) for end in (imm.low, imm.high)) or imm.low > imm.high:
        yield f"{described} must be from one integer to another, not from {imm.low} to {imm.high}"
        return
    low, high = whole_range(imm)
    least = -(1 << bits(imm.dtype) - 1) if is_signed(imm.dtype) else 0
    if (imm.low, imm.high) != (low, high):
        yield (f"{described} must be from {low} to {high}, all numbers of its field, not from "
               f"{imm.low} to {imm.high}")
    elif low < least or high >= least + (1 << bits(imm.dtype)):
        yield f"{described} must be of a type that holds {low} to {high}, not of {imm.dtype}"


def _operands_are_entries(config, declaration, forms) -> Iterator[str]:
    if _kind(config, declaration).moves:
        return
    body, places = forms[0], _places(config, declaration, forms[0])
    if body.unit == UnitKind.GEMM and len(body.operands) not in (1, 2):
        yield (f"Operands of {body.name} must be one or two, not {len(body.operands)}: gemm reads "
               f"inp, then wgt")
    for operand in (body.dst, *body.operands):
        if operand.name not in places:
            known = ", ".join(name for name in places if name != "dst")
            yield (f"Operand {operand.name} of {body.name} must be one of {known}: vector reads no "
                   f"other")
        else:
            yield from _misplaced(config, body, operand, places[operand.name])


def _misplaced(config: AccelConfig, body: Intrinsic, operand: Operand,
               place: _Place) -> Iterator[str]:
    described = f"{operand.name} of {body.name}"
    for scope, dtype in operand.storage:
        if scope not in place.storage:
            yield f"Operand {described} must live in {' or '.join(place.storage)}, not in {scope}"
        elif scope in config.types and dtype not in ELEMENTS[config.types[scope]]:
            yield (f"Operand {described} must be stored in {scope} as "
                   f"{one_of(ELEMENTS[config.types[scope]])}, not as {dtype}")
        elif dtype != place.storage[scope]:
            yield (f"Operand {described} must be stored in {scope} as {place.storage[scope]}, "
                   f"as the buffer is, not as {dtype}")
    if len(set(operand.scopes)) < len(operand.scopes):
        yield f"Operand {described} must live in each buffer once"
    if operand.dtype != place.dtype:
        yield (f"Operand {described} must be {place.dtype}, as the unit computes, "
               f"not {operand.dtype}")
    if config.structure.roles.wgt in place.storage:
        if prod(operand.shape) > prod(place.shape):
            yield (f"Operand {described} must have at most the {prod(place.shape)} elements of an "
                   f"entry, not the {prod(operand.shape)} of {operand.shape}")
    elif operand.shape != place.shape:
        yield (f"Operand {described} must have the shape {place.shape} of an entry, "
               f"not {operand.shape}")
    if operand.window:
        yield f"Operand {described} must be a whole entry, not a window"


def _places(config: AccelConfig, declaration: Declaration,
            body: Intrinsic) -> dict[str, _Place]:
    """The operands that a gemm or vector instruction may have, by name."""
    unit = unit_of(config.structure, declaration.unit)
    tile, types, acc = (config.batch, config.block_out), config.elements, config.accumulator

    def stored(operand: str) -> dict[str, str]:
        return {buffer: types[buffer] for buffer in unit.at(operand)}

    if unit.kind is UnitKind.GEMM:
        inputs = (_Place(config.tiles[buffer][0], types[buffer], {buffer: types[buffer]})
                  for buffer in (*unit.at("a"), *unit.at("b")))
        return {"dst": _Place(tile, acc, stored("dst")),
                **{operand.name: place for operand, place in zip(body.operands, inputs)}}
    (par,) = unit.at("record")
    records = {name: _Place(tile[1:], dtype, {par: f"{PARAM}.{name}"})
               for name, dtype in record_fields(PARAM).items()}
    for operand in body.operands:       # of a record of one's own
        record, _, field = operand.storage[0][1].partition(".")
        if record in config.records and field == operand.name and field in record_fields(record):
            records[field] = _Place(tile[1:], record_fields(record)[field],
                                    {par: f"{record}.{field}"})
    numbers = {} if is_float(acc) else {par: f"{PARAM}.bias", IMMEDIATE: "int32"}
    return {"dst": _Place(tile, acc, stored("dst")),
            "a": _Place(tile, acc, stored("a")),
            "b": _Place(tile, acc, {**stored("a"), **numbers}),
            TABLE.name: _Place(TABLE.shape, TABLE.dtype if is_float(acc) else acc,
                               stored("table")), **records}


def _floats_are_rounded_before_out(config, declaration, forms) -> Iterator[str]:
    body, out = forms[0], config.output
    unit = unit_of(config.structure, declaration.unit)
    if unit.kind is not UnitKind.VECTOR or not is_float(out) or not {
            *unit.writes[1:]} & {*body.dst.scopes}:
        return
    match body.value:
        case Cast(Cast(_, rounded), _) if rounded == out: return
    yield (f"Value of {body.name} must be rounded to {out} to live in out, which keeps "
           f"{bits(out)} bits: value.astype('{out}')")


def _two_fields_address_two_operands(config, declaration, forms) -> Iterator[str]:
    if _kind(config, declaration) is not UnitKind.VECTOR:
        return
    (par,) = unit_of(config.structure, declaration.unit).at("record")
    scopes = {operand.name: operand.scopes for operand in forms[0].operands}
    kinds = kinds_of(scopes)
    if len(kinds) > 2:
        yield (f"Operands of {declaration.name} must be at most two of {', '.join(kinds)}: the "
               f"word has an address for a and two more")
    if len(kinds) == 2 and element_bytes(config.output) > 1:
        yield (f"Operands of {declaration.name} must be one of {', '.join(kinds)}, as out has "
               f"{config.output}: lo and hi take the bits of a third address")
    records = [name for name, here in scopes.items() if here == (par,) and name != "b"]
    if records and par in scopes.get("b", ()):
        yield (f"Operand b of {declaration.name} must not live in par beside {records[0]}: par "
               f"gives one record a cycle")


def _records_are_elements_of_par(config, declaration, forms) -> Iterator[str]:
    if _kind(config, declaration) is not UnitKind.VECTOR:
        return
    (par,) = unit_of(config.structure, declaration.unit).at("record")
    used = dict.fromkeys(stored.partition(".")[0] for operand in forms[0].operands
                         for scope, stored in operand.storage if scope == par)
    for record in used:
        if record not in (PARAM, *config.records):
            continue
        size = numpy_dtype(record).itemsize
        if size != PARAM_BYTES:
            yield (f"Record {record} of {declaration.name} must take {PARAM_BYTES} bytes, padded "
                   f"to a power of two, not {size}")
        for field, dtype in record_fields(record).items():
            wanted = "float32, or an integer" if is_float(config.accumulator) else "an integer"
            if (not is_integer(dtype) or bits(dtype) > 32) and (
                    dtype != "float32" or not is_float(config.accumulator)):
                yield (f"Field {field} of record {record} of {declaration.name} must be {wanted} "
                       f"of at most 32 bits, not {dtype}")
            if record != PARAM and field in TAKEN:
                yield (f"Field {field} of record {record} of {declaration.name} must have another "
                       f"name: operands or immediates are called so")


def _accumulating_takes_the_port_of_acc(config, declaration, forms) -> Iterator[str]:
    body, acc = forms[0], config.structure.roles.acc
    if _kind(config, declaration) is not UnitKind.VECTOR or not body.reads_destination:
        return
    for scope in body.dst.scopes:
        if scope != acc:
            yield (f"Destination of {body.name} must be acc, not {scope}: update {body.update} "
                   f"accumulates there")
    for operand in body.operands:
        if acc in operand.scopes:
            yield (f"Operand {operand.name} of {body.name} must not live in acc: update "
                   f"{body.update} takes its read port")


def _values_read_what_is_declared(config, declaration, forms) -> Iterator[str]:
    for body in forms:
        extents = {axis.var: axis.extent for axis in body.axes} | dict(body.reduce_axes)
        for node in walk(body.value):
            if isinstance(node, Read):
                yield from _misread(body, node, extents)


def _misread(body: Intrinsic, node: Read, extents: Mapping[Var, int]) -> Iterator[str]:
    operand = body.operand(node.buffer.name)
    if node.buffer.dtype != operand.dtype:
        yield (f"Value of {body.name} must read {operand.name} as {operand.dtype}, which it is "
               f"declared as, not as {node.buffer.dtype}")
    for index, extent in zip(node.indices, operand.shape):
        match index:
            case Const(value, dtype) if is_float(dtype):
                yield f"Index of {operand.name} in {body.name} must be an integer, not {value}"
            case Const(value, _) if not 0 <= value < extent:
                yield (f"Index of {operand.name} in {body.name} must lie in 0 ... {extent - 1}, "
                       f"not be {value}")
            case Var() if extents.get(index, extent) > extent:
                yield (f"Index {index.name} of {operand.name} in {body.name} must have an extent "
                       f"of at most {extent}, not {extents[index]}")
            case _ if not is_integer(index.dtype):
                yield (f"Index of {operand.name} in {body.name} must be an integer, not "
                       f"{index.dtype}")


def _vector_reduces_over_lanes(config, declaration, forms) -> Iterator[str]:
    body, name = forms[0], declaration.name
    if _kind(config, declaration) is not UnitKind.VECTOR or not body.reduce_axes:
        return
    extents = [extent for _, extent in body.reduce_axes]
    lane = body.axes[-1].var
    if extents != [config.block_out]:
        yield (f"Reduction of {name} must be over the {config.block_out} lanes of a row, not over "
               f"{' x '.join(map(str, extents))}: vector has no other values at hand")
    if lane in walk(body.value):
        yield (f"Value under the reduction of {name} must not read at {lane.name}: every lane gets "
               f"the same result")
    if config.vector_tile[1] < config.block_out:
        yield (f"vector_beats must be at most {config.batch} for {name}, not "
               f"{config.vector_beats}: a reduction takes all lanes of a row in one cycle")


def _bools_are_not_numbers(config, declaration, forms) -> Iterator[str]:
    logic = ("and", "or", "xor", "eq", "ne")
    for body in forms:
        for node in walk(body.value):
            if isinstance(node, Binary) and node.a.dtype == "bool" and node.op not in logic:
                yield (f"Operator {node.op} in {body.name} must not be on bool: cast it to an "
                       f"integer")


def _operators_fit_a_pipeline(config, declaration, forms) -> Iterator[str]:
    for body in forms:
        lanes = {axis.var for axis in body.axes} | {var for var, _ in body.reduce_axes}
        for operator, instead in unfit(body.value, lanes):
            yield f"{operator} in {body.name} must be {instead}"


def _arrays_sum_products(config, declaration, forms) -> Iterator[str]:
    if _kind(config, declaration) is UnitKind.GEMM:
        yield from _not_for_arrays(config, forms[0])


def _not_for_arrays(config: AccelConfig, body: Intrinsic) -> Iterator[str]:
    """Says what keeps a body of gemm from being computed by the array of the geometry's `dataflow`:
    it must be the sum of ``a[row, i] * b[column, i]`` of integers over block_in."""
    if config.dataflow == ADDER_TREE:
        return
    field = f"dataflow must be {ADDER_TREE} for {body.name}, not {config.dataflow!r}: "
    if not is_integer(body.dst.dtype):
        yield (f"{field}the order in which {body.dst.dtype} is summed up is part of its meaning, "
               f"and an array has another")
    elif body.immediates:
        yield f"{field}immediate {body.immediates[0].name} would travel with each product, and "\
              f"{_ELEMENT}"
    elif not _sums_products(config, body):
        yield (f"{field}it does not sum products of a row of each operand over block_in, and "
               f"{_ELEMENT}")
    elif config.dataflow == OUTPUT_STATIONARY and body.update not in ("assign", "sum"):
        yield f"{field}its update is {body.update}, and sums stay in place"


def _sums_products(config: AccelConfig, body: Intrinsic) -> bool:
    value, shapes = body.value, ((config.batch, config.block_in),
                                 (config.block_out, config.block_in))
    if not isinstance(value, Reduce) or value.op != "sum" or len(value.axes) != 1 or \
            not isinstance(value.value, Binary) or value.value.op != "mul" or \
            tuple(operand.shape for operand in body.operands) != shapes:
        return False
    (lane, extent), (row, column) = value.axes[0], (axis.var for axis in body.axes)
    places = {operand.name: (index, lane) for operand, index in
              zip(body.operands, (row, column), strict=True)}
    factors = [_factor(factor) for factor in (value.value.a, value.value.b)]
    return extent == config.block_in and {read.buffer.name: tuple(read.indices)
                                          for read in factors if read is not None} == places


def _factor(factor: Expr) -> Read | None:
    """The element that a factor is, whatever the type it is widened to."""
    inner = factor.value if isinstance(factor, Cast) else factor
    return inner if isinstance(inner, Read) else None


def _components_fit(config, declaration, forms) -> Iterator[str]:
    for form in forms:
        yield from misfits(form)


def _matches_are_found(config, declaration, forms) -> Iterator[str]:
    """Refuses a pattern that does not become one instruction: the compiler finds the numbers of
    immediates in the expression, where each stands by itself."""
    pattern, stored = declaration.pattern, config.output
    if not isinstance(pattern, Pattern):
        return
    unit = unit_of(config.structure, declaration.unit)
    acc, res = unit.at("a")
    operands = [forms[0].operand(name) for name in ("a", "b")
                if any(operand.name == name for operand in forms[0].operands)]
    scopes = [next((scope for scope in (res, acc) if scope in operand.scopes), "")
              for operand in operands]
    for operand, scope in zip(operands, scopes, strict=True):
        if not scope:
            yield (f"Operand {operand.name} of {declaration.name} must live in res or acc to match "
                   f"something")
            return
    known: dict[Var, Expr] = {
        Var(f"x{place}", "int32"): Cast(leaf(f"x{place}", stored, scope), "int32")
        for place, scope in enumerate(scopes)}
    known |= {field.var: Const(min(field.high, 5 + 3 * place), field.dtype)
              for place, field in enumerate(pattern.fields)}
    (par,), (_, out) = unit.at("record"), unit.at("dst")
    known |= {field: leaf(field.name, field.dtype, par) for field in pattern.record}
    try:
        cover(Cast(substitute(pattern.body, known), stored), forms[:1], out, lambda step: (1,))
    except Uncovered:
        yield (f"Value of {declaration.name} must read each of "
               f"{', '.join(field.name for field in pattern.fields)} by itself somewhere to match "
               f"something: their numbers are found in the expression")


RULES: tuple[Rule, ...] = (
    _forms_are_of_their_declaration, _bytes_are_moved_as_they_are, _an_opcode_has_one_body,
    _loops_are_in_the_word, _machines_have_no_features, _names_differ, _immediates_are_fields,
    _operands_are_entries, _records_are_elements_of_par, _floats_are_rounded_before_out,
    _two_fields_address_two_operands, _accumulating_takes_the_port_of_acc,
    _values_read_what_is_declared, _vector_reduces_over_lanes, _bools_are_not_numbers,
    _operators_fit_a_pipeline, _arrays_sum_products, _matches_are_found)
"""Every rule for what is computed by expressions or moved, in the order of checking."""

STREAM_RULES: tuple[Rule, ...] = (
    _forms_are_of_their_declaration, _an_opcode_has_one_body, _loops_are_in_the_word,
    _machines_have_no_features, _names_differ, _immediates_are_fields, _components_fit)
"""Every rule for instructions of stream units."""
