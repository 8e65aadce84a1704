"""Entries of the cache: whole, right, and nobody else's."""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler import kept
from compiler.kept import CacheError, build_once, find, note, noted

KEY = "k" * 32


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    for remembered in (kept._say, kept._tidy):
        remembered.cache_clear()
    return tmp_path / "cache"


def build(folder: Path) -> None:
    (folder / "code").write_bytes(b"right")
    (folder / "more").mkdir()
    (folder / "more" / "code").write_bytes(b"right, too")


def built() -> Path:
    return build_once("kind", KEY, None, build)


def refuse(folder: Path) -> None:
    pytest.fail("it is there")


# Hashes

def test_an_entry_has_the_hashes_of_its_files():
    assert sorted(json.loads((built() / "hashes.json").read_text())) == ["code", "more/code"]
    assert find("kind", KEY) == built() and find("kind", "another") is None
    assert build_once("kind", KEY, None, refuse) == built()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def replaced_by_a_link(entry: Path) -> None:
    (entry / "code").rename(entry.parent / "elsewhere")
    (entry / "code").symlink_to(entry.parent / "elsewhere")


def replaced(path: Path, make) -> None:
    path.unlink()
    make(path)


def all_of_it_a_link(entry: Path) -> None:
    entry.rename(entry.parent / "elsewhere")
    entry.symlink_to(entry.parent / "elsewhere")


def all_of_it_a_file(entry: Path) -> None:
    entry.rename(entry.parent / "elsewhere")
    entry.write_text("")


@pytest.mark.parametrize("damage", [
    all_of_it_a_link, all_of_it_a_file,
    lambda entry: flip(entry / "code"), lambda entry: flip(entry / "more" / "code"),
    lambda entry: flip(entry / "hashes.json"),
    lambda entry: os.truncate(entry / "code", 3), lambda entry: os.truncate(entry / "code", 0),
    lambda entry: os.truncate(entry / "hashes.json", 7),
    lambda entry: (entry / "hashes.json").write_text("[" * 100_000),
    lambda entry: replaced(entry / "hashes.json", lambda path: os.symlink("/dev/zero", path)),
    lambda entry: replaced(entry / "hashes.json", lambda path: os.symlink(path, path)),
    lambda entry: replaced(entry / "code", os.mkfifo),
    lambda entry: (entry / "code").unlink(), lambda entry: (entry / "new").write_text(""),
    replaced_by_a_link])
def test_what_is_damaged_is_built_again(caplog, damage):
    entry = built()
    damage(entry)
    with caplog.at_level(logging.WARNING):
        assert built() == entry
    assert (entry / "code").read_bytes() == b"right" and not entry.is_symlink()
    assert (entry / "more" / "code").read_bytes() == b"right, too"
    assert [record.message for record in caplog.records] == [
        f"The cache has a damaged entry, which is made again: {entry}"]
    build_once("kind", KEY, None, refuse)


def test_an_entry_without_hashes_is_built_again(caplog):
    """As an older Lockstep left it."""
    (built() / "hashes.json").unlink()
    assert find("kind", KEY) is None
    assert (built() / "hashes.json").exists() and not caplog.records
    replaced(built() / "hashes.json", os.mkdir)
    assert (built() / "hashes.json").is_file() and not caplog.records


def test_notes(own_cache):
    assert noted("notes", KEY) is None
    note("notes", KEY, "one")
    note("notes", KEY, "two")
    assert noted("notes", KEY) == "two"
    flip(own_cache / "notes" / KEY / "text")
    assert noted("notes", KEY) is None


# Leftovers

