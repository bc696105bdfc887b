/* The search itself; engine.h says what it promises, store.h how states are kept.
 *
 * Theory of operation. A batch is a run of states of the current level, cut into blocks. Phases:
 *
 *   expand   A worker takes a block, writes all successors of its states, in order, and sorts
 *            their positions by shard, each with its tag.
 *   settle   A worker takes a shard and looks up the batch's successors that belong there, in
 *            order. The first of several equal ones is new, whatever the other workers do. Slots
 *            of new states hold `count + position` for now.
 *   number   From the number of new states in each block, each block knows their indexes. A
 *            worker moves a block's new states to the store, corrects their slots and evaluates
 *            promises and witnesses on them.
 *   link     If edges are wanted: a worker writes a block's edges.
 *
 * A batch is as small as its phases are long enough: what they hand on should stay in the cache.
 */

#include "crew.h"
#include "engine.h"
#include "model.h"
#include "store.h"

#define BLOCK_STATES 128
#define BLOCKS_A_WORKER 32
#define MAX_POSITIONS ((uint64_t)1 << 28) /* limits the blocks of machines with many rules */
#define AHEAD 12                          /* successors between prefetch, peek and lookup */

#define EDGE_BITS 20
#define EDGE_CHUNK ((uint64_t)1 << EDGE_BITS)

extern const struct kx_model kx_model;

struct block {
    uint64_t first;                /* the first state to expand */
    uint32_t states;               /* how many */
    uint32_t end[BLOCK_STATES];    /* by state: where its successors end */
    uint32_t start[SHARDS + 1];    /* by shard: where its part of `order` begins */
    uint64_t index, edge;          /* the index of the first new state; the first edge */
};

/* Arrays over positions: block number * capacity + place in the block. */
struct batch {
    uint32_t blocks, capacity, used;
    struct block *block;
    uint64_t *words;
    uint64_t *order;  /* a block's successors by shard: tag << 32 | position */
    uint32_t *found;  /* known state: its index. New state: its slot, later its index */
    uint16_t *rule;
    uint8_t *fresh;   /* new state: its shard + 1; known state: 0 */
};

struct worker {
    uint64_t deadlocks, deadlock, broken;
    uint64_t *firings; /* by rule of the model */
    uint64_t *first;   /* by test */
    uint64_t *hash;    /* of the block being expanded */
    uint64_t *list;    /* a shard's part of `order` */
    uint32_t *fresh;   /* by block: new states in this worker's shards */
    int failed;
};

struct edges {
    uint64_t count, room, chunks;
    uint32_t **sources, **targets;
    uint16_t **rules;
};

struct kx_engine {
    struct store store;
    struct batch batch;
    struct edges edges;
    struct crew crew;
    struct worker *worker;
    int64_t *inputs;
    uint64_t *first;      /* by test */
    uint64_t level_first, level_end, cursor, transitions, deadlocks, deadlock;
    uint64_t broken;
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

/* ---- expand ---- */

static void sort_by_shard(struct batch *b, struct block *k, const uint64_t *hash, size_t base,
                          uint32_t n)
{
    uint32_t at[SHARDS] = {0};
    for (uint32_t i = 0; i < n; i++) at[store_shard_of(hash[i])]++;
    uint32_t sum = 0;
    for (uint32_t x = 0; x < SHARDS; x++) {
        k->start[x] = sum;
        sum += at[x];
        at[x] = k->start[x];
    }
    k->start[SHARDS] = sum;
    for (uint32_t i = 0; i < n; i++)
        b->order[base + at[store_shard_of(hash[i])]++] = hash[i] << 32 | (base + i);
}

static uint32_t expand_state(struct kx_engine *e, struct worker *me, uint64_t index,
                             size_t position, uint64_t *hash)
{
    const uint64_t *state = store_state(&e->store, index);
    uint32_t n = 0;
    for (uint32_t r = 0; r < kx_model.rules; r++) {
        uint64_t *next = e->batch.words + (position + n) * KX_WORDS;
        int outcome = kx_model.rule[r](state, next, e->inputs);
        if (!outcome) continue;
        if (outcome == 2) {
            uint64_t broken = index << 16 | kx_model.rule_number[r];
            if (broken < me->broken) me->broken = broken;
            continue;
        }
        e->batch.rule[position + n] = (uint16_t)r;
        hash[n] = store_hash(next);
        me->firings[r]++;
        n++;
    }
    return n;
}

static void expand_block(struct kx_engine *e, struct worker *me, uint32_t number)
{
    struct block *k = &e->batch.block[number];
    size_t base = (size_t)number * e->batch.capacity;
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->states; i++) {
        uint32_t more = expand_state(e, me, k->first + i, base + n, me->hash + n);
        n += more;
        k->end[i] = n;
        if (more) continue;
        me->deadlocks++;
        if (k->first + i < me->deadlock) me->deadlock = k->first + i;
    }
    sort_by_shard(&e->batch, k, me->hash, base, n);
}

