#!/usr/bin/env bash
# setup.sh [VENV] [GROUP]: build the virtual environment VENV (default .venv), see to the system's tools.
# GROUP is `judge`, what `make conformance` needs, or `all` (default), what tests and documents need.
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
group=${2:-all}
without=()

require_python
require_jdk || without+=("Spark, real Kafka and TLC")
case $group in
    judge)
        extras=conformance,compression ;;
    all)
        extras=proofs,conformance,compression,zookeeper,docs,dev
        require_maven || without+=("real Kafka and TLC (their jars come through Maven)")
        require_spin || without+=("the comparison with SPIN")
        require_chromium || without+=("the tests of pages") ;;
    *)
        echo "setup: no group '$group'; there are judge and all" >&2
        exit 2 ;;
esac
if ! require_compiler; then
    echo "setup: taking the compiler that the Python package ziglang holds"
    extras+=,compiler
fi

[ -x "$venv/bin/python" ] || "$(find_python)" -m venv "$venv"
echo "setup: installing kafka-eos[$extras] into $venv"
install() {
    # Modules are compiled when they are first imported: of most packages few ever are.
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile --progress-bar off "$@"
}
# A line for each package that is fetched, with its size, and one when all are being unpacked.
show() {
    sed -u -n -E 's/^ *(Downloading|Using cached) ([^ ]+\.(whl|tar\.gz)) (\(.*\)).*/setup:   \2 \4/p; s/^Installing collected packages: .*/setup: unpacking/p; /^ERROR/p'
}
install --editable ".[$extras]" | show

for feature in ${without[@]+"${without[@]}"}; do
    echo "setup: done without $feature; see above" >&2
done
echo "setup: ready"
