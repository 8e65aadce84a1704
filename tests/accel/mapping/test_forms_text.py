"""The text of a graph's forms: one line for each value, with why it lies so."""

from accel.mapping.layers import forms_of
from accel.mapping.layout import blocks_of
from accel.mapping.lowering import TensorPlacement
from accel.mapping.memory.text import forms_text
from tests.support.integer_graphs import Net
from tests.support.machines import TINY


def lines(net: Net, *outputs: str, **places: TensorPlacement) -> list[str]:
    """The lines, blanks as one."""
    forms = forms_of(net.graph(*outputs), blocks_of(TINY.config))
    return [" ".join(line.split()) for line in forms_text(forms, places).splitlines()]


def test_joined_and_cut_images() -> None:
    net = Net(3)
    x = net.input(1, 4, 3, 2)
    joined = net.add_node("qconcat", net.conv(x, 4, (1, 1)), net.conv(x, 6, (1, 1)), axis=1,
                          bias=(0, 0), mult=(1 << 15,) * 2, shift=(15, 15), zp=0, lo=-128, hi=127)
    cut = net.slice(joined, (0, 1, 1), (4, 8, 1))
    dense = net.dense(net.flatten(net.conv(cut, 4, (1, 1))), 5)
    assert lines(net, dense, x=TensorPlacement("io", 64)) == [
        "x int8[1,4,3,2] plain images [1,3,2,4]/1 own at io+64 given; qconv2d_0 wants no rows",
        "qconv2d_0.out int8[1,4,3,2] joined images [1,3,2,1]/1x4 qconcat_2.out "
        "channels 0 and on of qconcat_2.out",
        "qconv2d_1.out int8[1,6,3,2] joined images [1,3,2,2]/1x4 qconcat_2.out +4 "
        "channels 4 and on of qconcat_2.out",
        "qconcat_2.out int8[1,10,3,2] images [1,3,2,3]/1x4 own qconcat writes images",
        "slice_3.out int8[1,4,3,2] cut images [1,3,2,1]/1x4 qconcat_2.out +4 "
        "cut out of qconcat_2.out, where it lies",
        "qconv2d_4.out int8[1,4,3,2] images [1,3,2,1]/1x4 own qconv2d writes images",
        "reshape_5.out int8[1,24] flat images [1,3,2,1]/1x4 qconv2d_4.out view of qconv2d_4.out",
        "qdense_6.out int8[1,5] rows [1,1,1,2]/1x4 own qdense writes rows"]


def test_strides_copies_and_refusals() -> None:
    net = Net(3)
    x = net.input(1, 4, 6)
    product = net.matmul(x, net.transpose(x, 0, 2, 1))
    copied = net.rescale(net.transpose(net.input(5, 4, name="y"), 1, 0))
    vector = net.reshape(copied, 20)
    assert lines(net, product, vector) == [
        "x int8[1,4,6] plain rows [4,1,1,6]/1 own given; all readers want rows",
        "y int8[5,4] plain rows [5,1,1,4]/1 own given; transpose_2 wants no rows",
        "transpose_0.out int8[1,6,4] strides [24,1,6] x view of x",
        "qmatmul_1.out int8[1,4,4] rows [4,1,1,1]/1x4 own product of rows",
        "transpose_2.out int8[4,5] copied plain rows [4,1,1,5]/1 own "
        "copy of y: not all readers take strides",
        "qrescale_3.out int8[4,5] rows [4,1,1,2]/1x4 own as transpose_2.out, which it reads",
        "reshape_4.out int8[20] refused - own "
        "the accelerator takes tensors of 2 dimensions and more"]
