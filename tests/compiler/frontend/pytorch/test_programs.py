"""Programs of torch.export give what torch gives; parameters are shared; refusals are whole."""

import io
import os
import sys
import zipfile

import numpy as np
import pytest

from compiler.frontend import models
from compiler.frontend.onnx.importing import ImportRefused
from compiler.graph.reference import evaluate

torch = pytest.importorskip("torch")

from torch import nn  # pyright: ignore[reportMissingImports]  # noqa: E402
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]  # noqa: E402

from compiler.frontend.pytorch import programs as torch_export      # noqa: E402

TOLERANCE = 2e-6        # by the largest element; the reference sums in float64, torch in float32

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning",
                                        "ignore::DeprecationWarning")


class Cases(nn.Module):
    """One module with a result for each function."""

    def __init__(self, cases, parts=()):
        super().__init__()
        self.cases = cases
        self.parts = nn.ModuleDict(dict(parts))

    def forward(self, *inputs):
        made = {name: case(*inputs) for name, case in self.cases.items()}
        made |= {name: part(*inputs) for name, part in self.parts.items()}
        return made


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def agree(module, *inputs, shapes=None, exported=None):
    """All results of the module for the inputs."""
    module = module.eval()
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(random(*parameter.shape, seed=place) * 0.5)
        wanted = module(*inputs)
    program = exported or torch_export.exported(module, inputs)
    graph = torch_export.convert(program, "model", shapes)
    with np.errstate(all="ignore"):
        made = evaluate(graph, {name: one.numpy()
                                for name, one in zip(graph.inputs, inputs, strict=True)})
    leaves = torch.utils._pytree.tree_leaves(wanted)
    assert len(leaves) == len(graph.outputs)
    wrong = [f"{name}: {problem}" for name, one in zip(graph.outputs, leaves, strict=True)
             if (problem := difference(made[name], one.detach().numpy()))]
    assert not wrong
    return graph


def difference(made, wanted):
    if (made.shape, made.dtype) != (wanted.shape, wanted.dtype):
        return f"{made.dtype}{made.shape} for {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(made, wanted) else f"{made} for {wanted}"
    if not np.array_equal(np.isfinite(made), np.isfinite(wanted)):
        return "infinities elsewhere"
    rest = np.abs(np.where(np.isfinite(wanted), made - np.where(
        np.isfinite(wanted), wanted, 0), 0)).max(initial=0)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    return "" if rest <= TOLERANCE * scale else f"off by {rest / scale:.1e}"


def test_functions_of_elements():
    unary = ("abs neg sign ceil floor round trunc frac exp exp2 expm1 sin cos tan atan sinh cosh "
             "tanh asinh erf erfc sigmoid square reciprocal isnan isinf isfinite logical_not "
             "relu rad2deg positive").split()
    cases = {name: getattr(torch, name) for name in unary}
    of_positive = "log log2 log10 log1p sqrt rsqrt".split()
    cases |= {name: lambda x, name=name: getattr(torch, name)(x.abs() + 0.1)
              for name in of_positive}
    cases |= {"asin": lambda x: torch.asin(x.tanh()), "acosh": lambda x: torch.acosh(x * x + 1.5)}
    cases |= {"decimals": lambda x: torch.round(x, decimals=1),
              "numbers": lambda x: torch.nan_to_num(x / (x > 0), nan=2.0, neginf=-5.0),
              "greatest": lambda x: torch.nan_to_num(1 / (x > 0))}
    agree(Cases(cases), random(3, 5) * 2)


