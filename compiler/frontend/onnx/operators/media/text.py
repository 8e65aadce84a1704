"""Operators on strings, which must be known while a network is built."""

import re
from collections import Counter

import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.onnx.nodes.registry import operator


@operator("StringConcat")
def string_concat(t, a, b):
    def join(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        both = np.broadcast_arrays(left, right)
        t.check_size((sum(len(text) for texts in both for text in texts.reshape(-1)),), "int8")
        return np.asarray(left + right, object)
    return t.computed(join, a, b)


@operator("StringSplit")
def string_split(t, x, *, delimiter=None, maxsplit=None):
    def split(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        most = -1 if maxsplit is None else maxsplit
        parts = [str(text).split(delimiter or None, most) for text in texts.reshape(-1)]
        counts = np.array([len(part) for part in parts], np.int64)
        t.check_size((len(parts), max(counts, default=0)), "string")
        pieces = np.full((len(parts), max(counts, default=0)), "", object)
        for row, part in enumerate(parts):
            pieces[row, :len(part)] = part
        return pieces.reshape(*texts.shape, -1 if pieces.size else pieces.shape[1]), (
            counts.reshape(texts.shape))
    return t.computed(split, x)


@operator("StringNormalizer")
def string_normalizer(t, x, *, case_change_action, is_case_sensitive, locale=None, stopwords=()):
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    if case_change_action not in change:
        raise NodeRefused("case_change_action must be NONE, LOWER or UPPER, "
                          f"not {case_change_action}")
    unwanted = {word if is_case_sensitive else word.lower() for word in stopwords}

    def normalize(texts: np.ndarray) -> np.ndarray:
        kept = [text for text in texts.reshape(-1)
                if (text if is_case_sensitive else text.lower()) not in unwanted]
        normalized = np.array([change[case_change_action](text) for text in kept or [""]], object)
        return normalized.reshape(1, -1) if texts.ndim == 2 else normalized

    return t.computed(normalize, x)


@operator("RegexFullMatch")
def regex_full_match(t, x, *, pattern):
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise NodeRefused(f"pattern must be a regular expression: {error}") from None

    def match(texts: np.ndarray) -> np.ndarray:
        matches = [wanted.fullmatch(text) is not None for text in texts.reshape(-1)]
        return np.array(matches, bool).reshape(texts.shape)

    return t.computed(match, x)


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(t, x, *, max_gram_length, max_skip_count, min_gram_length, mode,
                      ngram_counts, ngram_indexes, pool_int64s=None, pool_strings=None,
                      weights=None):
    grams = _grams(pool_strings if pool_int64s is None else pool_int64s, ngram_counts)
    columns = dict(zip(grams, ngram_indexes, strict=True))
    factors = dict(zip(ngram_indexes, weights or [1.0] * len(grams), strict=True))

    def count(rows: np.ndarray) -> np.ndarray:
        table = np.atleast_2d(rows)
        t.check_size((len(table), max(ngram_indexes) + 1), "float32")
        vectors = np.zeros((len(table), max(ngram_indexes) + 1), np.float32)
        for row, words in zip(vectors, table, strict=True):
            occurrences = _counted(words.tolist(), min_gram_length, max_gram_length, max_skip_count)
            for gram, times in occurrences.items():
                if gram in columns:
                    column = columns[gram]
                    row[column] = {"TF": times, "IDF": factors[column],
                                   "TFIDF": times * factors[column]}[mode]
        return vectors if rows.ndim == 2 else vectors[0]

    return t.computed(count, x)


def _grams(pool, starts) -> list[tuple]:
    """The n-grams of the pool, which lists those of one word, then those of two, and so on."""
    ends = [*starts[1:], len(pool)]
    return [tuple(pool[place:place + length])
            for length, (start, end) in enumerate(zip(starts, ends, strict=True), start=1)
            for place in range(start, end, length)]


def _counted(words: list, least: int, most: int, skips: int) -> Counter:
    """Counts n-grams of equally spaced words."""
    counter: Counter = Counter()
    for length in range(least, most + 1):
        for step in range(1, (skips + 1 if length > 1 else 1) + 1):
            last = len(words) - (length - 1) * step
            counter.update(tuple(words[start:start + (length - 1) * step + 1:step])
                           for start in range(max(last, 0)))
    return counter
