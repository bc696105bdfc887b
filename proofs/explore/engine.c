/* The search itself; engine.h says what it promises, parts.h what a state is made of, steps.h how
 * successors are found, store.h how states are kept.
 *
 * Theory of operation. A batch is a run of states of the current level, cut into blocks. Phases:
 *
 *   expand   A worker takes a block, finds all successors of its states, in order, and looks them
 *            up. Nobody writes to the visited set meanwhile. Most are known; the others are the
 *            block's candidates.
 *   settle   A worker adds the candidates of its shards to the set, in order. The first of several
 *            equal ones is new, whatever the other workers do. (One alone did so at once.)
 *   number   From the number of new states in each block, each block knows their indexes. A
 *            worker moves a block's new states to the store and evaluates the checks on them.
 *   link     If edges are wanted: a worker looks up where a block's transitions lead.
 *
 * If a worker meets a value for which a part has no room, the batch is forgotten, room is made, and
 * the batch begins again. With one worker a batch is one block, which stays in the cache.
 */

#include "crew.h"
#include "engine.h"
#include "steps.h"

#define BLOCK_STATES 128
#define BLOCKS_A_WORKER 16
#define MAX_POSITIONS ((uint64_t)1 << 28) /* limits the blocks of machines with many rules */
#define SEEN ((uint64_t)1 << 13)          /* candidates that a worker knows again */
#define AHEAD 12                          /* candidates between prefetch and lookup */

#define EDGE_BITS 20
#define EDGE_CHUNK ((uint64_t)1 << EDGE_BITS)

/* Transitions of a block, in order: by state, then by rule. */
struct moves {
    uint64_t *keys;
    uint8_t *source; /* the state's place in the block */
    uint16_t *rule;  /* of the model */
};

struct block {
    uint64_t first;             /* the first state to expand */
    uint32_t states, successors, candidates;
    uint64_t index, edge;       /* the index of the first new state; the first edge */
};

/* Arrays over positions: block number * capacity + place in the block. */
struct batch {
    uint32_t blocks, capacity, used;
    struct block *block;
    struct moves found, every; /* candidates; all successors, if edges are wanted */
    uint64_t *hash;            /* of candidates */
    uint8_t *fresh;            /* the candidate is new */
};

struct edges {
    uint64_t count, room, chunks;
    uint32_t **sources, **targets;
    uint16_t **rules;
};

/* What a worker works with in a block, before it knows which successors are candidates. */
struct bench {
    struct moves moves;
    uint64_t *hash;
    uint64_t *seen; /* keys of candidates of this batch, by hash; a later one may take the place */
    uint32_t kept;
    uint64_t weight[BLOCK_STATES];
    uint32_t leaving[BLOCK_STATES]; /* successors by state */
};

struct kx_engine {
    struct parts parts;
    struct steps steps;
    struct store store;
    struct batch batch;
    struct edges edges;
    struct crew crew;
    struct worker *worker;
    struct bench *bench;
    int64_t *inputs;
    uint64_t *first; /* by check */
    uint64_t level_first, level_end, cursor, broken;
    struct tally total;
    uint32_t workers, rules, ticket;
    int with_edges, stop;
};

static uint32_t next_ticket(struct kx_engine *e)
{
    return __atomic_fetch_add(&e->ticket, 1, __ATOMIC_RELAXED);
}

static void phase(struct kx_engine *e, crew_phase *work)
{
    e->ticket = 0;
    crew_run(&e->crew, work);
}

/* Calls a function of which there is one for each small number of key words. */
#define BY_KEY_WORDS(e, call)             \
    switch ((e)->parts.key_words) {       \
    case 1: call(1); break;               \
    case 2: call(2); break;               \
    case 3: call(3); break;               \
    default: call((e)->parts.key_words);  \
    }

/* ---- expand ---- */

INLINE void move_copy(struct moves *to, size_t at, const struct moves *from, size_t n,
                      const uint32_t K)
{
    store_copy(to->keys + at * K, from->keys + n * K, K);
    to->source[at] = from->source[n];
    to->rule[at] = from->rule[n];
}

