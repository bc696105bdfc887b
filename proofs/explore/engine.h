/* Breadth-first search over the packed states of a compiled machine.
 *
 * 1. Every state is stored, once, in the order in which a search with one worker would find it:
 *    by parent, then by rule instance. This number is the state's index. It does not depend on the
 *    number of workers, so neither do counts, traces or edges.
 * 2. Two states are the same only if all their bits are: the visited set compares keys, which are
 *    equal for equal states only (parts.h), and no collision can hide a state.
 * 3. The search goes batch by batch through a level, each batch in phases that all workers enter
 *    and leave together: expand, settle, number, link. Within a phase no two workers write
 *    to the same place, except where they share what they learned: there an entry is set once, and
 *    a lock is taken only where an actor has a value that it never had before.
 * 4. If the model has a canonical form, a state stands for its orbit; all that is counted is
 *    counted for each state of the orbits, except KX_DISTINCT, which counts orbits.
 * 5. A limit that is hit is a status, never a wrong count.
 */

#ifndef KX_ENGINE_H
#define KX_ENGINE_H

#include <stdint.h>

#ifndef KX_WORDS
#error "define KX_WORDS, the number of 64-bit words a state"
#endif

#define KX_API __attribute__((visibility("default")))

enum kx_status {
    KX_OK = 0,
    KX_STOPPED = 1,         /* kx_stop was called; kx_level goes on where it was */
    KX_NO_MEMORY = 2,
    KX_TOO_MANY_STATES = 3, /* an index has 32 bits */
    KX_NO_SEARCH = 4,       /* kx_restore was given what no search finds */
    KX_OUT_OF_RANGE = 5     /* a rule instance wrote a value that its leaf cannot hold */
};

/* What kx_counts tells. It may be called from any thread while the search runs. */
enum kx_count {
    KX_DISTINCT,     /* states stored */
    KX_FULL,         /* states that these stand for, themselves included */
    KX_TRANSITIONS,  /* pairs (expanded state, enabled rule instance) */
    KX_DEADLOCKS,    /* expanded states without successors */
    KX_DEADLOCK,     /* the first of them stored, or KX_NONE */
    KX_LEVEL_FIRST,  /* the level being expanded: its first state, */
    KX_LEVEL_END,    /* the first state behind it, */
    KX_CURSOR,       /* and the first that was not expanded yet */
    KX_EDGES,
    KX_BROKEN,       /* KX_OUT_OF_RANGE: state << 16 | rule instance, the first; else KX_NONE */
    KX_COUNTS
};

#define KX_NONE UINT64_MAX

struct kx_engine;

/* A search with only the initial state found. NULL when there is no memory or no thread. */
KX_API struct kx_engine *kx_new(const int64_t *inputs, const uint64_t *initial, uint32_t workers,
                                int with_edges);
KX_API void kx_free(struct kx_engine *e);

/* Expands the current level; what it finds becomes the next one. */
KX_API int kx_level(struct kx_engine *e);
KX_API void kx_stop(struct kx_engine *e);

KX_API void kx_counts(const struct kx_engine *e, uint64_t *counts);
/* By rule instance of the machine; `firings` has room for all of them and begins at zero. */
KX_API void kx_firings(const struct kx_engine *e, uint64_t *firings);
/* By test: the first state that is worth a note, or KX_NONE. */
KX_API void kx_first(const struct kx_engine *e, uint64_t *first);

/* Words of the states first .. first + count - 1, of a search with edges: others forget them. */
KX_API void kx_states(const struct kx_engine *e, uint64_t first, uint64_t count, uint64_t *words);
/* Their parents' indexes, and the rule instances that found them there. */
KX_API void kx_origins(const struct kx_engine *e, uint64_t first, uint64_t count,
                       uint32_t *parents, uint16_t *rules);
/* The caller keeps the origins of the states below `count`, and asks for them no more. */
KX_API void kx_release(struct kx_engine *e, uint64_t count);
/* Edges first .. first + count - 1, by source and rule instance. */
KX_API void kx_edges(const struct kx_engine *e, uint64_t first, uint64_t count, uint32_t *sources,
                     uint16_t *rules, uint32_t *targets);

/* Finds states again, behind those already there, by what kx_origins told of them. */
KX_API int kx_restore(struct kx_engine *e, uint64_t count, const uint32_t *parents,
                      const uint16_t *rules);
/* Goes on at a level, with what was counted before it. `first` is by test, as from kx_first. */
KX_API void kx_resume(struct kx_engine *e, const uint64_t *counts, const uint64_t *firings,
                      const uint64_t *first);

/* All successors of one state, and their rule instances; both arrays have room for every rule.
 * If one writes a value out of range: UINT32_MAX, and its number is rules[0]. */
KX_API uint32_t kx_successors(const uint64_t *state, const int64_t *inputs, uint64_t *words,
                              uint16_t *rules);

enum kx_noted { KX_OPEN = 0, KX_NOTED = 1, KX_CLOSED = 2 };

/* What kx_expand writes. A row is a successor that no earlier row has; what is counted is added
 * to what is there. */
struct kx_rows {
    uint64_t room, rows;            /* room for all rules at least */
    int64_t *high, *low;            /* the successor's fingerprint, */
    int64_t *parent;                /* the least high word of a state that it follows, */
    uint64_t *words;                /* and its words */
    uint32_t *slots;                /* slot_mask + 1 of them, more than the room: to find a row */
    uint64_t slot_mask;
    uint64_t transitions, deadlocks;
    uint64_t *firings;              /* by rule instance of the machine */
    uint64_t broken;                /* the rule instance that wrote a value out of range in the
                                       state whose fingerprint stands behind the rows; else KX_NONE */
    uint8_t *noted;                 /* by test: kx_noted; a closed one is not evaluated */
    int64_t *first;                 /* by test, if noted: the fingerprint, least of all */
};

/* Successors of the first states of `count`, as many as there is room for; how many states these
 * are. */
KX_API uint64_t kx_expand(const int64_t *inputs, const uint64_t *states, uint64_t count,
                          struct kx_rows *out);
/* The fingerprint of one state, and its tests. */
KX_API void kx_look_at(const int64_t *inputs, const uint64_t *state, struct kx_rows *out);

#endif
