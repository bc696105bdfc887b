# Sourced by setup.sh: a full JDK, 17 or newer (Spark, real Kafka, TLC), and Maven (their jars).

# has_jdk: jdk.compiler is what a run-time image lacks and single-file programs need.
has_jdk() {
    command -v java >/dev/null || return 1
    modules=$(java --list-modules 2>/dev/null) || return 1
    major=$(echo "$modules" | sed -n 's/^java\.base@\([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge 17 ] && [[ $modules == *jdk.compiler@* ]]
}

has_maven() { command -v mvn >/dev/null; }

# debian_jdk: prints the newest long-term package that this system offers.
debian_jdk() {
    for release in 21 17; do
        if apt-cache show "openjdk-$release-jdk-headless" >/dev/null 2>&1; then
            echo "openjdk-$release-jdk-headless"
            return 0
        fi
    done
    return 1
}

require_jdk() {
    has_jdk && return 0
    if can_install && ! debian_jdk >/dev/null; then
        apt-get update -qq  # a fresh image has no package lists
    fi
    provide has_jdk "a full JDK, 17 or newer" "$(debian_jdk || echo default-jdk-headless)" \
        java-21-openjdk-devel openjdk@21
}

require_maven() { provide has_maven "Maven" maven maven maven; }
