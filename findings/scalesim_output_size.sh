#!/bin/sh
# SCALE-Sim rounds the size of a convolution's output up where the stride does not divide.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'scalesim==3.0.0' 'numpy==2.2.6'
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from scalesim.topology_utils import topologies

with open("t.csv", "w") as file:
    file.write("Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, "
               "Num Filter, Strides,\n"
               "pointwise, 56, 56, 1, 1, 64, 128, 2,\n"
               "stem, 230, 230, 7, 7, 3, 64, 2,\n")
topology = topologies()
topology.load_arrays("t.csv")
found = [topology.get_layer_ofmap_dims(number) for number in range(2)]
print("scalesim", version("scalesim"), "outputs of 56x56 by 1x1 and 230x230 by 7x7, stride 2, which "
      "are 28x28 and 112x112 everywhere else:", found)
assert [tuple(map(int, one)) for one in found] == [(29, 29), (113, 113)], "the behaviour has changed"
PYTHON
