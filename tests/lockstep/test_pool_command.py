"""`lockstep pool`, and `lockstep run --on`: a scheduler and two workers over TLS."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import lockstep
from lockstep import cli
from runtime.module import InputError
from runtime.tuning.certificates import Certificates, make_certificates
from runtime.tuning.pool import PoolError, WorkerPool
from runtime.tuning.trials import Trial
from tests.support.extras import needs
from tests.support.ports import family, hears, listening, reached, stranger
from tests.support.sleeping_target import KIND, TASK

pytestmark = needs("distributed", "the extra pool")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl")

ROOT = Path(__file__).parents[2]
DIGITS = "examples/digits/digits-int8.onnx"
ACCEL = "accel:tiny-1x4x4"


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that serves, until it is ended; then it says nothing."""
    with subprocess.Popen([sys.executable, "-m", "lockstep", "pool", *arguments], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()
            said = process.communicate()[1]
        assert said == ""


def address_of(process: subprocess.Popen[str], scheme: str = "tls") -> str:
    """What it prints first."""
    assert process.stdout is not None and process.stderr is not None
    address = process.stdout.readline().strip()
    assert address.startswith(f"{scheme}://"), process.stderr.read()
    return address


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    assert cli.main(["pool", "certificates", str(folder)]) == 0
    return folder


def of(folder: Path, name: str) -> str:
    return ",".join(str(folder / file) for file in ("ca.pem", f"{name}.pem", f"{name}.key.pem"))


@pytest.fixture(scope="module")
def serving(folder) -> Iterator[tuple[str, int]]:
    """The address of a scheduler, and its process."""
    with started("scheduler", "--port", "0", "--tls", of(folder, "scheduler")) as process:
        yield address_of(process), process.pid


@pytest.fixture(scope="module")
def scheduler(serving) -> str:
    return serving[0]


@pytest.fixture(scope="module")
def workers(scheduler, folder) -> Iterator[list[int]]:
    """Their processes."""
    tls = ("--tls", of(folder, "worker"))
    with started("worker", scheduler, "--device", "cpu", *tls, "--core", "0") as first, \
            started("worker", scheduler, "--device", ACCEL, *tls) as second, \
            started("worker", scheduler, "--device", KIND, *tls, "--limit", "1",
                    "--import", "tests.support.sleepers") as third:
        for process in (first, second, third):
            address_of(process)
        yield [process.pid for process in (first, second, third)]


@pytest.fixture
def client(folder) -> str:
    return of(folder, "client")


@needs_openssl
def test_certificates_are_the_owners_alone(folder) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "ca.pem", "ca.key.pem", *(f"{name}{kind}.pem" for name in ("scheduler", "worker", "client")
                                  for kind in ("", ".key"))}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@needs_openssl
def test_certificates_are_not_overwritten(folder, capsys) -> None:
    assert cli.main(["pool", "certificates", str(folder)]) == 2
    assert capsys.readouterr().err == (f"lockstep: error: {str(folder)!r} must have no "
                                       f"certificates yet, and has ca.key.pem\n")


@pytest.mark.slow
@needs_openssl
def test_trials_run_on_workers_over_tls(scheduler, workers, client) -> None:
    with WorkerPool(scheduler, Certificates.of(client)) as pool:
        assert pool.devices == [ACCEL, "cpu", KIND]
        plans = {"sleep 0.001": "", "hang": "took longer than 1 s"}
        results = pool.results(Trial(KIND, TASK, plan) for plan in plans)
        assert {trial.plan: result.error for trial, result in results} == plans


