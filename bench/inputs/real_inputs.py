"""Realistic inputs, generated or taken from wheels: speech, lines and pages of text,
photographs, contents of files. Seeded: the same every time.
"""

import gzip
import io
import json
import sys
import sysconfig
import wave
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

RATE = 16_000       # sample rate of all sound, in Hz
VOWELS = ((730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410),
          (300, 870, 2240), (500, 1500, 2500))
"""Formants in Hz of a, e, i, o, u and the neutral vowel (Peterson and Barney 1952)."""
BANDWIDTHS = (80, 90, 120, 150)
WORDS = ("Total", "Invoice", "Street", "number", "Lockstep", "price", "2026", "Berlin", "garden",
         "open", "Sunday", "train", "water", "Please", "exit", "coffee", "room", "412", "July",
         "bridge", "north", "paper", "window", "3.50", "market", "Hello")
ROOT = Path(__file__).resolve().parents[2]

Array = np.ndarray


def speech(seed: int, seconds: float) -> tuple[Array, Array]:
    """Synthetic speech: syllables of one voice with pauses, and where the voice is, both at `RATE`.

    A train of glottal pulses goes through the formants of a vowel; noise stands before each.
    """
    rng = np.random.default_rng(seed)
    pitch_hz = rng.uniform(95, 220)
    parts, voiced, wanted = [], [], int(seconds * RATE)
    while sum(map(len, parts)) < wanted:
        for _ in range(rng.integers(2, 6)):
            for part in (_hiss(rng), _vowel(rng, pitch_hz * rng.uniform(0.9, 1.1))):
                parts.append(part)
                voiced.append(np.ones(len(part), bool))
        parts.append(np.zeros(int(rng.uniform(0.1, 0.9) * RATE)))
        voiced.append(np.zeros(len(parts[-1]), bool))
    sound = np.concatenate(parts)[:wanted]
    noisy = 0.3 * sound + 0.001 * rng.standard_normal(wanted)
    return noisy.astype(np.float32), np.concatenate(voiced)[:wanted]


def tone(seed: int, seconds: float) -> Array:
    """A sine with noise, which is no speech."""
    rng = np.random.default_rng(seed)
    times = np.arange(int(seconds * RATE)) / RATE
    sine = np.sin(2 * np.pi * rng.uniform(100, 2000) * times)
    return (0.2 * sine + 0.02 * rng.standard_normal(len(times))).astype(np.float32)


def _vowel(rng: np.random.Generator, pitch_hz: float) -> Array:
    lfilter = import_module("scipy.signal").lfilter
    times = np.arange(int(rng.uniform(0.08, 0.22) * RATE)) / RATE
    pitch = pitch_hz * (1 + 0.03 * np.sin(2 * np.pi * 5 * times) - 0.15 * times / times[-1])
    pulses = np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0)
    sound = lfilter([1], [1, -0.97], pulses + 0.01 * rng.standard_normal(len(times)))
    for center_hz, width_hz in zip((*VOWELS[rng.integers(len(VOWELS))], 3500), BANDWIDTHS):
        sound = _resonance(sound, center_hz, width_hz)
    return _faded(np.diff(sound, prepend=0), 0.02)


def _hiss(rng: np.random.Generator) -> Array:
    noise = rng.standard_normal(int(rng.uniform(0.04, 0.1) * RATE))
    return 0.25 * _faded(_resonance(noise, rng.choice([2500, 4500, 6000]), 800), 0.01)


def _resonance(sound: Array, center_hz: float, width_hz: float) -> Array:
    lfilter = import_module("scipy.signal").lfilter
    radius = np.exp(-np.pi * width_hz / RATE)
    cosine = 2 * radius * np.cos(2 * np.pi * center_hz / RATE)
    return lfilter([1 - cosine + radius ** 2], [1, -cosine, radius ** 2], sound)


def _faded(sound: Array, seconds: float) -> Array:
    """The sound with faded ends and largest sample 1."""
    places = np.arange(len(sound))
    faded = sound * np.minimum(1, np.minimum(places, places[::-1]) / (seconds * RATE))
    return faded / np.abs(faded).max()


def pictures() -> Any:
    """Pillow, which comes with the wheels."""
    return import_module("PIL.Image")


def text_of(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS, words))


def text_line(text: str, rng: np.random.Generator, height: int = 48) -> Array:
    """A line of print [height, width, 3] in 0 to 255, dark on light or the other way."""
    draws, fonts = import_module("PIL.ImageDraw"), import_module("PIL.ImageFont")
    font = fonts.load_default(int(height * rng.uniform(0.55, 0.75)))
    left, top, right, bottom = font.getbbox(text)
    dark, light = rng.integers(0, 80), rng.integers(170, 256)
    ink, paper = (dark, light) if rng.random() < 0.7 else (light, dark)
    image = pictures().new("RGB", (int(right - left) + 16, height), (int(paper),) * 3)
    place = (8 - left, (height - (bottom - top)) / 2 - top)
    draws.Draw(image).text(place, text, (int(ink),) * 3, font)
    return _noisy(np.asarray(image), rng)


