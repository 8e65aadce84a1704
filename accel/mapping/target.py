"""The accelerator as a target of the compiler: a segment of an integer graph becomes a program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_


from accel.datapath.dataflow import PlanError
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.figures.work import Work
from accel.mapping.bounds import bound_of
from accel.mapping.builders import float_products
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.compiled import CompiledSegment
from accel.mapping.layers import build_layers, forms_of, refusal
from accel.mapping.lowering import LoweringError
from accel.mapping.memory.borders import core, orders, with_borders
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import blocks_of
from accel.mapping.memory.misfits import idle_copy
from accel.mapping.memory_map import MemoryMap
from accel.mapping.plans.choices import Choices, Group
from accel.mapping.plans.search import EFFORTS, Effort, Search, Simulate
from accel.mapping.plans.stream_search import improved, read_stream
from accel.mapping.plans.text import stream_task
from accel.mapping.plans.work import work_of
from accel.mapping.positions.prefixes import OWN_LAYER, PrefixStream, prefix_of_program, with_room
from accel.mapping.positions.puts import PlacePut, narrowed
from accel.mapping.programs import (LoweredGroup, assembled, blaming_layers, demands_of,
                                    lowered_group, lowered_groups)
from accel.mapping.schedules import require_instructions
from accel.mapping.selecting.stream_selection import computed_within
from accel.mapping.texts import Way
from accel.proof.legal import prove
from compiler.defects import blame, blaming, is_defect, told
from compiler.graph.division.cheapest_orders import Order
from compiler.graph.graph import Graph, Node
from compiler.graph.division.prefixes import Tail, shorter_forms
from compiler.plans import OWN, Learns, Plans, Task, replayed
from compiler.native import digest
from compiler.graph.division.protocols import ACCEL
from compiler.ops.records.operator import Numbers
from compiler.ops.registry import find
from compiler.te import is_float


@dataclass(frozen=True)
class AccelTarget:
    """Compiles for one machine. `threads` virtual threads hide memory latency (1: none do). `plans`
    gives the tiles of layers, and which two are computed at the same time; without, the closed
    formula does. Where no plan binds, a search of this `effort`
    (`accel.mapping.plans.search.EFFORTS`) finds better ways with `simulate`, and tells plans that
    learn what it finds.
    """

    machine: Machine
    threads: int = 2
    name: str = ACCEL
    plans: Plans = OWN
    effort: int | Effort = 0
    simulate: Simulate | None = field(default=None, compare=False)

    @property
    def fingerprint(self) -> str:
        """The machine's hash, which covers geometry, instructions and layouts; of a search also
        its effort, and the memory that it measures with.
        """
        if not self.effort:
            return self.machine.hash
        return digest([self.machine.hash, str(self.effort), repr(self.machine.config.memory)])

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the accelerator takes the node, else the reason why not. It is taken where all
        steps of the node are mapped but the last, the lowering to instructions.
        """
        try:
            return self._in_roles._refusal(graph, node)
        except LoweringError as error:
            return str(error)
        except Exception as error:
            if not is_defect(error):
                raise
            return told(f"{node.name} ({node.op})", error)

    def refusals_inside(self, part: Graph, whole: Graph) -> dict[str, str]:
        """The nodes of a segment that the target takes in the whole graph and not there, where
        other readers decide how values lie, or the layer of a later node computes it as well, and
        why. Copies that another segment reads stay.
        """
        blocks, machine = blocks_of(self.machine.config), self.machine.in_roles
        there, here = forms_of(whole, blocks), forms_of(part, blocks)
        reasons = {node.name: self.refusal(part, node) for node in part.nodes
                   if not (here.is_same(there, node) or idle_copy(here, node))
                   or [*computed_within(machine, part, node)] != [
                       *computed_within(machine, whole, node)]}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def _refusal(self, graph: Graph, node: Node) -> str | None:
        accumulator = self.machine.config.accumulator
        if is_float(accumulator) and node.op not in float_products.OPERATORS:
            if find(node.op).numbers is Numbers.INTEGER:
                return f"acc of the machine holds {accumulator}; layers are summed in integers"
            return (f"the machine computes {accumulator}, of which networks use products between "
                    f"conversions alone")
        blocks = blocks_of(self.machine.config)
        forms = forms_of(graph, blocks)
        reason = refusal(graph, node, forms)
        if reason is not None:
            return reason
        for layer in build_layers(node, graph, forms, self.machine):
            tiles, threads = self._choices.cheapest(layer.operator)
            require_instructions(self.machine, layer.operator, tiles, threads)
        return None

    def borders(self, graph: Graph) -> Mapping[str, Order | None]:
        """The orders of a segment's inputs and outputs, as in
        `compiler.graph.division.layout.Borders`."""
        with blaming(node.name for node in graph.nodes):
            return orders(graph, forms_of(graph, blocks_of(self.machine.config)))

    def compile(self, graph: Graph) -> CompiledSegment:
        """Compile the whole graph to one stream, proved legal. Each `relayout` at its borders
        becomes the layout of a tensor; the instructions are those of the graph without it.
        """
        return self.compile_prefixes(graph, {})

    def compile_prefixes(self, graph: Graph, masks: Mapping[str, Tail]) -> CompiledSegment:
        """Compiles with streams for positions below some count of places, as far as `masks` let the
        graph have shorter forms (`compiler.graph.division.prefixes`). Each is proved.
        """
        segment = self.compile_core(core(graph), masks)
        return replace(segment, program=with_borders(segment.program, graph))

    def compile_core(self, graph: Graph, masks: Mapping[str, Tail] | None = None
                     ) -> CompiledSegment:
        """Compile a graph without `relayout`. Errors say by which nodes they came about
        (`compiler.defects.blamed`).
        """
        with blaming(node.name for node in graph.nodes):
            segment = self._in_roles._compile_core(graph, masks)
        machine = self.machine
        return replace(segment, program=replace(
            segment.program, machine_hash=machine.hash, machine=machine.record))

    @property
    def _in_roles(self) -> "AccelTarget":
        """The target for the machine whose units and buffers are called by their roles, as all that
        maps and lowers calls them: it makes the same words."""
        machine = self.machine.in_roles
        return self if machine is self.machine else replace(self, machine=machine)

    def _compile_core(self, graph: Graph, masks: Mapping[str, Tail] | None) -> CompiledSegment:
        forms = forms_of(graph, blocks_of(self.machine.config))
        groups = self._groups(graph, forms)
        if shorter := shorter_forms(graph, masks) if masks else {}:
            return self._with_prefixes(shorter, groups, self._memory(graph, groups, forms))
        memory = self._memory(graph, groups, forms, with_rings=True)
        program, puts = assembled(self.machine, lowered_groups(self.machine, groups, memory),
                                  memory)
        with blaming_layers(memory):
            prove(self.machine, program)
        return self._compiled(program, puts, groups, memory)

    def _groups(self, graph: Graph, forms: Forms) -> list[Group]:
        """The layers in the ways that are planned, and with an effort in those that a search finds.
        Plans of layers that bind come before one of the stream that does not.
        """
        layers, choices = self._layers(graph, forms), self._choices
        if not layers:
            return []
        task = stream_task(self.machine, layers, self.threads)
        binds, layers_bind = self.plans.binds(task), choices.are_bound(layers)
        groups = choices.groups(layers) if layers_bind and not binds else replayed(
            self.plans, task, lambda: "", lambda plan: (
                choices.groups_of(plan, layers) if plan else choices.groups(layers)))
        effort = EFFORTS[self.effort] if isinstance(self.effort, int) else self.effort
        if not (self.simulate and effort) or binds or layers_bind:
            return groups
        search = Search(choices, effort, self.simulate, self._assembler(graph, forms, groups))
        if not isinstance(self.plans, Learns):
            return search.improved(groups)
        return improved(search, groups, task, graph, replace(self, plans=OWN), self.plans)

    def cycles(self, task: Task, plan: str, seed: int) -> int:
        """The exact cycles of a stream by a plan, or of some of its layers as they stand in it
        (`accel.mapping.plans.streams`). Raises PlanRefused for a body that makes another task here,
        and for a plan that is not legal.
        """
        assert self.simulate is not None
        own = self._in_roles
        stream = read_stream(replace(own, plans=OWN), task.body, task.digest)
        return self.simulate(own.machine, stream.program(plan)).cycles

    def _with_prefixes(self, shorter: Mapping[int, Graph], groups: Sequence[Group],
                       memory: MemoryMap) -> CompiledSegment:
        """The whole, and what its shorter forms have of their own."""
        lowered = [*lowered_groups(self.machine, groups, memory)]
        program, puts = assembled(self.machine, lowered, memory)
        whole = self._compiled(program, puts, groups, memory)
        prefixes, dropped = list[PrefixStream](), list[tuple[int, str]]()
        for places, graph in shorter.items():
            try:
                prefixes.append(self._shorter(places, graph, lowered, memory, whole.program))
            except LoweringError as error:      # a longer one, or the whole, serves its positions
                dropped.append((places, str(error)))
        room = {"weights": memory.weights, "activations_bytes": memory.activations}
        prove(self.machine, replace(program, **room))
        return replace(whole, program=with_room(replace(whole.program, **room), prefixes),
                       prefixes=tuple(prefixes), dropped=tuple(dropped))

    def _shorter(self, places: int, graph: Graph, lowered: Sequence[LoweredGroup],
                 memory: MemoryMap, whole: AccelProgram) -> PrefixStream:
        """A shorter form, proved; groups that are the same in the whole are not lowered again."""
        forms = forms_of(graph, blocks_of(self.machine.config))
        layers = self._layers_like(graph, forms, memory)
        groups, shared, sides, begin = list[Group](), list[int](), list[bool](), 0
        for number, one in enumerate(lowered):
            mine = layers[begin:begin + len(one.group)]
            begin += len(one.group)
            same = all(map(is_, mine, (part.layer for part in one.group)))
            found = [one.group] if same else self._choices.groups(mine, whole=False)
            groups += found
            shared += [number if same else OWN_LAYER] * len(found)
            sides += [(number + place) % 2 == 1 for place in range(len(found))]
        mapped = MemoryMap(graph, groups, forms, memory)
        program, puts = assembled(self.machine, [
            lowered[number] if number != OWN_LAYER else lowered_group(
                self.machine, group, mapped, side)
            for group, number, side in zip(groups, shared, sides)], mapped)
        prove(self.machine, program)
        return prefix_of_program(places, narrowed(self.machine, program, puts), tuple(
            tuple(work_of(part.layer) for part in group) for group in groups), puts, whole, shared)

    def _layers_like(self, graph: Graph, forms: Forms, memory: MemoryMap) -> list[MappedLayer]:
        """The layers of a shorter form; nodes that are the same in the whole have the same layers.
        """
        before = {node.name: node for node in memory.graph.nodes}
        known: dict[str, list[MappedLayer]] = {}
        for layer in memory.layers.values():
            known.setdefault(layer.node.name, []).append(layer)
        layers: list[MappedLayer] = []
        for node in graph.nodes:
            same = before.get(node.name) == node and memory.forms.is_same(forms, node)
            layers += known.get(node.name, []) if same else self._layers(graph, forms, [node])
        if [layer.name for layer in layers] != [*memory.layers]:
            raise LoweringError("where less is read there are other layers")
        return layers

    def parts(self, graph: Graph, plan: str | None = None
              ) -> tuple[list[Group], Callable[[Sequence[Group]], AccelProgram]]:
        """The layers of a graph by a plan of all, or as the formula computes them, and what makes a
        program, with its tokens, of some of them, in this way or in others. Raises PlanRefused.
        """
        forms = forms_of(graph, blocks_of(self.machine.config))
        layers = self._layers(graph, forms)
        groups = (self._choices.groups(layers) if plan is None
                  else self._choices.groups_of(plan, layers))
        return groups, self._assembler(graph, forms, groups)

    def _assembler(self, graph: Graph, forms: Forms, groups: Sequence[Group]
                   ) -> Callable[[Sequence[Group]], AccelProgram]:
        """A function that makes a program of some layers, which lie in memory as among these
        groups; of all layers it makes the program that is compiled.
        """
        memory, count = self._memory(graph, groups, forms), sum(map(len, groups))

        def program(some: Sequence[Group]) -> AccelProgram:
            is_whole = sum(map(len, some)) == count
            known = self._memory(graph, some, forms, with_rings=True) if is_whole else memory
            return assembled(self.machine, lowered_groups(self.machine, some, known), known)[0]
        return program

    def _memory(self, graph: Graph, groups: Sequence[Group], forms: Forms,
                with_rings: bool = False) -> MemoryMap:
        """The places of a segment's tensors; `with_rings`: with parts of those of which not all
        must be kept at the same time.
        """
        memory, shared = MemoryMap(graph, groups, forms), self.machine.config.shared_bytes
        if not shared:
            return memory
        return MemoryMap(graph, groups, forms, shared=shared, demands=demands_of(
            self.machine, groups, memory, with_rings))

    @property
    def _choices(self) -> Choices:
        return Choices(self.machine, self.threads, self.plans)

    def _compiled(self, program: AccelProgram, puts: Sequence[PlacePut], groups: Sequence[Group],
                  memory: MemoryMap) -> CompiledSegment:
        way = Way(self.machine, self.threads, memory.forms, tuple(groups),
                  {name: memory.placement(layer) for name, layer in memory.layers.items()},
                  memory.places)
        return CompiledSegment(narrowed(self.machine, program, puts) if puts else program,
                               tuple(tuple(map(self._work, group)) for group in way.layers), way,
                               tuple(puts))

    def _work(self, layer: MappedLayer) -> Work:
        """The work of a layer, and its bound with the fastest memory: whatever the memory behind
        the machine is, it is no greater. A machine without a datapath, as some have that only the
        functional simulator runs, has no bounds; nor has one with a shared scratchpad, whose bytes
        need not come from the memory.
        """
        if self.machine.config.shared_bytes:
            return work_of(layer)
        try:
            bound = bound_of(self.machine, layer, self.threads, Dram(latency=0))
        except PlanError:
            bound = None
        return replace(work_of(layer), bound=bound)

    def _layers(self, graph: Graph, forms: Forms, nodes: Sequence[Node] | None = None
                ) -> list[MappedLayer]:
        """The layers of the graph, or of some of its nodes."""
        layers: list[MappedLayer] = []
        for node in graph.nodes if nodes is None else nodes:
            try:
                with blaming([node.name]):
                    if reason := forms.of(node).refused:
                        raise LoweringError(reason)
                    layers += build_layers(node, graph, forms, self.machine)
            except LoweringError as error:
                named = LoweringError(f"{node.name}: {error}")
                blame(named, [node.name])
                raise named from None
        return layers