def test_activations():
    names = ("silu elu selu celu hardtanh hardswish hardsigmoid softplus softsign mish logsigmoid "
             "hardshrink softshrink tanhshrink gelu relu6 leaky_relu glu").split()
    cases = {name: getattr(F, name) for name in names}
    cases |= {
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "elu_2": lambda x: F.elu(x, 2.0),
        "softplus_4": lambda x: F.softplus(x * 9, beta=4, threshold=3),
        "threshold": lambda x: F.threshold(x, 0.1, 7.0), "leaky": lambda x: F.leaky_relu(x, 0.3),
        "clamp": lambda x: x.clamp(-0.5, 0.7), "clamp_low": lambda x: x.clamp(min=0.1),
        "rrelu": F.rrelu, "clamp_tensor": lambda x: x.clamp(max=x.mean())}
    agree(Cases(cases, {"prelu": nn.PReLU(3), "prelu_one": nn.PReLU()}), random(2, 3, 4))


def test_two_operands_are_promoted_as_in_torch():
    class Pairs(nn.Module):
        def forward(self, x, y, i, j, b):
            return {
                "add": x + y, "alpha": torch.add(x, y, alpha=3), "sub": torch.sub(x, i, alpha=2),
                "rsub": 3 - x, "mixed": x * i, "scalar": i + 2, "up": i * 0.5, "bools": b + b,
                "product": b * b, "div": i / j, "true": x / 3, "trunc": torch.div(
                    i, j, rounding_mode="trunc"), "floor": torch.div(i, j, rounding_mode="floor"),
                "floors": torch.div(x, y, rounding_mode="floor"), "floordiv": i // j,
                "remainder": i % j, "remainders": x % y, "fmod": torch.fmod(i, j),
                "fmods": torch.fmod(x, y), "pow2": x ** 2, "pow3": i ** 3, "root": x.abs() ** 0.5,
                "pows": x.abs() ** y, "power": 2.0 ** x, "minus": x.abs() ** -0.5,
                "eq": i == j, "ne": i != j, "lt": x < i, "ge": x >= 0.1, "gt": i > 0.5,
                "le": x <= y, "divs": x.div(2),
                "and": b & (i > 0), "or": i | j, "xor": i ^ j, "not": ~b, "invert": ~i,
                "logical": torch.logical_and(i, b), "shift": i.abs() << 2, "zero": x + i.sum(),
                "max": torch.maximum(x, y), "fmin": torch.fmin(x, y), "where": torch.where(b, x, 1),
                "wheres": torch.where(b, i, x), "numbers": torch.where(b, 1.5, 2),
                "fill": x.masked_fill(b, -2), "lerp": torch.lerp(x, y, 0.3),
                "cmul": torch.addcmul(x, y, y, value=2), "cdiv": torch.addcdiv(x, y, y + 9),
                "double": x.double() + i, "half": (x.half() + 1).float(), "to": x.to(torch.int32),
                "device": x.to("cpu", torch.float64),
                "like": i.type_as(x), "bf": x.bfloat16() * y.bfloat16() + x}
    x, y = random(3, 4), random(3, 4, seed=1)
    i, j = torch.arange(-6, 6).reshape(3, 4), torch.tensor([[3, -2, 5, -7]])
    agree(Pairs(), x, y, i, j, x > 0)


