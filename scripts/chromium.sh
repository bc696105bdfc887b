# Sourced by setup.sh: Chromium, in which the tests look at the pages that people open.

has_chromium() { command -v chromium >/dev/null; }

require_chromium() { provide has_chromium "Chromium" chromium chromium chromium; }
