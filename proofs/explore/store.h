/* The states found so far, and the set that finds a state again.
 *
 * A state is its key (parts.h), K words of which the last has its top bit set. Keys, parents and
 * rule instances stand in arrays that only grow, cut into segments so that growing moves nothing.
 * The set has all keys a second time: those of expanded states are forgotten, unless a graph is
 * wanted.
 *
 * The set is open-addressed tables of keys: the shard of a state is the top bits of its hash, has
 * one writer at a time and grows by itself. The other bits, as a fraction of the slots, say a
 * state's home, so a shard of any size grows by one pass over its slots, in order. It doubles while
 * that costs little; a large one is filled further and grows by an eighth, so that most of the
 * memory holds keys. Keys are compared whole. Only if edges are wanted does a slot know its state's
 * index. */

#ifndef KX_STORE_H
#define KX_STORE_H

#include <string.h>

#include "engine.h"
#include "memory.h"

#define INLINE static inline __attribute__((always_inline))
#define EACH_WORD(w) for (uint32_t w = 0; w < K; w++)

#ifndef SEGMENT_BITS
#define SEGMENT_BITS 18
#endif
#define SEGMENT_STATES ((uint64_t)1 << SEGMENT_BITS)
#define SEGMENTS ((size_t)1 << (32 - SEGMENT_BITS))
#define MAX_STATES (((uint64_t)1 << 32) - 2)

#define OCCUPIED ((uint64_t)1 << 63) /* of a key's last word */
#define MAX_SHARD_BITS 8
#define MAX_SHARDS (1 << MAX_SHARD_BITS)
#define MIN_SHARD_BITS 5 /* a shard that grows is there twice: a small part of the set */
#define SHARDS_A_WORKER 8
#define FIRST_SLOTS 512
#ifndef DOUBLED_BYTES /* sets of fewer bytes double */
#define DOUBLED_BYTES ((uint64_t)4 << 30)
#endif

struct shard {
    uint64_t *slots;
    uint32_t *index; /* by slot, if edges are wanted */
    uint64_t room;   /* slots */
    uint64_t count;  /* slots in use, */
    uint64_t limit;  /* and how many may be */
};

struct store {
    uint64_t count;
    uint64_t forgotten, released; /* segments whose keys, and origins, were given back */
    uint32_t key_words, shard_bits;
    int indexed;
    uint64_t *keys[SEGMENTS];
    uint32_t *parents[SEGMENTS];
    uint16_t *rules[SEGMENTS];
    struct shard shard[MAX_SHARDS];
};

static inline uint64_t store_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

INLINE uint64_t store_hash(const uint64_t *key, const uint32_t K)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    EACH_WORD(w) h = store_mix(h ^ key[w], UINT64_C(0xd6e8feb86659fd93) + 2 * (uint64_t)w);
    return h;
}

INLINE int store_same(const uint64_t *a, const uint64_t *b, const uint32_t K)
{
    uint64_t different = 0;
    EACH_WORD(w) different |= a[w] ^ b[w];
    return different == 0;
}

INLINE void store_copy(uint64_t *to, const uint64_t *from, const uint32_t K)
{
    EACH_WORD(w) to[w] = from[w];
}

INLINE uint64_t *store_key(const struct store *s, uint64_t index, const uint32_t K)
{
    return s->keys[index >> SEGMENT_BITS] + (index & (SEGMENT_STATES - 1)) * K;
}

static inline uint32_t store_parent(const struct store *s, uint64_t index)
{
    return s->parents[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)];
}

static inline uint16_t store_rule(const struct store *s, uint64_t index)
{
    return s->rules[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)];
}

INLINE void store_put(struct store *s, uint64_t index, const uint64_t *key, uint32_t parent,
                      uint16_t rule, const uint32_t K)
{
    store_copy(store_key(s, index, K), key, K);
    s->parents[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)] = parent;
    s->rules[index >> SEGMENT_BITS][index & (SEGMENT_STATES - 1)] = rule;
}

static inline uint32_t store_shard_of(const struct store *s, uint64_t hash)
{
    return (uint32_t)(hash >> 1 >> (63 - s->shard_bits));
}

static inline uint64_t shard_home(const struct store *s, const struct shard *x, uint64_t hash)
{
    return (uint64_t)((__uint128_t)(hash << s->shard_bits) * x->room >> 64);
}

/* The slot that has the key, or the free one where it belongs. */
INLINE uint64_t shard_slot(const struct store *s, const struct shard *x, const uint64_t *key,
                           uint64_t hash, const uint32_t K)
{
    uint64_t at = shard_home(s, x, hash);
    while (x->slots[at * K + K - 1] && !store_same(x->slots + at * K, key, K))
        at = at + 1 < x->room ? at + 1 : 0;
    return at;
}

INLINE int shard_has(const struct store *s, const struct shard *x, const uint64_t *key,
                     uint64_t hash, const uint32_t K)
{
    return x->slots[shard_slot(s, x, key, hash, K) * K + K - 1] != 0;
}