def test_products():
    cases = {
        "matmul": lambda x, y: x @ y.transpose(-1, -2), "matvec": lambda x, y: x @ y[0, 0],
        "bmm": lambda x, y: torch.bmm(x, y.mT), "dot": lambda x, y: x[0, 0] @ y[0, 0],
        "addmm": lambda x, y: torch.addmm(x[0, :, :1], x[0], y[0].t(), beta=0.5, alpha=2),
        "baddbmm": lambda x, y: torch.baddbmm(x[:, :, :1], x, y.mT, alpha=0.5),
        "einsum": lambda x, y: torch.einsum("bik,bjk->ijb", x, y),
        "linear1": lambda x, y: F.linear(x[0, 0], y[0]),
        "doubles": lambda x, y: F.linear(x.double(), y[0].double()).float(),
    }
    class Linear(nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.fc = nn.Linear(5, 7, bias=bias)

        def forward(self, x, y):
            return self.fc(x), self.fc(y[0])
    agree(Cases(cases, {"linear": Linear(True), "plain": Linear(False)}),
          random(2, 3, 5), random(2, 3, 5, seed=1))


def test_attention():
    mask = torch.ones(4, 6, dtype=torch.bool).tril(2)
    mask[1] = False                                     # a row that sees nothing is zero
    attend = F.scaled_dot_product_attention
    agree(Cases({
        "plain": lambda q, k, v: attend(q, k, v), "scale": lambda q, k, v: attend(
            q, k, v, scale=0.3), "causal": lambda q, k, v: attend(q, q, q, is_causal=True),
        "mask": lambda q, k, v: attend(q, k, v, attn_mask=mask),
        "bias": lambda q, k, v: attend(q, k, v, attn_mask=k[..., :4].mT[:, :, :, :6]),
        "grouped": lambda q, k, v: attend(q, k[:, :1], v[:, :1], enable_gqa=True)}),
        random(2, 3, 4, 8), random(2, 3, 6, 8, seed=1), random(2, 3, 6, 8, seed=2))


def test_encoder_layer_and_multihead_attention():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
            self.attention = nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.layer(x), *self.attention(x, x, x)
    agree(Both(), random(2, 5, 8))


def test_convolutions():
    layers = {
        "plain": nn.Conv2d(4, 6, 3), "all": nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2),
        "same": nn.Conv2d(4, 5, 4, padding="same", bias=False),
        "depth": nn.Conv2d(4, 8, 3, groups=4), "valid": nn.Conv2d(4, 5, 2, padding="valid"),
        "reflect": nn.Conv2d(4, 5, 3, padding=1, padding_mode="reflect"),
        "circular": nn.Conv2d(4, 5, 3, padding=1, padding_mode="circular"),
        "up": nn.ConvTranspose2d(4, 6, 2, 2), "up_all": nn.ConvTranspose2d(
            4, 6, 3, 2, 1, 1, groups=2, dilation=2)}
    cases = {
        "one": lambda x: F.conv1d(x[:, :, 0], x[:1, :, 0, :3]),
        "three": lambda x: F.conv3d(x[:, None], x[:1, None, :2, :2, :2], stride=2, padding=1),
        "alone": lambda x: F.conv2d(x[0], x[:, :, :2, :2]),
        "up1": lambda x: F.conv_transpose1d(x[:, :, 0], x[0, :, :2, :3], stride=2)}
    graph = agree(Cases(cases, layers), random(2, 4, 7, 9))
    assert {"parts.plain", "parts.up"} <= {node.name for node in graph.nodes}


def test_pools():
    agree(Cases({
        "max": lambda x: F.max_pool2d(x, 2), "max_all": lambda x: F.max_pool2d(
            x, (3, 2), (2, 1), (1, 1), 2, ceil_mode=True),
        "max1": lambda x: F.max_pool1d(x[0], 3, 2, 1), "max3": lambda x: F.max_pool3d(x, 2),
        "ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        "avg": lambda x: F.avg_pool2d(x, 3, 2, 1),
        "without": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        "avg_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        "both": lambda x: F.avg_pool2d(x, 2, 2, 1, ceil_mode=True, count_include_pad=False),
        "avg1": lambda x: F.avg_pool1d(x[0], 2), "avg3": lambda x: F.avg_pool3d(x, 2, 1),
        "global": lambda x: F.adaptive_avg_pool2d(x, 1),
        "divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5),
        "even": lambda x: F.adaptive_avg_pool2d(x[:, :, :6], (3, 3)),
        "uneven": lambda x: F.adaptive_avg_pool2d(x, (3, None)),
        "adaptive1": lambda x: F.adaptive_avg_pool1d(x[0], 4),
        "adaptive_max": lambda x: F.adaptive_max_pool2d(x, (3, 4))}), random(2, 3, 7, 9))


