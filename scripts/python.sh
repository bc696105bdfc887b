# Sourced by setup.sh: an interpreter of 3.11 or newer that can make virtual environments.

# find_python: prints the first that fits; PYTHON_FOR_VENV names one by hand.
find_python() {
    for candidate in ${PYTHON_FOR_VENV:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
        then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

has_python() { find_python >/dev/null; }

require_python() {
    provide has_python "Python 3.11 or newer, with venv" "python3 python3-venv" python3 python3
}
