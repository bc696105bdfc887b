/* The phases of a batch, as engine.c says them. Part of engine.c's unit: it is compiled before it. */

#include "crew.h"
#include "engine.h"
#include "independence.h"
#include "steps.h"

#define BLOCK_STATES 128
#define BLOCKS_A_WORKER 128
#define MAX_POSITIONS ((uint64_t)1 << 28) /* limits the blocks of machines with many rules */
#define SEEN ((uint64_t)1 << 13)          /* candidates that a worker knows again */
#define AHEAD 2                           /* blocks between prefetch and lookup */

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
    uint8_t *fresh;            /* how the candidate was added */
    uint64_t *dealt;           /* keys of candidates by shard, each shard's in order, */
    uint32_t *whose;           /* the place of each among the candidates, */
    uint32_t *deal;            /* and by block and shard where its keys begin */
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
    uint32_t kept, successors;
    uint64_t weight[BLOCK_STATES];
    uint32_t leaving[BLOCK_STATES]; /* successors by state, */
    const uint64_t *asleep[BLOCK_STATES]; /* and the rule instances whose successors are known */
} __attribute__((aligned(APART)));

struct kx_engine {
    struct parts parts;
    struct steps steps;
    struct independence independence;
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
    uint32_t workers, rules;
    uint32_t line_part, line_shift; /* where the store's line lies */
    uint64_t lines_at;              /* so many states are worth a look for lines */
    int with_edges, stop;
    uint32_t ticket __attribute__((aligned(APART)));
};

static uint32_t next_ticket(struct kx_engine *e)
{
    return __atomic_fetch_add(&e->ticket, 1, __ATOMIC_RELAXED);
}

/* One block is not worth waking anybody. */
static void phase(struct kx_engine *e, crew_phase *work)
{
    e->ticket = 0;
    if (e->batch.used > 1)
        crew_run(&e->crew, work);
    else
        work(e, 0);
}

/* Calls a function of which there is one for each small number of key words, and for keys of one
 * word one more for lines: with the words of a key and of a slot. */
#define BY_WORDS(e, call)                                                \
    switch ((e)->parts.key_words) {                                      \
    case 1:                                                              \
        if ((e)->store.slot_words == 1) call(1, 1);                      \
        else call(1, 2);                                                 \
        break;                                                           \
    case 2: call(2, (e)->store.slot_words); break;                       \
    default: call((e)->parts.key_words, (e)->store.slot_words);          \
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
 * then. What is not kept is written over: a jump that is hard to foresee would cost more. */
INLINE uint32_t keep_move(const struct store *s, struct moves m, uint64_t *hashes, uint32_t n,
                          const uint64_t *key, const uint64_t *next, uint32_t source,
                          uint32_t rule, const uint32_t K, const uint32_t S)
{
    store_copy(m.keys + n * K, next, K);
    m.source[n] = (uint8_t)source;
    m.rule[n] = (uint16_t)rule;
    hashes[n] = line_hash(s, next, K, S);
    return n + !store_same(key, next, K);
}

/* The rule instances that are asleep in a stored state. */
INLINE const uint64_t *asleep_in(const struct kx_engine *e, uint64_t index)
{
    const struct independence *x = &e->independence;
    return asleep_after(x, index ? x->place[store_rule(&e->store, index)] : kx_model.rules);
}

INLINE int is_asleep(const uint64_t *asleep, uint32_t rule)
{
    return asleep[rule / 64] >> rule % 64 & 1;
}

/* The successors of a machine that writes nothing but constants. */
INLINE void fire_constants(struct kx_engine *e, struct worker *me, struct bench *bench,
                           struct block *k, const uint32_t K, const uint32_t S)
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
            uint64_t awake = enabled & ~bench->asleep[i][w];
            for (; enabled; enabled &= enabled - 1, leaving++)
                firings[w * 64 + (uint32_t)__builtin_ctzll(enabled)]++;
            for (; awake; awake &= awake - 1) {
                uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(awake);
                EACH_WORD(v) next[v] = (key[v] & keep[r * K + v]) | set[r * K + v];
                n = keep_move(&e->store, moves, hashes, n, key, next, i, r, K, S);
            }
        }
        bench->leaving[i] = leaving;
        bench->successors += leaving;
    }
    bench->kept = n;
}

