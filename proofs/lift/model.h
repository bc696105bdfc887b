/* What the C form of a machine (proofs/lift/c_form.py) offers to the engine that runs it.
 *
 * A packed state is a few words, cut into parts: an actor's leaves are a part of whole words, a
 * few small leaves together are some bits of one. What a rule instance tests and writes is told
 * part by part, so that the engine can remember it part by part. */

#ifndef KX_MODEL_H
#define KX_MODEL_H

#include <stdint.h>

#define KX_MAX_PARTS 64 /* a set of parts is a word, bit n being part n */

/* Reads a packed state and the budgets. If the rule instance is enabled: writes the successor
 * and returns 1, or returns 2 if a value is out of its leaf's range, the successor then being
 * unusable; else returns 0 and leaves the successor as it was. */
typedef int kx_step(const uint64_t *restrict, uint64_t *restrict, const int64_t *restrict);

/* A condition: 1 if it is true of the state. */
typedef int kx_test(const uint64_t *restrict, const int64_t *restrict);

/* Makes a state the least one of its orbit; returns how many states the orbit has. */
typedef uint64_t kx_canonical(uint64_t *);

/* `words` whole words from `word` on if `bits` is 0; else `bits` bits of `word` from `shift` on. */
struct kx_part {
    uint32_t word, words, shift, bits;
};

/* The conjuncts of a condition that read one part. */
struct kx_local {
    uint32_t part;
    kx_test *holds;
};

/* A part of less than a word, of which these bits become `set`. */
struct kx_constant {
    uint32_t part;
    uint64_t clear, set;
};

/* What the parts `writes` become, and whether `guard` (if there is one) holds, depends on the
 * parts `reads` alone, wherever the rule instance is enabled. */
struct kx_factor {
    uint64_t reads, writes;
    kx_test *guard;
};

/* A rule instance is enabled if its locals and its factors' guards hold. */
struct kx_rule {
    kx_step *step;
    uint32_t locals, constants, factors;
    const struct kx_local *local;
    const struct kx_constant *constant;
    const struct kx_factor *factor;
    const uint64_t *reads, *writes; /* bits of the packed state: no others matter to it, or change */
};

/* A guarantee or a witness: true if its locals are, and all that reads several parts: factors that
 * write nothing. */
struct kx_check {
    uint32_t locals, factors;
    const struct kx_local *local;
    const struct kx_factor *factor;
    const uint64_t *reads; /* bits of the packed state: no others matter to it */
};

struct kx_model {
    uint32_t words;                       /* 64-bit words a state */
    uint32_t parts;
    const struct kx_part *part;
    uint32_t inputs;                      /* budgets */
    uint32_t rules;                       /* rule instances that can fire: */
    const struct kx_rule *const *rule;
    const uint16_t *rule_number;          /* the index of each in the machine, rising */
    uint32_t checks;                      /* guarantees and witnesses together, guarantees first: */
    const struct kx_check *const *check;
    const uint8_t *wanted;                /* the result that is worth a note: 0 for a guarantee */
    kx_canonical *canonical;              /* or NULL: every state stands for itself */
};

#endif
