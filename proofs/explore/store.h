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
 * index.
 *
 * Where many states differ in a few bits of one part alone, a slot holds a line of them: the key
 * without these bits, and a word that has a bit for each value of them, set if that state is there.
 * Such a set is a fraction of the size, and what is looked up is often where something else was. */

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
#define MAX_LINE_WORDS 64
#define LINE_BITS 6 /* a line's states are the bits of a word */
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

/* The bits of a key in which the states of a line differ. None: a line is a state. */
struct line_field {
    uint32_t at, from; /* the word, and the lowest bit */
    uint64_t ones;     /* at bit 0 */
};

static const struct line_field NO_LINE = {0, 0, 0};

struct store {
    uint64_t count;
    uint64_t forgotten, released; /* segments whose keys, and origins, were given back */
    uint32_t key_words, slot_words, shard_bits;
    int indexed;
    struct line_field line;
    uint64_t *spare; /* a segment of keys that was given back last */
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

/* Here and below a slot has S words, K of a key and one more if it holds a line. */

/* The word of a key in which a line's states differ. */
INLINE uint32_t line_word(const struct store *s, const uint32_t K)
{
    return K == 1 ? 0 : s->line.at;
}

/* A key without what its line leaves open. */
INLINE void line_key(const struct store *s, const uint64_t *key, uint64_t *line, const uint32_t K,
                     const uint32_t S)
{
    store_copy(line, key, K);
    if (S > K) line[line_word(s, K)] &= ~(s->line.ones << s->line.from);
}

/* A key's bit in its line. */
INLINE uint64_t line_bit(const struct store *s, const uint64_t *key, const uint32_t K)
{
    return (uint64_t)1 << (key[line_word(s, K)] >> s->line.from & s->line.ones);
}

/* Equal for the states of a line. */
INLINE uint64_t line_hash(const struct store *s, const uint64_t *key, const uint32_t K,
                          const uint32_t S)
{
    uint64_t line[MAX_LINE_WORDS];
    line_key(s, key, line, K, S);
    return store_hash(line, K);
}

static inline uint32_t store_shard_of(const struct store *s, uint64_t hash)
{
    return (uint32_t)(hash >> 1 >> (63 - s->shard_bits));
}

static inline uint64_t shard_home(const struct store *s, const struct shard *x, uint64_t hash)
{
    return (uint64_t)((__uint128_t)(hash << s->shard_bits) * x->room >> 64);
}

/* The slot that has the line, or the free one where it belongs. */
INLINE uint64_t shard_slot(const struct store *s, const struct shard *x, const uint64_t *line,
                           uint64_t hash, const uint32_t K, const uint32_t S)
{
    uint64_t at = shard_home(s, x, hash);
    while (x->slots[at * S + K - 1] && !store_same(x->slots + at * S, line, K))
        at = at + 1 < x->room ? at + 1 : 0;
    return at;
}

/* The same of the line that a key is in. */
INLINE uint64_t *shard_find(const struct store *s, const struct shard *x, const uint64_t *key,
                            uint64_t hash, const uint32_t K, const uint32_t S)
{
    uint64_t line[MAX_LINE_WORDS];
    line_key(s, key, line, K, S);
    return x->slots + shard_slot(s, x, line, hash, K, S) * S;
}

INLINE int shard_has(const struct store *s, const struct shard *x, const uint64_t *key,
                     uint64_t hash, const uint32_t K, const uint32_t S)
{
    const uint64_t *slot = shard_find(s, x, key, hash, K, S);
    return S > K ? (slot[K] & line_bit(s, key, K)) != 0 : slot[K - 1] != 0;
}

static inline void shard_close(struct shard *x, uint32_t slot_words)
{
    pages_give(x->slots, sizeof(uint64_t) * slot_words * x->room);
    pages_give(x->index, sizeof(uint32_t) * x->room);
    x->slots = NULL;
    x->index = NULL;
}

static inline int shard_doubles(const struct store *s, uint64_t room)
{
    return (sizeof(uint64_t) * s->slot_words * room) << s->shard_bits < DOUBLED_BYTES;
}

/* An empty shard. 0: no memory. */
static inline int shard_open(const struct store *s, struct shard *x, uint64_t room)
{
    x->room = room;
    x->count = 0;
    x->limit = shard_doubles(s, room) ? room / 2 : room / 4 * 3;
    x->slots = pages_take(sizeof(uint64_t) * s->slot_words * room);
    x->index = s->indexed ? pages_take(sizeof(uint32_t) * room) : NULL;
    return x->slots && (x->index || !s->indexed);
}

/* Copies the slots to a larger table. */
INLINE int shard_widen(const struct store *s, struct shard *x, const uint32_t K, const uint32_t S)
{
    struct shard wide;
    uint64_t more = shard_doubles(s, x->room) ? x->room : x->room / 8;
    if (!shard_open(s, &wide, x->room + more)) return 0;
    for (uint64_t from = 0; from < x->room; from++) {
        const uint64_t *slot = x->slots + from * S;
        if (!slot[K - 1]) continue;
        uint64_t at = shard_slot(s, &wide, slot, store_hash(slot, K), K, S);
        store_copy(wide.slots + at * S, slot, S);
        if (s->indexed) wide.index[at] = x->index[from];
    }
    wide.count = x->count;
    shard_close(x, S);
    *x = wide;
    return 1;
}

enum added { NO_ROOM = -1, KNOWN = 0, IN_A_LINE = 1, WITH_ITS_LINE = 2 };

/* Puts a key into the set: if it is new, into a line that is there, or with a new one. */
INLINE enum added shard_add(const struct store *s, struct shard *x, const uint64_t *key, uint64_t hash,
                     const uint32_t K, const uint32_t S)
{
    uint64_t *slot = shard_find(s, x, key, hash, K, S), bit = S > K ? line_bit(s, key, K) : 0;
    const uint64_t known = slot[K - 1];
    if (known && (S == K || slot[K] & bit)) return KNOWN;
    if (S > K) slot[K] |= bit;
    if (known) return IN_A_LINE;
    line_key(s, key, slot, K, S);
    return ++x->count <= x->limit || shard_widen(s, x, K, S) ? WITH_ITS_LINE : NO_ROOM;
}

/* Whether a key is in the set. */
static inline int store_has(const struct store *s, const uint64_t *key)
{
    uint64_t hash = line_hash(s, key, s->key_words, s->slot_words);
    const struct shard *x = &s->shard[store_shard_of(s, hash)];
    return shard_has(s, x, key, hash, s->key_words, s->slot_words);
}

static inline size_t segment_bytes(const struct store *s)
{
    return SEGMENT_STATES * s->key_words * sizeof(uint64_t);
}

/* Segments for all indexes below `count`. 0: no memory. */
static inline int store_reserve(struct store *s, uint64_t count)
{
    for (uint64_t g = (s->count + SEGMENT_STATES - 1) >> SEGMENT_BITS; g << SEGMENT_BITS < count;
         g++) {
        if (s->keys[g]) continue;
        s->keys[g] = s->spare ? s->spare : pages_take(segment_bytes(s));
        s->spare = NULL;
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
        pages_give(s->spare, segment_bytes(s));
        s->spare = s->keys[s->forgotten];
        s->keys[s->forgotten] = NULL;
    }
}

/* Gives back the origins of states below `index`, as far as they fill segments, but only of those
 * that stand before the last state's parent: how a state was found matters until it is expanded. */
static inline void store_release(struct store *s, uint64_t index)
{
    uint64_t expanded = store_parent(s, s->count - 1);
    if (expanded < index) index = expanded;
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
static inline int store_open(struct store *s, uint32_t key_words, struct line_field line,
                             uint32_t workers, int indexed)
{
    s->key_words = key_words;
    s->slot_words = key_words + (line.ones != 0);
    s->line = line;
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
        pages_give(s->keys[g], segment_bytes(s));
        pages_give(s->parents[g], SEGMENT_STATES * sizeof(uint32_t));
        pages_give(s->rules[g], SEGMENT_STATES * sizeof(uint16_t));
    }
    pages_give(s->spare, segment_bytes(s));
    for (uint32_t n = 0; n < store_shards(s); n++) shard_close(&s->shard[n], s->slot_words);
}

#endif
