/* The states found so far, and the set that finds a state again.
 *
 * States, parents and rule instances stand in arrays that only grow, cut into segments so that
 * growing moves nothing and what is behind an index can go to a file as it is.
 *
 * The set is 64 open-addressed tables, the shard of a state being the top bits of its hash: a
 * shard has one writer at a time and grows by itself. A slot holds 32 bits of the hash (the tag)
 * and the state's index + 1; 0 is empty. A state's home slot is the top bits of its tag, so a
 * shard doubles by one pass over its slots, in order, without looking at a state. A tag that
 * agrees is confirmed by comparing the states. (Should memory ever ask for fingerprints instead
 * of states, the tag is the place to widen, and `store_same` the one comparison to drop.)
 */

#ifndef KX_STORE_H
#define KX_STORE_H

#include <string.h>

#include "engine.h"
#include "memory.h"

#define SEGMENT_BITS 18
#define SEGMENT_STATES ((uint64_t)1 << SEGMENT_BITS)
#define SEGMENTS ((size_t)1 << (32 - SEGMENT_BITS))
#define MAX_STATES (((uint64_t)1 << 32) - 2)

#define SHARD_BITS 6
#define SHARDS (1u << SHARD_BITS)
#define FIRST_SLOT_BITS 9

struct shard {
    uint64_t *slots;
    uint32_t bits;  /* log2 of the number of slots */
    uint64_t count; /* slots in use */
};

struct store {
    uint64_t count;
    uint64_t *words[SEGMENTS];
    uint32_t *parents[SEGMENTS];
    uint16_t *rules[SEGMENTS];
    struct shard shard[SHARDS];
};

static inline uint64_t store_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t store_hash(const uint64_t *state)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    for (int w = 0; w < KX_WORDS; w++)
        h = store_mix(h ^ state[w], UINT64_C(0xd6e8feb86659fd93) + 2 * (uint64_t)w);
    return store_mix(h ^ UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db));
}

static inline int store_same(const uint64_t *a, const uint64_t *b)
{
    uint64_t different = 0;
    for (int w = 0; w < KX_WORDS; w++) different |= a[w] ^ b[w];
    return different == 0;
}

static inline void store_copy(uint64_t *to, const uint64_t *from)
{
    for (int w = 0; w < KX_WORDS; w++) to[w] = from[w];
}

static inline uint64_t *store_state(const struct store *s, uint64_t index)
{
    return s->words[index >> SEGMENT_BITS] + (index & (SEGMENT_STATES - 1)) * KX_WORDS;
}

static inline uint32_t store_parent(const struct store *s, uint64_t index)
{
    return s->parents[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)];
}

static inline uint16_t store_rule(const struct store *s, uint64_t index)
{
    return s->rules[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)];
}

static inline void store_put(struct store *s, uint64_t index, const uint64_t *state,
                             uint32_t parent, uint16_t rule)
{
    store_copy(store_state(s, index), state);
    s->parents[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)] = parent;
    s->rules[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)] = rule;
}

static inline uint32_t store_shard_of(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - SHARD_BITS));
}

static inline uint64_t shard_home(const struct shard *x, uint64_t tag)
{
    return tag >> (32 - x->bits);
}

static inline uint64_t shard_entry(uint64_t tag, uint64_t index)
{
    return tag << 32 | (index + 1);
}

static inline uint64_t entry_index(uint64_t entry)
{
    return (uint32_t)entry - UINT64_C(1);
}

/* Copies the old slots to a table twice (or more) as large. */
static inline int shard_widen(struct shard *x, uint32_t bits)
{
    struct shard wide = {pages_take(sizeof(uint64_t) << bits), bits, x->count};
    if (!wide.slots) return 0;
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (uint64_t from = 0; from >> x->bits == 0; from++) {
        uint64_t entry = x->slots[from];
        if (!entry) continue;
        uint64_t at = shard_home(&wide, entry >> 32);
        while (wide.slots[at]) at = (at + 1) & mask;
        wide.slots[at] = entry;
    }
    pages_give(x->slots, sizeof(uint64_t) << x->bits);
    *x = wide;
    return 1;
}

/* Room for `more` new states with a quarter of the slots left free. 0: no memory. */
static inline int shard_reserve(struct shard *x, uint64_t more)
{
    uint32_t bits = x->bits;
    while ((x->count + more) * 4 > (uint64_t)3 << bits) bits++;
    return bits == x->bits || (bits <= 32 && shard_widen(x, bits));
}

/* Segments for all indexes below `count`. 0: no memory. */
static inline int store_reserve(struct store *s, uint64_t count)
{
    for (uint64_t g = (s->count + SEGMENT_STATES - 1) >> SEGMENT_BITS; g << SEGMENT_BITS < count;
         g++) {
        if (s->words[g]) continue;
        s->words[g] = pages_take(SEGMENT_STATES * KX_WORDS * sizeof(uint64_t));
        s->parents[g] = pages_take(SEGMENT_STATES * sizeof(uint32_t));
        s->rules[g] = pages_take(SEGMENT_STATES * sizeof(uint16_t));
        if (!s->words[g] || !s->parents[g] || !s->rules[g]) return 0;
    }
    return 1;
}

static inline int store_open(struct store *s)
{
    for (uint32_t n = 0; n < SHARDS; n++) {
        s->shard[n].bits = FIRST_SLOT_BITS;
        s->shard[n].slots = pages_take(sizeof(uint64_t) << FIRST_SLOT_BITS);
        if (!s->shard[n].slots) return 0;
    }
    return 1;
}

static inline void store_close(struct store *s)
{
    for (size_t g = 0; g < SEGMENTS; g++) {
        pages_give(s->words[g], SEGMENT_STATES * KX_WORDS * sizeof(uint64_t));
        pages_give(s->parents[g], SEGMENT_STATES * sizeof(uint32_t));
        pages_give(s->rules[g], SEGMENT_STATES * sizeof(uint16_t));
    }
    for (uint32_t n = 0; n < SHARDS; n++)
        pages_give(s->shard[n].slots, sizeof(uint64_t) << s->shard[n].bits);
}

#endif
