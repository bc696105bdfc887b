#!/usr/bin/env bash
# Build the virtual environment VENV (default .venv) and see to the system's tools.
# Python is a must; what else is missing and cannot be installed is named, with the command to type.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/python.sh
. scripts/java.sh
. scripts/compiler.sh
. scripts/spin.sh
. scripts/chromium.sh

venv=${1:-.venv}
extras=proofs,conformance,compression,zookeeper,docs,dev
without=()

require_python
require_jdk || without+=("Spark, real Kafka and TLC")
require_maven || without+=("real Kafka and TLC (their jars come through Maven)")
require_spin || without+=("the comparison with SPIN")
require_chromium || without+=("the tests of pages")
if ! require_compiler; then
    echo "setup: taking the compiler that the Python package ziglang holds"
    extras+=,compiler
fi

[ -x "$venv/bin/python" ] || "$(find_python)" -m venv "$venv"
echo "setup: installing kafka-eos[$extras] into $venv; the first time takes minutes"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"

for feature in ${without[@]+"${without[@]}"}; do
    echo "setup: done without $feature; see above" >&2
done
echo "setup: ready"