def test_normalizations_and_softmax():
    norms = {"batch": nn.BatchNorm2d(6), "plain": nn.BatchNorm2d(6, affine=False),
             "group": nn.GroupNorm(3, 6), "layer": nn.LayerNorm([4, 5]),
             "layer_plain": nn.LayerNorm(5, elementwise_affine=False), "rms": nn.RMSNorm(5),
             "instance": nn.InstanceNorm2d(6, affine=True), "local": nn.LocalResponseNorm(3),
             "dropout": nn.Dropout(), "tracked": nn.InstanceNorm2d(6, track_running_stats=True)}
    agree(Cases({
        "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.log_softmax(x, -1),
        "half": lambda x: F.softmax(x, -1, dtype=torch.float64), "unit": lambda x: F.normalize(x),
        "norm": lambda x: torch.linalg.vector_norm(x, 3, dim=(1, 2)), "fro": torch.norm},
        norms), random(2, 6, 4, 5))


def test_batch_norms_have_the_statistics_of_the_module():
    norm = nn.BatchNorm1d(3).eval()
    for seed, statistics in enumerate((norm.running_mean, norm.running_var)):
        assert statistics is not None
        statistics.copy_(random(3, seed=seed).abs() + 0.5)
    agree(nn.Sequential(norm), random(4, 3))


def test_shapes():
    agree(Cases({
        "view": lambda x: x.view(6, -1), "reshape": lambda x: x.transpose(0, 2).reshape(-1),
        "flatten": lambda x: x.flatten(1), "unflatten": lambda x: x.unflatten(-1, (2, -1)),
        "squeeze": lambda x: x.unsqueeze(-2).squeeze(-2), "all": lambda x: x[:1].squeeze(),
        "some": lambda x: x[:1, :, None].squeeze((0, 1)), "permute": lambda x: x.permute(-1, 0, 1),
        "move": lambda x: x.movedim(0, -1), "T": lambda x: x[0].T, "swap": lambda x: x.mT,
        "expand": lambda x: x[:, :1].expand(3, -1, 4, -1), "repeat": lambda x: x.repeat(2, 1, 3, 1),
        "tile": lambda x: x.tile(2), "times": lambda x: x.repeat_interleave(3, 1),
        "flat": lambda x: x.repeat_interleave(2), "as": lambda x: x[:1].expand_as(x)}),
        random(2, 3, 4))


def test_parts():
    agree(Cases({
        "cat": lambda x: torch.cat([x, x * 2], -1), "mixed": lambda x: torch.cat(
            [x, (x > 0)], 0), "stack": lambda x: torch.stack([x, x], 1),
        "empty": lambda x: torch.cat([torch.zeros(0), x[0, 0]]),
        "split": lambda x: x.split(2, 1)[1], "sizes": lambda x: x.split([1, 3, 1], -1)[1],
        "chunk": lambda x: x.chunk(3, 2)[2], "unbind": lambda x: x.unbind(1)[2],
        "slice": lambda x: x[:, 1:-1:2, -3:], "select": lambda x: x[:, -1],
        "narrow": lambda x: x.narrow(2, 1, 3), "flip": lambda x: x.flip(0, 2),
        "roll": lambda x: x.roll((1, -2), (0, 2)), "rolled": lambda x: x.roll(3),
        "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=7), "crop": lambda x: F.pad(x, (-1, -1)),
        "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
        "edge": lambda x: F.pad(x, (2, 1), mode="replicate"),
        "wrap": lambda x: F.pad(x, (2, -1), mode="circular"), "tril": lambda x: x.tril(1),
        "triu": lambda x: x.triu(-1), "clone": lambda x: x.contiguous().clone()}),
        random(2, 3, 5))


def test_slices_are_written_where_torch_writes_in_place():
    def write(x):
        y = x.clone()
        y[:, 1:3] = 5
        y[0, -1] += 1
        y.mul_(2).relu_()
        return y
    agree(Cases({"write": write}), random(2, 4, 3))