static inline void shard_close(struct shard *x, uint32_t key_words)
{
    pages_give(x->slots, sizeof(uint64_t) * key_words * x->room);
    pages_give(x->index, sizeof(uint32_t) * x->room);
    x->slots = NULL;
    x->index = NULL;
}

static inline int shard_doubles(const struct store *s, uint64_t room)
{
    return (sizeof(uint64_t) * s->key_words * room) << s->shard_bits < DOUBLED_BYTES;
}

/* An empty shard. 0: no memory. */
static inline int shard_open(const struct store *s, struct shard *x, uint64_t room)
{
    x->room = room;
    x->count = 0;
    x->limit = shard_doubles(s, room) ? room / 2 : room / 4 * 3;
    x->slots = pages_take(sizeof(uint64_t) * s->key_words * room);
    x->index = s->indexed ? pages_take(sizeof(uint32_t) * room) : NULL;
    return x->slots && (x->index || !s->indexed);
}

/* Copies the slots to a larger table. */
INLINE int shard_widen(const struct store *s, struct shard *x, const uint32_t K)
{
    struct shard wide;
    uint64_t more = shard_doubles(s, x->room) ? x->room : x->room / 8;
    if (!shard_open(s, &wide, x->room + more)) return 0;
    for (uint64_t from = 0; from < x->room; from++) {
        const uint64_t *key = x->slots + from * K;
        if (!key[K - 1]) continue;
        uint64_t at = shard_slot(s, &wide, key, store_hash(key, K), K);
        store_copy(wide.slots + at * K, key, K);
        if (s->indexed) wide.index[at] = x->index[from];
    }
    wide.count = x->count;
    shard_close(x, K);
    *x = wide;
    return 1;
}

/* 1: the key is new and now in the set. 0: it was there. -1: no memory. */
INLINE int shard_add(const struct store *s, struct shard *x, const uint64_t *key, uint64_t hash,
                     const uint32_t K)
{
    uint64_t at = shard_slot(s, x, key, hash, K);
    if (x->slots[at * K + K - 1]) return 0;
    store_copy(x->slots + at * K, key, K);
    return ++x->count <= x->limit || shard_widen(s, x, K) ? 1 : -1;
}

/* Segments for all indexes below `count`. 0: no memory. */
static inline int store_reserve(struct store *s, uint64_t count)
{
    for (uint64_t g = (s->count + SEGMENT_STATES - 1) >> SEGMENT_BITS; g << SEGMENT_BITS < count;
         g++) {
        if (s->keys[g]) continue;
        s->keys[g] = pages_take(SEGMENT_STATES * s->key_words * sizeof(uint64_t));
        s->parents[g] = pages_take(SEGMENT_STATES * sizeof(uint32_t));
        s->rules[g] = pages_take(SEGMENT_STATES * sizeof(uint16_t));
        if (!s->keys[g] || !s->parents[g] || !s->rules[g]) return 0;
    }
    return 1;
}

/* Gives back the keys of states below `index`, as far as they fill segments, unless a graph is
 * wanted. */
static inline void store_forget(struct store *s, uint64_t index)
{
    for (; !s->indexed && (s->forgotten + 1) << SEGMENT_BITS <= index; s->forgotten++) {
        pages_give(s->keys[s->forgotten], SEGMENT_STATES * s->key_words * sizeof(uint64_t));
        s->keys[s->forgotten] = NULL;
    }
}

/* Gives back the origins of states below `index`, as far as they fill segments, but never the last
 * state's: what is restored next follows it. */
static inline void store_release(struct store *s, uint64_t index)
{
    for (; (s->released + 1) << SEGMENT_BITS < index; s->released++) {
        pages_give(s->parents[s->released], SEGMENT_STATES * sizeof(uint32_t));
        pages_give(s->rules[s->released], SEGMENT_STATES * sizeof(uint16_t));
        s->parents[s->released] = NULL;
        s->rules[s->released] = NULL;
    }
}

static inline uint32_t store_shards(const struct store *s)
{
    return 1u << s->shard_bits;
}

/* Shards for so many workers: enough for a worker that is late to get fewer. 0: no memory. */
static inline int store_open(struct store *s, uint32_t key_words, uint32_t workers, int indexed)
{
    s->key_words = key_words;
    s->shard_bits = MIN_SHARD_BITS;
    while (s->shard_bits < MAX_SHARD_BITS && store_shards(s) < SHARDS_A_WORKER * workers)
        s->shard_bits++;
    s->indexed = indexed;
    for (uint32_t n = 0; n < store_shards(s); n++)
        if (!shard_open(s, &s->shard[n], FIRST_SLOTS)) return 0;
    return 1;
}

static inline void store_close(struct store *s)
{
    for (size_t g = 0; g < SEGMENTS; g++) {
        pages_give(s->keys[g], SEGMENT_STATES * s->key_words * sizeof(uint64_t));
        pages_give(s->parents[g], SEGMENT_STATES * sizeof(uint32_t));
        pages_give(s->rules[g], SEGMENT_STATES * sizeof(uint16_t));
    }
    for (uint32_t n = 0; n < store_shards(s); n++) shard_close(&s->shard[n], s->key_words);
}

#endif
