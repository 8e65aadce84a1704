"""C++ of a graph: a structure with the state of the hardware, and functions that run a cycle.

::

    early();  set_PORT(value) ...;  late();  get_PORT() ...;  commit();

Each chunk has a flag, set where something that it reads has changed; a chunk whose flag is not set
is passed over. Names in the text: ``vN`` is what node N is in a chunk, ``sN`` what it is for all
others, ``nN`` what a register becomes. Flags: ``dW`` of chunks that are to run in this cycle,
``xW`` in the next one, ``pW`` of chunks that have something to commit.

A chunk that writes a memory need not run again while nothing changes: what it would write is there.
Two ports that write one row in one cycle leave it undefined, as in Amaranth.

The text depends on the graph alone, so that it names an object in the cache.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from accel.sim.slice.chunks import Chunks
from accel.sim.slice.expressions import expression, number, text_of
from accel.sim.slice.graph import SliceGraph, SliceNode, Operand, nodes_of

WORD = 64           # flags in a word of them
_GROUP = 8          # chunks that are passed over together


def emit(graph: SliceGraph, chunks: Chunks, cold: Collection[str]) -> str:
    """The text of ``struct Core``. `cold` are outputs that are looked at now and then: after
    `cold()`, which computes what they alone need."""
    return "\n".join(_Emitter(graph, chunks, cold).lines()) + "\n"


@dataclass(slots=True)
class _Members:
    """The nodes of a chunk, by kind."""

    nodes: list[SliceNode] = field(default_factory=list)
    registers: list[SliceNode] = field(default_factory=list)
    writes: list[SliceNode] = field(default_factory=list)


def _type(width: int) -> str:
    return next(f"uint{size}_t" for size in (8, 16, 32, 64) if width <= size)


def _words(chunks: Iterable[int]) -> dict[int, int]:
    """Masks of flags, by word."""
    result: dict[int, int] = defaultdict(int)
    for chunk in chunks:
        result[chunk // WORD] |= 1 << chunk % WORD
    return dict(sorted(result.items()))


def _set(flags: str, chunks: Iterable[int]) -> str:
    return "".join(f" {flags}{word} |= {number(bits)};" for word, bits in _words(chunks).items())


class _Emitter:
    def __init__(self, graph: SliceGraph, chunks: Chunks, cold: Collection[str]):
        self._graph, self._chunks = graph, chunks
        self._cold = chunks.count           # the number of what no chunk computes
        hot = self._hot(cold)
        self._chunk = {node: chunks.number[node] if node in hot else self._cold
                       for node in graph.nodes()}
        self._users: dict[SliceNode, set[int]] = defaultdict(set)
        self._members: dict[int, _Members] = defaultdict(_Members)
        self._shown = {node for operands in graph.outputs.values() for operand in operands
                       for node in nodes_of(operand)}
        for node in graph.nodes():
            for source in node.sources():
                self._users[source].add(self._chunk[node])
            self._member(node).append(node)
        self._place_state()

    def _member(self, node: SliceNode) -> list[SliceNode]:
        members = self._members[self._chunk[node]]
        kinds = {"register": members.registers, "write": members.writes}
        return kinds.get(node.kind, members.nodes)

    def _hot(self, cold: Collection[str]) -> set[SliceNode]:
        """Nodes that state depends on, or outputs that are looked at in every cycle."""
        found: set[SliceNode] = set()
        todo = [*self._graph.registers, *self._graph.writes,
                *(node for name, operands in self._graph.outputs.items() if name not in cold
                  for operand in operands for node in nodes_of(operand))]
        while todo:
            if (node := todo.pop()) not in found:
                found.add(node)
                todo += node.sources()
        return found

    def _place_state(self) -> None:
        """Decides what is kept between chunks, and what can be written at once: what only chunks
        read that have run already."""
        graph, readers = self._graph, defaultdict(set)
        self._stored = {node for node in graph.order
                        if node in self._shown or self._users[node] - {self._chunk[node]}}
        for node in graph.order:
            if node.kind == "read":
                readers[node.info].add(self._chunk[node])
        self._readers = readers
        self._at_once = {node for node in graph.registers if node not in self._shown
                         and all(chunk <= self._chunk[node] for chunk in self._users[node])}
        self._at_once |= {node for node in graph.writes
                          if all(chunk <= self._chunk[node] for chunk in readers[node.info])}

    # ---- text ----------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        yield from ("#include <cstdint>", "struct Core {")
        yield from self._state()
        yield from self._half("early", 0, self._chunks.late)
        yield from self._half("late", self._chunks.late, self._chunks.count)
        yield "  void cold() {"
        for node in self._members[self._cold].nodes:
            yield from self._statement(node, self._cold)
        yield "  }"
        yield from self._commits()
        yield from self._ports()
        yield "};"

    def _state(self) -> Iterator[str]:
        for word in range(self._flag_words()):
            yield f"  uint64_t d{word} = ~0ull, x{word} = 0, p{word} = 0;"
        for node in sorted(self._stored, key=self._where):
            yield f"  {_type(node.width)} s{node.number} = 0;"
        for node in sorted(self._graph.registers, key=self._where):
            later = "" if node in self._at_once else f", n{node.number} = {number(node.info)}"
            yield f"  {_type(node.width)} s{node.number} = {number(node.info)}{later};"
        for nodes in self._graph.inputs.values():
            for node in nodes:
                yield f"  {_type(node.width)} s{node.number} = 0;"
        for (memory, place), piece in self._graph.pieces.items():
            init = ",".join(map(str, piece.init)) if any(piece.init) else ""
            yield (f"  {_type(piece.width)} m{memory}_{place}"
                   f"[{1 << (piece.depth - 1).bit_length()}] = {{{init}}};")
        for node in self._graph.writes:
            if node not in self._at_once:
                yield (f"  uint8_t e{node.number} = 0; uint32_t a{node.number} = 0; "
                       f"{_type(node.width)} w{node.number} = 0;")

    def _where(self, node: SliceNode) -> tuple[int, int]:
        return self._chunk[node], node.number

    def _flag_words(self) -> int:
        return -(-self._chunks.count // WORD)

    def _name(self, chunk: int, node: SliceNode) -> str:
        own = node.combinational and self._chunk[node] == chunk
        return f"{'v' if own else 's'}{node.number}"

    def _text(self, operand: Operand, chunk: int) -> str:
        return text_of(operand, partial(self._name, chunk))

    def _half(self, name: str, first: int, end: int) -> Iterator[str]:
        """A function that runs the chunks of a half whose flags are set."""
        yield f"  void {name}() {{"
        for begin in range(first, end, WORD):
            word = begin // WORD
            yield f"  if (d{word}) {{"
            for low in range(begin, min(begin + WORD, end), _GROUP):
                group = range(low, min(low + _GROUP, begin + WORD, end))
                bodies = [(chunk, [*self._body(chunk)]) for chunk in group]
                bits = sum(1 << chunk % WORD for chunk in group)
                if any(lines for _, lines in bodies):
                    yield f"  if (d{word} & {number(bits)}) {{"
                    for chunk, lines in bodies:
                        yield from self._guarded(f"d{word}", chunk, lines)
                    yield "  }"
            yield f"  d{word} = 0; }}"
        yield "  }"

    def _guarded(self, flags: str, chunk: int, lines: Sequence[str]) -> Iterator[str]:
        if lines:
            yield f"  if ({flags} & {number(1 << chunk % WORD)}) {{"
            yield from (f"    {line}" for line in lines)
            yield "  }"

    def _body(self, chunk: int) -> Iterator[str]:
        """The statements of a chunk. Registers that are written at once are written last."""
        members, last, waiting = self._members[chunk], [], []
        commits = f"p{chunk // WORD} |= {number(1 << chunk % WORD)};"
        for node in members.nodes:
            yield from self._statement(node, chunk)
        for node in members.registers:
            value = self._text(node.operands[0], chunk)
            if node in self._at_once:
                yield f"uint64_t n{node.number} = {value};"
                last.append(self._changed(node, f"n{node.number}", "x"))
            else:
                yield f"n{node.number} = {value};"
                waiting.append(f"(n{node.number} != s{node.number})")
        for node in members.writes:
            address, data, enable = (self._text(operand, chunk) for operand in node.operands)
            if node in self._at_once:
                yield (f"if ({enable}) {{ {self._row(node, address)} = {data};"
                       f"{_set('x', self._readers[node.info])} }}")
            else:
                yield (f"e{node.number} = {enable}; if (e{node.number}) {{ a{node.number} = "
                       f"{address}; w{node.number} = {data}; {commits} }}")
        if waiting:
            yield f"if ({' | '.join(waiting)}) {commits}"
        yield from last

    def _row(self, node: SliceNode, address: str) -> str:
        memory, place = node.info
        return f"m{memory}_{place}[{address}]"

    def _changed(self, node: SliceNode, value: str, flags: str) -> str:
        """Writes what a node is for others, and sets the flags of those that read it."""
        name = f"s{node.number}"
        chunks = self._users[node] - {self._cold}
        if flags == "d":
            chunks = chunks - {self._chunk.get(node)}
        if not chunks:
            return f"{name} = {value};"
        return f"if ({name} != {value}) {{ {name} = {value};{_set(flags, chunks)} }}"

    def _statement(self, node: SliceNode, chunk: int) -> Iterator[str]:
        value = f"v{node.number}"
        if node.kind == "assign":
            yield from self._assigned(node, chunk)
        else:
            yield f"uint64_t {value} = {expression(node, partial(self._name, chunk))};"
        if node in self._stored:
            yield self._changed(node, value, "d")

    def _assigned(self, node: SliceNode, chunk: int) -> Iterator[str]:
        default, *changes = (self._text(operand, chunk) for operand in node.operands)
        value = f"v{node.number}"
        yield f"uint64_t {value} = {default};"
        for (first, count), condition, change in zip(node.info, changes[::2], changes[1::2]):
            if count == node.width:
                yield f"if ({condition}) {value} = {change};"
            else:
                others = ~(((1 << count) - 1) << first) & (1 << 64) - 1
                yield (f"if ({condition}) {value} = ({value} & {number(others)}) | "
                       f"({change} << {first});")

    def _commits(self) -> Iterator[str]:
        """Registers and memories that had to wait get their values; flags for the next cycle."""
        yield "  void commit() {"
        for word in range(self._flag_words()):
            bodies = [(chunk, [*self._commit(chunk)])
                      for chunk in range(word * WORD, (word + 1) * WORD)]
            if any(lines for _, lines in bodies):
                yield f"  if (p{word}) {{"
                for chunk, lines in bodies:
                    yield from self._guarded(f"p{word}", chunk, lines)
                yield f"  p{word} = 0; }}"
        for word in range(self._flag_words()):
            yield f"  d{word} = x{word}; x{word} = 0;"
        yield "  }"

    def _commit(self, chunk: int) -> Iterator[str]:
        members = self._members[chunk]
        for node in members.writes:
            if node not in self._at_once:
                yield (f"if (e{node.number}) {{ {self._row(node, f'a{node.number}')} = "
                       f"w{node.number};{_set('x', self._readers[node.info])} }}")
        for node in members.registers:
            if node not in self._at_once:
                yield self._changed(node, f"n{node.number}", "x")

    def _ports(self) -> Iterator[str]:
        for name, nodes in self._graph.inputs.items():
            yield f"  void set_{name}(const uint64_t *value) {{"
            for node in nodes:
                low = node.info[1] // WORD
                text = self._changed(node, f"({_type(node.width)})value[{low}]", "d")
                yield f"    {text}"
            yield "    (void)value; }"
        for name, operands in self._graph.outputs.items():
            yield f"  void get_{name}(uint64_t *value) const {{"
            for place, operand in enumerate(operands):
                yield f"    value[{place}] = {self._text(operand, -1)};"
            yield "  }"
