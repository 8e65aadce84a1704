"""Ranges of values, against their definitions in NumPy over all values at once."""

from pathlib import Path

import numpy as np
import pytest

from compiler.quantize import QuantizeRefused
from compiler.quantize.ranges.observers import (BINS, OBSERVERS, STEPS, Histogram, MeanSquare,
                                                MinMax, Percentile, observer)
from compiler.quantize.ranges.scales import Scale

SHAPES = {
    "normal": lambda rng, n: rng.normal(0.3, 2, n),
    "positive": lambda rng, n: np.maximum(rng.normal(0, 1, n), 0),
    "tails": lambda rng, n: rng.standard_t(2.1, n) * 3,
    "negative": lambda rng, n: -rng.exponential(5, n),
}


@pytest.fixture(params=SHAPES)
def batches(request, rng) -> list[np.ndarray]:
    """Each wider than the one before, so that histograms grow."""
    return [(scale * SHAPES[request.param](rng, (8, 500))).astype(np.float32)
            for scale in (0.1, 1, 0.5, 3)]


def seen(make, batches):
    one = make()
    for batch in batches:
        one.update(batch)
    return one


def test_minmax(batches) -> None:
    everything = np.concatenate(batches)
    assert seen(MinMax, batches).range() == (everything.min(), everything.max())


@pytest.mark.parametrize("percent", [90, 99, 99.9, 99.99])
def test_percentile(batches, percent) -> None:
    everything = np.concatenate(batches)
    one = seen(lambda: Percentile(percent), batches)
    wanted = [np.percentile(everything, 100 - percent, method="lower"),
              np.percentile(everything, percent, method="higher")]
    assert one.range() == pytest.approx(wanted, abs=2 * one.seen.limit / BINS)


def test_percentile_of_everything_is_the_extremes(batches) -> None:
    found = seen(observer("percentile", 100), batches).range()
    assert found == seen(MinMax, batches).range()


def squared_error(values: np.ndarray, low: float, high: float) -> float:
    """The error by definition: scale, round, clip, and back."""
    low, high = min(low, 0), max(high, 0)
    scale = (high - low) / 255
    zero = np.clip(np.rint(-low / scale), 0, 255)
    stored = np.clip(np.rint(values / scale) + zero, 0, 255)
    return float(np.mean(((stored - zero) * scale - values) ** 2))


def test_least_squared_error(batches) -> None:
    """Against all pairs of 20 ends: no worse than the best of them, but for bins."""
    everything = np.concatenate(batches).astype(np.float64)
    low, high = min(everything.min(), 0), max(everything.max(), 0)
    parts = np.arange(1, 21) / 20
    best = min(squared_error(everything, a * low, b * high) for a in parts if low or a == 1
               for b in parts if high or b == 1)
    assert squared_error(everything, *seen(MeanSquare, batches).range()) < 1.03 * best


def test_least_squared_error_cuts_an_outlier() -> None:
    values = np.append(np.random.default_rng(0).uniform(-1, 1, 1_000_000), 20).astype(np.float32)
    low, high = seen(MeanSquare, [values]).range()
    assert low == pytest.approx(-1, abs=0.05) and 7 < high < 10
    assert STEPS * high / 20 == pytest.approx(round(STEPS * high / 20))


@pytest.mark.parametrize("name", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("number", [0.0, 3.0, -0.25, 1e-30, 3e38])
def test_one_number(name, number) -> None:
    found = seen(observer(name), [np.full((2, 3), number, np.float32)]).range()
    assert min(found[0], 0) == pytest.approx(min(number, 0), rel=1e-3)
    assert max(found[1], 0) == pytest.approx(max(number, 0), rel=1e-3)
    assert np.isfinite(Scale.of(*found).scale)


def test_growing_keeps_counts(rng) -> None:
    one, whole = Histogram(), rng.normal(0, 1, 1000).astype(np.float32)
    one.update(whole)
    one.update(np.array([1000], np.float32))
    assert one.limit == 1024 and one.counts.sum() == 1001
    assert one.counts[:BINS // 2].sum() == (whole < 0).sum()


@pytest.mark.parametrize("name", OBSERVERS)
def test_every_observer_stays_within_what_it_has_seen(name: str, batches) -> None:
    one, other = observer(name)(), observer(name)()
    for batch in batches:
        one.update(batch)
    low, high = one.range()
    assert min(batches[-1].min(), 0) <= low < high <= max(batches[-1].max(), 0)
    other.update(np.ones(3, np.float32))        # each has a state of its own
    assert one.range() == (low, high) != other.range()


def test_every_observer_is_on_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs" / "quantize.md").read_text()
    assert f"[--observer {'|'.join(OBSERVERS)}]" in page
    about = page.partition("## Observers\n")[2].partition("\n## ")[0]
    assert [name for name in OBSERVERS if f"`{name}`" not in about] == []


@pytest.mark.parametrize(("name", "percent", "message"), [
    ("median", 99, "observer must be one of minmax, percentile, mse, not 'median'"),
    ("percentile", 50, "percentile must be above 50 and at most 100, not 50"),
    ("percentile", 100.5, "percentile must be above 50 and at most 100, not 100.5"),
])
def test_observers_wrong(name, percent, message) -> None:
    with pytest.raises(QuantizeRefused, match=f"^{message}$"):
        observer(name, percent)