def page(seed: int, height: int, width: int) -> tuple[Array, Array]:
    """A page of print [height, width, 3] in 0 to 255, and the boxes of its lines as left, top,
    right, bottom.
    """
    draws, fonts = import_module("PIL.ImageDraw"), import_module("PIL.ImageFont")
    rng = np.random.default_rng(seed)
    tint = rng.integers(200, 256, 3).tolist()
    image = pictures().new("RGB", (width, height), tuple(tint))
    draw, boxes, top = draws.Draw(image), [], 16
    while True:
        font = fonts.load_default(int(rng.integers(16, 34)))
        text, left = text_of(rng, int(rng.integers(1, 4))), int(rng.integers(8, width // 4))
        box = draw.textbbox((left, top), text, font)
        if box[3] > height - 8:
            return _noisy(np.asarray(image), rng), np.array(boxes, np.float32)
        if box[2] < width - 8:
            draw.text((left, top), text, (int(rng.integers(0, 90)),) * 3, font)
            boxes.append(box)
            top = int(box[3] + rng.integers(12, 30))


def _noisy(image: Array, rng: np.random.Generator) -> Array:
    noise = rng.normal(0, 4, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.float32)


PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png")


def photograph(seed: int, size: int) -> Array:
    """Part of a photograph that scikit-image ships, [size, size, 3] in 0 to 255; every other one
    has a person in it.
    """
    rng = np.random.default_rng(seed)
    name = PHOTOGRAPHS[0] if seed % 2 == 0 else PHOTOGRAPHS[1 + seed // 2 % 4]
    folder = Path(str(import_module("skimage.data").__file__)).parent
    image = pictures().open(folder / name).convert("RGB")
    side = int(min(image.size) * rng.uniform(0.6, 1))
    left, top = (int(rng.uniform(0, room - side)) for room in image.size)
    if name == PHOTOGRAPHS[0]:      # her face is in the middle of the upper half
        left, top = int(np.clip(224 - side / 2 + rng.normal(0, 30), 0, 512 - side)), 0
    image = image.crop((left, top, left + side, top + side)).resize((size, size))
    return np.asarray(image, np.float32)[:, ::-1 if rng.random() < 0.5 else 1]


def file_bytes(name: str) -> bytes:
    """The content of a file of one of `FILE_KINDS`: an existing file or a generated one."""
    files = _files()
    return files[name].read_bytes() if name in files else _made(Path(name).suffix[1:])


def _files() -> dict[str, Path]:
    library, include = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("include"))
    return {"ast.py": library / "ast.py", "object.h": include / "object.h",
            "program": Path(sys.executable).resolve(), **{name: ROOT / name for name in (
                "pyproject.toml", "README.md", "Makefile", "docs/latency_hiding.svg",
                "docs/quantize.md", "bench/frame.py", "lockstep/report/page.js",
                "lockstep/report/page.css", "accel/machine/machine.py")}}


FILE_KINDS = {
    "ast.py": "python", "rows.json": "json", "object.h": "c", "photograph.png": "png",
    "README.md": "markdown", "rows.csv": "csv", "program": "elf", "rows.html": "html",
    "pyproject.toml": "toml", "sound.wav": "wav", "lockstep/report/page.js": "javascript",
    "rows.zip": "zip", "docs/latency_hiding.svg": "svg", "photograph.jpeg": "jpeg",
    "bench/frame.py": "python", "rows.xml": "xml", "Makefile": "makefile", "rows.ini": "ini",
    "docs/quantize.md": "markdown", "rows.npy": "npy", "lockstep/report/page.css": "css",
    "script.shell": "shell", "accel/machine/machine.py": "python", "rows.gzip": "gzip"}
"""Kinds of the files that `file_bytes` knows, as magika calls them."""
SCRIPT = """#!/bin/sh
set -eu
for file in *.txt; do
    case "$file" in
        a*) echo "$file" ;;
        *) rm -f "$file" ;;
    esac
done
"""


def _made(kind: str) -> bytes:
    rng = np.random.default_rng(1)
    rows = [(text_of(rng, 2), int(rng.integers(100))) for _ in range(40)]
    table = "\n".join(f"<tr><td>{name}</td><td>{count}</td></tr>" for name, count in rows)
    items = "\n".join(f'  <item count="{count}">{name}</item>' for name, count in rows)
    texts = {
        "json": json.dumps([{"name": name, "count": count} for name, count in rows], indent=1),
        "csv": "name,count\n" + "\n".join(f"{name},{count}" for name, count in rows),
        "html": f"<!DOCTYPE html>\n<html><head><title>Prices</title></head><body><table>{table}"
                "</table></body></html>",
        "xml": f'<?xml version="1.0" encoding="UTF-8"?>\n<list>\n{items}\n</list>\n',
        "ini": "\n".join(f"[part {count}]\nname = {name}\ncount = {count}\n"
                         for name, count in rows),
        "shell": SCRIPT}
    return texts[kind].encode() if kind in texts else _binary(kind, texts["json"].encode())


def _binary(kind: str, content: bytes) -> bytes:
    file = io.BytesIO()
    if kind == "gzip":
        return gzip.compress(content, mtime=0)
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("rows.json"), content)
    elif kind == "npy":
        np.save(file, np.frombuffer(content, np.uint8))
    elif kind == "wav":
        with wave.open(file, "wb") as sound:
            sound.setparams((1, 2, RATE, 0, "NONE", ""))
            sound.writeframes((speech(1, 1)[0] * 32767).astype(np.int16).tobytes())
    else:
        pictures().fromarray(photograph(1, 96).astype(np.uint8)).save(file, kind)
    return file.getvalue()
