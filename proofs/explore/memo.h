/* What rule instances did before: a table that may forget, for each factor, shared by all workers.
 *
 * An entry is two keys, each cut down to some parts: what was read, and what the written parts
 * became. It has a few places, side by side. While workers are at work an entry that is there
 * stays as it is, so that they read without a lock: whoever sets the last word written has the
 * place, and the last word read, set last of all, tells that the entry is complete. Between
 * phases a table that had no place for many doubles, up to a limit; then it begins again. */

#ifndef KX_MEMO_H
#define KX_MEMO_H

#include "store.h"

#define FIRST_MEMO_BITS 8
#define MEMO_PLACES 4
#define MAX_MEMO_BYTES ((size_t)128 << 20)
#define MEMO_LOSS 16 /* a table that lost this part of its size is renewed */
#define ANSWER_NO ((uint64_t)1)

enum memo { MEMO_UNKNOWN, MEMO_NO, MEMO_YES };

struct memo_table {
    uint64_t *entries; /* K words read, K words written */
    uint32_t bits;
    uint64_t lost; /* entries that found no place */
};

static inline size_t memo_bytes(const struct memo_table *m, uint32_t key_words)
{
    return (2 * key_words * sizeof *m->entries) << m->bits;
}

INLINE uint64_t *memo_place(const struct memo_table *m, uint64_t number, const uint32_t K)
{
    return m->entries + number * 2 * K;
}

INLINE uint64_t memo_number(const struct memo_table *m, const uint64_t *read, const uint32_t K)
{
    return store_hash(read, K) >> (64 - m->bits);
}

/* A complete entry's last word read has OCCUPIED, as that of `read`. */
INLINE int memo_is(const uint64_t *entry, const uint64_t *read, const uint32_t K)
{
    if (__atomic_load_n(entry + K - 1, __ATOMIC_ACQUIRE) != read[K - 1]) return 0;
    return store_same(entry, read, K - 1);
}

/* An entry's last word written has OCCUPIED if the answer is yes, else it is ANSWER_NO. */
INLINE enum memo memo_find(const struct memo_table *m, const uint64_t *read, uint64_t *written,
                           const uint32_t K)
{
    uint64_t number = memo_number(m, read, K);
    for (uint64_t place = 0; place < MEMO_PLACES; place++) {
        const uint64_t *entry = memo_place(m, number ^ place, K);
        if (!memo_is(entry, read, K)) continue;
        store_copy(written, entry + K, K);
        if (!(written[K - 1] & OCCUPIED)) return MEMO_NO;
        written[K - 1] &= ~OCCUPIED;
        return MEMO_YES;
    }
    return MEMO_UNKNOWN;
}

/* 0: there is no place for it. */
INLINE int memo_put(struct memo_table *m, const uint64_t *read, const uint64_t *written,
                    const uint32_t K)
{
    uint64_t number = memo_number(m, read, K);
    for (uint64_t place = 0; place < MEMO_PLACES; place++) {
        uint64_t *entry = memo_place(m, number ^ place, K), free = 0;
        if (__atomic_load_n(entry + 2 * K - 1, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(entry + 2 * K - 1, &free, written[K - 1], 0,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        store_copy(entry + K, written, K - 1);
        store_copy(entry, read, K - 1);
        __atomic_store_n(entry + K - 1, read[K - 1], __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

static inline int memo_open(struct memo_table *m, uint32_t key_words, uint32_t bits)
{
    *m = (struct memo_table){NULL, bits, 0};
    m->entries = pages_take(memo_bytes(m, key_words));
    return m->entries != NULL;
}

static inline void memo_close(struct memo_table *m, uint32_t key_words)
{
    pages_give(m->entries, memo_bytes(m, key_words));
    m->entries = NULL;
}

/* A table twice as large. Without memory it stays. */
INLINE void memo_double(struct memo_table *m, const uint32_t K)
{
    struct memo_table wide;
    if (!memo_open(&wide, K, m->bits + 1)) return;
    for (uint64_t n = 0; n >> m->bits == 0; n++) {
        const uint64_t *entry = memo_place(m, n, K);
        if (entry[K - 1]) memo_put(&wide, entry, entry + K, K);
    }
    memo_close(m, K);
    *m = wide;
}

/* Between phases: notes how many entries found no place. At the limit the table begins again where
 * it is: fresh pages would cost more than clearing these. */
INLINE void memo_forgot(struct memo_table *m, uint64_t lost, const uint32_t K)
{
    m->lost += lost;
    if (m->lost * MEMO_LOSS <= (uint64_t)1 << m->bits) return;
    m->lost = 0;
    if (2 * memo_bytes(m, K) <= MAX_MEMO_BYTES)
        memo_double(m, K);
    else
        memset(m->entries, 0, memo_bytes(m, K));
}

#endif