/* Where the keys of a block's states stand; a block lies in one segment. */
INLINE const uint64_t *block_keys(const struct kx_engine *e, const struct block *k,
                                  const uint32_t K)
{
    return store_key(&e->store, k->first, K);
}

/* Keeps a successor as the n-th to be looked up, unless it is its own source; how many there are
 * then. */
INLINE uint32_t keep_move(const struct store *s, struct moves m, uint64_t *hashes, uint32_t n,
                          const uint64_t *key, const uint64_t *next, uint32_t source,
                          uint32_t rule, const uint32_t K)
{
    if (store_same(key, next, K)) return n;
    uint64_t hash = store_hash(next, K);
    const struct shard *x = &s->shard[store_shard_of(s, hash)];
    __builtin_prefetch(x->slots + shard_home(s, x, hash) * K);
    store_copy(m.keys + n * K, next, K);
    m.source[n] = (uint8_t)source;
    m.rule[n] = (uint16_t)rule;
    hashes[n] = hash;
    return n + 1;
}

/* The successors of a machine that writes nothing but constants. */
INLINE void fire_constants(struct kx_engine *e, struct worker *me, struct bench *bench,
                           struct block *k, const uint32_t K)
{
    const struct steps *steps = &e->steps;
    const struct moves moves = bench->moves;
    const uint64_t *key = block_keys(e, k, K), *keep = steps->keep, *set = steps->set;
    uint64_t *firings = me->firings, *hashes = bench->hash;
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->states; i++, key += K) {
        uint32_t leaving = 0;
        for (uint32_t w = 0; w < steps->rule_words; w++) {
            uint64_t enabled = enabled_word(&e->parts, steps, key, w), next[MAX_KEY_WORDS];
            for (; enabled; enabled &= enabled - 1, leaving++) {
                uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(enabled);
                EACH_WORD(v) next[v] = (key[v] & keep[r * K + v]) | set[r * K + v];
                firings[r]++;
                n = keep_move(&e->store, moves, hashes, n, key, next, i, r, K);
            }
        }
        bench->leaving[i] = leaving;
        k->successors += leaving;
    }
    bench->kept = n;
}

/* The rule instances that no part forbids, for each state of the block. */
INLINE uint32_t propose(struct kx_engine *e, const struct worker *me, const struct block *k,
                        struct moves *m, const uint32_t K)
{
    const struct steps *steps = &e->steps;
    const uint64_t *key = block_keys(e, k, K);
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->states; i++, key += K) {
        for (uint32_t w = 0; w < steps->rule_words; w++) {
            uint64_t enabled = enabled_word(&e->parts, steps, key, w);
            for (; enabled; enabled &= enabled - 1, n++) {
                uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(enabled);
                EACH_WORD(v)
                    m->keys[n * K + v] = (key[v] & steps->keep[r * K + v]) | steps->set[r * K + v];
                m->source[n] = (uint8_t)i;
                m->rule[n] = (uint16_t)r;
                complete_soon(&e->parts, steps, me, r, key, K);
            }
        }
    }
    return n;
}

INLINE void note_broken(struct worker *me, uint64_t state, uint32_t rule)
{
    uint64_t broken = state << 16 | kx_model.rule_number[rule];
    if (broken < me->broken) me->broken = broken;
}

/* Makes the proposed successors and counts them. */
INLINE void realise(struct kx_engine *e, struct worker *me, struct bench *bench, struct block *k,
                    uint32_t proposed, size_t base, const uint32_t K)
{
    struct moves *m = &bench->moves;
    for (uint32_t n = 0; n < proposed; n++) {
        uint32_t i = m->source[n], r = m->rule[n];
        const uint64_t *key = block_keys(e, k, K) + i * K;
        uint64_t *next = m->keys + n * K;
        enum outcome outcome = complete(&e->parts, &e->steps, me, r, key, next, K);
        if (outcome == OUT_OF_RANGE) note_broken(me, k->first + i, r);
        if (outcome != FIRES) continue;
        bench->leaving[i]++;
        me->firings[r] += bench->weight[i];
        if (e->with_edges) move_copy(&e->batch.every, base + k->successors, m, n, K);
        k->successors++;
        bench->kept = keep_move(&e->store, *m, bench->hash, bench->kept, key, next, i, r, K);
    }
}

