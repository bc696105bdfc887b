# Sourced by the other scripts: install Debian packages where we may, else say what to type.

# can_install: true on Debian and its children when we are root.
can_install() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null
}

# debian_install PACKAGE...: refreshes the package lists first when they are missing or stale.
debian_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
}

# how_to_install DEBIAN_PACKAGES FEDORA_PACKAGES BREW_PACKAGES: prints the command for this system.
how_to_install() {
    if command -v apt-get >/dev/null; then echo "sudo apt-get install -y $1"
    elif command -v dnf >/dev/null; then echo "sudo dnf install -y $2"
    elif command -v brew >/dev/null; then echo "brew install $3"
    else echo "install the equivalent of Debian's $1 with your package manager"
    fi
}

# size_of DEBIAN_PACKAGES: how much is fetched for them, in brackets; nothing where that is unknown.
size_of() {
    # shellcheck disable=SC2086
    apt-get install -s -o APT::Get::Show-User-Simulation-Note=0 $1 --print-uris -qq 2>/dev/null |
        awk '{ sum += $3 } END { if (sum) printf " (%.0f MB)", sum / 1e6 }'
}

# provide CHECK WHAT DEBIAN FEDORA BREW: runs CHECK; installs WHAT when it fails; names the command
# to type and returns 1 when that is not possible either.
provide() {
    "$1" && return 0
    echo "setup: missing: $2"
    if can_install; then
        echo "setup: installing $3$(size_of "$3")"
        # shellcheck disable=SC2086
        debian_install $3 && "$1" && return 0
    fi
    echo "setup: $2 is needed. Type: $(how_to_install "$3" "$4" "$5")" >&2
    return 1
}
