/* Zeroed memory straight from the system: large pieces on huge pages, untouched pages free. */

#ifndef KX_MEMORY_H
#define KX_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define APART 128 /* two cache lines: what one worker writes slows no other down */

/* Zeroed memory that shares no cache line with any other; `free` gives it back. */
static inline void *apart(size_t bytes)
{
    size_t size = (bytes + APART - 1) / APART * APART;
    void *raw = aligned_alloc(APART, size);
    if (raw) memset(raw, 0, size);
    return raw;
}

/* Random probes into a large table miss the translation buffer on each access with 4 KiB pages;
 * an aligned start lets the whole piece lie on huge ones. */
static inline void *pages_aligned(size_t bytes)
{
    char *raw = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(raw, before);
    munmap(raw + before + bytes, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(raw + before, bytes, MADV_HUGEPAGE);
#endif
    return raw + before;
}

static inline size_t pages_rounded(size_t bytes)
{
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
    return (bytes + unit - 1) / unit * unit;
}

/* At least `bytes` zeroed bytes, or NULL. */
static inline void *pages_take(size_t bytes)
{
    size_t size = pages_rounded(bytes);
    if (size >= HUGE_PAGE) return pages_aligned(size);
    void *raw = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    return raw == MAP_FAILED ? NULL : raw;
}

static inline void pages_give(void *pages, size_t bytes)
{
    if (pages) munmap(pages, pages_rounded(bytes));
}

/* Like pages_take, for buffers of which mostly the beginning is used: never on huge pages. */
static inline void *pages_sparse(size_t bytes)
{
    void *raw = mmap(NULL, pages_rounded(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    return raw == MAP_FAILED ? NULL : raw;
}

#endif