/* The rule instances that no part forbids, for each state of the block. */
INLINE uint32_t propose(struct kx_engine *e, const struct block *k, struct moves *m,
                        const uint32_t K)
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
            }
        }
    }
    return n;
}

/* Brings on its way what `realise` will look up. */
INLINE void realise_soon(const struct kx_engine *e, const struct moves *m, const struct block *k,
                         uint32_t proposed, const uint32_t K)
{
    const uint64_t *keys = block_keys(e, k, K);
    for (uint32_t n = 0; n < proposed; n++)
        complete_soon(&e->parts, &e->steps, m->rule[n], keys + m->source[n] * K, K);
}

INLINE void note_broken(struct worker *me, uint64_t state, uint32_t rule)
{
    uint64_t broken = state << 16 | kx_model.rule_number[rule];
    if (broken < me->broken) me->broken = broken;
}

/* Makes the proposed successors and counts them. */
INLINE void realise(struct kx_engine *e, struct worker *me, struct bench *bench, struct block *k,
                    uint32_t proposed, size_t base, const uint32_t K, const uint32_t S)
{
    const struct moves *m = &bench->moves;
    uint32_t successors = 0, kept = 0;
    realise_soon(e, m, k, proposed, K);
    for (uint32_t n = 0; n < proposed; n++) {
        uint32_t i = m->source[n], r = m->rule[n];
        const uint64_t *key = block_keys(e, k, K) + i * K;
        uint64_t *next = m->keys + n * K;
        enum outcome outcome = complete(&e->parts, &e->steps, me, r, key, next, K);
        if (outcome == OUT_OF_RANGE) note_broken(me, k->first + i, r);
        if (outcome != FIRES) continue;
        bench->leaving[i]++;
        me->firings[r] += bench->weight[i];
        if (e->with_edges) move_copy(&e->batch.every, base + successors, m, n, K);
        successors++;
        if (is_asleep(bench->asleep[i], r)) continue;
        kept = keep_move(&e->store, *m, bench->hash, kept, key, next, i, r, K, S);
    }
    bench->successors = successors;
    bench->kept = kept;
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

/* Brings on its way what `look_up` will look up. Prefetches stand in short loops of their own: one
 * that waits for the translation of its address holds up what comes behind it, and only a few
 * instructions fit between two that are to wait together. */
INLINE void look_up_soon(const struct store *s, const struct bench *bench, const uint32_t K, const uint32_t S)
{
    for (uint32_t n = 0; n < bench->kept; n++) {
        const struct shard *x = &s->shard[store_shard_of(s, bench->hash[n])];
        __builtin_prefetch(x->slots + shard_home(s, x, bench->hash[n]) * S);
    }
}

/* Successors that are not in the visited set become the block's candidates. A worker that is
 * alone adds them at once. */
INLINE void look_up(struct kx_engine *e, struct worker *me, struct bench *bench, struct block *k,
                    size_t base, const uint32_t K, const uint32_t S)
{
    struct batch *b = &e->batch;
    const int alone = e->workers == 1;
    uint32_t candidates = 0;
    look_up_soon(&e->store, bench, K, S);
    for (uint32_t n = 0; n < bench->kept; n++) {
        uint64_t hash = bench->hash[n];
        const uint64_t *key = bench->moves.keys + n * K;
        struct shard *x = &e->store.shard[store_shard_of(&e->store, hash)];
        int added = alone ? shard_add(&e->store, x, key, hash, K, S)
                          : !shard_has(&e->store, x, key, hash, K, S) &&
                                !seen_before(bench, key, hash + key[0], K);
        if (!added) continue;
        size_t at = base + candidates;
        move_copy(&b->found, at, &bench->moves, n, K);
        if (alone) b->fresh[at] = (uint8_t)added;
        bench->hash[candidates++] = hash;
        if (added == NO_ROOM) me->failed = 1;
    }
    k->candidates = candidates;
}

/* Where a block's candidates of a shard begin, and behind the last shard where they end. */
INLINE uint32_t *deal_of(const struct kx_engine *e, uint32_t number)
{
    return e->batch.deal + (size_t)number * (store_shards(&e->store) + 2);
}

/* Deals the candidates of a block out to their shards. */
INLINE void deal(struct kx_engine *e, const struct bench *bench, const struct block *k,
                 uint32_t number, size_t base, const uint32_t K)
{
    struct batch *b = &e->batch;
    const struct store *s = &e->store;
    uint32_t *begin = deal_of(e, number), shards = store_shards(s);
    memset(begin, 0, (shards + 2) * sizeof *begin);
    for (uint32_t n = 0; n < k->candidates; n++) begin[store_shard_of(s, bench->hash[n]) + 2]++;
    for (uint32_t x = 2; x < shards + 2; x++) begin[x] += begin[x - 1];
    for (uint32_t n = 0; n < k->candidates; n++) {
        size_t at = base + begin[store_shard_of(s, bench->hash[n]) + 1]++;
        store_copy(b->dealt + at * K, b->found.keys + (base + n) * K, K);
        b->whose[at] = n;
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

INLINE void expand_block(struct kx_engine *e, uint32_t worker, uint32_t number, const uint32_t K, const uint32_t S)
{
    struct worker *me = &e->worker[worker];
    struct bench *bench = &e->bench[worker];
    struct block *k = &e->batch.block[number];
    size_t base = (size_t)number * e->batch.capacity;
    bench->successors = bench->kept = 0;
    for (uint32_t i = 0; i < k->states; i++) {
        const uint64_t *key = block_keys(e, k, K) + i * K;
        bench->leaving[i] = 0;
        bench->weight[i] = weight_of(&e->parts, key);
        bench->asleep[i] = asleep_in(e, k->first + i);
        enabled_soon(&e->parts, &e->steps, key);
    }
    if (e->steps.factors || e->with_edges || kx_model.canonical)
        realise(e, me, bench, k, propose(e, k, &bench->moves, K), base, K, S);
    else
        fire_constants(e, me, bench, k, K, S);
    if (me->crowded) return;
    k->successors = bench->successors;
    look_up(e, me, bench, k, base, K, S);
    if (e->workers > 1) deal(e, bench, k, number, base, K);
    tally_block(me, bench, k);
}

static void expand(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    struct worker *me = &e->worker[worker];
    if (e->workers > 1)
        memset(e->bench[worker].seen, 0, SEEN * e->parts.key_words * sizeof(uint64_t));
#define CALL(K, S) expand_block(e, worker, n, K, S)
    for (uint32_t n; !me->crowded && (n = next_ticket(e)) < e->batch.used;) BY_WORDS(e, CALL)
#undef CALL
}

/* ---- settle ---- */

/* Brings on its way where a block's candidates of a shard belong. */
INLINE void settle_soon(const struct kx_engine *e, uint32_t number, uint32_t shard,
                        const uint32_t K, const uint32_t S)
{
    const struct store *s = &e->store;
    const struct shard *x = &s->shard[shard];
    const uint64_t *dealt = e->batch.dealt + (size_t)number * e->batch.capacity * K;
    const uint32_t *begin = deal_of(e, number) + shard;
    for (uint32_t n = begin[0]; n < begin[1]; n++)
        __builtin_prefetch(x->slots +
                           shard_home(s, x, line_hash(s, dealt + n * K, K, S)) * S);
}

/* Adds a block's candidates of a shard to it, in order. */
INLINE void settle_block(struct kx_engine *e, struct worker *me, uint32_t number, uint32_t shard,
                         const uint32_t K, const uint32_t S)
{
    struct shard *x = &e->store.shard[shard];
    size_t base = (size_t)number * e->batch.capacity;
    const uint32_t *begin = deal_of(e, number) + shard;
    uint32_t fresh = 0;
    for (uint32_t n = begin[0]; n < begin[1]; n++) {
        const uint64_t *key = e->batch.dealt + (base + n) * K;
        enum added added = shard_add(&e->store, x, key, line_hash(&e->store, key, K, S), K, S);
        if (added == NO_ROOM) me->failed = 1;
        e->batch.fresh[base + e->batch.whose[base + n]] = (uint8_t)added;
        fresh += added != KNOWN;
    }
    me->fresh[number] += fresh;
}

INLINE void settle_shard(struct kx_engine *e, struct worker *me, uint32_t shard, const uint32_t K, const uint32_t S)
{
    for (uint32_t n = 0; n < e->batch.used; n++) {
        if (n + AHEAD < e->batch.used) settle_soon(e, n + AHEAD, shard, K, S);
        settle_block(e, me, n, shard, K, S);
    }
}

static void settle(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
    struct worker *me = &e->worker[worker];
    if (e->workers == 1) {
        me->fresh[0] = e->batch.block[0].candidates;
        return;
    }
#define CALL(K, S) settle_shard(e, me, shard, K, S)
    for (uint32_t shard; (shard = next_ticket(e)) < store_shards(&e->store);)
        BY_WORDS(e, CALL)
#undef CALL
}

/* ---- number and link ---- */

/* The checks whose value may be one that none of the states before had, of one word of them: by the
 * rule instance that found a state, and by how it was added. */
INLINE uint64_t checks_in_doubt(const struct kx_engine *e, uint32_t rule, int fresh, uint32_t w)
{
    const struct independence *x = &e->independence;
    uint64_t doubt = touched_by(x, rule)[w] & e->steps.open[w];
    return fresh == IN_A_LINE ? doubt & checks_of(x, e->line_part)[w] : doubt;
}

/* Those of them to evaluate. */
INLINE uint64_t checks_to_make(const struct kx_engine *e, const uint64_t *key, uint32_t rule,
                               int fresh, uint32_t w, uint64_t *allowed)
{
    const struct steps *steps = &e->steps;
    uint64_t asked = checks_in_doubt(e, rule, fresh, w);
    if (!asked) return 0;
    *allowed = allowed_word(&e->parts, key, w);
    return ((~*allowed & steps->guarantees[w]) | (*allowed & steps->look[w])) & asked;
}

/* Brings on its way what `judge` will look up. */
INLINE void judge_soon(const struct kx_engine *e, const uint64_t *key, uint32_t rule, int fresh,
                       const uint32_t K)
{
    uint64_t asked = 0;
    for (uint32_t w = 0; w < e->steps.check_words; w++) {
        uint64_t allowed = 0, look = checks_to_make(e, key, rule, fresh, w, &allowed);
        for (look &= allowed; look; look &= look - 1)
            check_soon(&e->steps, w * 64 + (uint32_t)__builtin_ctzll(look), key, &asked, K);
    }
}

INLINE void judge(struct kx_engine *e, struct worker *me, const uint64_t *key, uint32_t rule,
                  int fresh, uint64_t index, const uint32_t K)
{
    const struct steps *steps = &e->steps;
    for (uint32_t w = 0; w < steps->check_words; w++) {
        uint64_t allowed = 0, look = checks_to_make(e, key, rule, fresh, w, &allowed);
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
        int fresh = e->batch.fresh[base + n];
        if (fresh) judge_soon(e, m->keys + (base + n) * K, m->rule[base + n], fresh, K);
    }
    for (uint32_t n = 0; n < k->candidates; n++) {
        size_t at = base + n;
        int fresh = e->batch.fresh[at];
        if (fresh == KNOWN) continue;
        const uint64_t *key = m->keys + at * K;
        store_put(&e->store, index, key, (uint32_t)(k->first + m->source[at]),
                  kx_model.rule_number[m->rule[at]], K);
        if (e->with_edges) {
            uint64_t hash = store_hash(key, K);
            struct shard *x = &e->store.shard[store_shard_of(&e->store, hash)];
            x->index[shard_slot(&e->store, x, key, hash, K, K)] = (uint32_t)index;
        }
        me->tally.full += weight_of(&e->parts, key);
        judge(e, me, key, m->rule[at], fresh, index, K);
        index++;
    }
}

static void number(void *context, uint32_t worker)
{
    struct kx_engine *e = context;
#define CALL(K, S) number_block(e, worker, n, K)
    for (uint32_t n; (n = next_ticket(e)) < e->batch.used;) BY_WORDS(e, CALL)
#undef CALL
}

INLINE uint32_t index_of(const struct kx_engine *e, const uint64_t *key, const uint32_t K)
{
    uint64_t hash = store_hash(key, K);
    const struct shard *x = &e->store.shard[store_shard_of(&e->store, hash)];
    return x->index[shard_slot(&e->store, x, key, hash, K, K)];
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
