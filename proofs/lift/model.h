/* What the C form of a machine (proofs/lift/c_form.py) offers to the engine that runs it. */

#ifndef KX_MODEL_H
#define KX_MODEL_H

#include <stdint.h>

/* Reads a packed state and the budgets. If the rule instance is enabled: writes the successor
 * and returns 1, or returns 2 if a value is out of its leaf's range, the successor then being
 * unusable; else returns 0 and leaves the successor as it was. */
typedef int kx_rule(const uint64_t *restrict, uint64_t *restrict, const int64_t *restrict);

/* A promise or a witness: 1 if it is true of the state. */
typedef int kx_test(const uint64_t *restrict, const int64_t *restrict);

struct kx_model {
    uint32_t words;                /* 64-bit words a state */
    uint32_t inputs;               /* budgets */
    uint32_t rules;                /* rule instances that can fire */
    kx_rule *const *rule;          /* each of them, */
    const uint16_t *rule_number;   /* and its index in the machine, rising */
    uint32_t tests;                /* promises and witnesses together, promises first */
    kx_test *const *test;
    const uint8_t *wanted;         /* the result of a test that is worth a note: 0 for a promise */
};

#endif
