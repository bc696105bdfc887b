/* Two-phase commit for SPIN: spin -DN=7 -a two_phase_commit.pml

   The same steps as in world.py, each a d_step of the one process, so that SPIN stores the
   states of the protocol and none in between. Everything is bits of a set: bit r of `messages`
   says that resource manager r is prepared, bit N "commit", bit N + 1 "abort". What SPIN keeps
   is as small as it gets, which makes it fast. A resource manager that is in none of the three
   sets is working. */

#define ALL ((1 << N) - 1)
#define COMMIT (1 << N)
#define ABORT (2 << N)
#define UNDECIDED (!(messages & (COMMIT | ABORT)))

short heard_from; /* by the transaction manager */
short messages;
short prepared;
short committed;
short aborted;

inline becomes_committed(r) {
    committed = committed | (1 << r);
    prepared = prepared & ~(1 << r);
    aborted = aborted & ~(1 << r);
    assert(!aborted)
}

inline becomes_aborted(r) {
    aborted = aborted | (1 << r);
    prepared = prepared & ~(1 << r);
    committed = committed & ~(1 << r);
    assert(!committed)
}

#define WORKING(r) (!((prepared | committed | aborted) & (1 << r)))

#define RESOURCE_MANAGER(r) \
    :: d_step { UNDECIDED && (messages & (1 << r)) -> heard_from = heard_from | (1 << r) } \
    :: d_step { WORKING(r) -> prepared = prepared | (1 << r); messages = messages | (1 << r) } \
    :: d_step { WORKING(r) -> becomes_aborted(r) } \
    :: d_step { (messages & COMMIT) -> becomes_committed(r) } \
    :: d_step { (messages & ABORT) -> becomes_aborted(r) }

active proctype system() {
    do
    :: d_step { UNDECIDED && heard_from == ALL -> messages = messages | COMMIT }
    :: d_step { UNDECIDED -> messages = messages | ABORT }
    RESOURCE_MANAGER(0)
    RESOURCE_MANAGER(1)
    RESOURCE_MANAGER(2)
#if N > 3
    RESOURCE_MANAGER(3)
#endif
#if N > 4
    RESOURCE_MANAGER(4)
#endif
#if N > 5
    RESOURCE_MANAGER(5)
#endif
#if N > 6
    RESOURCE_MANAGER(6)
#endif
#if N > 7
    RESOURCE_MANAGER(7)
#endif
#if N > 8
    RESOURCE_MANAGER(8)
#endif
#if N > 9
    RESOURCE_MANAGER(9)
#endif
    od
}
