"""PyTorch's quantizers: by export, by FX, and torchao (see `cases`)."""

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from cases import Case, make_all, slimmed
from networks import network
from torch import nn

Samples = list[torch.Tensor]


def _pt2e(quantizer: Callable[[], object]) -> Callable[[nn.Module, Samples], nn.Module]:
    """Export, observers, samples, integers."""
    def make(model: nn.Module, samples: Samples) -> nn.Module:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        program = torch.export.export(model, (samples[0],)).module()
        prepared = prepare_pt2e(program, quantizer())
        for sample in samples:
            prepared(sample)
        return convert_pt2e(prepared)
    return make


def _x86() -> object:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    return x86.X86InductorQuantizer().set_global(
        x86.get_default_x86_inductor_quantization_config())


def _xnnpack() -> object:
    from torchao.testing.pt2e._xnnpack_quantizer import (XNNPACKQuantizer,
                                                         get_symmetric_quantization_config)

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def _qat(model: nn.Module, samples: Samples) -> nn.Module:
    """Quantization-aware training by FX, as it is during training: fake quantization, and behind
    each convolution a division by the channel's scale and a batch norm.
    """
    from torch.ao.quantization import disable_observer, get_default_qat_qconfig_mapping
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    mapping = get_default_qat_qconfig_mapping("x86", version=0)     # 1 has fused operators
    prepared = prepare_qat_fx(copy.deepcopy(model).train(), mapping, (samples[0],))
    for sample in samples:
        prepared(sample)
    return prepared.eval().apply(disable_observer)


def _torchao(config: str, **options: object) -> Callable[[nn.Module, Samples], nn.Module]:
    def make(model: nn.Module, samples: Samples) -> nn.Module:
        from torchao import quantization

        made = copy.deepcopy(model)
        quantization.quantize_(made, getattr(quantization, config)(**options))
        return made
    return make


def _as_onnx(model: nn.Module, samples: Samples, path: Path) -> None:
    torch.onnx.export(model, (samples[0],), str(path), input_names=["x"], output_names=["y"],
                      dynamo=True, opset_version=21, optimize=True, external_data=False)
    slimmed(path)


def _as_traced_onnx(model: nn.Module, samples: Samples, path: Path) -> None:
    torch.onnx.export(model, (samples[0],), str(path), input_names=["x"], output_names=["y"],
                      dynamo=False, opset_version=17)


def _as_program(model: nn.Module, samples: Samples, path: Path) -> None:
    torch.export.save(torch.export.export(model, (samples[0],)), path)


CASES = {
    "pt2e-x86": (_pt2e(_x86), ".onnx", _as_onnx),
    "pt2e-x86-program": (_pt2e(_x86), ".pt2", _as_program),
    "pt2e-xnnpack": (_pt2e(_xnnpack), ".onnx", _as_onnx),
    "pt2e-xnnpack-program": (_pt2e(_xnnpack), ".pt2", _as_program),
    "fx-qat": (_qat, ".onnx", _as_traced_onnx),
    "ao-int8": (_torchao("Int8WeightOnlyConfig"), ".pt2", _as_program),
    "ao-int8dyn": (_torchao("Int8DynamicActivationInt8WeightConfig"), ".pt2", _as_program),
}


def make(case: Case) -> None:
    model, samples = network(case.network, case.size)
    quantize, suffix, save = CASES[case.mode]
    with torch.no_grad():
        made = quantize(model, samples)
        save(made, samples, case.path(suffix))
        case.keep(samples[0].numpy(), made(samples[0]).numpy(), "PyTorch")


if __name__ == "__main__":
    make_all("torch", make)
