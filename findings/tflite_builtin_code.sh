#!/bin/sh
# A .tflite file whose operator code stands in the new field alone, as some writers leave it: LiteRT
# takes the greater of both fields, and the package tflite gives the deprecated one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'tflite==2.18.0' 'flatbuffers==25.12.19' 'numpy==2.4.6'
"$folder/venv/bin/python" - <<'END'
from importlib.metadata import version

import flatbuffers
import tflite
from flatbuffers.number_types import Int32Flags

build = flatbuffers.Builder(64)
tflite.OperatorCodeStart(build)
tflite.OperatorCodeAddBuiltinCode(build, tflite.BuiltinOperator.DEQUANTIZE)
build.Finish(tflite.OperatorCodeEnd(build))
code = tflite.OperatorCode.GetRootAs(build.Output(), 0)
table = code._tab
stored = table.Get(Int32Flags, table.Pos + table.Offset(10))
print(f"tflite {version('tflite')}: builtin_code is stored as {stored} (DEQUANTIZE); BuiltinCode() "
      f"gives {code.BuiltinCode()} (ADD is {tflite.BuiltinOperator.ADD})")
raise SystemExit((stored, code.BuiltinCode()) != (6, 0))
END
