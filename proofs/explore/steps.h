/* Successors from what was seen before.
 *
 * A rule instance changes a few parts, and what they become depends on a few: each such factor is
 * computed once for the values it reads, by the rule's own function on the whole state, and
 * looked up from then on. Constants need not even that: they are masks over the key. A check is
 * looked up in the same way.
 */

#ifndef KX_STEPS_H
#define KX_STEPS_H

#include "memo.h"
#include "parts.h"

#define MAX_KEY_WORDS KX_MAX_PARTS
#define NO_PART UINT32_MAX
#define MAX_GROUP 32

enum outcome { IDLE, FIRES, OUT_OF_RANGE, CROWDED };

/* What is counted in a batch; `full` counts new states, the others belong to expanded ones. */
struct tally {
    uint64_t full, transitions, deadlocks, deadlock;
};

static const struct tally NOTHING = {0, 0, 0, KX_NONE};

struct factor {
    const struct kx_factor *is;
    uint32_t only; /* the one part it reads and writes, or NO_PART */
};

/* Factors of checks that read the same: they are evaluated and remembered together. */
struct group {
    uint64_t reads;
    uint32_t factors;
    kx_test *guard[MAX_GROUP];
};

/* A factor of a check: the bit-th of a group. */
struct rest {
    uint32_t group, bit;
};

struct steps {
    uint32_t rule_words, check_words, factors, guarded;
    uint32_t guards[KX_MAX_PARTS];  /* parts that forbid rule instances by themselves */
    uint64_t *every;                /* bits of all rules */
    uint32_t *first_factor;         /* by rule, and one behind */
    struct factor *factor;
    uint64_t *keep, *set;           /* masks over the key, by rule: its constants */
    uint64_t *reads, *stays;        /* by factor: what is read; what is not written */
    uint32_t rests, *first_rest;    /* factors of checks; by check, and one behind */
    struct rest *rest;
    uint32_t groups;
    struct group *group;            /* of these factors, */
    uint64_t *group_reads;          /* and what they read as a mask */
    uint64_t *open, *guarantees, *look; /* bits of checks: not noted yet; all guarantees; those to
                                         evaluate if no part makes them false */
    uint32_t **next;                  /* by factor with one part: by value, the next one + 1 */
    struct memo_table *memo;          /* by factor of a rule, then by group of factors of checks */
};

/* What a worker notes for itself, away from what others write. */
struct worker {
    struct tally tally, before;
    uint64_t broken;
    uint64_t *firings, *firings_before; /* by rule of the model */
    uint64_t *first;                    /* by check */
    uint64_t *lost;                     /* by memo: entries that found no place in this batch */
    uint32_t *fresh;                    /* by block: new states that this worker settled */
    int failed, crowded, forgot;
} __attribute__((aligned(APART)));

INLINE uint64_t enabled_word(const struct parts *all, const struct steps *steps,
                             const uint64_t *key, uint32_t w)
{
    uint64_t enabled = steps->every[w];
    for (uint32_t g = 0; g < steps->guarded; g++) {
        const struct part *p = &all->part[steps->guards[g]];
        enabled &= p->rules.bits[(size_t)part_number(p, key) * p->rules.words + w];
    }
    return enabled;
}

/* Brings on its way what `enabled_word` will look up. */
INLINE void enabled_soon(const struct parts *all, const struct steps *steps, const uint64_t *key)
{
    for (uint32_t g = 0; g < steps->guarded; g++) {
        const struct part *p = &all->part[steps->guards[g]];
        if (is_wide(p))
            __builtin_prefetch(p->rules.bits + (size_t)part_number(p, key) * p->rules.words);
    }
}

INLINE uint64_t allowed_word(const struct parts *all, const uint64_t *key, uint32_t w)
{
    uint64_t allowed = UINT64_MAX;
    for (uint32_t n = 0; n < all->count; n++) {
        const struct part *p = &all->part[n];
        if (!p->checks.bits) continue;
        allowed &= p->checks.bits[(size_t)part_number(p, key) * p->checks.words + w];
    }
    return allowed;
}

/* How many states a stored one stands for. */
static inline uint64_t weight_of(const struct parts *all, const uint64_t *key)
{
    uint64_t state[KX_WORDS];
    if (!kx_model.canonical) return 1;
    decode(all, key, state);
    return kx_model.canonical(state);
}

/* ---- by the rule's own function ---- */