def test_elements_by_their_numbers():
    agree(Cases({
        "embedding": lambda x, i: F.embedding(i, x[0]), "select": lambda x, i: x.index_select(
            1, i[0]), "gather": lambda x, i: x.gather(2, i[None]),
        "index": lambda x, i: x[:, i], "two": lambda x, i: x[i, :, i % 3],
        "inner": lambda x, i: x[:, i[0], i[1]],
        "argmax": lambda x, i: x.argmax(1), "argmin": lambda x, i: x.argmin(),
        "topk": lambda x, i: x.topk(2, -1), "sort": lambda x, i: x.sort(1, descending=True),
        "argsort": lambda x, i: x.argsort(-1), "one_hot": lambda x, i: F.one_hot(i, 3)}),
        random(3, 3, 4), torch.tensor([[0, 2, 1], [1, 1, 0]]))


def test_reductions():
    agree(Cases({
        "sum": lambda x: x.sum(), "sums": lambda x: x.sum((0, -1), keepdim=True),
        "ints": lambda x: (x > 0).sum(1), "mean": lambda x: x.mean(-1),
        "plane": lambda x: x[None].mean((2, 3)), "amax": lambda x: x.amax((0, 1)),
        "max": lambda x: x.max(1), "min": lambda x: x.min(), "prod": lambda x: x.prod(2),
        "maximum": lambda x: x.max(x.flip(0)), "var": lambda x: x.var(),
        "std": lambda x: x.std(1, unbiased=False), "var_mean": lambda x: torch.var_mean(x, -1),
        "var0": lambda x: x.var((0, 2), correction=2, keepdim=True),
        "any": lambda x: (x > 1).any(), "all": lambda x: (x > -1).all(1),
        "cumsum": lambda x: x.cumsum(-1), "cumprod": lambda x: x.cumprod(0),
        "lse": lambda x: x.logsumexp((0, 2)), "norm": lambda x: x.norm(dim=1),
        "scalar": lambda x: x[0, 0, 0].max(0),
        "inf": lambda x: torch.linalg.vector_norm(x, float("inf"))}), random(2, 3, 4))


def test_tensors_that_sizes_decide():
    agree(Cases({
        "zeros": lambda x: x + torch.zeros(3), "ones": lambda x: torch.ones_like(x) * x,
        "full": lambda x: torch.full((2, 3), 4) + x, "arange": lambda x: x + torch.arange(3),
        "steps": lambda x: torch.arange(1.0, 2.5, 0.5) * x, "eye": lambda x: x @ torch.eye(3),
        "linspace": lambda x: torch.linspace(0, 1, 3) + x, "new": lambda x: x.new_ones(2, 3) + x}),
        random(2, 3))


def test_interpolation():
    resize = F.interpolate
    agree(Cases({
        "nearest": lambda x: resize(x, scale_factor=2), "size": lambda x: resize(x, (9, 4)),
        "exact": lambda x: resize(x, (9, 4), mode="nearest-exact"),
        "bilinear": lambda x: resize(x, scale_factor=2.0, mode="bilinear"),
        "corners": lambda x: resize(x, (9, 4), mode="bilinear", align_corners=True),
        "smaller": lambda x: resize(x, (3, 3), mode="bilinear"),
        "cubic": lambda x: resize(x, (9, 11), mode="bicubic"),
        "linear": lambda x: resize(x[0], 9, mode="linear"),
        "shuffle": lambda x: F.pixel_shuffle(x, 2), "unshuffle": lambda x: F.pixel_unshuffle(
            x[..., :4], 2)}), random(1, 4, 6, 5))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind):
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = kind(5, 4, 2, batch_first=True, bidirectional=True)
            self.plain = kind(5, 3, bias=False)

        def forward(self, x):
            return *self.deep(x), self.plain(x)[0], self.plain(x[0])[0]
    agree(Layers(), random(2, 3, 5))


