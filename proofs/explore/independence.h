/* What need not be looked up, or checked, since a rule instance leaves it as it was.
 *
 * Two rule instances are independent if neither writes what the other reads or writes: where both
 * are enabled they lead to one state in either order. Let `a` have found a state s first, from p,
 * and let `b`, which stands before `a` and is independent of it, be enabled in s. Then `b` was
 * enabled in p too, and p's successor by `b` was in the set before s, so it was expanded before s;
 * and `a` leads from there where `b` leads from s. So that state is in the set, and `b` is asleep in
 * s: it counts as a transition, but its successor is not looked up. (These are sleep sets, kept for
 * one step: no memory a state.)
 *
 * A check that reads nothing of what a rule instance writes has in the successor the value that it
 * had before: as long as the check is open, that was not worth a note. So it is in a state that
 * differs from an earlier one in a part that the check does not read: in all but the first of a
 * line (store.h).
 *
 * A canonical form moves leaves to others' places. Then nothing is known to be independent. */

#ifndef KX_INDEPENDENCE_H
#define KX_INDEPENDENCE_H

#include "parts.h"

#define RULE_NUMBERS ((size_t)UINT16_MAX + 1)
#define NO_RULE UINT32_MAX

/* Rows by rule instance of the model, and one for the initial state, which none found. */
struct independence {
    uint32_t rule_words, check_words;
    uint32_t *place;   /* by number in the machine: which of the model's, or NO_RULE */
    uint64_t *asleep;  /* in states that it found: bits of rule instances */
    uint64_t *touched; /* by it: bits of checks */
    uint64_t *reading; /* by part: bits of the checks that read it */
};

INLINE const uint64_t *asleep_after(const struct independence *x, uint32_t rule)
{
    return x->asleep + (size_t)rule * x->rule_words;
}

INLINE const uint64_t *touched_by(const struct independence *x, uint32_t rule)
{
    return x->touched + (size_t)rule * x->check_words;
}

INLINE const uint64_t *checks_of(const struct independence *x, uint32_t part)
{
    return x->reading + (size_t)part * x->check_words;
}

static inline int bits_meet(const uint64_t *a, const uint64_t *b)
{
    for (uint32_t w = 0; w < KX_WORDS; w++)
        if (a[w] & b[w]) return 1;
    return 0;
}

static inline int independent(const struct kx_rule *a, const struct kx_rule *b)
{
    return !bits_meet(a->writes, b->reads) && !bits_meet(a->writes, b->writes) &&
           !bits_meet(a->reads, b->writes);
}

static inline void find_asleep(struct independence *x, uint32_t rule)
{
    uint64_t *asleep = x->asleep + (size_t)rule * x->rule_words;
    for (uint32_t r = 0; r < rule && !kx_model.canonical; r++)
        if (independent(kx_model.rule[rule], kx_model.rule[r]))
            asleep[r / 64] |= (uint64_t)1 << r % 64;
}

static inline void find_touched(struct independence *x, uint32_t rule)
{
    uint64_t *touched = x->touched + (size_t)rule * x->check_words;
    for (uint32_t c = 0; c < kx_model.checks; c++)
        if (kx_model.canonical || rule == kx_model.rules ||
            bits_meet(kx_model.rule[rule]->writes, kx_model.check[c]->reads))
            touched[c / 64] |= (uint64_t)1 << c % 64;
}

static inline void part_bits(const struct kx_part *p, uint64_t *bits)
{
    memset(bits, 0, KX_WORDS * sizeof *bits);
    if (p->bits)
        bits[p->word] = (((uint64_t)1 << p->bits) - 1) << p->shift;
    else
        memset(bits + p->word, 0xff, p->words * sizeof *bits);
}

static inline void find_reading(struct independence *x, uint32_t part)
{
    uint64_t bits[KX_WORDS], *reading = x->reading + (size_t)part * x->check_words;
    part_bits(&kx_model.part[part], bits);
    for (uint32_t c = 0; c < kx_model.checks; c++)
        if (bits_meet(kx_model.check[c]->reads, bits)) reading[c / 64] |= (uint64_t)1 << c % 64;
}

static inline void independence_close(struct independence *x)
{
    free(x->place);
    free(x->asleep);
    free(x->touched);
    free(x->reading);
}

/* 0: no memory. */
static inline int independence_open(struct independence *x)
{
    size_t rows = (size_t)kx_model.rules + 1;
    x->rule_words = (kx_model.rules + 63) / 64;
    x->check_words = (kx_model.checks + 63) / 64;
    x->place = malloc(RULE_NUMBERS * sizeof *x->place);
    x->asleep = calloc(rows * x->rule_words + 1, sizeof *x->asleep);
    x->touched = calloc(rows * x->check_words + 1, sizeof *x->touched);
    x->reading = calloc(kx_model.parts * x->check_words + 1, sizeof *x->reading);
    if (!x->place || !x->asleep || !x->touched || !x->reading) return 0;
    for (size_t n = 0; n < RULE_NUMBERS; n++) x->place[n] = NO_RULE;
    for (uint32_t r = 0; r < kx_model.rules; r++) {
        x->place[kx_model.rule_number[r]] = r;
        find_asleep(x, r);
    }
    for (uint32_t r = 0; r <= kx_model.rules; r++) find_touched(x, r);
    for (uint32_t p = 0; p < kx_model.parts; p++) find_reading(x, p);
    return 1;
}

#endif
