"""How a run is described."""

import numpy as np

from accel.machine.status import ACTIVITIES, REPORTERS, STALLS, Run, Status


def test_codes_are_those_of_the_status_register() -> None:
    assert [status.text for status in Status] == [
        "running", "done", "illegal", "address", "bus", "tokens left", "deadlock", "watchdog"]
    assert REPORTERS == ("load", "gemm", "vector", "store", "fetch")
    assert ACTIVITIES == ("busy", *STALLS) and len(set(ACTIVITIES)) == 10


def test_a_run_is_described_in_one_line() -> None:
    assert Run(Status.DONE).describe() == "done"
    assert Run(Status.DONE, cycles=12, memory=np.zeros(4, np.uint8)).describe() == (
        "done after 12 cycles")
    wrong = Run(Status.ADDRESS, "gemm", 3)
    assert wrong.describe() == "address: gemm, instruction 3" and not wrong.ok
    stuck = Run(Status.DEADLOCK, "load", 5, waiting={"load": 5, "gemm": 7})
    assert stuck.describe() == "deadlock: load, instruction 5 (waiting: load at 5, gemm at 7)"
