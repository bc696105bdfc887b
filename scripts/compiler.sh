# Sourced by setup.sh: a C compiler for the compiled form of the model.

# has_compiler: compiles a file that needs libc's headers, which the bare compiler package lacks.
has_compiler() {
    echo '#include <stdint.h>
#include <stdlib.h>
int main(void) { return EXIT_SUCCESS; }' | cc -x c -o /dev/null - 2>/dev/null
}

require_compiler() { provide has_compiler "a C compiler" "gcc libc6-dev" gcc gcc; }
