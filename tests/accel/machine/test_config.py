"""Geometries: what is refused, what is derived, what the files say, what the hash covers."""

import json
from dataclasses import asdict, fields, replace

import pytest

from accel.machine.config import (BUFFERS, ELEMENTS, UNITS, AccelConfig, ConfigError, load, preset,
                                  preset_names)
from accel.machine.dram import DRAM, Dram
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine

TINY = preset("tiny-1x4x4")


TESTED = "none that are larger have been compared with the RTL"
EIGHT = "bfloat16, float8_e4m3fn or float8_e5m2"
CHANNELS = "the bits of an address above a block say which one has it"


def refused(message: str, **changes) -> None:
    with pytest.raises(ConfigError) as refusal:
        replace(TINY, **changes)
    assert str(refusal.value) == message


@pytest.mark.parametrize("value", [0, -4, 2.0, True, "4", None])
def test_a_number_is_a_positive_integer(value) -> None:
    for field in fields(AccelConfig):
        if field.type is int and field.name != "shared_bytes":
            refused(f"{field.name} must be a positive integer, not {value!r}",
                    **{field.name: value})
    if value != 0:
        refused(f"shared_bytes must be 0 or a positive integer, not {value!r}",
                shared_bytes=value)


def test_a_type_is_a_string() -> None:
    for field in ("name", *ELEMENTS):
        refused(f"{field} must be a string, not 8", **{field: 8})


@pytest.mark.parametrize(("field", "value", "rule"), [
    ("stage_depth", 9, "from 1 to 8"), ("vector_beats", 8, "at most the 4 lanes of an entry"),
    ("shared_bytes", 3072, "a power of two"), ("shared_bytes", 512, "0, or from 1024 to 16 MiB"),
    ("shared_bytes", 1 << 25, "0, or from 1024 to 16 MiB"),
    ("operand", "int4", f"int8, uint8, int16, uint16, float16, {EIGHT}"),
    ("accumulator", "int64", "int32, float32, int16, int24, int40 or int48"),
    ("output", "bfloat16",
     "an integer type where acc holds int32: vector computes in one of them"),
    ("weight", "float32", f"int8, uint8, int16, uint16, float16, {EIGHT}"),
    ("output", "uint8", f"int8, int16, {EIGHT}"),
    *((f"{name}_bytes", size, f"at least 4 entries of {entry} bytes (of which half are in use "
       f"while half are filled)") for name, size, entry in (
           ("wgt", 63, 16), ("acc", 63, 16), ("par", 127, 32), ("tab", 1023, 256))),
    ("inp_bytes", 1 << 19, "at most 65536 entries of 4 bytes (entry addresses have 16 bits)"),
])
def test_an_impossible_value_is_refused(field: str, value, rule: str) -> None:
    refused(f"{field} must be {rule}, not {value!r}", **{field: value})


@pytest.mark.parametrize(("field", "values", "rule", "why"), [
    ("batch", (17,), "from 1 to 16", TESTED), ("block_in", (257,), "from 1 to 256", TESTED),
    ("block_out", (257,), "from 1 to 256", TESTED),
    ("bus_bytes", (3, 6, 24), "a power of two", "the bits of an address are a beat, and a byte in "
                                                "it"),
    ("bus_bytes", (1024,), "from 1 to 512", "the bits of an address are a beat, and a byte in it"),
    ("queue_depth", (9,), "a power of two", "places in a queue are counted modulo their number"),
    ("queue_depth", (128,), "from 1 to 64", "places in a queue are counted modulo their number"),
    ("channels", (3, 6), "a power of two", CHANNELS), ("channels", (16,), "from 1 to 8", CHANNELS),
    ("vector_beats", (3,), "a power of two", "the bits of an address are an entry, and a part of "
                                             "it"),
])
def test_what_stays_forbidden_has_a_reason(field: str, values, rule: str, why: str) -> None:
    for value in values:
        refused(f"{field} must be {rule}, not {value}: {why}", **{field: value})


@pytest.mark.parametrize(("batch", "block_out", "beats"), [
    (3, 4, 2), (3, 4, 4), (2, 3, 4), (1, 5, 2)])
def test_parts_that_are_no_rows_or_lanes_of_one_are_refused(batch, block_out, beats) -> None:
    refused(f"vector_beats must be a number of equal parts of the {batch} rows of {block_out} "
            f"lanes of an entry, not {beats}: a part is whole rows, or lanes of a row",
            batch=batch, block_out=block_out, vector_beats=beats)


