"""The schedules of a group of operators: what our templates make of every point."""

from dataclasses import dataclass

from numpy.random import Generator

from compiler.cpu_gpu_backends.cpu.groups import to_schedule
from compiler.cpu_gpu_backends.cpu.schedules.schedule import own_schedule
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.groups import Recipe
from compiler.plans import Task
from compiler.tune.chooser import PointChooser
from compiler.tune.features import features
from compiler.tune.space import Candidate, Point, PointRefused


@dataclass(frozen=True, slots=True)
class GroupSpace:
    """All schedules of a recipe by our templates, for a processor with these vectors."""

    task: Task
    recipe: Recipe
    vectors: Vectors

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        chooser = PointChooser(point, random)
        try:
            made = own_schedule(to_schedule(self.recipe, self.vectors), self.vectors, chooser)
        except ValueError as error:
            raise PointRefused(f"Schedule of {self.recipe.name}: {error}",
                               tuple(chooser.decisions)) from None
        return Candidate(tuple(chooser.decisions), made.text(),
                         features(made.program, self.vectors.core))
