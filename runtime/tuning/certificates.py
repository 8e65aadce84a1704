"""Certificates of pools. Both ends of a connection show one; an authority of the pool's own has
signed them. Whoever has one may run programs on the workers.
"""

import re
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.errors import Error
from compiler.native import BuildError, run_tool

NAMES = ("scheduler", "worker", "client")
"""Who gets a certificate."""

DAYS = 3650


class CertificateError(Error, ValueError):
    """Files that are no certificate with its key and authority."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: the authority's certificate, one's own, and its key."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, text: str) -> "Certificates":
        """Reads ``CA,CERT,KEY``. Raises CertificateError for other texts and missing files."""
        paths = [Path(part) for part in text.split(",")]
        if len(paths) != 3:
            raise CertificateError(f"Certificates must be CA,CERT,KEY, three files, not {text!r}")
        return cls(*paths).checked()

    def checked(self) -> "Certificates":
        """Itself, if the files are what they should be; else raises CertificateError."""
        for path in (self.authority, self.certificate, self.key):
            if not path.is_file():
                raise CertificateError(f"{str(path)!r} must be a file that exists")
        try:
            context = ssl.create_default_context(cafile=str(self.authority))
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{str(self.certificate)!r} must be a certificate in PEM, and "
                                   f"{str(self.key)!r} its key: {error}") from None
        return self

    def security(self) -> Any:
        """The certificates for dask.distributed, in every role; both ends must show one."""
        from distributed.security import Security

        own = {f"tls_{role}_{part}": str(path) for role in NAMES
               for part, path in (("cert", self.certificate), ("key", self.key))}
        return Security(tls_ca_file=str(self.authority), require_encryption=True,
                        tls_min_version=ssl.TLSVersion.TLSv1_3, **own)


def make_certificates(folder: Path, days: int = DAYS) -> list[Path]:
    """Makes an authority and a certificate for each of `NAMES`, by openssl; returns the files.
    Raises CertificateError where some are there already, BuildError where openssl fails.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if there := sorted(folder.glob("*.pem")):
        raise CertificateError(f"{str(folder)!r} must have no certificates yet, and has "
                               f"{there[0].name}")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch)
        _openssl(made, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                 "-nodes", "-keyout", "ca.key.pem", "-out", "ca.pem", "-days", str(days),
                 "-subj", "/CN=lockstep pool", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        for name in NAMES:
            _openssl(made, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                     "-nodes", "-keyout", f"{name}.key.pem", "-out", f"{name}.csr",
                     "-subj", f"/CN=lockstep {name}")
            _openssl(made, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem",
                     "-CAkey", "ca.key.pem", "-CAcreateserial", "-days", str(days),
                     "-out", f"{name}.pem")
        files = []
        for path in sorted(made.glob("*.pem")):
            path.chmod(0o600)
            files.append(path.rename(folder / path.name))
    return files


def _openssl(folder: Path, *arguments: str) -> None:
    try:
        done = run_tool(["openssl", *arguments], folder)
    except FileNotFoundError:
        raise BuildError("openssl must be installed to make certificates") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if re.search("error|unable", line, re.I)]
        raise BuildError(f"openssl {arguments[0]} failed: {(said or ['no reason given'])[-1]}")
