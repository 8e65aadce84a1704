"""LearningRates of the schedules, by their formulas."""

import re

import pytest

import lockstep


@pytest.mark.parametrize(("schedule", "shares"), [
    (lockstep.LearningRates(), [1, 1, 1]),
    (lockstep.LearningRates(warm_up=3), [0.25, 0.5, 0.75, 1, 1]),
    (lockstep.LearningRates("step", every=2, factor=0.5), [1, 1, 0.5, 0.5, 0.25]),
    (lockstep.LearningRates("cosine", steps=4), [1, 0.5 + 0.5 ** 1.5, 0.5, 0.5 - 0.5 ** 1.5, 0, 0]),
    (lockstep.LearningRates("cosine", steps=3, warm_up=1), [0.5, 1, 0.5, 0])])
def test_shares(schedule: lockstep.LearningRates, shares: list[float]) -> None:
    assert [schedule.share(step) for step in range(len(shares))] == pytest.approx(shares)


@pytest.mark.parametrize(("fields", "message"), [
    ({"shape": "linear"}, "shape must be one of constant, step, cosine, not 'linear'"),
    ({"warm_up": -1}, "warm_up must be at least 0 and factor above 0 and at most 1, not -1 and "
                      "0.1"),
    ({"shape": "cosine", "steps": 5, "warm_up": 5},
     "steps must be more than the 5 of the warm-up for a cosine, not 5"),
    ({"shape": "step"}, "every must be at least 1 step, not 0")])
def test_what_is_no_schedule_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(lockstep.ArgumentError, match=f"^{re.escape(message)}$"):
        lockstep.LearningRates(**fields)