/* Whether this worker has had this candidate in this batch: then an earlier state led to it, and
 * the candidate need not be handed on again. */
INLINE int seen_before(struct bench *bench, const uint64_t *key, uint64_t hash, const uint32_t K)
{
    uint64_t *seen = bench->seen + (hash & (SEEN - 1)) * K;
    if (store_same(seen, key, K)) return 1;
    store_copy(seen, key, K);
    return 0;
}

/* Successors that are not in the visited set become the block's candidates. A worker that is
 * alone adds them at once. */
INLINE void look_up(struct kx_engine *e, struct worker *me, struct bench *bench, struct block *k,
                    size_t base, const uint32_t K)
{
    struct batch *b = &e->batch;
    const int alone = e->workers == 1;
    for (uint32_t n = 0; n < bench->kept; n++) {
        uint64_t hash = bench->hash[n];
        const uint64_t *key = bench->moves.keys + n * K;
        struct shard *x = &e->store.shard[store_shard_of(&e->store, hash)];
        int added = alone ? shard_add(&e->store, x, key, hash, K)
                          : !shard_has(&e->store, x, key, hash, K) &&
                                !seen_before(bench, key, hash, K);
        if (!added) continue;
        size_t at = base + k->candidates++;
        move_copy(&b->found, at, &bench->moves, n, K);
        b->hash[at] = hash;
        b->fresh[at] = 1;
        if (added < 0) me->failed = 1;
    }
}

static void tally_block(struct worker *me, const struct bench *bench, const struct block *k)
{
    for (uint32_t i = 0; i < k->states; i++) {
        me->tally.transitions += bench->weight[i] * bench->leaving[i];
        if (bench->leaving[i]) continue;
        me->tally.deadlocks += bench->weight[i];
        if (k->first + i < me->tally.deadlock) me->tally.deadlock = k->first + i;
    }
}

INLINE void expand_block(struct kx_engine *e, uint32_t worker, uint32_t number, const uint32_t K)
{
    struct worker *me = &e->worker[worker];
    struct bench *bench = &e->bench[worker];
    struct block *k = &e->batch.block[number];
    size_t base = (size_t)number * e->batch.capacity;
    k->successors = k->candidates = bench->kept = 0;
    for (uint32_t i = 0; i < k->states; i++) {
        const uint64_t *key = block_keys(e, k, K) + i * K;
        bench->leaving[i] = 0;
        bench->weight[i] = weight_of(&e->parts, key);
        enabled_soon(&e->parts, &e->steps, key);
    }
    if (e->steps.factors || e->with_edges || kx_model.canonical)
        realise(e, me, bench, k, propose(e, me, k, &bench->moves, K), base, K);
    else
        fire_constants(e, me, bench, k, K);
    if (me->crowded) return;
    look_up(e, me, bench, k, base, K);
    tally_block(me, bench, k);
}

static void expand(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    struct worker *me = &e->worker[worker];
    me->before = me->tally;
    memcpy(me->firings_before, me->firings, e->rules * sizeof *me->firings);
    if (e->workers > 1)
        memset(e->bench[worker].seen, 0, SEEN * e->parts.key_words * sizeof(uint64_t));
#define CALL(K) expand_block(e, worker, n, K)
    for (uint32_t n; !me->crowded && (n = next_ticket(e)) < e->batch.used;) BY_KEY_WORDS(e, CALL)
#undef CALL
}

/* ---- settle ---- */

/* Adds the candidates of this worker's shards. */
INLINE void settle_block(struct kx_engine *e, uint32_t worker, uint32_t number, const uint32_t K)
{
    struct worker *me = &e->worker[worker];
    struct store *s = &e->store;
    const struct block *k = &e->batch.block[number];
    size_t base = (size_t)number * e->batch.capacity;
    uint32_t fresh = 0;
    for (uint32_t n = 0; n < k->candidates; n++) {
        if (n + AHEAD < k->candidates) {
            uint64_t later = e->batch.hash[base + n + AHEAD];
            const struct shard *x = &s->shard[store_shard_of(s, later)];
            __builtin_prefetch(x->slots + shard_home(s, x, later) * K);
        }
        uint64_t hash = e->batch.hash[base + n];
        uint32_t shard = store_shard_of(s, hash);
        if (shard % e->workers != worker) continue;
        const uint64_t *key = e->batch.found.keys + (base + n) * K;
        int added = shard_add(s, &s->shard[shard], key, hash, K);
        if (added < 0) me->failed = 1;
        e->batch.fresh[base + n] = added == 1;
        fresh += added == 1;
    }
    me->fresh[number] = fresh;
}

