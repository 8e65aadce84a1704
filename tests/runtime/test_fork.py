"""A child that is forked while another thread runs a module, or compiles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]

RUN = """
import numpy as np
import lockstep

target, sim = sys.argv[1:]
image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
module = lockstep.compile("examples/digits/digits-int8.onnx", target=target, sim=sim)
wanted = module({"image": image})["logits"]

def work(number):
    module({"image": image})

def child():
    both = module.run_many([{"image": image}] * 2)
    return all(np.array_equal(one["logits"], wanted) for one in both)
"""
COMPILE = """
from compiler.cpu_gpu_backends.llvm import build
from tests.compiler.cpu_gpu_backends.llvm.objects.test_export import product

def work(number):
    build(product(columns=8 + number))

def child():
    return build(product(columns=4))
"""
FORK = """
import itertools, os, signal, sys, threading, time, warnings
{both}
warnings.simplefilter("ignore", DeprecationWarning)     # Python's, about forks beside threads
over, begun = threading.Event(), threading.Event()

def repeat():
    for number in itertools.count():
        work(number)
        begun.set()
        if over.is_set():
            break

thread = threading.Thread(target=repeat)
thread.start()
begun.wait()
statuses = []
for number in range(6):
    time.sleep(0.003 * number)                          # at another moment each time
    process = os.fork()
    if not process:
        signal.alarm(30)                                # ends a child that hangs
        os._exit(not child())
    statuses.append(os.waitpid(process, 0)[1])
    if statuses[-1]:
        break
over.set()
thread.join()
print(statuses)
"""


@pytest.mark.parametrize(("code", "arguments"), [
    pytest.param(RUN, ("cpu", "cycle"), id="host", marks=pytest.mark.slow),
    pytest.param(RUN, ("accel:tiny-1x4x4", "functional"), id="functional", marks=pytest.mark.slow),
    pytest.param(RUN, ("accel:tiny-1x4x4", "cycle"), id="cycle"),
    pytest.param(COMPILE, (), id="compile")])
def test_a_child_does_not_wait_for_threads_that_it_lacks(tmp_path, code, arguments):
    """What is to be compiled is in no cache; the simulators, which are not, may be."""
    own_cache = {"LOCKSTEP_CACHE": str(tmp_path)} if code == COMPILE else {}
    done = subprocess.run([sys.executable, "-c", FORK.format(both=code), *arguments], cwd=HOUSE,
                          env={**os.environ, **own_cache}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[0, 0, 0, 0, 0, 0]\n", "")
