"""How the values of a graph lie in memory, decided before any layer is built.

Reshapes and transposes move nothing where strides can express them and all readers take strides:
products of computed matrices, and further views. Where views that strides cannot undo are the only
readers of such a product, it is written in the form that the last of them shows, so heads of
attention become channels on their way to memory. Any other view is a copy.

A concatenation that changes no scale is no copy either, where its inputs can be written as parts of
its result; nor is a slice whose readers can read a part of its input.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from accel.mapping.operators.blocked import Activation, Blocks
from accel.mapping.row_selection import is_row_function
from accel.mapping.selection import is_elementwise
from accel.mapping.views import Stored, View, activation_of, images, rows, view_of
from compiler.graph.graph import Graph, Node
from compiler.ops.integers.fixed_point import STORED, limits_of
from compiler.ops.registry import find

__all__ = ["Forms", "Part", "is_of_rows", "is_view"]


def is_view(graph: Graph, node: Node) -> bool:
    return node.op in ("reshape", "transpose") and graph.values[node.inputs[0]].dtype in STORED


def data_of(node: Node) -> tuple[str, ...]:
    """The inputs of a node that are data, not parameters."""
    return node.inputs[:find(node.op).data_inputs]


def is_of_rows(graph: Graph, node: Node) -> bool:
    """Whether the operator reads a tensor of any rank as the rows of matrices."""
    if node.op == "qmean":
        return (len(graph.values[node.inputs[0]].shape), *node.attrs["axes"]) != (4, 2, 3)
    return node.op in ("qmatmul", "qdense")


@dataclass(frozen=True, slots=True)
class Part:
    """Images that lie among those of another value: their first element, and the distance in
    elements of images, rows, columns and batch lanes; () for rows that lie one after the other as
    their own would. `writable` channels are its own, padding included; 0 where it is only read.
    """

    offset: int
    strides: tuple[int, ...]
    writable: int = 0


class Forms:
    """The memory form of every value of at least two dimensions that has the machine's elements.

    Parameters
    ----------
    made : operators whose results the accelerator makes; all other values are inputs, plain, and so
        are constants that are data.

    Attributes
    ----------
    stored : the form of each value.
    owner : the value whose memory holds each value: the value itself, or another for views.
    parts : the values that lie among the images of their owner.
    joined : for each input that needs no layer, the name of the concatenation that it is part of.
    copies : source and destination of each view that is a copy, by name of the node.
    refused : why a view is impossible, by name of the node.
    """

    def __init__(self, graph: Graph, blocks: Blocks, operators: Sequence[str]):
        self.graph, self.blocks, self.operators = graph, blocks, operators
        self.readers, self.producers = graph.consumers(), graph.producers()
        self._wishes: dict[str, bool] = {}
        self._cuts: dict[str, bool] = {}        # of slices, decided where their inputs are placed
        self.stored: dict[str, Stored] = {}
        self.owner: dict[str, str] = {}
        self.parts: dict[str, Part] = {}
        self.joined: dict[str, str] = {}
        self.copies: dict[str, tuple[View, View]] = {}
        self.refused: dict[str, str] = {}
        for value in graph.inputs:
            self._own(value, self._input(value))
        for value in dict.fromkeys(value for node in graph.nodes for value in data_of(node)):
            if value in graph.constants:
                self._own(value, self._input(value))
        for node in graph.nodes:
            value = node.outputs[0]
            if is_view(graph, node):
                self._view(node)
            elif self.slices_rows(node):
                self._slice_of_rows(node)
            elif node.op == "qput":
                self._put(node)
            else:
                self._own(value, self._result(node) if node.op in operators else self._input(value))
                self._replace_last(node)
        for node in reversed(graph.nodes):
            if (node.op == "qconcat" and node.attrs.get("axis", 1) == 1
                    and node.outputs[0] in self.stored and not self.joins_rows(node)):
                self._join(node)
        for node in graph.nodes:
            if node.op == "slice" and not self.slices_rows(node):
                self._cut(node)

    def __getitem__(self, value: str) -> Activation:
        """The form of a value that is no view of another."""
        x = self.stored[value]
        assert isinstance(x, Activation)
        return x

    def joins_rows(self, node: Node) -> bool:
        """Whether the operator joins tensors that lie as the rows of matrices, by strides; channels
        of images and of vectors are joined block by block.
        """
        if node.op != "qconcat":
            return False
        rank = len(self._shape(node.outputs[0]))
        return self._wish(node.outputs[0]) if rank == 4 else (
            rank, node.attrs.get("axis", 1)) != (2, 1)

    def slices_rows(self, node: Node) -> bool:
        """Whether the operator cuts a tensor that lies as the rows of matrices by strides; images,
        and the channels of vectors, are cut block by block.
        """
        if node.op != "slice" or self.graph.values[node.inputs[0]].dtype not in STORED:
            return False
        if node.name not in self._cuts:
            self._cuts[node.name] = self._is_cut_by_strides(node)
        return self._cuts[node.name]

    def _is_cut_by_strides(self, node: Node) -> bool:
        shape, x = self._shape(node.inputs[0]), self.stored.get(node.inputs[0])
        if len(shape) == 4:
            return isinstance(x, View) or x is not None and (
                replace(x, plain=False) == rows(shape) != images(shape))
        begin, end, step = (node.attrs[name] for name in ("begin", "end", "step"))
        return len(shape) != 2 or step[1] != 1 or (
            begin[0], end[0], step[0]) != (0, shape[0], 1)

    def misfit(self, node: Node) -> str | None:
        """Why an operator of images, or of rows, cannot read its input as it is."""
        if self.joins_rows(node):
            return None
        return next(filter(None, (self._misfit(node, value) for value in (
            node.inputs if node.op == "qconcat" else node.inputs[:1]))), None)

    def _misfit(self, node: Node, value: str) -> str | None:
        x, shape = self.stored.get(value), self._shape(value)
        if not isinstance(x, Activation):
            return self._unplaced(value)
        if (len(shape) == 4 and is_of_rows(self.graph, node) and node.op != "qmatmul"
                and replace(x, plain=False) != rows(shape)):
            return "its input lies in memory as images, not as rows of matrices"
        if (len(shape) == 4 and not is_elementwise(node) and not is_of_rows(self.graph, node)
                and replace(x, plain=False) != images(shape)):
            return "its input lies in memory as rows of matrices, not as images"
        return None

    def _unplaced(self, value: str) -> str:
        """Why a value has no form that operators read."""
        x = self.graph.values[value]
        if x.dtype != self.blocks.element:
            return f"its input is {x.dtype}; the accelerator takes {self.blocks.element}"
        return f"its input has {len(x.shape)} dimensions; the accelerator takes 2 and more"

    def same(self, other: "Forms", node: Node) -> bool:
        """Whether a node reads and writes the same tensors, which lie in the same way, there."""
        return self.copies.get(node.name) == other.copies.get(node.name) and all(
            self.lies_as(other, value) for value in (*node.inputs, *node.outputs))

    def lies_as(self, other: "Forms", value: str) -> bool:
        return self._lies(value) == other._lies(value)

    def _lies(self, value: str) -> tuple[object, ...]:
        return (self.graph.values[value], self.stored.get(value), self.owner.get(value),
                self.parts.get(value), self.joined.get(value))

    def moves_nothing(self, node: Node) -> bool:
        """Whether a node only says where elements of its input lie."""
        value = node.outputs[0]
        return node.name not in self.copies and (
            is_view(self.graph, node) or self.slices_rows(node)
            or (node.op == "slice" and value in self.parts))

    def idle_copy(self, node: Node) -> str | None:
        """Why the host may as well make a view that is a copy: no layer reads it. Byte by byte, as
        an accelerator would move it, is slow.
        """
        if node.name in self.copies and not self._is_read(node.outputs[0]):
            return f"no layer reads its result, and a {node.op} by the host costs less than a copy"
        return None

    def _is_read(self, value: str) -> bool:
        """Whether the accelerator reads a value, other than to move it once more."""
        return any(self._is_read(reader.outputs[0]) if is_view(self.graph, reader)
                   else reader.op in self.operators for reader in self.readers[value])

    def room(self, value: str) -> int:
        """How many channels of its own a value has in memory, padding included."""
        part = self.parts.get(value)
        return part.writable if part else self.blocks.padded(self[value].c)

    def is_written_by(self, node: Node, index: int) -> bool:
        """Whether an input of a concatenation is written where the concatenation would write it."""
        return self.joined.get(node.inputs[index]) == node.name

    def keeps_scale(self, node: Node, index: int) -> bool:
        """Whether a concatenation leaves the values of this input as they are."""
        bias, mult, shift = (node.attrs[name][index] for name in ("bias", "mult", "shift"))
        zp, lo, hi = (node.attrs[name] for name in ("zp", "lo", "hi"))
        return mult == 1 << shift and bias == -zp and (lo, hi) == (
            limits_of(self.blocks.element))

    def view(self, value: str) -> View | None:
        """The strides of a value; None where strides cannot describe it."""
        x = self.stored[value]
        return x if isinstance(x, View) else view_of(x, self._shape(value), self.blocks)

    def _shape(self, value: str) -> tuple[int, ...]:
        return self.graph.values[value].shape

    def _own(self, value: str, x: Stored | None) -> None:
        self.owner[value] = value
        if x is not None and self.graph.values[value].dtype == self.blocks.element:
            self.stored[value] = x

    def _input(self, value: str) -> Activation | None:
        """The form of a value from the host: rows where all its readers want these, else images."""
        shape = self._shape(value)
        return None if len(shape) < 2 else self._form(value)(shape, True)

    def _form(self, value: str) -> Callable[[tuple[int, ...], bool], Activation]:
        return rows if self._wish(value) else images

    def _wish(self, value: str) -> bool:
        """Whether rows serve all readers of a value."""
        if value not in self._wishes:
            readers = self._readers_here(value)
            self._wishes[value] = bool(readers) and all(map(self._wants_rows, readers))
        return self._wishes[value]

    def _readers_here(self, value: str) -> list[Node]:
        """The readers of a value that may be of the accelerator: the host takes either form."""
        return [reader for reader in self.readers[value]
                if reader.op in self.operators or is_view(self.graph, reader)]

    def _wants_rows(self, reader: Node) -> bool:
        match reader.op:
            case "transpose":
                perm = reader.attrs["perm"]
                return (perm[-1] == len(perm) - 1 or perm == (0, 3, 1, 2)
                        or self._takes_views(reader.outputs[0]))
            case "reshape":
                return len(reader.attrs["shape"]) not in (2, 4)
            case "qput":
                return True
            case "slice" | "qconcat":
                return self._wish(reader.outputs[0])
        if is_elementwise(reader):
            return self._wish(reader.outputs[0]) or self._is_along_rows(reader)
        return is_of_rows(self.graph, reader) or is_row_function(reader)

    def _is_along_rows(self, node: Node) -> bool:
        """Whether an operator has constants along the last of four dimensions, and no reader of its
        result wants images.
        """
        (value,), constants = node.outputs, self.graph.constants
        last = self._shape(value)[-1]
        varies = node.attrs.get("axis") == 3 or any(
            constants[one].shape[-1:] == (last,) == (constants[one].size,)
            for one in data_of(node) if one in constants)
        return len(self._shape(value)) == 4 and last > 1 and varies and all(
            map(self._wants_rows, self._readers_here(value)))

    def _result(self, node: Node) -> Stored | None:
        shape = self._shape(node.outputs[0])
        if node.op == "qmatmul":
            return self._product(node)
        if self.joins_rows(node):
            whole = self.blocks.batch == 1 and self.blocks.padded(shape[-1]) == shape[-1]
            return rows(shape, not whole)
        if node.op in ("qdense", "qmean") and is_of_rows(self.graph, node):
            return rows(shape) if len(shape) >= 2 else None
        if is_elementwise(node) or is_row_function(node):
            whole = [value for value in node.inputs if self._shape(value) == shape]
            source = next((self.stored.get(value) for value in whole
                           if value not in self.graph.constants), None)
            if isinstance(source, Activation):
                for value in self.graph.constants.keys() & {*whole}:
                    self.stored[value] = replace(source, plain=True)
                return replace(source, plain=False)
        return images(shape) if len(shape) >= 2 else None

    def _takes_views(self, value: str) -> bool:
        """Whether all readers of a value take it with any strides."""
        return value not in self.graph.outputs and all(
            reader.op == "qmatmul" or is_view(self.graph, reader) or self.joins_rows(reader)
            for reader in self.readers[value])

    def _view(self, node: Node) -> None:
        source, value = node.inputs[0], node.outputs[0]
        if source not in self.stored or len(self._shape(value)) < 2:
            self.refused[node.name] = "the accelerator takes tensors of 2 dimensions and more"
            self._own(value, self._input(value))
            return
        seen = self._flattened(node) or self._seen(node)
        if seen is None or (isinstance(seen, View) and not self._takes_views(value)):
            self._copy(node, seen)
        else:
            self._see(value, source, seen)

    def _put(self, node: Node) -> None:
        """Lets what a row is put into lie in the memory of the cache, which the host fills."""
        cache, value = node.inputs[0], node.outputs[0]
        maker = self.producers.get(cache)
        given = cache not in self.graph.constants and cache not in self.graph.outputs and (
            maker is None or maker.op not in self.operators and not is_view(self.graph, maker))
        x = self.stored.get(cache)
        if (given and isinstance(x, Activation) and len(self.readers[cache]) == 1
                and self.blocks.batch == 1 and replace(x, plain=False) == rows(self._shape(cache))):
            self.stored[value], self.owner[value] = x, cache
        else:
            self.refused[node.name] = "it is put into what others read or the accelerator makes"
            self._own(value, self._input(value))

    def _replace_last(self, node: Node) -> None:
        """Lets a concatenation lie in the memory of an input of which it replaces the last places
        of an axis: what is before them lies there already. So a cache takes a new row.
        """
        value, cut = node.outputs[0], self.producers.get(node.inputs[0])
        if (node.op not in self.operators or not self.joins_rows(node) or cut is None
                or cut.op != "slice" or node.inputs.count(cut.outputs[0]) > 1):
            return
        (source,), (part,) = cut.inputs, cut.outputs
        result, x = self.stored.get(value), self.stored.get(source)
        alone = (*self.readers[source], *self.readers[part]) == (cut, node)
        begin, step = cut.attrs["begin"], cut.attrs["step"]
        if (source in self.graph.inputs and alone and self.keeps_scale(node, 0)
                and not {source, part, value} & {*self.graph.outputs}
                and self._shape(source) == self._shape(value) and set(step) == {1}
                and not any(begin) and isinstance(result, Activation) and isinstance(x, Activation)
                and self.view(source) == self.view(value)):
            self.owner[value] = source
            self.joined[part] = node.name

    def _see(self, value: str, source: str, seen: Stored, offset: int = 0) -> None:
        """A value lies where its source does, or `offset` elements behind, or among them."""
        self.owner[value] = self.owner[source]
        offset += self.parts[source].offset if source in self.parts else 0
        if isinstance(seen, View):
            self.stored[value] = replace(seen, offset=seen.offset + offset)
        else:
            self.stored[value] = seen
            if offset:
                self.parts[value] = Part(offset, ())

    def _slice_of_rows(self, node: Node) -> None:
        """Sees a part of the source where readers take strides, or where rows lie together; else
        copies it.
        """
        source, value = node.inputs[0], node.outputs[0]
        seen = self.view(source) if source in self.stored else None
        if seen is None or len(self._shape(value)) < 2:
            self.refused[node.name] = "it cuts no rows of matrices of 2 dimensions and more"
            self._own(value, self._input(value))
            return
        cut = seen.sliced(*(node.attrs[name] for name in ("begin", "end", "step")))
        stored = self.stored[source]
        padded = cut.shape[-1] == seen.shape[-1] and not (
            isinstance(stored, Activation) and stored.plain)
        together = self._together(cut, padded)
        if together is not None and value not in self.graph.outputs:
            self._see(value, source, together, cut.offset)
        elif self._takes_views(value):
            self._see(value, source, cut)
        else:
            self._copy(node, cut)

    def _together(self, cut: View, padded: bool) -> Activation | None:
        """Rows that lie one after the other as rows of their own would, perhaps `padded`."""
        for plain in (True, False) if padded and self.blocks.batch == 1 else (True,):
            x = rows(cut.shape, plain)
            whole = view_of(x, cut.shape, self.blocks)
            if (whole and cut.offset + whole.size <= cut.size
                    and replace(cut, offset=0, size=whole.size).equals(whole)):
                return x
        return None

    def _flattened(self, node: Node) -> Activation | None:
        """The form of a reshape that keeps the pixels: it renames rows and columns, or flattens an
        image, which keeps its layout, for dense layers and for the host. None for any other.
        """
        x, (before, after) = self.stored[node.inputs[0]], map(self._shape,
                                                             (node.inputs[0], node.outputs[0]))
        if (node.op != "reshape" or not isinstance(x, Activation) or len(before) not in (2, 4)
                or before[:2] != (x.n, x.c) or before[0] != after[0]):
            return None
        if len(after) == 4 and before[1] == after[1]:
            return replace(x, h=after[2], w=after[3])
        dense = all(reader.op == "qdense" for reader in self.readers[node.outputs[0]])
        return x if len(after) == 2 and ((x.h, x.w) == (1, 1) or dense) else None

    def _seen(self, node: Node) -> Stored | None:
        seen = self.view(node.inputs[0])
        seen = seen and self._through(node, seen)
        as_rows = self._wish(node.outputs[0])
        return seen and (activation_of(seen, self.blocks, as_rows) or seen)

    def _through(self, node: Node, x: View) -> View | None:
        if node.op == "transpose":
            return x.transposed(node.attrs["perm"])
        return x.reshaped(self._shape(node.outputs[0]))

    def _back(self, node: Node, seen: View) -> View | None:
        """The strides of a view's source, given that its result has those of `seen`."""
        if node.op == "transpose":
            perm = node.attrs["perm"]
            return seen.transposed([perm.index(axis) for axis in range(len(perm))])
        return seen.reshaped(self._shape(node.inputs[0]))

    def _copy(self, node: Node, seen: Stored | None) -> None:
        """Records a view as a copy: of what it shows, in the order of its result; or of its source,
        in that order. A value that only leaves the segment is rows: bytes are copied along the last
        dimension, and the host has its elements in the order of rows.
        """
        value = node.outputs[0]
        form = self._form(value) if self.readers[value] else rows
        result = form(self._shape(value), True)
        target = view_of(result, self._shape(value), self.blocks)
        source = seen if isinstance(seen, View) else self.view(node.inputs[0])
        if target is not None and not isinstance(seen, View):
            target = self._back(node, target)
        if source is None or target is None:
            before, after = (self._shape(end) for end in (node.inputs[0], value))
            self.refused[node.name] = (f"{node.op} from {before} to {after} is no copy in the "
                                       "order of either")
            result = images(self._shape(value), True)
        else:
            self.copies[node.name] = (source, target)
        self._own(value, result)

    def _product(self, node: Node) -> Stored:
        """The form in which a product of matrices is written."""
        value, chain = node.outputs[0], []
        while (value not in self.graph.outputs and len(self.readers[value]) == 1
               and is_view(self.graph, self.readers[value][0])):
            chain.append(self.readers[value][0])
            value = chain[-1].outputs[0]
        standard = rows(self._shape(node.outputs[0]), self.blocks.batch > 1)
        seen = view_of(standard, self._shape(node.outputs[0]), self.blocks)
        for view in chain:
            seen = seen and self._through(view, seen)
        if seen and (activation_of(seen, self.blocks) or self._takes_views(value)):
            return standard
        shape = self._shape(value)
        whole = self.blocks.batch == 1 and self.blocks.padded(shape[-1]) == shape[-1]
        written = view_of(rows(shape, not whole), shape, self.blocks)
        for view in reversed(chain):
            written = written and self._back(view, written)
        return written or standard

    def _join(self, node: Node) -> None:
        """Makes inputs of a concatenation parts of its result, where they can be written there."""
        result, at = node.outputs[0], 0
        around = self.parts.get(result) or self._whole(result)
        for index, value in enumerate(node.inputs):
            channels = self._shape(value)[1]
            last = index == len(node.inputs) - 1
            own = self.room(result) - at if last else channels
            if (self.keeps_scale(node, index) and self._can_be_part(node, value)
                    and own <= self.blocks.padded(channels)):
                self.parts[value] = replace(around, offset=around.offset + at, writable=own)
                self.joined[value] = node.name
                self.owner[value] = self.owner[result]
            at += channels

    def _whole(self, value: str) -> Part:
        """Images with memory of their own, as a part that is the whole."""
        x, batch = self[value], self.blocks.batch
        column = batch * self.blocks.padded(x.c)
        return Part(0, (x.h * x.w * column, x.w * column, column, column // batch))

    def _can_be_part(self, node: Node, value: str) -> bool:
        """Whether a value may be written among the channels of a concatenation: its layers can do
        that, and its other readers find whole blocks.
        """
        producer = self.producers.get(value)
        if (producer is None or producer.op not in self.operators
                or producer.op in ("qmatmul", "slice")
                or value in self.parts or value in self.graph.outputs
                or not self._lies_as_images(value)
                or node.inputs.count(value) > 1):
            return False
        whole = self._shape(value)[1] % self.blocks.channels == 0
        others = [reader for reader in self.readers[value] if reader is not node]
        spread = producer.op == "qconvtranspose2d" or producer.attrs.get("group", 1) > 1
        return self._reads_parts(others) and (whole or not (others or spread))

    def _lies_as_images(self, value: str) -> bool:
        x = self.stored.get(value)
        return isinstance(x, Activation) and replace(x, plain=False) == images(self._shape(value))

    def _reads_parts(self, readers: Sequence[Node]) -> bool:
        return not any(reader.op == "qmatmul" or is_view(self.graph, reader)
                       or self.joins_rows(reader)
                       or (reader.op == "qmean" and is_of_rows(self.graph, reader))
                       for reader in readers)

    def _cut(self, node: Node) -> None:
        """Makes a slice a part of its source, where it can be read there."""
        (source,), (value,) = node.inputs, node.outputs
        x, result = self.stored.get(source), self.stored.get(value)
        if (not isinstance(x, Activation) or not isinstance(result, Activation) or x.plain
                or len(self._shape(value)) != 4 or value in self.graph.outputs
                or not self._reads_parts(self.readers[value])
                or (node.attrs["step"][1] != 1 and result.c > 1)
                or (x.n != result.n and self.blocks.batch > 1)
                or x.c != self._shape(source)[1]):
            return
        begin, step = node.attrs["begin"], node.attrs["step"]
        around = self.parts.get(source) or self._whole(source)
        pixel = (result.h, result.w) == (1, 1) and (           # these are read in a line
            (x.h, x.w) != (1, 1) or step[0] != 1)
        if begin[1] + self.blocks.padded(result.c) > self.room(source) or pixel:
            return
        image, row, column, lane = around.strides
        first = begin[0] * image + begin[1] + begin[2] * row + begin[3] * column
        self.parts[value] = Part(around.offset + first, (step[0] * image, step[2] * row,
                                                         step[3] * column, lane))
        self.owner[value] = self.owner[source]