static void settle(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    if (e->workers == 1) {
        e->worker[0].fresh[0] = e->batch.block[0].candidates;
        return;
    }
#define CALL(K) settle_block(e, worker, n, K)
    for (uint32_t n = 0; n < e->batch.used; n++) BY_KEY_WORDS(e, CALL)
#undef CALL
}

/* ---- number and link ---- */

INLINE void judge(struct kx_engine *e, struct worker *me, const uint64_t *key, uint64_t index,
                  const uint32_t K)
{
    const struct steps *steps = &e->steps;
    for (uint32_t w = 0; w < steps->check_words; w++) {
        uint64_t allowed = allowed_word(&e->parts, key, w);
        uint64_t look = (~allowed & steps->promises[w]) | (allowed & steps->look[w]);
        look &= steps->open[w];
        for (; look; look &= look - 1) {
            uint32_t c = w * 64 + (uint32_t)__builtin_ctzll(look);
            if (me->first[c] < index) continue;
            int holds = allowed >> c % 64 & 1 && check_holds(&e->parts, steps, me, c, key, K);
            if (holds == kx_model.wanted[c]) me->first[c] = index;
        }
    }
}

INLINE void number_block(struct kx_engine *e, uint32_t worker, uint32_t number, const uint32_t K)
{
    struct worker *me = &e->worker[worker];
    const struct moves *m = &e->batch.found;
    const struct block *k = &e->batch.block[number];
    size_t base = (size_t)number * e->batch.capacity;
    uint64_t index = k->index;
    for (uint32_t n = 0; n < k->candidates; n++) {
        size_t at = base + n;
        if (!e->batch.fresh[at]) continue;
        const uint64_t *key = m->keys + at * K;
        store_put(&e->store, index, key, (uint32_t)(k->first + m->source[at]),
                  kx_model.rule_number[m->rule[at]], K);
        if (e->with_edges) {
            struct shard *x = &e->store.shard[store_shard_of(&e->store, e->batch.hash[at])];
            x->index[shard_slot(&e->store, x, key, e->batch.hash[at], K)] = (uint32_t)index;
        }
        me->tally.full += weight_of(&e->parts, key);
        judge(e, me, key, index, K);
        index++;
    }
}

static void number(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
#define CALL(K) number_block(e, worker, n, K)
    for (uint32_t n; (n = next_ticket(e)) < e->batch.used;) BY_KEY_WORDS(e, CALL)
#undef CALL
}

INLINE uint32_t index_of(const struct kx_engine *e, const uint64_t *key, const uint32_t K)
{
    uint64_t hash = store_hash(key, K);
    const struct shard *x = &e->store.shard[store_shard_of(&e->store, hash)];
    return x->index[shard_slot(&e->store, x, key, hash, K)];
}

static void link_block(struct kx_engine *e, uint32_t number)
{
    const struct moves *m = &e->batch.every;
    const struct block *k = &e->batch.block[number];
    size_t base = (size_t)number * e->batch.capacity;
    uint32_t K = e->parts.key_words;
    for (uint32_t n = 0; n < k->successors; n++) {
        uint64_t chunk = (k->edge + n) >> EDGE_BITS, at = (k->edge + n) & (EDGE_CHUNK - 1);
        e->edges.sources[chunk][at] = (uint32_t)(k->first + m->source[base + n]);
        e->edges.rules[chunk][at] = kx_model.rule_number[m->rule[base + n]];
        e->edges.targets[chunk][at] = index_of(e, m->keys + (base + n) * K, K);
    }
}

static void link_edges(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    (void)worker;
    for (uint32_t n; (n = next_ticket(e)) < e->batch.used;) link_block(e, n);
}

