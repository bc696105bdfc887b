/* A crew of workers that do one phase of work together: the caller is worker 0. */

#ifndef KX_CREW_H
#define KX_CREW_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

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

static inline void *crew_member(void *argument)
{
    struct crew *c = argument;
    pthread_mutex_lock(&c->lock);
    uint32_t worker = ++c->ready;
    uint64_t seen = 0;
    for (;;) {
        while (c->generation == seen) pthread_cond_wait(&c->called, &c->lock);
        seen = c->generation;
        crew_phase *phase = c->phase;
        pthread_mutex_unlock(&c->lock);
        if (!phase) return NULL;
        phase(c->context, worker);
        pthread_mutex_lock(&c->lock);
        if (--c->busy == 0) pthread_cond_signal(&c->finished);
    }
}

static inline void crew_call(struct crew *c, crew_phase *phase)
{
    pthread_mutex_lock(&c->lock);
    c->phase = phase;
    c->busy = c->workers - 1;
    c->generation++;
    pthread_cond_broadcast(&c->called);
    pthread_mutex_unlock(&c->lock);
}

/* Every worker does the phase once; returns when all are done. */
static inline void crew_run(struct crew *c, crew_phase *phase)
{
    if (c->workers > 1) crew_call(c, phase);
    phase(c->context, 0);
    if (c->workers == 1) return;
    pthread_mutex_lock(&c->lock);
    while (c->busy) pthread_cond_wait(&c->finished, &c->lock);
    pthread_mutex_unlock(&c->lock);
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
