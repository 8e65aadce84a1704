"""Ports that processes listen on, and what a stranger hears who connects to one."""

import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

psutil = pytest.importorskip("psutil", reason="the extra pool")

__all__ = ["family", "hears", "listening", "reached", "stranger"]

LOOPBACK = ("127.0.0.1", "::1")
SECONDS = 30.0


def family(*pids: int) -> list[Any]:
    """The processes, and all that they have started and that still run."""
    own = [psutil.Process(pid) for pid in pids]
    children = (child for process in own for child in process.children(recursive=True))
    return [*own, *(child for child in children if _runs(child))]


def _runs(process: Any) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def listening(processes: Iterable[Any]) -> set[tuple[str, int]]:
    """Address and port of each socket on which one of them waits for connections."""
    return {(socket.laddr.ip, socket.laddr.port) for process in processes
            for socket in process.net_connections("inet") if socket.status == psutil.CONN_LISTEN}


def reached(ports: Iterable[int]) -> list[str]:
    """The ports that answer at another address of this computer than that of its loopback."""
    return [f"{address} {port}" for port in ports for address in _others()
            if _answers(address, port)]


def _others() -> Iterator[str]:
    yield "127.0.0.2"
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            if entry.family in (socket.AF_INET, socket.AF_INET6) and entry.address not in LOOPBACK:
                yield entry.address


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), SECONDS):
            return True
    except OSError:
        return False


def stranger(*files: str) -> ssl.SSLContext:
    """How somebody speaks TLS who does not care who the other one is; with a certificate, its key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if files:
        context.load_cert_chain(*files)
    return context


def hears(address: tuple[str, int], context: ssl.SSLContext | None = None) -> str:
    """What a client of this port hears: "greeting", since servers of Dask's speak first; else why
    it was refused.
    """
    with socket.create_connection(address, SECONDS) as plain:
        try:
            if context is None:
                plain.sendall(b"\0" * 64)
                return "greeting" if plain.recv(1) else "hung up"
            with context.wrap_socket(plain) as wrapped:
                return "greeting" if wrapped.recv(1) else "hung up"
        except ssl.SSLError as error:
            return str(error.reason)
        except ConnectionResetError:
            return "hung up"