/* ---- a batch ---- */

/* Room for the edges below `count`. 0: no memory. */
static int edges_reserve(struct edges *g, uint64_t count)
{
    while (g->chunks << EDGE_BITS < count) {
        if (g->chunks == g->room) {
            uint64_t room = g->room ? 2 * g->room : 64;
            void *sources = realloc(g->sources, room * sizeof *g->sources);
            if (sources) g->sources = sources;
            void *targets = realloc(g->targets, room * sizeof *g->targets);
            if (targets) g->targets = targets;
            void *rules = realloc(g->rules, room * sizeof *g->rules);
            if (rules) g->rules = rules;
            if (!sources || !targets || !rules) return 0;
            g->room = room;
        }
        g->sources[g->chunks] = pages_take(EDGE_CHUNK * sizeof(uint32_t));
        g->targets[g->chunks] = pages_take(EDGE_CHUNK * sizeof(uint32_t));
        g->rules[g->chunks] = pages_take(EDGE_CHUNK * sizeof(uint16_t));
        g->chunks++;
        if (!g->sources[g->chunks - 1] || !g->targets[g->chunks - 1] || !g->rules[g->chunks - 1])
            return 0;
    }
    return 1;
}

static void edges_close(struct edges *g)
{
    for (uint64_t c = 0; c < g->chunks; c++) {
        pages_give(g->sources[c], EDGE_CHUNK * sizeof(uint32_t));
        pages_give(g->targets[c], EDGE_CHUNK * sizeof(uint32_t));
        pages_give(g->rules[c], EDGE_CHUNK * sizeof(uint16_t));
    }
    free(g->sources);
    free(g->targets);
    free(g->rules);
}

/* Cuts the next states of the level into blocks; small levels into one a worker or more. */
static void cut(struct kx_engine *e)
{
    struct batch *b = &e->batch;
    uint64_t at = e->cursor, left = e->level_end - e->cursor;
    uint64_t size = (left + 4 * e->workers - 1) / (4 * e->workers);
    if (size > BLOCK_STATES || e->workers == 1) size = BLOCK_STATES;
    for (b->used = 0; b->used < b->blocks && at < e->level_end; b->used++) {
        uint64_t states = e->level_end - at < size ? e->level_end - at : size;
        uint64_t segment = SEGMENT_STATES - (at & (SEGMENT_STATES - 1));
        if (states > segment) states = segment;
        b->block[b->used].first = at;
        b->block[b->used].states = (uint32_t)states;
        at += states;
    }
}

/* Gives each block its first index and edge; makes room for them. */
static int allot(struct kx_engine *e, uint64_t *states, uint64_t *successors)
{
    uint64_t index = e->store.count, transitions = 0;
    for (uint32_t n = 0; n < e->batch.used; n++) {
        struct block *k = &e->batch.block[n];
        k->index = index;
        k->edge = e->edges.count + transitions;
        for (uint32_t w = 0; w < e->workers; w++) index += e->worker[w].fresh[n];
        transitions += k->successors;
    }
    *states = index;
    *successors = transitions;
    if (!store_reserve(&e->store, index)) return KX_NO_MEMORY;
    if (e->with_edges && !edges_reserve(&e->edges, e->edges.count + transitions))
        return KX_NO_MEMORY;
    return KX_OK;
}

