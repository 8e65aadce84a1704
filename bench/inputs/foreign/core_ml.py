"""coremltools' compression of weights (see `cases`).

Nothing but macOS runs its files, so there are no outputs of the tool.
"""

import coremltools as ct
import coremltools.optimize.coreml as optimize
import torch
from cases import Case, make_all
from networks import network

LINEAR = optimize.OpLinearQuantizerConfig
CASES = {
    "linear8": (optimize.linear_quantize_weights, LINEAR(mode="linear_symmetric")),
    "linear4-blocks": (optimize.linear_quantize_weights, LINEAR(
        mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=16)),
    "palette4": (optimize.palettize_weights, optimize.OpPalettizerConfig(
        mode="kmeans", nbits=4, weight_threshold=128)),
    "sparse": (optimize.prune_weights, optimize.OpMagnitudePrunerConfig(
        target_sparsity=0.5, weight_threshold=128)),
}


def make(case: Case) -> None:
    model, samples = network(case.network, case.size)
    program = torch.export.export(model, (samples[0],)).run_decompositions({})
    made = ct.convert(program, minimum_deployment_target=ct.target.iOS18)
    compress, config = CASES[case.mode]
    compress(made, optimize.OptimizationConfig(global_config=config)).save(
        str(case.path(".mlpackage")))


if __name__ == "__main__":
    make_all("coreml", make)
