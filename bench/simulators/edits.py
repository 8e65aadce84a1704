"""Does the slice of the RTL follow edits of the hardware? Edits, each checked against the RTL.

Each of `bench.support.edits.EDITS` is made in a copy of the packages, with nothing else; a child
process runs random programs there, on whatever `cycle.simulate` chooses, and on the Verilated core.
They must agree in every event and counter, and the cycle simulator must not have been chosen
without being right. It says, too, in how many programs the cycle simulator would have been wrong.
"""

import tempfile
from pathlib import Path

from bench.frame import Bench, Sheet
from bench.support.edits import EDITS, edited_tree, judged

BENCH = Bench(__file__, __doc__, "tiny-1x4x4", seed=1)
BENCH.option("--programs", type=int, default=100, help="of each edit")


@BENCH.part([*EDITS])
def edits(sheet: Sheet) -> None:
    programs = different = stale = 0
    for name in sheet.cases:
        with tempfile.TemporaryDirectory() as folder:
            found = judged(edited_tree(Path(folder), name), sheet.machine.config.name,
                           sheet.programs, sheet.seed)
        wrong = len(found["different"])
        kept = ", with values" if found["has_values"] else ""
        print(f"{name:45} {', '.join(found['simulators'])}{kept}: {wrong} of {found['programs']} "
              f"differ, {found['cycles']:,} cycles; the cycle simulator alone: {found['stale']}",
              flush=True)
        sheet.row(found | {"name": name})
        sheet.require(found["has_values"] == EDITS[name].needs_values)
        programs, different, stale = (programs + found["programs"], different + wrong,
                                      stale + found["stale"])
    sheet.figure("edited_programs", programs)
    sheet.figure("edited_differences", different)
    sheet.figure("edited_stale", stale)
    sheet.require(not different)
