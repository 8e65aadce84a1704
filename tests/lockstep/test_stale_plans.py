"""Records that no longer hold: a compilation refuses them and names the command that marks them."""

from pathlib import Path

import lockstep
from compiler.plans import Recorder
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Result
from lockstep.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def test_a_record_that_does_not_hold_names_the_check(tmp_path: Path, capsys) -> None:
    recorder, db = Recorder(), tmp_path / "r.db"
    lockstep.compile(DIGITS, "cpu", plans=recorder, cache=False)
    task = next(task for task, plan in recorder.recorded.items() if "vectorize" in plan)
    with Records(db) as records:
        records.add(Record(task, "split(nowhere, 4)", Result(1e-9, "s"), "a processor", 0, "1"))
    compiled = ["compile", str(DIGITS), "--target", "cpu", "--plans", str(db), "--no-cache", "-o",
                str(tmp_path / "m.lockstep")]
    assert main(compiled) == 2
    error = capsys.readouterr().err
    assert error.startswith("lockstep: error: Plan of ") and error.count("\n") == 1
    assert f"lockstep records check --db {db} --target T marks all records" in error
    assert main(["records", "check", "--db", str(db)]) == 1
    assert main(compiled) == 0                  # it is not used any more
