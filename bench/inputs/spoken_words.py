"""Words that nobody has spoken: features like those of speech, for networks of keywords.

A word is a sequence of three sounds of a set of eight, a sound a place in the space of ten
coefficients. Each utterance has its own speaker (an offset and a stretch of all coefficients), pace
(the lengths of its sounds), beginning, loudness, and noise; sounds flow into each other. Words
share sounds, and half of them are others backwards, so no single frame tells them apart.
"""

import numpy as np

WORDS, SOUNDS, LENGTH = 12, 8, 3
FRAMES, COEFFICIENTS = 49, 10
LEAST, MOST = 7, 15         # frames of a sound
NOISE = 0.5

Array = np.ndarray


def words(rng: np.random.Generator) -> Array:
    """The sounds of each word [WORDS, LENGTH]: orders of few sounds, no two alike."""
    made: list[list[int]] = []
    while len(made) < WORDS:
        word = rng.permutation(SOUNDS)[:LENGTH].tolist()
        if word not in made:
            made += [word, word[::-1]]
    return np.array(made[:WORDS])


def utterances(count: int, seed: int) -> tuple[Array, Array]:
    """Features [count, 1, FRAMES, COEFFICIENTS] float32 and their words [count] int64; the language
    is always the same, `seed` draws who says what.
    """
    language = np.random.default_rng(0)
    places, spelled = language.standard_normal((SOUNDS, COEFFICIENTS)), words(language)
    rng = np.random.default_rng((1, seed))
    labels = rng.integers(0, WORDS, count)
    return np.stack([_spoken(places[spelled[label]], rng) for label in labels]), labels


def _spoken(sounds: Array, rng: np.random.Generator) -> Array:
    lengths = rng.integers(LEAST, MOST + 1, LENGTH)
    begin = rng.integers(0, FRAMES - lengths.sum() + 1)
    frames = np.zeros((FRAMES, COEFFICIENTS))
    frames[begin:begin + lengths.sum()] = sounds.repeat(lengths, axis=0)
    smooth = np.array([1, 2, 3, 2, 1]) / 9
    frames = np.stack([np.convolve(row, smooth, "same") for row in frames.T], axis=1)
    stretch = rng.uniform(0.6, 1.4, COEFFICIENTS) * rng.uniform(0.5, 1.5)
    frames = frames * stretch + 0.5 * rng.standard_normal(COEFFICIENTS)
    return (frames + NOISE * rng.standard_normal(frames.shape))[None].astype(np.float32)