def test_symbolic_dimensions_are_bound_by_name():
    class Tokens(nn.Module):
        def forward(self, x, mask):
            tokens = x.shape[1]
            y = x.reshape(x.shape[0] * tokens, 2, -1) + torch.arange(2).reshape(2, 1)
            return y.view(-1, tokens, 4) * mask[:, :tokens, None]
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens", max=16)
    module, inputs = Tokens(), (random(2, 5, 4), random(2, 5))
    program = torch.export.export(module, inputs, dynamic_shapes=(
        {0: batch, 1: tokens}, {0: batch, 1: tokens}))
    graph = agree(module, random(3, 7, 4), random(3, 7), exported=program,
                  shapes={"x.0": 3, "mask.1": 7})
    assert graph.values["x"].shape == (3, 7, 4)
    for shapes, message in [
            ({"x.0": 3}, r"model: no value for dimension 'x\.1' \(torch's s\d+\); bind each with "
                         r"--shape NAME=N, for example --shape x\.1=1"),
            ({"n": 3}, r"model: --shape n=3 names no dimension of the inputs; the symbolic ones "
                       r"are: x\.0, x\.1"),
            ({"x.0": 3, "x.1": 99}, r"model: dimension s\d+ must be \d to 16, as it was exported, "
                                    r"not 99"),
            ({"x.0": 3, "mask.0": 4, "x.1": 5}, r"model: --shape mask\.0=4 contradicts 3, which "
                                                r"another name of the same dimension has"),
            ({"x.0": 0}, r"model: --shape x\.0=N must have an integer N of at least 1, not 0")]:
        with pytest.raises(ImportRefused, match=f"^{message}$"):
            torch_export.convert(program, shapes=shapes)


def test_parameters_lie_where_torch_has_them():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.lstm = nn.Conv2d(3, 4, 3), nn.LSTM(4, 2)
            self.words, self.fc = nn.Embedding(9, 4), nn.Linear(4, 4)
            self.factor = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
            self.register_buffer("offset", random(4), persistent=False)

        def forward(self, image, ids):
            x = self.conv(image).mean((2, 3)) + self.offset + self.words(ids)
            x = (x.bfloat16() * self.factor).float()
            return self.fc(self.lstm(x)[0].repeat(1, 2))
    net = Net().eval()
    inputs = random(2, 3, 5, 5), torch.tensor([1, 2])
    graph = torch_export.convert(torch_export.exported(net, inputs))
    told = dict(net.named_parameters()) | dict(net.named_buffers())
    assert set(told) <= set(graph.constants)
    for name, tensor in told.items():
        assert graph.constants[name].ctypes.data == tensor.data_ptr(), name
        assert not graph.constants[name].flags.writeable
    with torch.no_grad():
        net.fc.bias.add_(1)
    assert np.array_equal(graph.constants["fc.bias"], net.fc.bias.detach().numpy())


def test_results_have_names():
    class Many(nn.Module):
        def forward(self, x):
            return {"logits": x + 1, "states": (x * 2, [x, x])}
    graph = agree(Many(), random(2))
    assert graph.outputs == ("logits", "states.0", "states.1.0", "states.1.1")
    one = torch_export.convert(torch_export.exported(nn.ReLU(), random(2)))
    assert (one.inputs, one.outputs) == (("input",), ("output",))
    class Odd(nn.Module):
        def forward(self, x):
            return {"x": x + 1, "none": None, "same": x}
    odd = torch_export.convert(torch_export.exported(Odd(), random(2)))
    assert (odd.inputs, odd.outputs) == (("x",), ("x.out", "same"))


def test_results_without_elements_are_refused():
    class Empty(nn.Module):
        def forward(self, x):
            return x[:0]
    with pytest.raises(ImportRefused, match=(
            r"^model: output 'output' cannot be used: shape must hold integers of at least 1, "
            r"not \(0,\)$")):
        torch_export.convert(torch_export.exported(Empty(), random(2)))


