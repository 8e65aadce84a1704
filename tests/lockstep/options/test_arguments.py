"""Types of arguments that have parts."""

import pytest

from lockstep.options.arguments import waves


@pytest.mark.parametrize(("text", "layer", "file"), [
    ("conv1", "conv1", "conv1.fst"), ("conv1,w.fst", "conv1", "w.fst"),
    ("conv4 + add", "conv4 + add", "conv4_add.fst"), ("/a/b_0", "/a/b_0", "_a_b_0.fst"),
    ("one,two", "one,two", "one_two.fst")])
def test_a_layer_and_its_waveforms(text, layer, file):
    found = waves(text)
    assert (found[0], str(found[1])) == (layer, file)