static void expand(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    for (uint32_t n; (n = next_ticket(e)) < e->batch.used;)
        expand_block(e, &e->worker[worker], n);
}

/* ---- settle ---- */

/* A state by its index, or, from `count` on, by its position in the batch. */
static const uint64_t *any_state(const struct kx_engine *e, uint64_t index)
{
    if (index < e->store.count) return store_state(&e->store, index);
    return e->batch.words + (index - e->store.count) * KX_WORDS;
}

/* Brings the state that the lookup will compare on its way; its first slot is there already. */
static void peek(const struct kx_engine *e, const struct shard *x, uint64_t ordered)
{
    uint64_t tag = ordered >> 32, mask = ((uint64_t)1 << x->bits) - 1;
    for (uint64_t at = shard_home(x, tag); x->slots[at]; at = (at + 1) & mask) {
        if (x->slots[at] >> 32 != tag) continue;
        __builtin_prefetch(any_state(e, entry_index(x->slots[at])));
        return;
    }
}

static void find_or_add(struct kx_engine *e, struct worker *me, uint32_t shard, uint64_t ordered)
{
    struct batch *b = &e->batch;
    struct shard *x = &e->store.shard[shard];
    uint32_t position = (uint32_t)ordered;
    uint64_t tag = ordered >> 32, mask = ((uint64_t)1 << x->bits) - 1;
    const uint64_t *state = b->words + (size_t)position * KX_WORDS;
    uint64_t at = shard_home(x, tag);
    for (; x->slots[at]; at = (at + 1) & mask) {
        if (x->slots[at] >> 32 != tag) continue;
        uint64_t index = entry_index(x->slots[at]);
        if (!store_same(any_state(e, index), state)) continue;
        b->fresh[position] = 0;
        b->found[position] = (uint32_t)index;
        return;
    }
    x->slots[at] = shard_entry(tag, e->store.count + position);
    x->count++;
    b->fresh[position] = (uint8_t)(shard + 1);
    b->found[position] = (uint32_t)at;
    me->fresh[position / b->capacity]++;
}

static uint32_t gather(const struct batch *b, uint32_t shard, uint64_t *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->used; i++) {
        const struct block *k = &b->block[i];
        const uint64_t *order = b->order + (size_t)i * b->capacity;
        for (uint32_t p = k->start[shard]; p < k->start[shard + 1]; p++) list[n++] = order[p];
    }
    return n;
}

static void settle_shard(struct kx_engine *e, struct worker *me, uint32_t shard)
{
    struct shard *x = &e->store.shard[shard];
    const uint64_t *list = me->list;
    uint32_t n = gather(&e->batch, shard, me->list);
    if (!shard_reserve(x, n)) {
        me->failed = 1;
        return;
    }
    for (uint32_t i = 0; i < n + 2 * AHEAD; i++) {
        if (i < n) __builtin_prefetch(&x->slots[shard_home(x, list[i] >> 32)]);
        if (i >= AHEAD && i - AHEAD < n) peek(e, x, list[i - AHEAD]);
        if (i >= 2 * AHEAD) find_or_add(e, me, shard, list[i - 2 * AHEAD]);
    }
}

static void settle(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    memset(e->worker[worker].fresh, 0, e->batch.blocks * sizeof(uint32_t));
    for (uint32_t n; (n = next_ticket(e)) < SHARDS;) settle_shard(e, &e->worker[worker], n);
}

/* ---- number and link ---- */

static void judge(struct kx_engine *e, struct worker *me, const uint64_t *state, uint64_t index)
{
    for (uint32_t t = 0; t < kx_model.tests; t++) {
        if (e->first[t] != KX_NONE || me->first[t] < index) continue;
        if (kx_model.test[t](state, e->inputs) == kx_model.wanted[t]) me->first[t] = index;
    }
}

