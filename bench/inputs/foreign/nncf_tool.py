"""NNCF's quantization after training (see `cases`)."""

import nncf
import onnx
from cases import Case, make_all
from networks import exported, network
from onnx_runtime import run

PRESETS = {"mixed": nncf.QuantizationPreset.MIXED,
           "performance": nncf.QuantizationPreset.PERFORMANCE}


def make(case: Case) -> None:
    _, samples = network(case.network, case.size)
    arrays = [sample.numpy() for sample in samples]
    path, kind = case.path(".onnx"), nncf.ModelType.TRANSFORMER
    onnx.save(nncf.quantize(
        onnx.load(exported(case.network, case.size, case.folder)),
        nncf.Dataset(arrays, lambda array: {"x": array}), preset=PRESETS[case.mode],
        subset_size=len(arrays), model_type=kind if case.network == "vit" else None), path)
    case.keep(arrays[0], run(path, arrays[0]), "ONNX Runtime")


if __name__ == "__main__":
    make_all("nncf", make)
