"""Spoils files byte by byte, and geometries in TOML field by field."""

import numpy as np

__all__ = ["damage", "spoiled_toml"]

Rng = np.random.Generator


def damage(rng: Rng, data: bytes) -> tuple[bytes, str]:
    """The bytes with some changed, removed or inserted, and a description."""
    begin, end = sorted(int(one) for one in rng.integers(len(data) + 1, size=2))
    match int(rng.integers(5)):
        case 0:
            return data[:begin], f"{begin} bytes of {len(data)}"
        case 1:
            return data[:begin] + data[end:], f"without bytes {begin} to {end}"
        case 2:
            more = rng.bytes(int(rng.integers(1, 200)))
            return data[:begin] + more + data[begin:], f"{len(more)} bytes more at {begin}"
        case _ if data:
            other, places = bytearray(data), rng.integers(len(data), size=int(rng.integers(1, 9)))
            for place in places:
                other[place] ^= 1 << int(rng.integers(8))
            return bytes(other), f"bits flipped at {', '.join(map(str, places))}"
    return data, "nothing"


VALUES = ("0", "-1", "1", "2", "3", "4", "8", "16", "32", "64", "128", "256", "1024", "4096",
          "65536", "16777216", "33554432", "1e3", "nan", "inf", "true", '"x"', '""', "'int8'",
          "[]", "{}", "[1, 2]", "1979-05-27", "07:32:00", "0x10", "1_000", "9" * 30, "9" * 5000,
          '"""a\nb"""', "[" * 2000, "[" * 200 + "]" * 200, "{a=" * 2000,
          "{a=" * 90 + "1" + "}" * 90)
LINES = ("x = 1", "[table]", "[[table]]", "a.b.c = 1", '"" = 1', "name = 'again'", "\x00", "= 1",
         "[" + "a." * 2000 + "b]", "a." * 2000 + "b = 1", "# " + "x" * 10000, "é = 1", "[" * 2000)


def spoiled_toml(rng: Rng, text: bytes) -> tuple[bytes, str]:
    """The geometry with another value, line or byte, and a description."""
    lines = text.decode().splitlines()
    fields = [place for place, line in enumerate(lines) if "=" in line]
    place = fields[int(rng.integers(len(fields)))]
    name = lines[place].partition("=")[0].strip()
    pick = rng.random()
    if pick < 0.65:
        powers = [str(1 << int(power)) for power in rng.integers(1, 20, size=3)]
        value = str(rng.choice([*VALUES, *powers, *powers]))
        lines[place] = f"{name} = {value}"
        what = f"{name} = {value[:40]}"
    elif pick < 0.75:
        del lines[place]
        what = f"without {name}"
    elif pick < 0.9:
        line = LINES[int(rng.integers(len(LINES)))]
        lines.insert(place, line)
        what = f"line {line[:40]!r}"
    else:
        return damage(rng, text)
    return "\n".join(lines).encode(), what