def test_packed_weights_of_an_entry_are_whole_bytes() -> None:
    refused("weight_bits must be such that an entry of wgt, 15 elements, has whole bytes in "
            "memory, where addresses count bytes, not (8, 4)",
            block_in=3, block_out=5, weight_bits=(8, 4))


def test_a_buffer_has_the_whole_entries_that_fit() -> None:
    """Each bank of acc must have as many."""
    config = replace(TINY, block_in=24, block_out=12, inp_bytes=1000, acc_bytes=1000)
    assert (config.buffers["inp"].depth, config.buffers["inp"].size_bytes) == (41, 984)
    assert (config.buffers["acc"].depth, config.bank_depth) == (20, 10)


def test_a_buffer_holds_two_beats() -> None:
    refused("out_bytes must be at least two beats of 16 bytes (of which a row of its memory has "
            "one), not 16", bus_bytes=16, out_bytes=16)


def test_dma_addresses_reach_16_mib() -> None:
    wide = replace(TINY, block_in=64, block_out=64, batch=16, inp_bytes=1 << 16,
                   wgt_bytes=1 << 16, res_bytes=1 << 16, acc_bytes=1 << 16, out_bytes=1 << 16,
                   par_bytes=1 << 16)
    with pytest.raises(ConfigError, match=r"^acc_bytes must be at most 16 MiB \(byte addresses "
                                          r"have 24 bits\), not 33554432$"):
        replace(wide, acc_bytes=1 << 25)


def test_entries() -> None:
    config = replace(TINY, batch=2, block_in=8)
    entries = {name: (b.entry_bytes, b.depth) for name, b in config.buffers.items()}
    assert entries == {"inp": (16, 128), "wgt": (32, 128), "res": (8, 256), "par": (32, 32),
                       "acc": (32, 128), "out": (8, 128), "tab": (256, 8)}
    assert tuple(config.buffers) == BUFFERS
    assert all(b.size_bytes == getattr(config, f"{b.name}_bytes")
               for b in config.buffers.values())
    assert (config.lanes, config.macs_per_cycle, config.bank_depth) == (8, 64, 64)


@pytest.mark.parametrize(("batch", "beats", "tile", "par"), [
    (1, 1, (1, 4), (32, 32)), (1, 2, (1, 2), (16, 64)), (1, 4, (1, 1), (8, 128)),
    (4, 2, (2, 4), (32, 32)), (4, 4, (1, 4), (32, 32)), (4, 8, (1, 2), (16, 64)),
    (4, 16, (1, 1), (8, 128)),
])
def test_parts_of_entries(batch: int, beats: int, tile, par) -> None:
    """Parameters are read for the columns of a part only, and once for all of its rows."""
    config = replace(TINY, batch=batch, vector_beats=beats)
    assert config.vector_tile == tile
    parts = {name: (part.entry_bytes, part.depth) for name, part in config.parts.items()}
    assert parts.pop("par") == par
    assert parts.pop("tab") == (1, 2048)        # a lane takes a byte
    assert parts == {name: (whole.entry_bytes // beats, whole.depth * beats)
                     for name, whole in config.buffers.items() if name in ("res", "acc", "out")}


def test_the_names_are_in_the_order_of_their_codes() -> None:
    assert UNITS == ("load", "gemm", "vector", "store")
    assert BUFFERS == ("inp", "wgt", "res", "par", "acc", "out", "tab")


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_what_its_name_says(name: str) -> None:
    config = preset(name)
    assert config.name == name
    assert name.endswith(f"-{config.batch}x{config.block_in}x{config.block_out}")
    assert load(name) == config


def test_an_unknown_preset_is_refused() -> None:
    known = "ecp5-1x16x16, ecp5-1x2x2, ecp5-1x8x8, pynq-1x16x16, tiny-1x4x4"
    assert ", ".join(preset_names()) == known
    for text in ("pynk", "mine.json", ""):
        with pytest.raises(ConfigError) as refusal:
            load(text)
        shown = text or "."
        assert str(refusal.value) == f"Preset must be one of {known}, not {shown!r}"


@pytest.mark.parametrize("name", ["plain", 'a "quoted" \\ name', "two\nlines\tand \x7f \x01",
                                  "Größe 🙂"])
def test_toml_reads_back(tmp_path, name: str) -> None:
    config = replace(TINY, name=name, clock_mhz=77, queue_depth=4, bus_bytes=8)
    path = tmp_path / "mine.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert load(path) == config
    assert load(str(path)) == config


def test_a_file_may_leave_out_what_has_a_default(tmp_path) -> None:
    path = tmp_path / "short.toml"
    required = [f"{key} = {value}" for key, value in asdict(TINY).items()
                if key.endswith("_bytes") and key not in ("bus_bytes", "shared_bytes")]
    path.write_text("\n".join(["batch = 1", "block_in = 4", "block_out = 4", *required]))
    assert load(path) == replace(TINY, name="short", bus_bytes=8)


def test_missing_fields_are_named(tmp_path) -> None:
    path = tmp_path / "short.toml"
    path.write_text("\n".join(line for line in TINY.to_toml().splitlines()
                              if not line.startswith(("batch", "acc_bytes", "bus_bytes"))))
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value) == f"Configuration {path} lacks acc_bytes, batch"