def test_what_a_killed_process_was_building_goes(own_cache):
    code = ("import os, signal\nfrom compiler.kept import build_once\n"
            "def build(folder):\n"
            "    (folder / 'half').write_text('')\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            f"build_once('kind', '{KEY}', None, build)")
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert len(list((own_cache / "builds").iterdir())) == 2      # the folder, and its lock
    build_once("another kind", "another key", None, build)
    assert not list((own_cache / "builds").iterdir())


def test_what_is_being_built_stays(own_cache):
    def look(folder: Path) -> None:
        code = "from compiler.kept import find\nfind('kind', 'another')"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert folder.is_dir()
        build(folder)

    build_once("kind", KEY, None, look)


# Owners

def test_folders_are_for_their_user_to_write(own_cache):
    before = os.umask(0o002)
    try:
        entry = built()
    finally:
        os.umask(before)
    for path in (own_cache, entry.parent, entry, entry / "code", entry / "more"):
        assert not path.stat().st_mode & 0o022
    build_once("kind", KEY, None, refuse)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.mark.parametrize(("change", "said"), [
    pytest.param(lambda root, entry: os.chown(root, 65534, -1),
                 "Cache {root} belongs to another user, nobody", marks=as_root),
    (lambda root, entry: root.chmod(0o775),
     "Cache {root} can be written by other users (chmod go-w)"),
    (lambda root, entry: entry.parent.chmod(0o757),
     "Cache {root}/kind can be written by other users (chmod go-w)"),
    pytest.param(lambda root, entry: os.chown(entry, 4321, -1),
                 "Entry {entry} of the cache belongs to another user, 4321", marks=as_root),
    (lambda root, entry: entry.chmod(0o777),
     "Entry {entry} of the cache can be written by other users (chmod go-w)"),
    pytest.param(lambda root, entry: os.chown(entry / "code", 65534, -1),
                 "File {entry}/code of the cache belongs to another user, nobody", marks=as_root),
    (lambda root, entry: (entry / "more" / "code").chmod(0o646),
     "File {entry}/more/code of the cache can be written by other users (chmod go-w)")])
def test_what_others_may_write_is_not_executed(own_cache, caplog, tmp_path, change, said):
    entry = built()
    (entry / "code").write_bytes(b"wrong")
    change(own_cache, entry)
    home = tmp_path / "home" / "lockstep"
    for _ in range(2):
        assert built() == home / "kind" / KEY
    assert (home / "kind" / KEY / "code").read_bytes() == b"right"
    assert (entry / "code").read_bytes() == b"wrong"        # it is theirs
    assert [record.message for record in caplog.records] == [
        said.format(root=own_cache, entry=entry) + f"; {home} is used"]


@as_root
def test_nowhere_to_keep_anything(tmp_path):
    """Each place is named, that of a squatter too."""
    places = [tmp_path / folder for folder in ("cache", "home/lockstep", "tmp/lockstep-0")]
    for place in places:
        place.mkdir(parents=True)
        os.chown(place, 65534, -1)
    with pytest.raises(CacheError) as refusal:
        built()
    assert str(refusal.value) == "; ".join([
        *(f"Cache {place} belongs to another user, nobody" for place in places),
        "LOCKSTEP_CACHE may name a folder of this user's"])


def elsewhere(path: Path) -> Path:
    """Where a folder now lies, behind a link in its old place."""
    there = path.with_name(f"{path.name}-there")
    path.rename(there)
    path.symlink_to(there)
    return there


def test_a_cache_may_lie_behind_a_link_of_this_users(own_cache, caplog):
    built()
    elsewhere(own_cache)
    assert build_once("kind", KEY, None, refuse) == own_cache / "kind" / KEY and not caplog.records


@pytest.mark.parametrize(("change", "said"), [
    pytest.param(lambda cache: [elsewhere(cache), os.lchown(cache, 65534, -1)],
                 "Cache {cache} lies behind {cache}, a link of another user, nobody",
                 marks=as_root),
    pytest.param(lambda cache: [elsewhere(cache.parent), os.lchown(cache.parent, 65534, -1)],
                 "Cache {cache} lies behind {cache.parent}, a link of another user, nobody",
                 marks=as_root),
    (lambda cache: cache.parent.chmod(0o777),
     "Cache {cache} lies in {cache.parent}, where anybody may put another one (chmod o-w)"),
    (lambda cache: elsewhere(cache.parent).parent.chmod(0o777),
     "Cache {cache} lies in {cache.parent.parent}, where anybody may put another one (chmod o-w)"),
    (lambda cache: elsewhere(cache.parent).chmod(0o777),
     "Cache {cache} lies in {cache.parent}-there, where anybody may put another one (chmod o-w)"),
    (lambda cache: elsewhere(elsewhere(cache).parent).chmod(0o777),
     "Cache {cache} lies in {cache.parent}-there, where anybody may put another one (chmod o-w)")])
def test_where_others_may_put_another_cache_none_is(tmp_path, monkeypatch, caplog, change, said):
    cache = tmp_path / "by" / "way" / "cache"
    monkeypatch.setenv("LOCKSTEP_CACHE", str(cache))
    (built() / "code").write_bytes(b"wrong")
    change(cache)
    home = tmp_path / "home" / "lockstep"
    assert built() == home / "kind" / KEY
    assert (home / "kind" / KEY / "code").read_bytes() == b"right"
    assert [record.message for record in caplog.records] == [
        said.format(cache=cache) + f"; {home} is used"]


@pytest.mark.parametrize(("change", "said"), [
    (lambda cache: cache.parent.chmod(0o777),
     "Cache {cache} lies in {cache.parent}, where anybody may put another one (chmod o-w)"),
    pytest.param(lambda cache: [cache.symlink_to("nowhere"), os.lchown(cache, 65534, -1)],
                 "Cache {cache} lies behind {cache}, a link of another user, nobody",
                 marks=as_root)])
def test_where_others_may_put_another_cache_none_is_begun(tmp_path, monkeypatch, caplog, change,
                                                         said):
    cache = tmp_path / "way" / "cache"
    cache.parent.mkdir()
    monkeypatch.setenv("LOCKSTEP_CACHE", str(cache))
    change(cache)
    home = tmp_path / "home" / "lockstep"
    assert built() == home / "kind" / KEY and not cache.exists()
    assert [record.message for record in caplog.records] == [
        said.format(cache=cache) + f"; {home} is used"]


def test_a_folder_for_all_is_no_door_where_each_keeps_his_own(own_cache, caplog):
    built()
    own_cache.parent.chmod(0o1777)                          # as /tmp is
    build_once("kind", KEY, None, refuse)
    assert not caplog.records


@as_root
def test_who_is_faster_to_make_the_folder_gets_nothing(own_cache, monkeypatch):
    make = kept._make_folder

    def make_for_another(path: Path) -> None:
        make(path)
        os.chown(own_cache, 65534, -1)

    monkeypatch.setattr(kept, "_make_folder", make_for_another)
    with pytest.raises(CacheError, match=f"^Cache {own_cache} belongs to another user, nobody; "
                                         "LOCKSTEP_CACHE may name a folder of this user's$"):
        built()
    assert not list((own_cache / "builds").iterdir())


@pytest.mark.parametrize("below", ["", "a/b"])
@pytest.mark.parametrize("make", [
    Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere"),
    lambda path: path.symlink_to("/dev/null/nowhere")])
def test_a_file_in_place_of_the_cache_is_told(own_cache, tmp_path, monkeypatch, caplog, make,
                                              below: str):
    make(own_cache)
    monkeypatch.setenv("LOCKSTEP_CACHE", str(own_cache / below))
    home = tmp_path / "home" / "lockstep"
    assert built() == home / "kind" / KEY and find("kind", KEY) == home / "kind" / KEY
    assert [record.message for record in caplog.records] == [
        f"Cache {own_cache / below} must be a folder, but {own_cache} is none; {home} is used"]


def as_nobody(code: str, cache: Path, tmp: Path) -> subprocess.CompletedProcess[str]:
    """Python as another user, who has no home."""
    house = Path(kept.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", f"import os, sys\nsys.path.insert(0, {str(house)!r})\n"
         f"from compiler.kept import *\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
         f"{code}"], capture_output=True, text=True, cwd="/",
        env={"LOCKSTEP_CACHE": str(cache), "HOME": "/nonexistent", "TMPDIR": str(tmp)})


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody can read; pytest's own are for their user alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder


@as_root
def test_another_user_reads_a_cache_of_root(shared, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(shared / "cache"))
    entry = built()
    tmp = shared / "tmp"
    done = as_nobody(f"print(build_once('kind', {KEY!r}, None, None))", shared / "cache", tmp)
    assert (done.stdout, done.stderr) == (f"{entry}\n", "")
    done = as_nobody("def build(folder): (folder / 'x').write_text('')\n"
                     "print(build_once('kind', 'other', None, build))", shared / "cache", tmp)
    place = tmp / "lockstep-65534"
    assert done.stdout == f"{place}/kind/other\n"
    assert done.stderr == (f"Cache {shared / 'cache'} cannot be written by this user; {place} is "
                           f"used\n")


@as_root
@pytest.mark.parametrize("change", ["root", "entry", "file"])
def test_another_user_meets_what_cannot_be_read(shared, monkeypatch, change):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(shared / "cache"))
    entry = built()
    {"root": shared / "cache", "entry": entry, "file": entry / "code"}[change].chmod(0o700)
    done = as_nobody("def build(folder): (folder / 'x').write_text('')\n"
                     f"print(build_once('kind', {KEY!r}, None, build))", shared / "cache",
                     shared / "tmp")
    place = shared / "tmp" / "lockstep-65534"
    assert done.stdout == f"{place}/kind/{KEY}\n"
    assert done.stderr.endswith(f"cannot be read (Permission denied); {place} is used\n")
    assert done.stderr.count("\n") == 1


def test_results_may_lie_apart(tmp_path, monkeypatch) -> None:
    """Results that are computed again are not those of the cache; code built from sources is."""
    note("tilings", KEY, "then")
    built()
    monkeypatch.setenv(kept.FRESH, str(tmp_path / "apart"))
    assert noted("tilings", KEY) is None and find("kind", KEY) is not None
    note("tilings", KEY, "now")
    assert noted("tilings", KEY) == "now"
    monkeypatch.delenv(kept.FRESH)
    assert noted("tilings", KEY) == "then"