static inline enum outcome complete_canonical(struct parts *all, struct worker *me, uint32_t rule,
                                              const uint64_t *key, uint64_t *next)
{
    uint64_t state[KX_WORDS], after[KX_WORDS];
    decode(all, key, state);
    int outcome = kx_model.rule[rule]->step(state, after, all->inputs);
    if (outcome != 1) return outcome ? OUT_OF_RANGE : IDLE;
    kx_model.canonical(after);
    if (encode(all, after, next)) return FIRES;
    me->crowded = 1;
    return CROWDED;
}

static inline void cut_down(uint64_t *read, const uint64_t *key, const uint64_t *mask, uint32_t K)
{
    EACH_WORD(w) read[w] = key[w] & mask[w];
}

static inline void remember(const struct steps *steps, struct worker *me, uint32_t memo,
                            const uint64_t *read, const uint64_t *written, uint32_t K)
{
    if (memo_put(&steps->memo[memo], read, written, K)) return;
    me->lost[memo]++;
    me->forgot = 1;
}

/* The factors whose guards fail are remembered. */
static inline void remember_idle(const struct parts *all, const struct steps *steps,
                                 struct worker *me, uint32_t rule, const uint64_t *key,
                                 const uint64_t *state)
{
    uint64_t read[MAX_KEY_WORDS], nothing[MAX_KEY_WORDS] = {0};
    nothing[all->key_words - 1] = ANSWER_NO;
    for (uint32_t f = steps->first_factor[rule]; f < steps->first_factor[rule + 1]; f++) {
        const struct kx_factor *x = steps->factor[f].is;
        if (!x->guard || x->guard(state, all->inputs)) continue;
        cut_down(read, key, steps->reads + f * all->key_words, all->key_words);
        remember(steps, me, f, read, nothing, all->key_words);
    }
}

/* A factor's part of the successor, remembered. 0: a part is crowded. */
static inline int write_factor(struct parts *all, const struct steps *steps, struct worker *me,
                           uint32_t f, const uint64_t *key, const uint64_t *after, uint64_t *next)
{
    uint64_t read[MAX_KEY_WORDS], written[MAX_KEY_WORDS] = {0};
    uint32_t K = all->key_words, number = 0;
    for (uint64_t writes = steps->factor[f].is->writes; writes; writes &= writes - 1) {
        struct part *p = &all->part[__builtin_ctzll(writes)];
        number = number_of(all, p, after);
        if (number == NO_VALUE) return 0;
        written[p->at] |= (uint64_t)number << p->from;
    }
    EACH_WORD(w) next[w] = (next[w] & steps->stays[f * K + w]) | written[w];
    if (steps->factor[f].only != NO_PART) {
        const struct part *p = &all->part[steps->factor[f].only];
        __atomic_store_n(steps->next[f] + part_number(p, key), number + 1, __ATOMIC_RELAXED);
        return 1;
    }
    cut_down(read, key, steps->reads + f * K, K);
    written[K - 1] |= OCCUPIED;
    remember(steps, me, f, read, written, K);
    return 1;
}

static __attribute__((noinline)) enum outcome complete_slowly(
    struct parts *all, const struct steps *steps, struct worker *me, uint32_t rule,
    const uint64_t *key, uint64_t *next)
{
    uint64_t state[KX_WORDS], after[KX_WORDS];
    decode(all, key, state);
    int outcome = kx_model.rule[rule]->step(state, after, all->inputs);
    if (outcome == 2) return OUT_OF_RANGE;
    if (!outcome) {
        remember_idle(all, steps, me, rule, key, state);
        return IDLE;
    }
    for (uint32_t f = steps->first_factor[rule]; f < steps->first_factor[rule + 1]; f++) {
        if (write_factor(all, steps, me, f, key, after, next)) continue;
        me->crowded = 1;
        return CROWDED;
    }
    return FIRES;
}

/* ---- by what is remembered ---- */

