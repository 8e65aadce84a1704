"""Networks in C on boards whose accelerator is a simulator."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

import lockstep
from accel.machine.isa import WORD_BYTES
from accel.machine.machine import Machine
from accel.machine.status import Status
from accel.mapping.target import AccelTarget
from accel.sim.meaning import functional
from compiler.graph import Graph
from fpga.driver.export import export_accelerated
from fpga.link.registers import ADDRESSES
from runtime import Module, SimulatedDevice, compile_graph
from tests.fpga.driver.test_board import STATUS
from tests.support import decoders
from tests.support.c_driver import LINE, PythonBoard, shared_library
from tests.support.integer_graphs import Net
from tests.support.machines import TINY, machine

PAIRS = machine("2x8x8")


def on(machine: Machine, graph: Graph) -> Module:
    return compile_graph(graph, AccelTarget(machine), SimulatedDevice(machine, functional.simulate))


class Exported:
    """A module in C, in this process, and a board for it."""

    def __init__(self, module: Module, folder: Path, apart: bool = False, **board):
        export_accelerated(module, folder, "net", apart=apart)
        sources = [path for path in folder.glob("*.[co]") if path.name != "lockstep_board.c"]
        self.library, self.module = shared_library(folder, sources), module
        self.header = (folder / "net.h").read_text()
        self.board = PythonBoard(module.machine, self.number("DMA_BYTES"), **board)
        self.self = ctypes.create_string_buffer(4096)
        self.weights = None
        if apart:
            self.weights = aligned((folder / "net.bin").stat().st_size)
            self.weights[:] = np.fromfile(folder / "net.bin", np.uint8)

    def number(self, name: str) -> int:
        """A number that the header defines."""
        text, = (line.split()[2] for line in self.header.splitlines()
                 if line.startswith(f"#define NET_{name} "))
        return int(text)

    def status(self, name: str) -> int:
        """The number of a status that the header names."""
        number, = re.findall(rf"NET_{name} = (\d+)", self.header)
        return int(number)

    def init(self) -> int:
        weights = None if self.weights is None else self.weights.ctypes.data
        return self.library.net_init(self.self, ctypes.c_void_p(weights),
                                     ctypes.byref(self.board.struct))

    def run(self, given: dict[str, np.ndarray], shift: int = 0
            ) -> tuple[int, dict[str, np.ndarray]]:
        graph = self.module.graph
        made = {name: np.full(graph.values[name].shape, 77, given_dtype(graph, name))
                for name in graph.outputs}
        room = aligned(self.number("ARENA_BYTES") + LINE)
        pointers = [(ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
                    for arrays in ([given[name] for name in graph.inputs], [*made.values()])]
        status = self.library.net_run(self.self, *map(ctypes.byref, pointers),
                                      ctypes.c_void_p(room.ctypes.data + shift))
        assert not self.board.errors and self.board.outside_is_untouched
        return status, made


def aligned(size_bytes: int) -> np.ndarray:
    """So many bytes at a multiple of a line."""
    room = np.full(size_bytes + LINE, 0xEE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin:begin + size_bytes]


def given_dtype(graph, name: str) -> np.dtype:
    return np.dtype(graph.values[name].dtype)


def layers(images: int = 1) -> tuple[Net, Graph]:
    """Two layers; images come in and go out."""
    net = Net(3)
    x = net.conv(net.input(images, 5, 6, 6), 6, (3, 3))
    return net, net.graph(net.conv(x, 7, (1, 1)))


@pytest.fixture
def network(tmp_path) -> Exported:
    """Two layers on a board, initialized."""
    _, graph = layers()
    network = Exported(on(TINY, graph), tmp_path)
    assert network.init() == 0
    return network


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("machine, images", [(TINY, 1), (PAIRS, 3)])
def test_outputs_are_those_of_the_module(tmp_path, machine, images, cached):
    net, graph = layers(images)
    network = Exported(on(machine, graph), tmp_path, cached=cached)
    assert network.init() == 0
    for _ in range(2):
        given = net.samples()
        status, made = network.run(given)
        assert status == 0 and network.board.struct.status & 0xFF == Status.DONE
        for name, array in network.module(given).items():
            np.testing.assert_array_equal(made[name], array)


def test_hooks_in_their_order(network):
    """All memory is cleaned at first, what a run reads before it, and what it wrote is invalidated
    after it.
    """
    program, all_bytes = network.module.accelerated[0].program, network.number("DMA_BYTES")
    assert network.board.calls == [("clean", 0, all_bytes)]
    network.board.calls.clear()
    network.run(layers()[0].samples())
    place = {slot.name: (program.bases["io"] + slot.offset, -(-slot.size_bytes // LINE) * LINE)
             for slot in (*program.inputs, *program.outputs)}
    assert network.board.calls == [
        *(("clean", *place[slot.name]) for slot in program.inputs), ("wait", 0, 0), ("run", 0, 0),
        *(("invalidate", *place[slot.name]) for slot in program.outputs)]


@pytest.mark.parametrize("stuck", [False, True])
def test_the_interrupt_is_on_while_a_run_may_end(network, stuck):
    network.board.stuck = stuck
    network.run(layers()[0].samples())
    assert set(network.board.interrupts) == {1}
    assert network.board.registers[ADDRESSES["interrupt"]] == 0


@pytest.mark.parametrize("hook", ["clean", "invalidate"])
def test_without_a_hook_the_cache_is_seen(tmp_path, hook):
    """The memory is one in which what is forgotten shows."""
    net, graph = layers()
    network = Exported(on(TINY, graph), tmp_path)
    setattr(network.board.struct, hook, type(network.board.struct.clean)())
    assert network.init() == 0
    given = net.samples()
    status, made = network.run(given)
    wanted, = network.module(given).values()
    assert status == STATUS["FAILED"] or not np.array_equal(*made.values(), wanted)


def test_a_run_that_does_not_end(network):
    """Times out after so many polls; the next one finds the board busy until it has ended."""
    given = layers()[0].samples()
    network.board.stuck = True
    assert network.run(given)[0] == STATUS["TIMED_OUT"]
    assert network.board.calls.count(("wait", 0, 0)) == network.board.struct.polls - 1
    assert network.board.struct.status == 0
    assert network.run(given)[0] == STATUS["BUSY"] == network.init()
    network.board.stuck = False
    network.board._wait(0)
    assert network.init() == 0 and network.run(given)[0] == 0


def test_a_reset_in_a_run(network):
    network.board.stuck = True
    wait = network.board._wait

    def reset(context: int) -> None:
        network.board.registers[[ADDRESSES["run"], ADDRESSES["done"]]] = 0
        wait(context)

    hook = type(network.board.struct.wait)(reset)
    network.board.struct.wait = hook
    given = layers()[0].samples()
    network.board.registers[[ADDRESSES["run"], ADDRESSES["done"]]] = 5
    assert network.run(given)[0] == STATUS["LOST"]


@pytest.mark.parametrize("byte, value, status", [
    (0, 0, Status.ILLEGAL), (1, 0xF, Status.DEADLOCK)])
def test_a_word_that_was_changed(network, byte, value, status):
    """The error of the machine is kept: opcode 0, and tokens that never come."""
    for view in (network.board.behind, network.board.synced):
        view[2 * WORD_BYTES + byte] = value
    given = layers()[0].samples()
    assert network.run(given)[0] == STATUS["FAILED"]
    struct = network.board.struct
    assert struct.status & 0xFF == status and struct.index <= 2
    assert (struct.waiting != 0) == (status is Status.DEADLOCK)
    assert network.init() == 0 and network.run(given)[0] == 0
    assert struct.status & 0xFF == Status.DONE


def test_an_arena_that_is_not_aligned(network):
    assert network.run(layers()[0].samples(), 8)[0] == network.status("ARENA")


def test_numbers_of_runs_go_round(network):
    network.board.registers[[ADDRESSES["run"], ADDRESSES["done"]]] = 0xFFFFFFFF
    assert network.run(layers()[0].samples())[0] == 0
    assert network.board.registers[ADDRESSES["done"]] == 1


def test_a_board_of_another_machine(tmp_path):
    _, graph = layers()
    network = Exported(on(TINY, graph), tmp_path)
    network.board.registers[ADDRESSES["machine"]] ^= 1
    assert network.init() == STATUS["OTHER_MACHINE"] and not network.board.calls


def cache_of_rows() -> tuple[Net, Graph]:
    """A row is put into a cache, of which a product is made."""
    net = Net(2)
    cache, row = net.input(6, 3, 8, name="cache"), net.rescale(net.input(6, 1, 8, name="row"))
    at = net.input(1, name="position", dtype="int64")
    return net, net.graph(net.dense(net.add_node("qput", cache, row, at, axis=1), 5))


def test_rows_are_put_where_the_run_says(tmp_path):
    net, graph = cache_of_rows()
    network = Exported(on(TINY, graph), tmp_path)
    assert network.init() == 0
    for position in (0, 2, 1, 2):
        given = net.samples() | {"position": np.array([position])}
        status, made = network.run(given)
        assert status == 0
        for name, array in network.module(given).items():
            np.testing.assert_array_equal(made[name], array)
    network.board.calls.clear()
    for position in (-1, 3, 1 << 32):
        given = net.samples() | {"position": np.array([position])}
        assert network.run(given)[0] == STATUS["BAD_POSITION"]
    assert not network.board.calls


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_a_step_of_a_decoder(tmp_path, rng, kind):
    """Processor, accelerator with positions of the run, processor."""
    graph = decoders.made(kind, True, decoders.ONE_LAYER[kind]).graph
    module = lockstep.compile(graph, "accel,cpu", machine=decoders.machine(), sim="functional")
    assert any(segment.puts for segment in module.accelerated) and len(module.steps) > 1
    network = Exported(module, tmp_path)
    assert network.init() == 0
    for position in (0, 5, decoders.TOKENS - 1):
        given = {name: np.full(type_.shape, position) if type_.dtype == "int64"
                 else rng.standard_normal(type_.shape, np.float32)
                 for name in graph.inputs for type_ in [graph.values[name]]}
        status, made = network.run(given)
        assert status == 0
        for name, array in module(given).items():
            np.testing.assert_allclose(made[name], array, rtol=1e-6)
