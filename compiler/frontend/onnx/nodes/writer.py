"""ONNX models written node by node, by front ends whose files become ONNX models first.

What a front end does not take stands in the model as a node of the domain `REFUSED`, which the
importer refuses with the front end's reason: so all that a file has which is not taken is in one
list, whoever found it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.onnx.nodes.maps import OWN

OPSET = 21
"""The first with quantizations of 16 bits."""

REFUSED = "lockstep.refused"
"""The domain of nodes that no front end takes: the type is what the file calls the operator, the
`doc_string` says why.
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The ONNX model of a file. `extents` are those that the file itself has for open dimensions,
    by INPUT.AXIS; they count where nobody says others. `page` says what is supported of its kind.
    """

    model: onnx.ModelProto
    extents: Mapping[str, int] = field(default_factory=dict)
    page: str = "docs/frontends.md"


class OnnxWriter:
    """A model whose nodes come in the order of computation. Names are made unique."""

    def __init__(self, name: str):
        self.name = name
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.told: list[onnx.ValueInfoProto] = []
        self.values: dict[str, int] = {}
        self.node_names: dict[str, int] = {}
        self.small: dict[tuple, str] = {}
        self.current, self.begun = "", False

    def fresh(self, name: str) -> str:
        """The name for a value, with a number behind it where it is taken."""
        return _unique(name or "value", self.values)

    def begin(self, name: str) -> None:
        """The nodes that follow belong to what the file calls so; the first has its name."""
        self.current, self.begun = _unique(name or "node", self.node_names), False

    def constant(self, array: Any, name: str = "") -> str:
        """An initializer; equal small ones are one."""
        array = np.asarray(array, order="C")
        key = (str(array.dtype), array.shape, array.tobytes()) if array.size <= 16 else None
        if key is not None and not name and key in self.small:
            return self.small[key]
        made = self.fresh(name or f"{self.current}.constant")
        self.constants.append(numpy_helper.from_array(array, made))
        if key is not None:
            self.small.setdefault(key, made)
        return made

    def integers(self, *elements: int) -> str:
        """A constant vector of int64: axes, shapes, sizes."""
        return self.constant(np.array(elements, np.int64))

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """The name of the one result."""
        return self.several(op, inputs, [output], **attributes)[0]

    def beside(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The result of a node that leaves its layer's name to the one that comes next."""
        begun, self.begun = self.begun, True
        name = self.node(op, inputs, **attributes)
        self.begun = begun
        return name

    def several(self, op: str, inputs: Sequence[str], outputs: Sequence[str] | int,
                **attributes: Any) -> list[str]:
        """The names of the results; new ones where `outputs` says how many, or holds none."""
        wanted = [""] * outputs if isinstance(outputs, int) else outputs
        named = [name or self.fresh(f"{self.current}.{op}") for name in wanted]
        self.nodes.append(helper.make_node(op, inputs, named, self._node_name(op), **attributes))
        return named

    def _node_name(self, op: str) -> str:
        if not self.begun:
            self.begun = True
            return self.current
        return _unique(f"{self.current}.{op}", self.node_names)

    def refuse(self, op: str, inputs: Sequence[str], outputs: Sequence[onnx.ValueInfoProto],
               reason: str) -> None:
        """The current node is not taken; its results are what the file says of them."""
        self.nodes.append(helper.make_node(op, inputs, [value.name for value in outputs],
                                           self.current, reason, REFUSED))
        self.told.extend(outputs)

    def add_input(self, name: str, dtype: Any, shape: Sequence[int | str | None]) -> None:
        self.inputs.append(typed(name, dtype, shape))

    def add_output(self, name: str, dtype: Any, shape: Sequence[int | str | None] | None
                   ) -> None:
        self.outputs.append(typed(name, dtype, shape))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(list(self._live()), self.name, self.inputs, self.outputs,
                                  self.constants, value_info=self.told)
        imports = [helper.make_opsetid(domain, version) for domain, version in (
            ("", OPSET), (OWN, 1), (REFUSED, 1))]
        return helper.make_model(graph, opset_imports=imports)

    def _live(self) -> Iterator[onnx.NodeProto]:
        """The nodes that an output depends on, and those that are refused."""
        needed, live = {value.name for value in self.outputs}, []
        for node in reversed(self.nodes):
            if node.domain == REFUSED or needed.intersection(node.output):
                needed.update(node.input)
                live.append(node)
        return reversed(live)


def _unique(name: str, taken: dict[str, int]) -> str:
    """The name, or the first that is free with a number behind it."""
    made = name
    while made in taken:
        taken[name] += 1
        made = f"{name}_{taken[name]}"
    taken[made] = 0
    return made


def typed(name: str, dtype: Any, shape: Sequence[int | str | None] | None
          ) -> onnx.ValueInfoProto:
    """The type that ONNX has of a value of this type and shape, which may be unknown; an extent
    that is None is an open dimension.
    """
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)),
                                         shape)
