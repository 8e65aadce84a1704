"""The second step: the form in which each value is given, made or seen, in the order of the graph.

A reshape or transpose of a computed product is undone where nothing else reads it: the product is
written in the form that the last of them shows, so heads of attention become channels on their way
to memory.
"""

from dataclasses import replace

from accel.mapping.memory.forms import Forms, ValueForm
from accel.mapping.memory.nodes import data_of, is_of_rows, is_view, keeps_scale
from accel.mapping.memory.seeing import cuts_rows, given, mirrored, seen_slice, seen_view, through
from accel.mapping.memory.views import Stored, activation_of, images, rows, view_of
from accel.mapping.operators.blocked import Activation
from accel.mapping.selecting.row_selection import is_row_function
from accel.mapping.selecting.selection import is_elementwise
from compiler.graph.graph import Node


def placed(forms: Forms) -> Forms:
    """Decides how each value lies, from the forms of those before it and the wishes of its readers;
    and which slices are by strides.
    """
    graph = forms.graph
    data = dict.fromkeys(value for node in graph.nodes for value in data_of(node))
    values = {value: given(forms, value) for value in (
        *graph.inputs, *(value for value in data if value in graph.constants))}
    sofar, by_strides = replace(forms, values=values), set(forms.by_strides)
    for node in graph.nodes:
        if cuts_rows(sofar, node):
            by_strides.add(node.name)
        values |= _constants_beside(sofar, node)
        values[node.outputs[0]] = _result(sofar, node)
    return replace(sofar, by_strides=frozenset(by_strides))


def _result(forms: Forms, node: Node) -> ValueForm:
    """The form of a node's result, by its kind."""
    if is_view(forms.graph, node):
        return seen_view(forms, node)
    if cuts_rows(forms, node):
        return seen_slice(forms, node)
    if node.op == "qput":
        return _put(forms, node)
    if node.op not in forms.operators:
        return given(forms, node.outputs[0])
    made = _made(forms, node)
    return _replacing_last(forms, node, made) or made


def _made(forms: Forms, node: Node) -> ValueForm:
    """The form of what a layer writes into memory of its own."""
    value, = node.outputs[:1]
    stored, why = _written(forms, node)
    fits = forms.graph.values[value].dtype == forms.blocks.carried
    return ValueForm(forms.shape(value), value, stored if fits else None, why=why)


def _written(forms: Forms, node: Node) -> tuple[Stored | None, str]:
    """The form in which an operator writes its result, and why."""
    shape = forms.shape(node.outputs[0])
    if node.op == "qmatmul":
        return _product(forms, node)
    if len(shape) < 2:
        return None, "the accelerator takes tensors of 2 dimensions and more"
    if node.name in forms.by_strides:
        return rows(shape, not _fills_blocks(forms, shape)), "rows joined by strides"
    if is_of_rows(forms.graph, node):
        return rows(shape), f"{node.op} writes rows"
    source = _beside(forms, node)
    x = forms.stored(source) if source else None
    if isinstance(x, Activation):
        return replace(x, plain=False), f"as {source}, which it reads"
    if is_row_function(node):
        return rows(shape), f"{node.op} writes rows"
    return images(shape), f"{node.op} writes {'images' if len(shape) == 4 else 'rows'}"


def _fills_blocks(forms: Forms, shape: tuple[int, ...]) -> bool:
    """True where rows of whole blocks of channels lie as plain ones do."""
    blocks = forms.blocks
    return blocks.batch == 1 and blocks.padded(shape[-1]) == shape[-1]


def _beside(forms: Forms, node: Node) -> str | None:
    """The input that an operator computes place by place: the first computed one of its shape."""
    if not (is_elementwise(node) or is_row_function(node)):
        return None
    return next((value for value in _whole(forms, node)
                 if value not in forms.graph.constants), None)


def _whole(forms: Forms, node: Node) -> list[str]:
    """The inputs of a node that have the shape of its result."""
    return [value for value in node.inputs
            if forms.shape(value) == forms.shape(node.outputs[0])]


