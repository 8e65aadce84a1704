"""Views and slices of rows: where strides show them in their source, and else as copies."""

from dataclasses import replace

from accel.mapping.memory.forms import Forms, PartForm, ValueForm
from accel.mapping.memory.views import Stored, View, activation_of, images, rows, view_of
from accel.mapping.operators.blocked import Activation
from compiler.graph.graph import Node
from compiler.ops.integers.fixed_point import STORED


def given(forms: Forms, value: str) -> ValueForm:
    """The form of a value from the host: rows where all its readers want these, else images."""
    shape, type_ = forms.shape(value), forms.graph.values[value]
    if len(shape) < 2 or type_.dtype != forms.blocks.carried:
        return ValueForm(shape, value, why="the accelerator does not read it")
    wishes = forms.wishes[value]
    why = ("all readers want rows" if wishes.rows else f"{wishes.against} wants no rows"
           if wishes.against else "no layer reads it")
    return ValueForm(shape, value, _wished(forms, value), why=f"given, and {why}")


def _wished(forms: Forms, value: str) -> Activation:
    """The plain form that the readers of a value wish."""
    return (rows if forms.wishes[value].rows else images)(forms.shape(value), True)


def seen_view(forms: Forms, node: Node) -> ValueForm:
    """Sees a reshape or transpose in its source where its readers take that; else copies it."""
    source, value = node.inputs[0], node.outputs[0]
    if forms.stored(source) is None or len(forms.shape(value)) < 2:
        return replace(given(forms, value),
                       refused="the accelerator takes tensors of 2 dimensions and more")
    seen = _flattened(forms, node) or _seen(forms, node)
    if seen is None or (isinstance(seen, View) and not forms.wishes[value].strides):
        return _copied(forms, node, seen)
    return _lying(forms, value, source, seen)


def seen_slice(forms: Forms, node: Node) -> ValueForm:
    """Sees a slice of rows in its source where readers take strides, or where its rows lie
    together; else copies it.
    """
    source, value = node.inputs[0], node.outputs[0]
    seen = forms.view(source) if source in forms.values else None
    if seen is None or len(forms.shape(value)) < 2:
        return replace(given(forms, value),
                       refused="it cuts no rows of matrices of 2 dimensions and more")
    cut = seen.sliced(*(node.attrs[name] for name in ("begin", "end", "step")))
    stored = forms.stored(source)
    padded = cut.shape[-1] == seen.shape[-1] and not (
        isinstance(stored, Activation) and stored.plain)
    together = _together(forms, cut, padded)
    if together is not None and value not in forms.graph.outputs:
        return _lying(forms, value, source, together, cut.offset)
    if forms.wishes[value].strides:
        return _lying(forms, value, source, cut)
    return _copied(forms, node, cut)


def cuts_rows(forms: Forms, node: Node) -> bool:
    """True for a slice of a tensor that lies as the rows of matrices, by strides; images, and the
    channels of vectors, are cut block by block.
    """
    if node.op != "slice" or forms.graph.values[node.inputs[0]].dtype not in STORED:
        return False
    form, shape = forms.values.get(node.inputs[0]), forms.shape(node.inputs[0])
    if len(shape) == 4:
        return form is not None and (isinstance(form.stored, View)
                                     or form.as_rows and not form.as_images)
    begin, end, step = (node.attrs[name] for name in ("begin", "end", "step"))
    return len(shape) != 2 or step[1] != 1 or (begin[0], end[0], step[0]) != (0, shape[0], 1)


def _lying(forms: Forms, value: str, source: str, seen: Stored, offset: int = 0) -> ValueForm:
    """A value lies where its source does, or `offset` elements behind, or among them."""
    around = forms.values[source]
    offset += around.part.offset if around.part else 0
    form = ValueForm(forms.shape(value), around.owner, seen, why=f"view of {source}")
    if isinstance(seen, View):
        return replace(form, stored=replace(seen, offset=seen.offset + offset))
    return replace(form, part=PartForm(offset, ())) if offset else form


def _together(forms: Forms, cut: View, padded: bool) -> Activation | None:
    """Rows that lie one after the other as rows of their own would, perhaps `padded`."""
    for plain in (True, False) if padded and forms.blocks.batch == 1 else (True,):
        x = rows(cut.shape, plain)
        whole = view_of(x, cut.shape, forms.blocks)
        if (whole and cut.offset + whole.size <= cut.size
                and replace(cut, offset=0, size=whole.size).equals(whole)):
            return x
    return None


def _flattened(forms: Forms, node: Node) -> Activation | None:
    """The form of a reshape that keeps the pixels: it renames rows and columns, or flattens an
    image, which keeps its layout, for dense layers and for the host. None for any other.
    """
    x, before, after = forms.stored(node.inputs[0]), *map(forms.shape, (node.inputs[0],
                                                                        node.outputs[0]))
    if (node.op != "reshape" or not isinstance(x, Activation) or len(before) not in (2, 4)
            or before[:2] != (x.n, x.c) or before[0] != after[0]):
        return None
    if len(after) == 4 and before[1] == after[1]:
        return replace(x, h=after[2], w=after[3])
    dense = all(_takes_flattened(reader, node.outputs[0])
                for reader in forms.readers[node.outputs[0]])
    return x if len(after) == 2 and ((x.h, x.w) == (1, 1) or dense) else None


def _takes_flattened(reader: Node, value: str) -> bool:
    """True for a dense layer that multiplies the value; what its sums meet lies as its result."""
    return (reader.op in ("qdense", "qterms")
            or reader.op == "qdense_add" and value not in reader.inputs[1:])


def _seen(forms: Forms, node: Node) -> Stored | None:
    """The form that a view shows of its source: images or rows if it is these, else strides."""
    value, before = node.outputs[0], forms.view(node.inputs[0])
    seen = before and through(forms, node, before)
    return seen and (activation_of(seen, forms.blocks, forms.wishes[value].rows) or seen)


def through(forms: Forms, node: Node, x: View) -> View | None:
    """The strides of a view's result, given those of its source."""
    if node.op == "transpose":
        return x.transposed(node.attrs["perm"])
    return x.reshaped(forms.shape(node.outputs[0]))


def mirrored(forms: Forms, node: Node, seen: View) -> View | None:
    """The strides of a view's source, given that its result has those of `seen`."""
    if node.op == "transpose":
        perm = node.attrs["perm"]
        return seen.transposed([perm.index(axis) for axis in range(len(perm))])
    return seen.reshaped(forms.shape(node.inputs[0]))


def _copied(forms: Forms, node: Node, seen: Stored | None) -> ValueForm:
    """Makes a view a copy: of what it shows, in the order of its result; or of its source, in that
    order. A value that only leaves the segment is rows: bytes are copied along the last dimension,
    and the host has its elements in the order of rows.
    """
    value, shape = node.outputs[0], forms.shape(node.outputs[0])
    result = _wished(forms, value) if forms.readers[value] else rows(shape, True)
    target = view_of(result, shape, forms.blocks)
    source = seen if isinstance(seen, View) else forms.view(node.inputs[0])
    if target is not None and not isinstance(seen, View):
        target = mirrored(forms, node, target)
    if source is None or target is None:
        return ValueForm(shape, value, images(shape, True), refused=(
            f"{node.op} from {forms.shape(node.inputs[0])} to {shape} is no copy in the order of "
            "either"))
    return ValueForm(shape, value, result, copy=(source, target),
                     why=f"copy of {node.inputs[0]}: not all readers take strides")
