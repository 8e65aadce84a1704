"""Certificates of pools: files that are refused; those that are made are tried in
`tests/lockstep/test_pool_command.py`.
"""

import shutil

import pytest

from compiler.native import BuildError
from runtime.tuning.certificates import CertificateError, Certificates, make_certificates


def test_a_key_must_fit(tmp_path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl")
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
