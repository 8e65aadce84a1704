"""The pipeline is one list: what is dumped is what its stages made, in their order."""

from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph import Graph
from compiler.graph.pipeline import run, standard_passes
from runtime.pipeline import Built, Compile, Divide, LayOut, build, pipeline
from runtime.targets import Targets, accelerator
from tests.support.integer_graphs import Net
from tests.support.machines import TINY


def network() -> Graph:
    net = Net(3)
    x = net.conv(net.input(1, 4, 6, 6), 4, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.add_node("abs", net.add_node("dequantize", x, scale=0.1, zp=-4)))


def test_the_list_has_all_from_import_to_compiled_segments() -> None:
    stages = pipeline(Targets([accelerator(TINY)]))
    names = [stage.name for stage in stages]
    assert names[-3:] == [Divide.name, LayOut.name, Compile.name]
    assert names[:-3] == [one.name for one in standard_passes()]


def test_every_stage_has_its_contract() -> None:
    """A dataclass without a docstring is given its signature as one."""
    for stage in pipeline(Targets([accelerator(TINY)])):
        assert not (stage.__doc__ or "(").startswith(f"{type(stage).__name__}("), stage.name


def test_every_stage_is_shown_once_in_order() -> None:
    stages, shown = pipeline(Targets([accelerator(TINY)])), []
    built = build(stages, network(), lambda index, name, result: shown.append((index, name)))
    names = ["import", *(stage.name for stage in (*stages[:-1], *CpuTarget().passes())), "fuse",
             "plan-memory"]
    assert shown == list(enumerate(names))
    assert isinstance(built, Built)
    assert [segment.target for segment in built.layout.partition.segments] == ["accel", "host"]


def test_a_stage_left_out_is_not_run() -> None:
    """Half of the list gives what its last stage makes."""
    targets = Targets([accelerator(TINY)])
    shown: list[str] = []
    made = run(pipeline(targets)[:-1], network(), lambda index, name, result: shown.append(name))
    assert shown[-1] == LayOut.name and made.layout.partition.segments


def test_without_an_accelerator_costs_have_nothing_to_decide() -> None:
    assert not any(stage.auto for stage in pipeline(Targets([]), auto=True)
                   if isinstance(stage, Divide))
