"""Certificates of pools: files that are refused; those that are made are tried in
`tests/lockstep/test_pool_command.py`.
"""

import shutil
import ssl
from pathlib import Path

import pytest

from compiler.native import BuildError
from runtime.tuning.certificates import CertificateError, Certificates, make_certificates
from tests.support.ports import stranger

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl")


def certificates(folder: Path, name: str) -> Certificates:
    return Certificates.of(",".join(str(folder / file) for file in (
        "ca.pem", f"{name}.pem", f"{name}.key.pem")))


@pytest.fixture(scope="module")
def pools(tmp_path_factory) -> tuple[Path, Path]:
    """Certificates of two pools."""
    folders = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("others")
    for folder in folders:
        make_certificates(folder)
    return folders


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, str]:
    """The reasons of server and client against each other; "" from one that takes the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = {"server": server.wrap_bio(to_server, to_client, server_side=True),
            "client": client.wrap_bio(to_client, to_server)}
    reasons = dict.fromkeys(ends, "")
    for name in ("client", "server", "client", "server", "client"):
        try:
            ends[name].do_handshake()
            ends[name].read(1)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            reasons[name] = reasons[name] or str(error.reason)
    return reasons["server"], reasons["client"]


@needs_openssl
@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_both_ends_refuse_whom_the_pool_does_not_know(pools, role: str) -> None:
    def listener(place: Path) -> ssl.SSLContext:
        return certificates(place, role).security().get_listen_args(role)["ssl_context"]

    def caller(place: Path) -> ssl.SSLContext:
        return certificates(place, "client").security().get_connection_args("client")["ssl_context"]

    own, others = pools
    assert shake(listener(own), caller(own)) == ("", "")
    assert shake(listener(own), stranger()) == (
        "PEER_DID_NOT_RETURN_A_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED")
    with_others = stranger(str(others / "client.pem"), str(others / "client.key.pem"))
    said, heard = shake(listener(own), with_others)
    assert said == "CERTIFICATE_VERIFY_FAILED" and heard.startswith("TLSV1_ALERT_")
    heard, said = shake(listener(others), caller(own))
    assert said == "CERTIFICATE_VERIFY_FAILED" and heard.startswith("TLSV1_ALERT_")


@needs_openssl
def test_a_server_refuses_whoever_speaks_no_tls(pools) -> None:
    security = certificates(pools[0], "worker").security()
    to_server = ssl.MemoryBIO()
    end = security.get_listen_args("worker")["ssl_context"].wrap_bio(
        to_server, ssl.MemoryBIO(), server_side=True)
    to_server.write(b"\0" * 64)
    with pytest.raises(ssl.SSLError, match="(?i)wrong.version.number"):
        end.do_handshake()


@needs_openssl
def test_a_key_must_fit(tmp_path) -> None:
    make_certificates(tmp_path)
    paths = [tmp_path / name for name in ("ca.pem", "worker.pem", "worker.key.pem",
                                          "client.key.pem")]
    fits = Certificates.of(",".join(map(str, paths[:3])))
    assert fits == Certificates(*paths[:3])
    with pytest.raises(CertificateError) as refusal:
        Certificates(paths[0], paths[1], paths[3]).checked()
    assert str(refusal.value).startswith(f"{str(paths[1])!r} must be a certificate in PEM, and "
                                         f"{str(paths[3])!r} its key: ")


def test_without_openssl_it_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildError) as refusal:
        make_certificates(tmp_path / "keys")
    assert str(refusal.value) == "openssl must be installed to make certificates"
    assert list((tmp_path / "keys").iterdir()) == []