/* Turns a proposed successor, which has the rule's constants, into the successor. */
INLINE enum outcome complete(struct parts *all, const struct steps *steps, struct worker *me,
                             uint32_t rule, const uint64_t *key, uint64_t *next, const uint32_t K)
{
    if (kx_model.canonical) return complete_canonical(all, me, rule, key, next);
    for (uint32_t f = steps->first_factor[rule]; f < steps->first_factor[rule + 1]; f++) {
        if (steps->factor[f].only != NO_PART) {
            const struct part *p = &all->part[steps->factor[f].only];
            uint64_t number =
                __atomic_load_n(steps->next[f] + part_number(p, key), __ATOMIC_RELAXED);
            if (!number) return complete_slowly(all, steps, me, rule, key, next);
            next[p->at] = (next[p->at] & ~(p->field << p->from)) | (number - 1) << p->from;
            continue;
        }
        uint64_t read[MAX_KEY_WORDS], written[MAX_KEY_WORDS];
        EACH_WORD(w) read[w] = key[w] & steps->reads[f * K + w];
        enum memo known = memo_find(&steps->memo[f], read, written, K);
        if (known == MEMO_UNKNOWN) return complete_slowly(all, steps, me, rule, key, next);
        if (known == MEMO_NO) return IDLE;
        EACH_WORD(w) next[w] = (next[w] & steps->stays[f * K + w]) | written[w];
    }
    return FIRES;
}

/* Brings on its way what a memo has of a key's parts. */
INLINE void memo_soon(const struct memo_table *m, const uint64_t *key, const uint64_t *mask,
                      const uint32_t K)
{
    uint64_t read[MAX_KEY_WORDS];
    EACH_WORD(w) read[w] = key[w] & mask[w];
    __builtin_prefetch(memo_place(m, memo_number(m, read, K), K));
}

/* Brings on its way what `complete` will look up. */
INLINE void complete_soon(const struct parts *all, const struct steps *steps,
                          uint32_t rule, const uint64_t *key, const uint32_t K)
{
    for (uint32_t f = steps->first_factor[rule]; f < steps->first_factor[rule + 1]; f++) {
        if (steps->factor[f].only == NO_PART) {
            memo_soon(&steps->memo[f], key, steps->reads + f * K, K);
            continue;
        }
        const struct part *p = &all->part[steps->factor[f].only];
        __builtin_prefetch(steps->next[f] + part_number(p, key));
    }
}

/* Which factors of a group are true, by bit. */
static __attribute__((noinline)) uint64_t evaluate_group(const struct parts *all,
                                                         const struct steps *steps,
                                                         struct worker *me, uint32_t group,
                                                         const uint64_t *key, const uint64_t *read)
{
    uint64_t state[KX_WORDS], written[MAX_KEY_WORDS] = {0}, holds = 0;
    const struct group *g = &steps->group[group];
    decode(all, key, state);
    for (uint32_t n = 0; n < g->factors; n++)
        holds |= (uint64_t)(g->guard[n](state, all->inputs) != 0) << n;
    written[all->key_words - 1] = holds | OCCUPIED;
    remember(steps, me, steps->factors + group, read, written, all->key_words);
    return holds;
}

/* Whether a factor of a check is true. */
INLINE int rest_holds(const struct parts *all, const struct steps *steps, struct worker *me,
                      struct rest rest, const uint64_t *key, const uint32_t K)
{
    uint64_t read[MAX_KEY_WORDS], written[MAX_KEY_WORDS];
    EACH_WORD(w) read[w] = key[w] & steps->group_reads[rest.group * K + w];
    enum memo known = memo_find(&steps->memo[steps->factors + rest.group], read, written, K);
    uint64_t holds = known == MEMO_YES ? written[K - 1]
                                       : evaluate_group(all, steps, me, rest.group, key, read);
    return holds >> rest.bit & 1;
}

/* Whether a check is true that no part makes false. */
INLINE int check_holds(const struct parts *all, const struct steps *steps, struct worker *me,
                       uint32_t check, const uint64_t *key, const uint32_t K)
{
    for (uint32_t n = steps->first_rest[check]; n < steps->first_rest[check + 1]; n++)
        if (!rest_holds(all, steps, me, steps->rest[n], key, K)) return 0;
    return 1;
}

/* Brings on its way what `check_holds` will look up, unless it was asked for. */
INLINE void check_soon(const struct steps *steps, uint32_t check, const uint64_t *key,
                       uint64_t *asked, const uint32_t K)
{
    for (uint32_t n = steps->first_rest[check]; n < steps->first_rest[check + 1]; n++) {
        uint32_t g = steps->rest[n].group;
        uint64_t bit = g < 64 ? (uint64_t)1 << g : 0;
        if (*asked & bit) continue;
        *asked |= bit;
        memo_soon(&steps->memo[steps->factors + g], key, steps->group_reads + g * K, K);
    }
}

/* ---- masks ---- */