def test_unknown_fields_are_named(tmp_path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(TINY.to_toml() + "speed = 1\nblok_in = 4\n")
    known = ", ".join(sorted(asdict(TINY)))
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value) == (f"Configuration {path} has unknown fields blok_in, speed; "
                                  f"known are {known}")


def test_a_refusal_names_the_file(tmp_path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(TINY.to_toml().replace("block_in = 4", "block_in = [4]"))
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value) == (f"Configuration {path}: block_in must be a positive integer, "
                                  f"not [4]")


def test_a_file_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path / "none.toml")
    assert str(refusal.value) == f"Configuration {tmp_path / 'none.toml'} does not exist"


@pytest.mark.parametrize("content", [b"batch = = 1", b"batch = 1\xff"])
def test_a_file_that_is_not_toml_is_refused(tmp_path, content: bytes) -> None:
    path = tmp_path / "wrong.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"Configuration {path} cannot be read: ")
    assert len(str(refusal.value).splitlines()) == 1


def test_a_directory_is_refused(tmp_path) -> None:
    path = tmp_path / "folder.toml"
    path.mkdir()
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"Configuration {path} cannot be read: ")


def test_geometry_is_all_but_the_name_the_clock_and_the_memory() -> None:
    assert set(asdict(TINY)) - set(TINY.geometry()) == {"name", "clock_mhz", "memory",
                                                        "weight_bits", "weight", "records",
                                                        "timing", "structure", "dataflow",
                                                        "shared_bytes", "channels"}
    assert all(getattr(TINY, key) == value for key, value in TINY.geometry().items())


def test_machines_without_packed_weights_keep_their_hash() -> None:
    """The text that the hash covers says nothing of what they do not have."""
    plain, packed = Machine(TINY), Machine(replace(TINY, weight_bits=(8, 4)))
    assert "weight_bits" not in plain.text and "'bits'" not in plain.text
    assert packed.config.geometry() == {**TINY.geometry(), "weight_bits": [8, 4]}
    assert packed.record.difference(plain.record) == (
        "weight_bits is [8, 4], not [8], words of load have another layout")
    assert plain.record.difference(packed.record) == (
        "weight_bits is [8], not [8, 4], words of load have another layout")


@pytest.mark.parametrize("bits", [(8,), (8, 4), [8, 2], [2, 8, 4]])
def test_weight_bits_are_in_the_order_of_their_codes(tmp_path, bits) -> None:
    config = replace(TINY, name="mine", weight_bits=bits)
    assert config.weight_bits == tuple(sorted(bits, reverse=True))
    assert config.written_bytes("wgt") == TINY.bus_bytes * 8 // min(bits)
    assert config.written_bytes("inp") == TINY.bus_bytes
    (tmp_path / "mine.toml").write_text(config.to_toml())
    assert load(tmp_path / "mine.toml") == config
    assert hash(config) == hash(load(tmp_path / "mine.toml"))


@pytest.mark.parametrize("bits", [4, "8, 4", (), (4,), (8, 8), (8, 1), (8, 4.0), (8, True), None])
def test_other_weight_bits_are_refused(bits) -> None:
    refused(f"weight_bits must be a list of 8 and some of 4, 2, each once, not {bits!r}",
            weight_bits=bits)


