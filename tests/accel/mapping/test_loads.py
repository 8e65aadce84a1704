"""Between layers: constants are loaded before inputs, buffers are filled from alternate ends."""

import numpy as np

from accel.machine import isa
from accel.machine.program import Instruction, Stream
from accel.mapping.loads import constants_first
from accel.mapping.target import AccelTarget
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import TINY


def load(base: str, dram: int) -> Instruction:
    return Instruction("load", "load", {"buffer": 0, "base": isa.BASES.index(base), "dram": dram,
                                        "address": dram, "run": 4})


def test_constants_come_first_and_keep_their_order() -> None:
    gemm = Instruction("gemm", "gemm", {"banks": 1, "reset": 1})
    stream = Stream.of(TINY, [load("activations", 0), load("weights", 4), load("io", 8),
                              load("weights", 12), gemm, load("io", 16), load("weights", 20)])
    made = constants_first(TINY, stream)
    fields = [Instruction.decode(TINY, int.from_bytes(word.tobytes(), "little")).fields
              for word in made.words]
    assert [one.get("dram", -1) for one in fields] == [4, 12, 0, 8, -1, 16, 20]


def test_a_stream_of_loads_alone() -> None:
    stream = Stream.of(TINY, [load("io", 0), load("weights", 4)])
    assert np.array_equal(constants_first(TINY, stream).words, stream.words[::-1])


def test_the_next_layer_begins_at_the_other_end() -> None:
    net = Net(3)
    x = net.rescale(net.input(1, 8, 6, 6))
    graph = net.graph(net.conv(net.conv(x, 8, (3, 3)), 8, (3, 3)))
    program = assert_right(TINY, graph, net.samples())
    (_, begin), (_, middle), (_, end) = AccelTarget(TINY).compile(graph).program.layers
    wgt, size = isa.BUFFERS.index("wgt"), TINY.config.buffers["wgt"].size_bytes

    def lowest(first: int, last: int) -> int:
        loads = (program.instruction(TINY, index) for index in range(first, last))
        return min(one.fields["address"] for one in loads
                   if one.unit == "load" and one.fields["buffer"] == wgt)

    assert (lowest(begin, middle) < size // 2) != (lowest(middle, end) < size // 2)