static inline void mask_parts(const struct parts *all, uint64_t set, uint64_t *mask)
{
    memset(mask, 0, all->key_words * sizeof *mask);
    for (; set; set &= set - 1) {
        const struct part *p = &all->part[__builtin_ctzll(set)];
        mask[p->at] |= p->field << p->from;
    }
}

static inline void mask_constants(const struct parts *all, const struct kx_rule *rule,
                                  uint64_t *keep, uint64_t *set)
{
    for (uint32_t w = 0; w < all->key_words; w++) keep[w] = UINT64_MAX, set[w] = 0;
    for (uint32_t n = 0; n < rule->constants; n++) {
        const struct kx_constant *c = &rule->constant[n];
        const struct part *p = &all->part[c->part];
        keep[p->at] &= ~(c->clear << p->from);
        set[p->at] |= c->set << p->from;
    }
}

/* Masks for the key as it is laid out now. 0: no memory. */
static inline int steps_lay(struct steps *s, const struct parts *all)
{
    uint32_t K = all->key_words;
    size_t word = K * sizeof(uint64_t);
    s->keep = realloc(s->keep, kx_model.rules * word + 1);
    s->set = realloc(s->set, kx_model.rules * word + 1);
    s->reads = realloc(s->reads, s->factors * word + 1);
    s->stays = realloc(s->stays, s->factors * word + 1);
    s->group_reads = realloc(s->group_reads, s->groups * word + 1);
    if (!s->keep || !s->set || !s->reads || !s->stays || !s->group_reads) return 0;
    for (uint32_t r = 0; r < kx_model.rules; r++)
        mask_constants(all, kx_model.rule[r], s->keep + r * K, s->set + r * K);
    for (uint32_t f = 0; f < s->factors; f++) {
        mask_parts(all, s->factor[f].is->reads, s->reads + f * K);
        mask_parts(all, s->factor[f].is->writes, s->stays + f * K);
        s->reads[f * K + K - 1] |= OCCUPIED;
        EACH_WORD(w) s->stays[f * K + w] = ~s->stays[f * K + w];
    }
    for (uint32_t g = 0; g < s->groups; g++) {
        mask_parts(all, s->group[g].reads, s->group_reads + g * K);
        s->group_reads[g * K + K - 1] |= OCCUPIED;
    }
    return 1;
}

/* ---- beginning and end ---- */

/* A factor's place in the group that reads the same. */
static inline struct rest grouped(struct steps *s, const struct kx_factor *x)
{
    uint32_t g = 0;
    while (g < s->groups && (s->group[g].reads != x->reads || s->group[g].factors == MAX_GROUP)) g++;
    s->groups += g == s->groups;
    struct group *home = &s->group[g];
    home->reads = x->reads;
    home->guard[home->factors] = x->guard;
    return (struct rest){g, home->factors++};
}

static inline void open_checks(struct steps *s)
{
    for (uint32_t c = 0; c < kx_model.checks; c++) {
        uint64_t bit = (uint64_t)1 << c % 64;
        s->open[c / 64] |= bit;
        if (!kx_model.wanted[c]) s->guarantees[c / 64] |= bit;
        if (kx_model.wanted[c] || kx_model.check[c]->factors) s->look[c / 64] |= bit;
        s->first_rest[c] = s->rests;
        for (uint32_t n = 0; n < kx_model.check[c]->factors; n++)
            s->rest[s->rests++] = grouped(s, &kx_model.check[c]->factor[n]);
    }
    s->first_rest[kx_model.checks] = s->rests;
}

static inline void open_factors(struct steps *s)
{
    for (uint32_t r = 0; r < kx_model.rules; r++) {
        const struct kx_rule *rule = kx_model.rule[r];
        s->every[r / 64] |= (uint64_t)1 << r % 64;
        s->first_factor[r] = s->factors;
        for (uint32_t n = 0; n < rule->factors; n++) {
            const struct kx_factor *x = &rule->factor[n];
            int one = !(x->reads & (x->reads - 1)) && x->reads == x->writes && !x->guard;
            uint32_t only = one ? (uint32_t)__builtin_ctzll(x->reads) : NO_PART;
            s->factor[s->factors++] = (struct factor){x, only};
        }
    }
    s->first_factor[kx_model.rules] = s->factors;
}

/* Forgets what is remembered as keys: they mean nothing in another layout. */
static inline void steps_forget(struct steps *s, uint32_t key_words)
{
    for (uint32_t n = 0; s->memo && n < s->factors + s->groups; n++)
        memo_close(&s->memo[n], key_words);
}