static void number_block(struct kx_engine *e, struct worker *me, uint32_t number)
{
    struct batch *b = &e->batch;
    struct block *k = &b->block[number];
    size_t base = (size_t)number * b->capacity;
    uint64_t index = k->index;
    for (uint32_t i = 0, p = 0; i < k->states; i++) {
        for (; p < k->end[i]; p++) {
            size_t at = base + p;
            if (!b->fresh[at]) continue;
            uint64_t *state = b->words + at * KX_WORDS;
            store_put(&e->store, index, state, (uint32_t)(k->first + i),
                      kx_model.rule_number[b->rule[at]]);
            uint64_t *slot = &e->store.shard[b->fresh[at] - 1].slots[b->found[at]];
            *slot = shard_entry(*slot >> 32, index);
            b->found[at] = (uint32_t)index;
            judge(e, me, state, index);
            index++;
        }
    }
}

static void number(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    for (uint32_t n; (n = next_ticket(e)) < e->batch.used;)
        number_block(e, &e->worker[worker], n);
}

static void link_block(struct kx_engine *e, uint32_t number)
{
    struct batch *b = &e->batch;
    struct block *k = &b->block[number];
    size_t base = (size_t)number * b->capacity;
    uint64_t edge = k->edge, known = e->store.count;
    for (uint32_t i = 0, p = 0; i < k->states; i++) {
        for (; p < k->end[i]; p++, edge++) {
            uint64_t chunk = edge >> EDGE_BITS, at = edge & (EDGE_CHUNK - 1);
            uint32_t target = b->found[base + p];
            if (!b->fresh[base + p] && target >= known) target = b->found[target - known];
            e->edges.sources[chunk][at] = (uint32_t)(k->first + i);
            e->edges.rules[chunk][at] = kx_model.rule_number[b->rule[base + p]];
            e->edges.targets[chunk][at] = target;
        }
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
    if (size > BLOCK_STATES) size = BLOCK_STATES;
    for (b->used = 0; b->used < b->blocks && at < e->level_end; b->used++) {
        uint64_t states = e->level_end - at < size ? e->level_end - at : size;
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
        transitions += k->start[SHARDS];
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
        set(&e->deadlocks, e->deadlocks + me->deadlocks);
        if (me->deadlock < e->deadlock) set(&e->deadlock, me->deadlock);
        me->deadlocks = 0;
        me->deadlock = KX_NONE;
        for (uint32_t t = 0; t < kx_model.tests; t++)
            if (me->first[t] < e->first[t]) e->first[t] = me->first[t];
    }
    for (uint32_t w = 0; w < e->workers; w++)
        for (uint32_t t = 0; t < kx_model.tests; t++) e->worker[w].first[t] = e->first[t];
}

static int run_batch(struct kx_engine *e)
{
    uint64_t states, successors;
    cut(e);
    if (e->store.count + (uint64_t)e->batch.used * e->batch.capacity > MAX_STATES)
        return KX_TOO_MANY_STATES;
    phase(e, expand);
    for (uint32_t w = 0; w < e->workers; w++)
        if (e->worker[w].broken < e->broken) set(&e->broken, e->worker[w].broken);
    if (e->broken != KX_NONE) return KX_OUT_OF_RANGE;
    phase(e, settle);
    for (uint32_t w = 0; w < e->workers; w++)
        if (e->worker[w].failed) return KX_NO_MEMORY;
    int status = allot(e, &states, &successors);
    if (status) return status;
    phase(e, number);
    if (e->with_edges) {
        phase(e, link_edges);
        set(&e->edges.count, e->edges.count + successors);
    }
    merge(e);
    set(&e->store.count, states);
    set(&e->transitions, e->transitions + successors);
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

static int open_batch(struct kx_engine *e)
{
    struct batch *b = &e->batch;
    /* 8 more than needed: blocks an even number of cache lines apart would share few of them. */
    b->capacity = BLOCK_STATES * e->rules + 8;
    b->blocks = BLOCKS_A_WORKER * e->workers;
    while (b->blocks > e->workers && (uint64_t)b->blocks * b->capacity > MAX_POSITIONS)
        b->blocks /= 2;
    size_t room = (size_t)b->blocks * b->capacity;
    b->block = calloc(b->blocks, sizeof *b->block);
    b->words = pages_sparse(room * KX_WORDS * sizeof *b->words);
    b->order = pages_sparse(room * sizeof *b->order);
    b->found = pages_sparse(room * sizeof *b->found);
    b->rule = pages_sparse(room * sizeof *b->rule);
    b->fresh = pages_sparse(room * sizeof *b->fresh);
    return b->block && b->words && b->order && b->found && b->rule && b->fresh;
}

static int open_workers(struct kx_engine *e)
{
    size_t room = (size_t)e->batch.blocks * e->batch.capacity;
    e->worker = calloc(e->workers, sizeof *e->worker);
    if (!e->worker) return 0;
    for (uint32_t w = 0; w < e->workers; w++) {
        struct worker *me = &e->worker[w];
        me->firings = calloc(e->rules, sizeof *me->firings);
        me->first = malloc((kx_model.tests + 1) * sizeof *me->first);
        me->hash = pages_sparse(sizeof *me->hash * e->batch.capacity);
        me->list = pages_sparse(room * sizeof *me->list);
        me->fresh = calloc(e->batch.blocks, sizeof *me->fresh);
        me->deadlock = me->broken = KX_NONE;
        if (!me->firings || !me->first || !me->hash || !me->list || !me->fresh) return 0;
        for (uint32_t t = 0; t < kx_model.tests; t++) me->first[t] = KX_NONE;
    }
    return 1;
}

/* One state that no worker found: the initial one, or one of an earlier search. */
static int add_state(struct kx_engine *e, const uint64_t *state, uint32_t parent, uint16_t rule)
{
    uint64_t hash = store_hash(state);
    struct shard *x = &e->store.shard[store_shard_of(hash)];
    if (!shard_reserve(x, 1) || !store_reserve(&e->store, e->store.count + 1)) return KX_NO_MEMORY;
    uint64_t tag = (uint32_t)hash, mask = ((uint64_t)1 << x->bits) - 1, at = shard_home(x, tag);
    for (; x->slots[at]; at = (at + 1) & mask)
        if (x->slots[at] >> 32 == tag &&
            store_same(store_state(&e->store, entry_index(x->slots[at])), state))
            return KX_NOT_DISTINCT;
    x->slots[at] = shard_entry(tag, e->store.count);
    x->count++;
    store_put(&e->store, e->store.count, state, parent, rule);
    e->store.count++;
    return KX_OK;
}

static int open_search(struct kx_engine *e, const int64_t *inputs, const uint64_t *initial)
{
    uint32_t budgets = kx_model.inputs;
    e->inputs = calloc(budgets + 1, sizeof *e->inputs);
    e->first = malloc((kx_model.tests + 1) * sizeof *e->first);
    if (!e->inputs || !e->first) return 0;
    memcpy(e->inputs, inputs, budgets * sizeof *inputs);
    for (uint32_t t = 0; t < kx_model.tests; t++) e->first[t] = KX_NONE;
    if (!store_open(&e->store) || !open_batch(e) || !open_workers(e)) return 0;
    if (add_state(e, initial, 0, 0) != KX_OK) return 0;
    judge(e, &e->worker[0], initial, 0);
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
    e->deadlock = e->broken = KX_NONE;
    if (open_search(e, inputs, initial) && crew_start(&e->crew, workers, e)) return e;
    kx_free(e);
    return NULL;
}

static void close_batch(struct batch *b)
{
    size_t room = (size_t)b->blocks * b->capacity;
    pages_give(b->words, room * KX_WORDS * sizeof *b->words);
    pages_give(b->order, room * sizeof *b->order);
    pages_give(b->found, room * sizeof *b->found);
    pages_give(b->rule, room * sizeof *b->rule);
    pages_give(b->fresh, room * sizeof *b->fresh);
    free(b->block);
}

static void close_worker(struct worker *me, const struct batch *b)
{
    free(me->firings);
    free(me->first);
    free(me->fresh);
    pages_give(me->hash, sizeof *me->hash * b->capacity);
    pages_give(me->list, sizeof *me->list * b->blocks * b->capacity);
}

void kx_free(struct kx_engine *e)
{
    if (e->crew.threads) crew_dismiss(&e->crew);
    for (uint32_t w = 0; e->worker && w < e->workers; w++) close_worker(&e->worker[w], &e->batch);
    close_batch(&e->batch);
    store_close(&e->store);
    edges_close(&e->edges);
    free(e->worker);
    free(e->inputs);
    free(e->first);
    free(e);
}