def test_whatever_cannot_be_imported_is_reported():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.seen = nn.Dropout(), nn.Conv1d(2, 2, 1)

        def forward(self, x):
            y = self.drop(x) + torch.rand(3)
            z = torch.fft.rfft(x).real
            return self.seen(y), z, x[x > 0], torch.linalg.inv(x[:, :, :2])
    with pytest.raises(ImportRefused) as refused:
        torch_export.convert(torch.export.export(Odd().train(), (random(2, 2, 3),)), "odd")
    message = str(refused.value)
    assert message.startswith("odd: cannot import drop (aten.native_dropout.default): its result "
                              "is random; export the module in evaluation mode; ")
    for part in ("rand (aten.rand.default): its result is random",
                 "(aten._fft_r2c.default): operator is not supported",
                 "(aten.index.Tensor): its result depends on computed elements in number",
                 "(aten.linalg_inv_ex.default): operator is not supported"):
        assert part in message
    assert message.endswith("; replace these in the module (docs/torch.md says what is supported)")


def test_state_that_a_program_changes_is_refused():
    norm = nn.Sequential(nn.BatchNorm2d(3)).train()
    with pytest.raises(ImportRefused, match=(
            r"norm: cannot import .*it is in training mode and would change its running "
            r"statistics; call eval\(\) before export.*0\.num_batches_tracked \(changed by \w+\): "
            r"a graph keeps no state from one run to the next")):
        torch_export.convert(torch.export.export(norm, (random(2, 3, 4, 4),)), "norm")

    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(4, 3))

        def forward(self, x):
            keys = self.get_buffer("keys")
            keys[1:2] = x
            return keys.sum(0)
    with pytest.raises(ImportRefused, match=r"cannot import keys \(changed by \w+\): a graph"):
        torch_export.convert(torch.export.export(Cache(), (random(1, 3),)))


def test_without_torch_the_message_says_what_to_install(monkeypatch, tmp_path):
    path = tmp_path / "net.pt2"
    path.write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportRefused, match=(
            r"^a PyTorch program needs torch, which is not installed; install "
            r"lockstep-hw\[torch\]$")):
        models.graph_of(path)


def test_files_of_torch(tmp_path):
    module, inputs = nn.Linear(3, 2).eval(), (random(1, 3),)
    path = tmp_path / "net.pt2"
    torch.export.save(torch_export.exported(module, inputs), path)
    graph = models.graph_of(path)
    made = evaluate(graph, {"input": inputs[0].numpy()})["output"]
    assert not difference(made, module(*inputs).detach().numpy()) and graph.name == "net"
    for data, reason in ((b"", "torch.export.load cannot read it"),
                         (path.read_bytes()[:900], "torch.export.load cannot read it")):
        path.write_bytes(data)
        with pytest.raises(ImportRefused, match=reason):
            models.graph_of(path)
    with pytest.raises(ImportRefused, match="no such file; give the path of a .pt2 file"):
        models.graph_of(tmp_path / "absent.pt2")


class Planted:
    """Pickled, it makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize(("member", "reason"), [
    ("net/data/sample_inputs/model.pt", "torch.export.load cannot read it"),
    ("net/data/constants/opaque_obj_0", "must hold a program and tensors, not "
                                        "net/data/constants/opaque_obj_0; save the program"),
    ("net/data/aotinductor/model/a.so", "must hold a program and tensors, not net/data/aot")])
def test_files_of_torch_with_code_are_refused(tmp_path, member, reason):
    path, folder = tmp_path / "net.pt2", tmp_path / "planted"
    torch.export.save(torch_export.exported(nn.ReLU(), random(1)), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = io.BytesIO()
    torch.save(Planted(str(folder)), data)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {member: data.getvalue()}).items():
            archive.writestr(name, content)
    with pytest.raises(ImportRefused, match=reason):
        models.graph_of(path)
    assert not folder.exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_modules_come_with_example_inputs():
    module = nn.Linear(3, 2).eval()
    assert models.graph_of(module, example_inputs=random(1, 3)).outputs == ("output",)
    with pytest.raises(ImportRefused, match="^Linear: must come with example inputs, or as the "
                                            "program that torch.export.export made of it$"):
        models.graph_of(module)
    with pytest.raises(ImportRefused, match=r"^Linear: torch\.export\.export refuses it: "):
        models.graph_of(module, example_inputs=random(1, 4))
