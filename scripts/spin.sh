# Sourced by setup.sh: SPIN, with which benchmarks.exploration and its tests compare the explorer.

has_spin() { command -v spin >/dev/null; }

require_spin() { provide has_spin "SPIN" spin spin spin; }
