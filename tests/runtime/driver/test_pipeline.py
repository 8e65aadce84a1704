"""The pipeline is one list: what is dumped is what its stages made, in their order."""

import pytest

from accel.mapping.texts import STAGES
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph import Graph
from compiler.graph.division.partition import ACCEL
from compiler.graph.passes.pipeline import run, standard_passes
from runtime import compile
from runtime.driver.pipeline import Built, Compile, Divide, LayOut, build, pipeline
from runtime.driver.targets import Targets, accelerator
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

ON_CHIP, ELSEWHERE = ["forms", "layers", "tiles", "loops", "stream", "program"], [
    "fuse", "plan-memory", "kernels"]


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
    names = ["import", *(stage.name for stage in stages[:-1]), *STAGES,
             *(one.name for one in CpuTarget().passes()), *ELSEWHERE]
    assert shown == list(enumerate(names))
    assert isinstance(built, Built)
    assert [segment.target for segment in built.layout.partition.segments] == ["accel", "host"]


@pytest.mark.parametrize("target", ["accel:tiny-1x4x4", "cpu", "opencl", "cuda:emulated", "metal",
                                    pytest.param("auto:tiny-1x4x4", marks=pytest.mark.slow)])
def test_every_target_shows_its_own_stages_each_once(target: str) -> None:
    shown: dict[str, str] = {}
    module = compile(network(), target, strict=True, after=lambda index, name, result: (
        shown.update({f"{index} {name}": str(result)})))
    own = [name.split()[1] for name in shown]
    own = own[own.index(LayOut.name) + 1:]
    places = {segment.target == ACCEL for segment in module.partition.segments}
    wanted = [*(ON_CHIP if True in places else ()), *(ELSEWHERE if False in places else ())]
    assert [name for name in own if name in (*ON_CHIP, *ELSEWHERE)] == wanted
    assert len(own) == len({*own}) and all(shown.values())


def test_a_stage_of_several_segments_is_one_text_with_a_title_for_each() -> None:
    net = Net(3)
    x = net.conv(net.input(1, 4, 6, 6), 4)
    y = net.add_node("quantize", net.add_node("abs", net.add_node(
        "dequantize", x, scale=0.1, zp=-4)), scale=0.1, zp=-4)
    shown: dict[str, str] = {}
    build(pipeline(Targets([accelerator(TINY)])), net.graph(net.conv(y, 4)),
          lambda index, name, result: shown.update({name: str(result)}))
    for stage in STAGES:
        titles = [line for line in shown[stage].splitlines() if line.startswith("segment ")
                  and " on " in line]
        assert titles == ["segment 0 on accel", "segment 2 on accel"], stage
    assert shown["fuse"].startswith("segment 1 on host\n\n")


def test_a_stage_left_out_is_not_run() -> None:
    """Half of the list gives what its last stage makes."""
    targets = Targets([accelerator(TINY)])
    shown: list[str] = []
    made = run(pipeline(targets)[:-1], network(), lambda index, name, result: shown.append(name))
    assert shown[-1] == LayOut.name and made.layout.partition.segments


def test_without_an_accelerator_costs_have_nothing_to_decide() -> None:
    assert not any(stage.auto for stage in pipeline(Targets([]), auto=True)
                   if isinstance(stage, Divide))