static void set(uint64_t *counter, uint64_t value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* Adds up what the workers noted for themselves. */
static void merge(struct kx_engine *e)
{
    for (uint32_t w = 0; w < e->workers; w++) {
        struct worker *me = &e->worker[w];
        set(&e->total.full, e->total.full + me->tally.full);
        set(&e->total.transitions, e->total.transitions + me->tally.transitions);
        set(&e->total.deadlocks, e->total.deadlocks + me->tally.deadlocks);
        if (me->tally.deadlock < e->total.deadlock) set(&e->total.deadlock, me->tally.deadlock);
        me->tally = NOTHING;
        for (uint32_t c = 0; c < kx_model.checks; c++)
            if (me->first[c] < e->first[c]) e->first[c] = me->first[c];
    }
    for (uint32_t c = 0; c < kx_model.checks; c++) {
        if (e->first[c] == KX_NONE) continue;
        e->steps.open[c / 64] &= ~((uint64_t)1 << c % 64);
        for (uint32_t w = 0; w < e->workers; w++) e->worker[w].first[c] = e->first[c];
    }
}

/* ---- buffers ---- */

static int moves_open(struct moves *m, size_t room, uint32_t key_words)
{
    m->keys = pages_sparse(room * key_words * sizeof *m->keys);
    m->source = pages_sparse(room * sizeof *m->source);
    m->rule = pages_sparse(room * sizeof *m->rule);
    return m->keys && m->source && m->rule;
}

static void moves_close(struct moves *m, size_t room, uint32_t key_words)
{
    pages_give(m->keys, room * key_words * sizeof *m->keys);
    pages_give(m->source, room * sizeof *m->source);
    pages_give(m->rule, room * sizeof *m->rule);
    *m = (struct moves){NULL, NULL, NULL};
}

static int open_bench(struct kx_engine *e)
{
    struct batch *b = &e->batch;
    e->bench = calloc(e->workers, sizeof *e->bench);
    for (uint32_t w = 0; e->bench && w < e->workers; w++) {
        e->bench[w].hash = pages_sparse(b->capacity * sizeof(uint64_t));
        e->bench[w].seen = pages_sparse(SEEN * e->parts.key_words * sizeof(uint64_t));
        if (!e->bench[w].hash || !e->bench[w].seen) return 0;
        if (!moves_open(&e->bench[w].moves, b->capacity, e->parts.key_words)) return 0;
    }
    return e->bench != NULL;
}

static int open_batch(struct kx_engine *e)
{
    struct batch *b = &e->batch;
    uint32_t K = e->parts.key_words;
    b->capacity = BLOCK_STATES * e->rules;
    b->blocks = e->workers == 1 ? 1 : BLOCKS_A_WORKER * e->workers;
    while (b->blocks > e->workers && (uint64_t)b->blocks * b->capacity > MAX_POSITIONS)
        b->blocks /= 2;
    size_t room = (size_t)b->blocks * b->capacity;
    b->block = calloc(b->blocks, sizeof *b->block);
    b->hash = pages_sparse(room * sizeof *b->hash);
    b->fresh = pages_sparse(room * sizeof *b->fresh);
    if (!b->block || !b->hash || !b->fresh || !moves_open(&b->found, room, K)) return 0;
    return (!e->with_edges || moves_open(&b->every, room, K)) && open_bench(e);
}

static void close_batch(struct kx_engine *e)
{
    struct batch *b = &e->batch;
    size_t room = (size_t)b->blocks * b->capacity;
    uint32_t K = e->parts.key_words;
    for (uint32_t w = 0; e->bench && w < e->workers; w++) {
        pages_give(e->bench[w].hash, b->capacity * sizeof(uint64_t));
        pages_give(e->bench[w].seen, SEEN * K * sizeof(uint64_t));
        moves_close(&e->bench[w].moves, b->capacity, K);
    }
    free(e->bench);
    e->bench = NULL;
    pages_give(b->hash, room * sizeof *b->hash);
    pages_give(b->fresh, room * sizeof *b->fresh);
    moves_close(&b->found, room, K);
    moves_close(&b->every, room, K);
    free(b->block);
    *b = (struct batch){0};
}

/* ---- room ---- */

INLINE int put_again(struct kx_engine *e, struct store *s, uint64_t index, const uint64_t *key)
{
    uint32_t K = s->key_words;
    uint64_t hash = store_hash(key, K);
    struct shard *x = &s->shard[store_shard_of(s, hash)];
    if (shard_add(s, x, key, hash, K) < 0) return 0;
    if (e->with_edges) x->index[shard_slot(s, x, key, hash, K)] = (uint32_t)index;
    return 1;
}

/* A segment's keys in the fields of now, put into the new store; the old ones go. */
static int transcode_segment(struct kx_engine *e, const struct parts *old, struct store *to,
                             uint64_t segment)
{
    struct store *from = &e->store;
    uint32_t K = e->parts.key_words;
    uint64_t first = segment << SEGMENT_BITS, count = from->count - first;
    uint64_t *keys = to->keys[segment] = pages_take(SEGMENT_STATES * K * sizeof(uint64_t));
    if (!keys) return 0;
    for (uint64_t n = 0; n < count && n < SEGMENT_STATES; n++) {
        move_fields(old, store_key(from, first + n, old->key_words), &e->parts, keys + n * K);
        if (!put_again(e, to, first + n, keys + n * K)) return 0;
    }
    pages_give(from->keys[segment], SEGMENT_STATES * old->key_words * sizeof(uint64_t));
    from->keys[segment] = NULL;
    return 1;
}

static int transcode(struct kx_engine *e, const struct parts *old)
{
    struct store *from = &e->store, *to = calloc(1, sizeof *to);
    int done = to && store_open(to, e->parts.key_words, e->workers, e->with_edges);
    for (uint64_t g = 0; done && g << SEGMENT_BITS < from->count; g++)
        done = transcode_segment(e, old, to, g);
    if (done) {
        for (uint32_t n = 0; n < store_shards(from); n++) shard_close(&from->shard[n], from->key_words);
        memcpy(from->keys, to->keys, sizeof to->keys);
        memcpy(from->shard, to->shard, sizeof to->shard);
        from->key_words = to->key_words;
    }
    free(to);
    return done;
}

/* Fields wide enough for the values there are now; nothing that was remembered as a key stays. */
static int lay_out_again(struct kx_engine *e)
{
    struct parts old = e->parts;
    close_batch(e);
    for (uint32_t w = 0; w < e->workers; w++)
        worker_forget(&e->worker[w], &e->steps, old.key_words);
    lay_key(&e->parts);
    if (!transcode(e, &old) || !steps_lay(&e->steps, &e->parts) || !open_batch(e)) return 0;
    for (uint32_t w = 0; w < e->workers; w++)
        if (!worker_ready(&e->worker[w], &e->steps, e->parts.key_words)) return 0;
    return 1;
}

/* Room in the parts that are crowded. 0: no memory. */
static int make_room(struct kx_engine *e)
{
    int narrow = 0;
    for (uint32_t n = 0; n < e->parts.count; n++) {
        struct part *p = &e->parts.part[n];
        if (!p->crowded) continue;
        p->crowded = 0;
        narrow |= p->count > p->field;
        uint64_t room = p->room;
        if (p->count < room) continue;
        if (!part_grow(p)) return 0;
        for (uint32_t w = 0; w < e->workers; w++)
            if (!worker_grow(&e->worker[w], &e->steps, &e->parts, n, room)) return 0;
    }
    return !narrow || lay_out_again(e);
}

/* Forgets the batch that met a crowded part. */
static int again(struct kx_engine *e)
{
    for (uint32_t w = 0; w < e->workers; w++) {
        struct worker *me = &e->worker[w];
        me->tally = me->before;
        me->broken = KX_NONE;
        me->crowded = 0;
        memcpy(me->firings, me->firings_before, e->rules * sizeof *me->firings);
    }
    return make_room(e);
}

/* ---- a level ---- */

static int expand_all(struct kx_engine *e)
{
    for (int crowded = 1; crowded;) {
        cut(e);
        if (e->store.count + (uint64_t)e->batch.used * e->batch.capacity > MAX_STATES)
            return KX_TOO_MANY_STATES;
        phase(e, expand);
        crowded = 0;
        for (uint32_t w = 0; w < e->workers; w++) crowded |= e->worker[w].crowded;
        if (crowded && !again(e)) return KX_NO_MEMORY;
    }
    for (uint32_t w = 0; w < e->workers; w++)
        if (e->worker[w].broken < e->broken) set(&e->broken, e->worker[w].broken);
    return e->broken == KX_NONE ? KX_OK : KX_OUT_OF_RANGE;
}

static int run_batch(struct kx_engine *e)
{
    uint64_t states, successors;
    int status = expand_all(e);
    if (status) return status;
    phase(e, settle);
    for (uint32_t w = 0; w < e->workers; w++)
        if (e->worker[w].failed) return KX_NO_MEMORY;
    status = allot(e, &states, &successors);
    if (status) return status;
    phase(e, number);
    if (e->with_edges) {
        phase(e, link_edges);
        set(&e->edges.count, e->edges.count + successors);
    }
    merge(e);
    set(&e->store.count, states);
    const struct block *last = &e->batch.block[e->batch.used - 1];
    set(&e->cursor, last->first + last->states);
    return KX_OK;
}

int kx_level(struct kx_engine *e)
{
    while (e->cursor < e->level_end) {
        if (__atomic_exchange_n(&e->stop, 0, __ATOMIC_RELAXED)) return KX_STOPPED;
        int status = run_batch(e);
        if (status) return status;
    }
    set(&e->level_first, e->level_end);
    set(&e->level_end, e->store.count);
    return KX_OK;
}

void kx_stop(struct kx_engine *e)
{
    __atomic_store_n(&e->stop, 1, __ATOMIC_RELAXED);
}

/* ---- beginning and end ---- */

/* One state that no worker found: the initial one, or one of an earlier search. */
static int add_state(struct kx_engine *e, const uint64_t *state, uint32_t parent, uint16_t rule)
{
    uint64_t key[MAX_KEY_WORDS];
    while (!encode(&e->parts, state, key))
        if (!make_room(e)) return KX_NO_MEMORY;
    uint32_t K = e->parts.key_words;
    uint64_t hash = store_hash(key, K), index = e->store.count;
    struct shard *x = &e->store.shard[store_shard_of(&e->store, hash)];
    if (shard_has(&e->store, x, key, hash, K)) return KX_NOT_DISTINCT;
    if (!store_reserve(&e->store, index + 1) || !put_again(e, &e->store, index, key))
        return KX_NO_MEMORY;
    store_put(&e->store, index, key, parent, rule, K);
    e->store.count++;
    return KX_OK;
}

static int open_search(struct kx_engine *e, const int64_t *inputs, const uint64_t *initial)
{
    e->inputs = calloc(kx_model.inputs + 1, sizeof *e->inputs);
    e->first = malloc((kx_model.checks + 1) * sizeof *e->first);
    e->worker = calloc(e->workers, sizeof *e->worker);
    if (!e->inputs || !e->first || !e->worker) return 0;
    memcpy(e->inputs, inputs, kx_model.inputs * sizeof *inputs);
    for (uint32_t c = 0; c < kx_model.checks; c++) e->first[c] = KX_NONE;
    if (!parts_open(&e->parts, e->inputs, e->workers > 1) || !steps_open(&e->steps, &e->parts))
        return 0;
    if (!store_open(&e->store, e->parts.key_words, e->workers, e->with_edges)) return 0;
    if (!open_batch(e)) return 0;
    for (uint32_t w = 0; w < e->workers; w++)
        if (!worker_open(&e->worker[w], &e->steps, &e->parts, e->batch.blocks)) return 0;
    if (add_state(e, initial, 0, 0) != KX_OK) return 0;
    uint32_t K = e->parts.key_words;
    judge(e, &e->worker[0], store_key(&e->store, 0, K), 0, K);
    e->worker[0].tally.full = weight_of(&e->parts, store_key(&e->store, 0, K));
    merge(e);
    e->level_end = 1;
    return 1;
}

struct kx_engine *kx_new(const int64_t *inputs, const uint64_t *initial, uint32_t workers,
                         int with_edges)
{
    struct kx_engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->workers = workers;
    e->rules = kx_model.rules ? kx_model.rules : 1;
    e->with_edges = with_edges;
    e->total = NOTHING;
    e->broken = KX_NONE;
    if (open_search(e, inputs, initial) && crew_start(&e->crew, workers, e)) return e;
    kx_free(e);
    return NULL;
}

void kx_free(struct kx_engine *e)
{
    if (e->crew.threads) crew_dismiss(&e->crew);
    for (uint32_t w = 0; e->worker && w < e->workers; w++)
        worker_close(&e->worker[w], &e->steps, &e->parts);
    close_batch(e);
    store_close(&e->store);
    edges_close(&e->edges);
    steps_close(&e->steps);
    parts_close(&e->parts);
    free(e->worker);
    free(e->inputs);
    free(e->first);
    free(e);
}
