"""The CPU as a target: groups of operators, their schedules, and segments that run."""