@needs_openssl
def test_every_port_wants_a_certificate_of_the_pool(serving, workers, folder, tmp_path) -> None:
    make_certificates(tmp_path)
    host = str(urlsplit(serving[0]).hostname)
    ports = {port for _, port in listening(family(serving[1], *workers))}
    assert len(ports) == 7                              # a scheduler; three workers, their nannies
    for port in ports:
        def heard(context: ssl.SSLContext | None, port: int = port) -> str:
            return hears((host, port), context)

        def of_worker(place: Path) -> ssl.SSLContext:
            return stranger(str(place / "worker.pem"), str(place / "worker.key.pem"))

        assert heard(of_worker(folder)) == "greeting"
        assert heard(stranger()) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        assert heard(of_worker(tmp_path)).startswith("TLSV1_ALERT_")
        assert heard(None) == "hung up"


def test_without_certificates_every_port_is_of_this_computer_alone() -> None:
    with started("scheduler", "--port", "0") as scheduler, \
            started("worker", address_of(scheduler, "tcp"), "--device", "cpu") as worker:
        address_of(worker, "tcp")
        ports = listening(family(scheduler.pid, worker.pid))
        assert len(ports) == 3                          # a scheduler; a worker, its nanny
        assert {address for address, _ in ports} == {"127.0.0.1"}
        assert reached(port for _, port in ports) == []


@needs_openssl
@pytest.mark.parametrize(("target", "on"), [
    ("cpu", ()), pytest.param(ACCEL, (), marks=pytest.mark.slow), ("cpu", ("--device", ACCEL))])
def test_a_network_runs_elsewhere(scheduler, workers, client, tmp_path, capsys, target: str, on
                                  ) -> None:
    def outputs(*options: str) -> dict[str, np.ndarray]:
        out, report = tmp_path / "out.npz", tmp_path / "report.json"
        assert cli.main(["run", DIGITS, "--target", target, "--output", str(out), "--json",
                         str(report), *options]) == 0
        reports.append(json.loads(report.read_text()))
        with np.load(out) as arrays:
            return dict(arrays)

    reports: list[dict] = []
    here, there = outputs(), outputs("--on", scheduler, "--tls", client, *on)
    assert here.keys() == there.keys()
    for name, array in here.items():
        np.testing.assert_array_equal(there[name], array)
    local, far = reports
    assert far["on"] == scheduler and far["cycles"] == local["cycles"]
    assert [row["cycles"] for row in far["layers"]] == [row["cycles"] for row in local["layers"]]
    capsys.readouterr()


@needs_openssl
def test_a_search_measures_on_workers(scheduler, workers, client, tmp_path, capsys) -> None:
    report = tmp_path / "report.json"
    assert cli.main(["tune", DIGITS, "--trials", "12", "--pool", scheduler, "--tls", client, "--db",
                     str(tmp_path / "records.db"), "--json", str(report)]) == 0
    tasks = json.loads(report.read_text())["tasks"]
    assert tasks and any(task["best"] for task in tasks)
    assert not any(task["failed"] for task in tasks)
    capsys.readouterr()


@needs_openssl
def test_a_device_elsewhere_is_called_like_one_here(scheduler, workers, client) -> None:
    module = lockstep.compile(DIGITS, "cpu")
    image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    with lockstep.remote(scheduler, client) as place:
        far = place.device("cpu").load(module)
        many = far.run_many([{"image": image}, {"image": 1 - image}])
        for found, given in zip(many, (image, 1 - image)):
            np.testing.assert_array_equal(found["logits"], module({"image": given})["logits"])
        with pytest.raises(InputError, match="^Input must be one of image, not 'x'$"):
            far({"x": image})
        with pytest.raises(lockstep.ArgumentError, match="^profile must be called of a module on a "
                                                         "device of this computer$"):
            far.profile({"image": image})
        accel = place.device("cpu").load(lockstep.compile(DIGITS, ACCEL))
        with pytest.raises(lockstep.ArgumentError, match="^Device cpu must be an accelerator, for "
                                                         "which the network was compiled$"):
            accel({"image": image})
        other = place.device(ACCEL).load(lockstep.compile(DIGITS, "accel:pynq-1x16x16"))
        with pytest.raises(lockstep.ArtifactError, match="^The network was compiled for machine "):
            other({"image": image})
        with pytest.raises(PoolError) as refusal:
            place.device("cuda")
        assert str(refusal.value) == (f"Pool must have a worker with the device cuda; it has "
                                      f"{ACCEL}, cpu, {KIND}")


