"""Runs models in ONNX Runtime or ONNX's reference implementation, to compare outputs."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from google.protobuf.message import Message

from bench.support.isolated import Limits, isolated
from bench.support.onnx_runtime import Peer as OnnxRuntime
from tests.support.spoiled.arrays import save_arrays

Arrays = Mapping[str, np.ndarray]
LIMITS = Limits(cpu_seconds=30)
RANDOM = (b"RandomNormal", b"RandomUniform", b"Bernoulli", b"Multinomial")
"""Prefixes of operators that no peer has."""


def compared(folder: Path, model: str, inputs: str, ours: Arrays, share: float
             ) -> tuple[str, str]:
    """Compares our outputs for the model and the inputs with peers until one agrees: ``equal``,
    ``wrong`` or ``no peer``, and a message. Where they differ, ONNX Runtime in float64 is asked
    too: others take long sums in float32 one element after the other.
    """
    text = (folder / model).read_bytes()
    if any(operator in text for operator in RANDOM):
        return "no peer", "it draws random numbers"
    said, differing = [], []
    for peer in (_onnx_runtime, _reference, _in_double):
        if peer is _in_double and not differing:
            break
        answer = folder / "peer.npz"
        answer.unlink(missing_ok=True)
        ended = isolated(_asked(peer, model, inputs), folder, LIMITS)
        if ended.status or not answer.exists():
            said.append(ended.err.strip().splitlines()[-1][:300] if ended.err.strip() else "?")
            continue
        found = difference(ours, _arrays(answer), share)
        if not found:
            return "equal", peer.__name__.strip("_")
        differing.append(f"{peer.__name__.strip('_')}: {found}")
    return ("wrong", "; ".join(differing)) if differing else ("no peer", "; ".join(said))


def difference(ours: Arrays, theirs: Arrays, share: float) -> str:
    """Describes the first difference above this share of the largest element; empty if there is
    none.
    """
    for name, wanted in theirs.items():
        found = ours.get(name)
        if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            return (f"{name} is {None if found is None else (found.dtype, found.shape)}, not "
                    f"{(wanted.dtype, wanted.shape)}")
        finite = wanted[np.isfinite(wanted)]
        most = float(np.abs(finite.astype(float)).max(initial=0))
        if not np.allclose(found, wanted, share, share * most + 1e-30, equal_nan=True):
            worst = np.abs(found.astype(float) - wanted.astype(float)).max()
            return f"{name} is off by {worst:g} of {most:g}"
    return ""


Peer = Callable[[str, Arrays], tuple[Sequence[str], Sequence]]


def _asked(peer: Peer, model: str, inputs: str) -> Callable[[], int]:
    def ask() -> int:
        warnings.simplefilter("ignore")         # a peer's answer counts despite its warnings
        names, arrays = peer(model, _arrays(Path(inputs)))
        save_arrays(Path("peer.npz"), dict(zip(names, map(np.asarray, arrays), strict=True)))
        return 0
    return ask


def _onnx_runtime(model: str, inputs: Arrays) -> tuple[Sequence[str], Sequence]:
    made = OnnxRuntime(model, plain=True)(inputs)
    return [*made], [*made.values()]


def _reference(model: str, inputs: Arrays) -> tuple[Sequence[str], Sequence]:
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(model)
    return [str(name) for name in session.output_names], list(session.run(None, dict(inputs)))


def _in_double(model: str, inputs: Arrays) -> tuple[Sequence[str], Sequence]:
    import onnx

    proto = onnx.load(model)
    _widen(proto)
    onnx.save(proto, "double.onnx")
    wide = {name: array.astype(np.float64) if array.dtype == np.float32 else array
            for name, array in inputs.items()}
    names, arrays = _onnx_runtime("double.onnx", wide)
    found = map(np.asarray, arrays)
    return names, [array.astype(np.float32) if array.dtype == np.float64 else array
                   for array in found]


def _widen(message: Message) -> None:
    """Every float32 of the ONNX message, and of those within, becomes a float64."""
    import onnx
    from onnx import numpy_helper

    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    match message:
        case onnx.TensorProto() if message.data_type == single:
            array = numpy_helper.to_array(message).astype(np.float64)
            message.CopyFrom(numpy_helper.from_array(array, message.name))
            return
        case onnx.TypeProto.Tensor() if message.elem_type == single:
            message.elem_type = double
        case onnx.AttributeProto(name="to") if message.i == single:
            message.i = double
        case _:
            pass
    for kind, value in message.ListFields():
        if kind.message_type:
            for each in value if kind.is_repeated else [value]:
                _widen(each)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)