def test_wgt_holds_two_beats_of_unpacked_weights() -> None:
    wide = replace(TINY, bus_bytes=64, inp_bytes=128, wgt_bytes=128)
    with pytest.raises(ConfigError, match=r"^wgt_bytes must be at least two beats of 128 bytes "
                                          r"\(of which a row of its memory has one\), not 128$"):
        replace(wide, weight_bits=(8, 4))


CHANGES = {"batch": 2, "block_in": 8, "block_out": 8, "bus_bytes": 8, "queue_depth": 4,
           "vector_beats": 2, "stage_depth": 3, "dsp_multipliers": 8,
           **{f"{b}_bytes": 2 * TINY.buffers[b].size_bytes for b in BUFFERS}}


def test_the_hash_changes_with_every_field_of_the_geometry() -> None:
    free = set(TINY.geometry()) - {"operand", "accumulator", "output"}      # of one value only
    assert free == set(CHANGES)
    hashes = [Machine(replace(TINY, **{field: value})).hash for field, value in CHANGES.items()]
    assert len({Machine(TINY).hash, *hashes}) == len(hashes) + 1


def test_a_file_has_no_types_of_its_own(tmp_path) -> None:
    """They follow from declared instructions; what they are is left in files that say so."""
    path = tmp_path / "mine.toml"
    path.write_text(TINY.to_toml())
    assert 'operand = "int8"' in path.read_text() and load(path) == TINY
    path.write_text(TINY.to_toml().replace('operand = "int8"', 'operand = "int16"'))
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value) == (f"Configuration {path}: operand must be int8, not 'int16': other "
                                  f"types follow from declared instructions")


def test_the_hash_does_not_change_with_the_name_the_clock_or_the_memory() -> None:
    other = replace(TINY, name="other", clock_mhz=1, memory=Dram(latency=8))
    assert Machine(other).hash == Machine(TINY).hash


MEMORY = """
[memory]
latency = 15
bytes_per_cycle = 2.5
row_bytes = 1024
in_order = true
refresh_interval = 625
"""


def test_a_file_has_a_table_of_the_memory(tmp_path) -> None:
    path = tmp_path / "tiny-1x4x4.toml"
    path.write_text(TINY.to_toml() + MEMORY)
    config = load(path)
    assert config.memory == Dram(15, bytes_per_cycle=2.5, row_bytes=1024, in_order=True,
                                 refresh_interval=625)
    assert config == replace(TINY, memory=config.memory)
    assert config.to_toml() == path.read_text()
    assert AccelConfig(**json.loads(json.dumps(config.values()))) == config


def test_without_the_table_a_machine_has_the_default_memory() -> None:
    assert TINY.memory == DRAM and "memory" not in TINY.to_toml()


@pytest.mark.parametrize(("table", "message"), [
    ("memory = 3", "memory must be a table, not 3"),
    ("[memory]\nlatancy = 3\nrows = 1",
     f"memory must have fields among {', '.join(f.name for f in fields(Dram))}, not latancy, rows"),
    ("[memory]\nlatency = -1",
     "latency of the memory must be an integer from 0 to 1048576, not -1"),
    ("[memory]\nin_order = 1", "in_order of the memory must be true or false, not 1"),
    ("[memory]\nbytes_per_cycle = 5", "bytes_per_cycle of the memory must be at most the 4 bytes "
                                      "of the bus of tiny-1x4x4, not 5"),
])
def test_a_memory_that_cannot_be_is_refused(tmp_path, table: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(TINY.to_toml() + table)
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value) == f"Configuration {path}: {message}"


def test_the_hash_covers_declarations() -> None:
    double = vector_op("double", lambda a: a + a)
    triple = vector_op("double", lambda a: a + a + a)
    machines = [Machine(TINY), Machine(TINY, SHIPPED[:-1]), Machine(TINY, (*SHIPPED, double)),
                Machine(TINY, (*SHIPPED, triple)), Machine(TINY, (double, *SHIPPED))]
    assert len({machine.hash for machine in machines}) == len(machines)
    again = Machine(TINY, (*SHIPPED, vector_op("double", lambda a: a + a)))
    assert again.hash == machines[2].hash


def test_a_number_that_python_does_not_convert(tmp_path) -> None:
    path = tmp_path / "huge.toml"
    path.write_text(f"batch = {'9' * 5000}")
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"Configuration {path} cannot be read: Exceeds the limit")
