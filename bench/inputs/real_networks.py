"""Trained networks that wheels ship (the extra `real`), used as by their makers: inputs, outputs,
and how right an answer is.

A network is judged on samples that it was not calibrated on. `truth` of a sample is known from how
it was made; otherwise it is the answer of ONNX Runtime's float network.
"""

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.inputs.real_inputs import (
    FILE_KINDS,
    RATE,
    file_bytes,
    page,
    photograph,
    pictures,
    speech,
    text_line,
    text_of,
    tone,
)

CALIBRATION = 16        # the most samples to quantize a network by

Array = np.ndarray
Values = Mapping[str, Array]
Run = Callable[[Values], Values]
Boxes = tuple[Array, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs by name, and their right answer; None where it is unknown."""

    inputs: Values
    truth: Any = None


@dataclass(frozen=True, slots=True)
class Network:
    """A model file of a package. `samples` makes any number of them, given a function that runs the
    float network, which makes its states. `answer` reads outputs; `right` is the share, 0 to 1, of
    an answer that agrees with the truth; `show` writes an answer for people.
    """

    name: str
    package: str
    file: str
    samples: Callable[[Run], Iterator[Sample]]
    answer: Callable[[Values], Any]
    right: Callable[[Any, Any], float] = field(default=lambda answer, truth: float(answer == truth))
    show: Callable[[Any], str] = str
    bind: Mapping[str, Array] = field(default_factory=dict)
    in_float: bool = False      # an int8 file stands for the float network that it was made from
    judged: int = 12        # samples that answers are judged on

    @property
    def path(self) -> Path | None:
        """The file; None where its package is not installed."""
        package = importlib.util.find_spec(self.package)
        if package is None or not package.submodule_search_locations:
            return None
        path = Path(package.submodule_search_locations[0], self.file)
        return path if path.exists() else None

    def divided(self, run: Run) -> tuple[list[Sample], list[Sample]]:
        """Samples to calibrate on, and other ones to judge by."""
        found = list(islice(self.samples(run), CALIBRATION + self.judged))
        return found[self.judged:], found[:self.judged]


# Kinds of files

@cache
def _kinds() -> list[str]:
    path = BY_NAME["magika"].path
    assert path
    return json.loads(path.with_name("config.min.json").read_text())["target_labels_space"]


def files(run: Run) -> Iterator[Sample]:
    """The first and last 1,024 bytes of up to 4,096, without surrounding white space; 256 pads
    them.
    """
    for name, kind in FILE_KINDS.items():
        content = file_bytes(name)
        first, last = content[:4096].lstrip(), content[-4096:].rstrip()
        if len(content) <= 4096:
            first = last = content.strip()
        tokens = np.full((1, 2048), 256, np.int32)
        tokens[0, :len(first[:1024])] = list(first[:1024])
        tokens[0, 2048 - len(last[-1024:]):] = list(last[-1024:])
        yield Sample({"bytes": tokens}, kind)


def kind_of_file(outputs: Values) -> str:
    return _kinds()[int(outputs["target_label"].argmax())]


# Speech

FRAME, BEFORE = 512, 64     # samples of a frame, and those repeated from the frame before


def frames(seed: int) -> tuple[Array, Array]:
    """Frames [N, 576] of pauses and speech, or of a tone, and whether each contains a voice."""
    sound, voiced = speech(seed, 4) if seed % 4 else (tone(seed, 4), np.zeros(4 * RATE, bool))
    count = len(sound) // FRAME
    padded = np.pad(sound, (BEFORE, 0))
    cut = [padded[place * FRAME:place * FRAME + FRAME + BEFORE] for place in range(count)]
    share = voiced[:count * FRAME].reshape(count, FRAME).mean(axis=1)
    return np.stack(cut), share > 0.5


def voices(run: Run, rate: bool = True) -> Iterator[Sample]:
    """Frames of changing speakers, with the state of the float network before each."""
    seed = 0
    while True:
        cut, voiced = frames(seed)
        state = np.zeros((2, 1, 128), np.float32)
        chosen = np.random.default_rng(seed).choice(np.arange(8, len(cut)), 4, replace=False)
        for place, frame in enumerate(cut):
            given = {"input": frame[None], "state": state}
            if rate:
                given["sr"] = np.array(RATE, np.int64)
            if place in chosen:
                yield Sample(given, bool(voiced[place]))
            state = run(given)["stateN"]
        seed += 1


def voices_of_one_rate(run: Run) -> Iterator[Sample]:
    return voices(run, rate=False)


def voice_sequences(run: Run) -> Iterator[Sample]:
    """Sequences of sixteen frames, from the initial state."""
    empty = np.zeros((1, 1, 128), np.float32)
    seed = 0
    while True:
        cut, voiced = frames(seed)
        for start in (16, 64):
            yield Sample({"input": cut[start:start + 16], "h": empty, "c": empty},
                         voiced[start:start + 16].tolist())
        seed += 1


def is_voice(outputs: Values) -> bool:
    return bool(outputs["output"].item() > 0.5)


def where_voice(outputs: Values) -> list[bool]:
    return (outputs["speech_probs"] > 0.5).tolist()


def same_places(answer: Sequence[bool], truth: Sequence[bool]) -> float:
    return float(np.mean(np.equal(answer, truth)))


def show_places(answer: Sequence[bool]) -> str:
    return "".join("s" if voice else "." for voice in answer)


# Whether a speaker has ended

def turns(run: Run) -> Iterator[Sample]:
    """Log-mel spectra [80, 800] of the last 8 seconds, some with silence at the end."""
    features = _file_of("pipecat", "audio/turn/smart_turn/_whisper_features.py")
    seed = 1
    while True:
        sound = speech(seed, 2 + seed % 5)[0]
        if seed % 2:
            sound = np.pad(sound, (0, RATE // 2))
        sound = np.pad(sound, (8 * RATE - len(sound), 0))
        spectrum = features.compute_whisper_log_mel_features(sound, do_normalize=True)
        yield Sample({"input_features": spectrum[None].astype(np.float32)})
        seed += 1


def _file_of(package: str, file: str) -> Any:
    """Loads one module of a package without the others, which take seconds."""
    found = importlib.util.find_spec(package)
    assert found and found.submodule_search_locations
    path = Path(found.submodule_search_locations[0], file)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has_ended(outputs: Values) -> str:
    return "ended" if outputs["logits"].item() > 0.5 else "goes on"


# Text

def as_planes(image: Array, size: tuple[int, int]) -> Array:
    """The image as [1, 3, H, W] in -1 to 1: scaled to the height, at most the width, zeros to its
    right.
    """
    height, width = size
    wide = min(width, int(np.ceil(image.shape[1] * height / image.shape[0])))
    scaled = pictures().fromarray(image.astype(np.uint8)).resize((wide, height))
    planes = np.zeros((1, 3, height, width), np.float32)
    planes[0, :, :, :wide] = np.asarray(scaled, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return planes


def lines(run: Run) -> Iterator[Sample]:
    rng = np.random.default_rng(3)
    while True:
        text = text_of(rng, int(rng.integers(1, 3)))
        yield Sample({"x": as_planes(text_line(text, rng), (48, 320))}, text)


def turned_lines(run: Run) -> Iterator[Sample]:
    """Text lines, every other one upside down."""
    rng = np.random.default_rng(4)
    while True:
        for degrees in (0, 180):
            image = text_line(text_of(rng, int(rng.integers(1, 3))), rng)
            image = image[::-1, ::-1] if degrees else image
            yield Sample({"x": as_planes(image, (48, 192))}, degrees)


def pages(run: Run) -> Iterator[Sample]:
    seed = 0
    while True:
        image, boxes = page(seed, 320, 480)
        planes = (image.transpose(2, 0, 1) / 127.5 - 1).astype(np.float32)
        yield Sample({"x": planes[None]}, (boxes, ["text"] * len(boxes)))
        seed += 1


@cache
def _characters() -> list[str]:
    path = BY_NAME["ppocr_rec"].path
    assert path
    found = {one.key: one.value for one in onnx.load(path).metadata_props}
    return ["", *found["character"].splitlines(), " "]


def written(outputs: Values) -> str:
    """The likeliest character of each step, without repeats and blanks."""
    best = next(iter(outputs.values()))[0].argmax(axis=1)
    kept = best[np.diff(best, prepend=-1) != 0]
    return "".join(_characters()[place] for place in kept).strip()


def same_text(answer: str, truth: str) -> float:
    """1 minus the edit distance (Levenshtein) relative to the length of the truth."""
    costs = list(range(len(truth) + 1))
    for row, letter in enumerate(answer, 1):
        before, costs[0] = costs[0], row
        for column, other in enumerate(truth, 1):
            before, costs[column] = costs[column], min(
                costs[column] + 1, costs[column - 1] + 1, before + (letter != other))
    return max(0.0, 1 - costs[-1] / len(truth))


def orientation(outputs: Values) -> int:
    return 180 * int(next(iter(outputs.values())).argmax())


# Boxes

def text_boxes(outputs: Values) -> Boxes:
    """Boxes of regions above 0.3 with mean above 0.5, expanded to undo the shrinking (DB)."""
    measure = importlib.import_module("skimage.measure")
    likely = next(iter(outputs.values()))[0, 0]
    boxes = []
    for region in measure.regionprops(measure.label(likely > 0.3), likely):
        top, left, bottom, right = region.bbox
        height, width = bottom - top, right - left
        if min(height, width) < 3 or region.intensity_mean < 0.5:
            continue
        margin = 1.6 * height * width / (2 * (height + width))
        boxes.append((left - margin, top - margin, right + margin, bottom + margin))
    return np.array(boxes, np.float32).reshape(-1, 4), ["text"] * len(boxes)


PARTS = (
    "female genitalia covered", "face female", "buttocks exposed", "female breast exposed",
    "female genitalia exposed", "male breast exposed", "anus exposed", "feet exposed",
    "belly covered", "feet covered", "armpits covered", "armpits exposed", "face male",
    "belly exposed", "male genitalia exposed", "anus covered", "female breast covered",
    "buttocks covered")


def photographs(run: Run) -> Iterator[Sample]:
    seed = 0
    while True:
        planes = photograph(seed, 320).transpose(2, 0, 1)[None] / 255
        yield Sample({"images": np.ascontiguousarray(planes)})
        seed += 1


def parts(outputs: Values) -> Boxes:
    """Boxes of probability 0.2 or more; of two that overlap by 0.45 the likelier one."""
    found = outputs["output0"][0].T
    likely = found[:, 4:].max(axis=1)
    kept: list[int] = []
    for row in np.argsort(-likely, kind="stable"):
        if likely[row] < 0.2:
            break
        box = corners(found[row])
        if all(overlap(box, corners(found[other])) < 0.45 for other in kept):
            kept.append(int(row))
    boxes = np.array([corners(found[row]) for row in kept], np.float32).reshape(-1, 4)
    return boxes, [PARTS[found[row, 4:].argmax()] for row in kept]


def corners(row: Array) -> tuple[float, float, float, float]:
    x, y, width, height = map(float, row[:4])
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def overlap(one: Sequence[float] | Array, other: Sequence[float] | Array) -> float:
    """Intersection over union."""
    sides = [max(0.0, min(one[axis + 2], other[axis + 2]) - max(one[axis], other[axis]))
             for axis in (0, 1)]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    common = sides[0] * sides[1]
    return common / (sum(areas) - common)


def same_boxes(answer: Boxes, truth: Boxes) -> float:
    """The F1 score: each true box is found by at most one that overlaps by half, same label."""
    left = list(range(len(answer[1])))
    found = 0
    for box, name in zip(*truth):
        match = next((place for place in left if answer[1][place] == name
                      and overlap(answer[0][place], box) >= 0.5), None)
        if match is not None:
            left.remove(match)
            found += 1
    total = len(answer[1]) + len(truth[1])
    return 2 * found / total if total else 1.0


def show_boxes(answer: Boxes) -> str:
    names = list(answer[1])
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "nothing"


def _silero(name: str, file: str, samples: Callable[[Run], Iterator[Sample]], rate: int = 0
            ) -> Network:
    return Network(f"silero_{name}", "silero_vad", f"data/{file}", samples, is_voice,
                   bind={"sr": np.array(rate)} if rate else {}, judged=32)


NETWORKS = (
    Network("magika", "magika", "models/standard_v3_3/model.onnx", files, kind_of_file),
    _silero("vad", "silero_vad.onnx", voices, RATE),
    _silero("16k_op15", "silero_vad_16k_op15.onnx", voices, RATE),
    _silero("half", "silero_vad_half.onnx", voices_of_one_rate),
    _silero("op18_ifless", "silero_vad_op18_ifless.onnx", voices, RATE),
    _silero("openvino_16k", "silero_vad_openvino_16k.onnx", voices_of_one_rate),
    Network("silero_16k_sequence", "silero_vad", "data/silero_vad_16k_sequence.onnx",
            voice_sequences, where_voice, same_places, show_places, judged=4),
    Network("ppocr_det", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", pages,
            text_boxes, same_boxes, show_boxes, judged=4),
    Network("ppocr_rec", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", lines,
            written, same_text),
    Network("ppocr_cls", "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            turned_lines, orientation),
    Network("nudenet", "nudenet", "320n.onnx", photographs, parts, same_boxes, show_boxes,
            judged=6),
    Network("smart_turn", "pipecat", "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", turns,
            has_ended, in_float=True, judged=6),
    Network("smart_turn_int8", "pipecat", "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            turns, has_ended, judged=6))
BY_NAME = {network.name: network for network in NETWORKS}