@needs_openssl
@pytest.mark.parametrize("who", ["worker", "run"])
def test_without_a_certificate_of_the_pool_nobody_gets_in(scheduler, workers, folder, tmp_path,
                                                          capsys, who: str) -> None:
    plain = f"tcp://127.0.0.1:{urlsplit(scheduler).port}"
    make_certificates(tmp_path / "others")
    for address, tls in ((plain, ()), (scheduler, ("--tls", of(tmp_path / "others", "worker")))):
        arguments = {"worker": ["pool", "worker", address, "--device", "cpu"],
                     "run": ["run", DIGITS, "--target", "cpu", "--on", address]}[who]
        assert cli.main([*arguments, *tls]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"at {address} cannot be reached: " in said


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr("runtime.tuning.pool.CONNECT_SECONDS", 1)


@pytest.mark.parametrize(("arguments", "message"), [
    (["worker", "tcp://127.0.0.1:1", "--device", "cpu", "--tls", "a,b"],
     "Certificates must be CA,CERT,KEY, three files, not 'a,b'"),
    (["worker", "tcp://127.0.0.1:1", "--device", "cpu", "--tls", "a,b,c"],
     "'a' must be a file that exists"),
    (["worker", "here", "--device", "cpu"],
     "Address must be tcp://HOST:PORT or tls://HOST:PORT, not 'here'"),
    (["worker", "tcp://192.0.2.1:8786", "--device", "cpu"],
     "Address must be tls://HOST:PORT, with certificates, or tcp://127.0.0.1:PORT, not "
     "'tcp://192.0.2.1:8786'"),
    (["worker", "tls://127.0.0.1:1", "--device", "cpu"],
     "Certificates must come with an address tls://HOST:PORT, and only with one"),
    (["worker", "tcp://127.0.0.1:1", "--device", "cpu", "--core", "9999"],
     "Core must be one of those that this process may use, not 9999"),
    (["worker", "tcp://127.0.0.1:1", "--device", "cpu,cpu"],
     "Device cpu,cpu is not here: Target must name each of its targets once, not 'cpu,cpu'"),
    pytest.param(["worker", "tcp://127.0.0.1:1", "--device", "board:/dev/no-board"],
                 "Device board:/dev/no-board is not here: ", marks=pytest.mark.slow),
    (["worker", "tcp://127.0.0.1:1", "--device", "cpu"],
     "Scheduler at tcp://127.0.0.1:1 cannot be reached: "),
])
def test_wrong_requests_are_one_line(capsys, impatient, arguments: list[str], message: str) -> None:
    assert cli.main(["pool", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lockstep: error: {message}") and said.count("\n") == 1


@pytest.mark.parametrize(("options", "message"), [
    (["--tls", "a,b,c"], "--tls must come with --on ADDRESS"),
    (["--device", "cpu"], "--device must come with --on ADDRESS"),
    (["--on", "tcp://127.0.0.1:1", "--sim", "functional"],
     "--sim must be left out with --on: the network runs elsewhere"),
    (["--on", "tcp://127.0.0.1:1", "--row-buffer", "64"],
     "--row-buffer must be left out with --on: the network runs elsewhere"),
    (["--on", "tcp://127.0.0.1:1"], "Pool at tcp://127.0.0.1:1 cannot be reached: "),
])
def test_a_wrong_run_elsewhere_is_one_line(capsys, impatient, options: list[str], message: str
                                           ) -> None:
    assert cli.main(["run", DIGITS, "--target", "cpu", *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lockstep: error: {message}") and said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_scheduler(number: int, status: int) -> None:
    with started("scheduler", "--port", "0") as process:
        assert address_of(process, "tcp").startswith("tcp://127.0.0.1:")
        os.kill(process.pid, number)
        assert process.wait(20) == status