/* Empty memos. 0: no memory. */
static inline int steps_ready(struct steps *s, uint32_t key_words)
{
    for (uint32_t n = 0; n < s->factors + s->groups; n++) {
        if (n < s->factors && s->factor[n].only != NO_PART) continue;
        if (!memo_open(&s->memo[n], key_words, FIRST_MEMO_BITS)) return 0;
    }
    return 1;
}

/* Room for the next values of a part that had room for `from` values. */
static inline int steps_grow(struct steps *s, const struct parts *all, uint32_t part,
                             uint64_t from)
{
    for (uint32_t f = 0; f < s->factors; f++) {
        if (s->factor[f].only != part) continue;
        size_t size = sizeof **s->next;
        uint32_t *more = pages_moved(s->next[f], from * size, all->part[part].room * size);
        if (!more) return 0;
        s->next[f] = more;
    }
    return 1;
}

static inline int steps_open(struct steps *s, const struct parts *all)
{
    uint32_t factors = 0, rests = 0;
    for (uint32_t r = 0; r < kx_model.rules; r++) factors += kx_model.rule[r]->factors;
    for (uint32_t c = 0; c < kx_model.checks; c++) rests += kx_model.check[c]->factors;
    s->rule_words = (kx_model.rules + 63) / 64;
    s->check_words = (kx_model.checks + 63) / 64;
    s->every = calloc(s->rule_words + 1, sizeof *s->every);
    s->open = calloc(s->check_words + 1, sizeof *s->open);
    s->guarantees = calloc(s->check_words + 1, sizeof *s->guarantees);
    s->look = calloc(s->check_words + 1, sizeof *s->look);
    s->first_factor = calloc(kx_model.rules + 1, sizeof *s->first_factor);
    s->factor = calloc(factors + 1, sizeof *s->factor);
    s->first_rest = calloc(kx_model.checks + 1, sizeof *s->first_rest);
    s->rest = calloc(rests + 1, sizeof *s->rest);
    s->group = calloc(rests + 1, sizeof *s->group);
    s->next = calloc(factors + 1, sizeof *s->next);
    s->memo = calloc(factors + rests + 1, sizeof *s->memo);
    if (!s->every || !s->open || !s->guarantees || !s->look || !s->first_factor || !s->factor ||
        !s->first_rest || !s->rest || !s->group || !s->next || !s->memo)
        return 0;
    open_factors(s);
    open_checks(s);
    for (uint32_t n = 0; n < all->count; n++)
        if (all->part[n].rules.bits) s->guards[s->guarded++] = n;
    for (uint32_t n = 0; n < all->count; n++)
        if (!steps_grow(s, all, n, 0)) return 0;
    return steps_lay(s, all) && steps_ready(s, all->key_words);
}

static inline void steps_close(struct steps *s, const struct parts *all)
{
    steps_forget(s, all->key_words);
    for (uint32_t f = 0; s->next && f < s->factors; f++)
        if (s->next[f])
            pages_give(s->next[f], all->part[s->factor[f].only].room * sizeof **s->next);
    void *owned[] = {s->every, s->open, s->guarantees, s->look, s->first_factor, s->factor,
                     s->keep, s->set, s->reads, s->stays, s->first_rest, s->rest,
                     s->group, s->group_reads, s->next, s->memo};
    for (size_t n = 0; n < sizeof owned / sizeof *owned; n++) free(owned[n]);
}

static inline int worker_open(struct worker *me, const struct steps *s, uint32_t blocks)
{
    me->tally = NOTHING;
    me->broken = KX_NONE;
    me->firings = apart((kx_model.rules + 1) * sizeof *me->firings);
    me->firings_before = apart((kx_model.rules + 1) * sizeof *me->firings);
    me->first = apart((kx_model.checks + 1) * sizeof *me->first);
    me->lost = apart((s->factors + s->groups + 1) * sizeof *me->lost);
    me->fresh = apart(blocks * sizeof *me->fresh);
    if (!me->firings || !me->firings_before || !me->first || !me->lost || !me->fresh) return 0;
    for (uint32_t c = 0; c < kx_model.checks; c++) me->first[c] = KX_NONE;
    return 1;
}

static inline void worker_close(struct worker *me)
{
    void *owned[] = {me->firings, me->firings_before, me->first, me->lost, me->fresh};
    for (size_t n = 0; n < sizeof owned / sizeof *owned; n++) free(owned[n]);
}

#endif