def _constants_beside(forms: Forms, node: Node) -> dict[str, ValueForm]:
    """The forms of constants that are read place by place: that of the computed input beside them,
    but plain. Constants of which views are placed already stay as these see them.
    """
    if node.op not in forms.operators:
        return {}
    source = _beside(forms, node)
    x = forms.stored(source) if source else None
    if not isinstance(x, Activation):
        return {}
    return {value: ValueForm(forms.shape(value), value, replace(x, plain=True),
                             why=f"constant, as {source} beside it")
            for value in _whole(forms, node)
            if value in forms.graph.constants and not _is_seen(forms, value)}


def _is_seen(forms: Forms, value: str) -> bool:
    """True for a value of which a view or a slice by strides is placed."""
    return any(reader.outputs[0] in forms.values and (
        is_view(forms.graph, reader) or cuts_rows(forms, reader))
        for reader in forms.readers[value])


def _product(forms: Forms, node: Node) -> tuple[Stored, str]:
    """The form in which a product of matrices is written: rows, or what makes rows of the last of
    the views that alone read it.
    """
    value, chain = node.outputs[0], list[Node]()
    while view := _only_view(forms, value):
        chain.append(view)
        value = view.outputs[0]
    standard = rows(forms.shape(node.outputs[0]), forms.blocks.batch > 1)
    seen = view_of(standard, forms.shape(node.outputs[0]), forms.blocks)
    for view in chain:
        seen = seen and through(forms, view, seen)
    if seen and (forms.wishes[value].strides or activation_of(seen, forms.blocks)):
        return standard, "product of rows"
    shape = forms.shape(value)
    written = view_of(rows(shape, not _fills_blocks(forms, shape)), shape, forms.blocks)
    for view in reversed(chain):
        written = written and mirrored(forms, view, written)
    return (written, f"product, written as rows of {value}") if written else (
        standard, "product of rows")


def _only_view(forms: Forms, value: str) -> Node | None:
    """The view, of two dimensions and more, that alone reads a value."""
    readers = forms.readers[value]
    if value in forms.graph.outputs or len(readers) != 1 or not is_view(forms.graph, readers[0]):
        return None
    return readers[0] if len(forms.shape(readers[0].outputs[0])) > 1 else None


def _put(forms: Forms, node: Node) -> ValueForm:
    """Lets what a row is put into lie in the memory of the cache, which the host fills."""
    graph, (cache, *_), value = forms.graph, node.inputs, node.outputs[0]
    maker, form = forms.producers.get(cache), forms.values.get(cache)
    is_given = cache not in graph.constants and cache not in graph.outputs and (
        maker is None or not forms.is_here(maker))
    if (is_given and form and form.as_rows and len(forms.readers[cache]) == 1
            and forms.blocks.batch == 1):
        return ValueForm(forms.shape(value), cache, form.stored, why=f"row put into {cache}")
    return replace(given(forms, value),
                   refused="it is put into what others read or the accelerator makes")


def _replacing_last(forms: Forms, node: Node, made: ValueForm) -> ValueForm | None:
    """Lets a concatenation lie in the memory of an input of which it replaces the last places of an
    axis: what is before them lies there already. So a cache takes a new row.
    """
    value, cut = node.outputs[0], forms.producers.get(node.inputs[0])
    if (node.name not in forms.by_strides or cut is None or cut.op != "slice"
            or node.inputs.count(cut.outputs[0]) > 1):
        return None
    (source,), (part,) = cut.inputs, cut.outputs
    graph, readers = forms.graph, forms.readers
    alone = (*readers[source], *readers[part]) == (cut, node)
    if (source in graph.inputs and alone and keeps_scale(node, 0, forms.blocks.element)
            and not {source, part, value} & {*graph.outputs}
            and forms.shape(source) == made.shape and set(cut.attrs["step"]) == {1}
            and not any(cut.attrs["begin"]) and _lie_alike(forms, source, made)):
        return replace(made, owner=source, holds=(part,), why=f"replaces the last of {source}")
    return None


def _lie_alike(forms: Forms, source: str, made: ValueForm) -> bool:
    """True where each element of two values of one shape lies at the same place."""
    forms_of_both = (forms.stored(source), made.stored)
    views = [view_of(x, made.shape, forms.blocks) for x in forms_of_both
             if isinstance(x, Activation)]
    return len(views) == 2 and views[0] == views[1]
