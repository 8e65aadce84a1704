"""Between layers: constants are loaded before inputs, buffers are filled from alternate ends. What
is padded already is not padded again.
"""

import numpy as np

from accel.machine import isa
from accel.machine.program import Instruction, Stream
from accel.mapping.loads import constants_first, padding_once
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


def padding(address: int, value: int = 7, buffer: str = "inp", **fields: object) -> Instruction:
    return Instruction("load", "load", {
        "buffer": isa.BUFFERS.index(buffer), "address": address, "run": 3, "pad_value": value,
        "loops": [{"extent": 2, "before": 2}, {"extent": 3, "buffer": 16}], **fields})


def test_padding_that_is_there_is_not_loaded_again() -> None:
    data = {"run": 1, "loops": []}
    part = {"loops": [{"extent": 2, "before": 2}, {"extent": 2, "buffer": 16}]}
    stream = {
        "first": padding(13), "again": padding(13), "a part": padding(29, **part),
        "another buffer": padding(13, buffer="wgt"), "again there": padding(13, buffer="wgt"),
        "another place": padding(14), "another value": padding(13, 8), "the first": padding(13),
        "data beside it": padding(12, **data), "still there": padding(13),
        "data in it": padding(47, **data), "padded again": padding(13),
        "some data": padding(13, loops=[{"extent": 2, "before": 1}]), "at last": padding(13)}
    before = Stream.of(TINY, stream.values())
    words = [word.tobytes() for word in before.words]
    kept = {name for name in stream if name not in ("again", "a part", "still there")}
    assert [word.tobytes() for word in padding_once(TINY, before).words] == [
        word for name, word in zip(stream, words, strict=True) if name in kept]


def test_the_rest_of_windows_is_padded_once() -> None:
    """Windows of 27 bytes in 28: each of the two threads pads its half of inp for its first tile,
    and has others after that one.
    """
    net = Net(5)
    graph = net.graph(net.conv(net.input(1, 3, 33, 33), 8, (3, 3), strides=(2, 2)))
    program = assert_right(TINY, graph, net.samples())
    inp = isa.BUFFERS.index("inp")
    loads = [one.fields for one in program.instructions(TINY)
             if one.unit == "load" and one.fields["buffer"] == inp]
    tails = [fields for fields in loads if fields["run"] == 1
             and any(loop["before"] == loop["extent"] for loop in fields["loops"])]
    assert len(tails) == len({fields["address"] for fields in tails}) == 2
    assert len(loads) - len(tails) > 2 * len(tails)


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
