/* What rule instances did before: a table that may forget, for each factor of each worker.
 *
 * An entry is two keys, each cut down to some parts: what was read, and what the written parts
 * became. A table has two places for an entry, side by side; it doubles while it has to forget
 * much, up to a limit. */

#ifndef KX_MEMO_H
#define KX_MEMO_H

#include "store.h"

#define FIRST_MEMO_BITS 8
#define MAX_MEMO_BYTES ((size_t)64 << 20)

enum memo { MEMO_UNKNOWN, MEMO_NO, MEMO_YES };

struct memo_table {
    uint64_t *entries; /* K words read, K words written */
    uint32_t bits;
    uint64_t lost;
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

/* An entry's last word read has OCCUPIED; its last word written has it if the answer is yes. */
INLINE int memo_is(const uint64_t *entry, const uint64_t *read, const uint32_t K)
{
    uint64_t different = 0;
    EACH_WORD(w) different |= entry[w] ^ read[w];
    return different == 0;
}

INLINE enum memo memo_find(const struct memo_table *m, const uint64_t *read, uint64_t *written,
                           const uint32_t K)
{
    uint64_t number = memo_number(m, read, K);
    const uint64_t *entry = memo_place(m, number, K);
    if (!memo_is(entry, read, K)) {
        entry = memo_place(m, number ^ 1, K);
        if (!memo_is(entry, read, K)) return MEMO_UNKNOWN;
    }
    if (!(entry[2 * K - 1] & OCCUPIED)) return MEMO_NO;
    store_copy(written, entry + K, K);
    written[K - 1] &= ~OCCUPIED;
    return MEMO_YES;
}

INLINE void memo_put(struct memo_table *m, const uint64_t *read, const uint64_t *written,
                     const uint32_t K)
{
    uint64_t number = memo_number(m, read, K);
    uint64_t *entry = memo_place(m, number, K), *other = memo_place(m, number ^ 1, K);
    if (entry[K - 1] && !other[K - 1]) entry = other;
    m->lost += entry[K - 1] != 0;
    store_copy(entry, read, K);
    store_copy(entry + K, written, K);
}

static inline int memo_open(struct memo_table *m, uint32_t key_words)
{
    m->bits = FIRST_MEMO_BITS;
    m->lost = 0;
    m->entries = pages_take(memo_bytes(m, key_words));
    return m->entries != NULL;
}

static inline void memo_close(struct memo_table *m, uint32_t key_words)
{
    pages_give(m->entries, memo_bytes(m, key_words));
    m->entries = NULL;
}

/* Doubles a table that has forgotten half of what it holds. Without memory it stays. */
INLINE void memo_grow(struct memo_table *m, const uint32_t K)
{
    struct memo_table wide = {NULL, m->bits + 1, 0};
    m->lost = 0;
    if (memo_bytes(&wide, K) > MAX_MEMO_BYTES) return;
    wide.entries = pages_take(memo_bytes(&wide, K));
    if (!wide.entries) return;
    for (uint64_t n = 0; n >> m->bits == 0; n++) {
        const uint64_t *entry = m->entries + n * 2 * K;
        if (entry[K - 1]) memo_put(&wide, entry, entry + K, K);
    }
    wide.lost = 0;
    memo_close(m, K);
    *m = wide;
}

INLINE void memo_keep(struct memo_table *m, const uint64_t *read, const uint64_t *written,
                      const uint32_t K)
{
    memo_put(m, read, written, K);
    if (m->lost * 4 > (uint64_t)1 << m->bits) memo_grow(m, K);
}

#endif
