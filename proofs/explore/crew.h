/* A crew of workers that do one phase of work together: the caller is worker 0.
 *
 * A phase may last less than a millisecond, so waiting begins with looking: a worker that sleeps
 * at once is woken late, and often on the core that woke it. */

#ifndef KX_CREW_H
#define KX_CREW_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define CREW_LOOKS 4000 /* some 50 us; then sleep: the cores may be needed by others */

typedef void crew_phase(void *context, uint32_t worker);

struct crew {
    uint32_t workers, ready, busy;
    uint64_t generation;
    crew_phase *phase; /* NULL: go home */
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t called, finished;
    pthread_t *threads;
};

static inline void crew_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits until a phase after `seen` is called; returns its generation. */
static inline uint64_t crew_listen(struct crew *c, uint64_t seen)
{
    for (int i = 0; i < CREW_LOOKS; i++) {
        uint64_t now = __atomic_load_n(&c->generation, __ATOMIC_ACQUIRE);
        if (now != seen) return now;
        crew_relax();
    }
    pthread_mutex_lock(&c->lock);
    while (c->generation == seen) pthread_cond_wait(&c->called, &c->lock);
    uint64_t now = c->generation;
    pthread_mutex_unlock(&c->lock);
    return now;
}

static inline void crew_done(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    if (__atomic_sub_fetch(&c->busy, 1, __ATOMIC_RELEASE) == 0) pthread_cond_signal(&c->finished);
    pthread_mutex_unlock(&c->lock);
}

static inline void *crew_member(void *argument)
{
    struct crew *c = argument;
    uint32_t worker = __atomic_add_fetch(&c->ready, 1, __ATOMIC_RELAXED);
    for (uint64_t seen = 0;;) {
        seen = crew_listen(c, seen);
        if (!c->phase) return NULL;
        c->phase(c->context, worker);
        crew_done(c);
    }
}

static inline void crew_call(struct crew *c, crew_phase *phase)
{
    pthread_mutex_lock(&c->lock);
    c->phase = phase;
    c->busy = c->workers - 1;
    __atomic_store_n(&c->generation, c->generation + 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&c->called);
    pthread_mutex_unlock(&c->lock);
}

static inline void crew_wait(struct crew *c)
{
    for (int i = 0; i < CREW_LOOKS; i++) {
        if (__atomic_load_n(&c->busy, __ATOMIC_ACQUIRE) == 0) return;
        crew_relax();
    }
    pthread_mutex_lock(&c->lock);
    while (c->busy) pthread_cond_wait(&c->finished, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* Every worker does the phase once; returns when all are done. */
static inline void crew_run(struct crew *c, crew_phase *phase)
{
    if (c->workers > 1) crew_call(c, phase);
    phase(c->context, 0);
    if (c->workers > 1) crew_wait(c);
}

static inline void crew_dismiss(struct crew *c)
{
    if (c->workers > 1) crew_call(c, NULL);
    for (uint32_t w = 1; w < c->workers; w++) pthread_join(c->threads[w], NULL);
    free(c->threads);
    c->threads = NULL;
}

/* 1, or 0 when the system gives no thread; then nothing is left running. */
static inline int crew_start(struct crew *c, uint32_t workers, void *context)
{
    *c = (struct crew){.workers = 1, .context = context};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->called, NULL);
    pthread_cond_init(&c->finished, NULL);
    c->threads = calloc(workers, sizeof *c->threads);
    if (!c->threads) return 0;
    while (c->workers < workers) {
        if (pthread_create(&c->threads[c->workers], NULL, crew_member, c)) break;
        c->workers++;
    }
    if (c->workers == workers) return 1;
    crew_dismiss(c);
    return 0;
}

#endif
