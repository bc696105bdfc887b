/* The search itself; engine.h says what it guarantees, parts.h what a state is made of, steps.h how
 * successors are found, store.h how states are kept, phases.c what a batch goes through.
 *
 * Theory of operation. A batch is a run of states of the current level, cut into blocks. Phases:
 *
 *   expand   A worker takes a block, finds all successors of its states, in order, and looks them
 *            up. Nobody writes to the visited set meanwhile. Most are known; the others are the
 *            block's candidates, dealt out to the shards of the set.
 *   settle   A worker takes a shard and adds its candidates of all blocks, in order. The first of
 *            several equal ones is new, whatever the other workers do. (One alone did so at once.)
 *   number   From the number of new states in each block, each block knows their indexes. A
 *            worker moves a block's new states to the store and evaluates the checks on them.
 *   link     If edges are wanted: a worker looks up where a block's transitions lead.
 *
 * If a worker meets a value for which a part has no room, the batch is forgotten, room is made, and
 * the batch begins again. With one worker a batch is one block, which stays in the cache; with more
 * it has many, so that workers seldom wait for each other, and a small level is left to one.
 *
 * What workers learn of the model they share: the values of parts, and what rule instances did
 * (memo.h). Learned twice, it would cost each of them almost as much as one alone.
 */

#include "phases.c"
#include "room.c"
#include "lines.c"

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

/* Cuts the next states of the level into blocks. */
static void cut(struct kx_engine *e)
{
    struct batch *b = &e->batch;
    uint64_t at = e->cursor;
    for (b->used = 0; b->used < b->blocks && at < e->level_end; b->used++) {
        uint64_t left = e->level_end - at, states = left < BLOCK_STATES ? left : BLOCK_STATES;
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

/* Renews the memos that had no place for much. */
static void renew_memos(struct kx_engine *e, struct worker *me)
{
    if (!me->forgot) return;
    me->forgot = 0;
    for (uint32_t n = 0; n < e->steps.factors + e->steps.groups; n++) {
        if (!me->lost[n]) continue;
        memo_forgot(&e->steps.memo[n], me->lost[n], e->parts.key_words);
        me->lost[n] = 0;
    }
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
        renew_memos(e, me);
        for (uint32_t c = 0; c < kx_model.checks; c++)
            if (me->first[c] < e->first[c]) e->first[c] = me->first[c];
    }
    for (uint32_t c = 0; c < kx_model.checks; c++) {
        if (e->first[c] == KX_NONE) continue;
        e->steps.open[c / 64] &= ~((uint64_t)1 << c % 64);
        for (uint32_t w = 0; w < e->workers; w++) e->worker[w].first[c] = e->first[c];
    }
}

/* ---- a level ---- */

/* Also of workers that will have no part in this batch. */
static void begin(struct kx_engine *e)
{
    cut(e);
    for (uint32_t w = 0; w < e->workers; w++) {
        struct worker *me = &e->worker[w];
        me->before = me->tally;
        memcpy(me->firings_before, me->firings, e->rules * sizeof *me->firings);
        memset(me->fresh, 0, e->batch.used * sizeof *me->fresh);
    }
}

static int expand_all(struct kx_engine *e)
{
    for (int crowded = 1; crowded;) {
        begin(e);
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
    if (states >= e->lines_at && !draw_lines(e)) return KX_NO_MEMORY;
    const struct block *last = &e->batch.block[e->batch.used - 1];
    set(&e->cursor, last->first + last->states);
    store_forget(&e->store, e->cursor);
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
INLINE int add_key(struct kx_engine *e, const uint64_t *key, uint32_t parent, uint16_t rule,
                   const uint32_t K)
{
    uint64_t index = e->store.count;
    if (store_has(&e->store, key)) return KX_NO_SEARCH;
    if (!store_reserve(&e->store, index + 1) || !put_again(e, &e->store, index, key))
        return KX_NO_MEMORY;
    store_put(&e->store, index, key, parent, rule, K);
    e->store.count++;
    return e->store.count < e->lines_at || draw_lines(e) ? KX_OK : KX_NO_MEMORY;
}

static int add_initial(struct kx_engine *e, const uint64_t *initial)
{
    uint64_t key[MAX_KEY_WORDS];
    while (!encode(&e->parts, initial, key))
        if (!make_room(e)) return KX_NO_MEMORY;
    return add_key(e, key, 0, 0, e->parts.key_words);
}

static int open_search(struct kx_engine *e, const int64_t *inputs, const uint64_t *initial)
{
    e->inputs = calloc(kx_model.inputs + 1, sizeof *e->inputs);
    e->first = malloc((kx_model.checks + 1) * sizeof *e->first);
    e->worker = apart(e->workers * sizeof *e->worker);
    if (!e->inputs || !e->first || !e->worker) return 0;
    memcpy(e->inputs, inputs, kx_model.inputs * sizeof *inputs);
    for (uint32_t c = 0; c < kx_model.checks; c++) e->first[c] = KX_NONE;
    if (!parts_open(&e->parts, e->inputs) || !steps_open(&e->steps, &e->parts)) return 0;
    if (!independence_open(&e->independence)) return 0;
    if (!store_open(&e->store, e->parts.key_words, NO_LINE, e->workers, e->with_edges)) return 0;
    if (!open_batch(e)) return 0;
    for (uint32_t w = 0; w < e->workers; w++)
        if (!worker_open(&e->worker[w], &e->steps, e->batch.blocks)) return 0;
    if (add_initial(e, initial) != KX_OK) return 0;
    uint32_t K = e->parts.key_words;
    judge(e, &e->worker[0], store_key(&e->store, 0, K), kx_model.rules, WITH_ITS_LINE, 0, K);
    e->worker[0].tally.full = weight_of(&e->parts, store_key(&e->store, 0, K));
    merge(e);
    e->level_end = 1;
    return 1;
}

struct kx_engine *kx_new(const int64_t *inputs, const uint64_t *initial, uint32_t workers,
                         int with_edges)
{
    struct kx_engine *e = apart(sizeof *e);
    if (!e) return NULL;
    e->workers = workers;
    e->rules = kx_model.rules ? kx_model.rules : 1;
    e->with_edges = with_edges;
    e->lines_at = with_edges ? UINT64_MAX : FIRST_LOOK;
    e->total = NOTHING;
    e->broken = KX_NONE;
    if (open_search(e, inputs, initial) && crew_start(&e->crew, workers, e)) return e;
    kx_free(e);
    return NULL;
}

void kx_free(struct kx_engine *e)
{
    if (e->crew.threads) crew_dismiss(&e->crew);
    for (uint32_t w = 0; e->worker && w < e->workers; w++) worker_close(&e->worker[w]);
    close_batch(e);
    store_close(&e->store);
    edges_close(&e->edges);
    independence_close(&e->independence);
    steps_close(&e->steps, &e->parts);
    parts_close(&e->parts);
    free(e->worker);
    free(e->inputs);
    free(e->first);
    free(e);
}
