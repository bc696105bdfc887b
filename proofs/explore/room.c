/* Buffers of a batch, and room for values that were never met before. Part of engine.c's unit: it
 * is compiled before it. */

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
    e->bench = apart(e->workers * sizeof *e->bench);
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
    b->fresh = pages_sparse(room * sizeof *b->fresh);
    b->dealt = pages_sparse(room * K * sizeof *b->dealt);
    b->whose = pages_sparse(room * sizeof *b->whose);
    b->deal = calloc((size_t)b->blocks * (MAX_SHARDS + 2), sizeof *b->deal);
    if (!b->block || !b->fresh || !b->dealt || !b->whose || !b->deal) return 0;
    if (!moves_open(&b->found, room, K)) return 0;
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
    pages_give(b->fresh, room * sizeof *b->fresh);
    pages_give(b->dealt, room * K * sizeof *b->dealt);
    pages_give(b->whose, room * sizeof *b->whose);
    moves_close(&b->found, room, K);
    moves_close(&b->every, room, K);
    free(b->block);
    free(b->deal);
    *b = (struct batch){0};
}

/* ---- room ---- */

INLINE int put_again(struct kx_engine *e, struct store *s, uint64_t index, const uint64_t *key)
{
    uint32_t K = s->key_words, S = s->slot_words;
    uint64_t hash = line_hash(s, key, K, S);
    struct shard *x = &s->shard[store_shard_of(s, hash)];
    if (shard_add(s, x, key, hash, K, S) == NO_ROOM) return 0;
    if (e->with_edges) x->index[shard_slot(s, x, key, hash, K, K)] = (uint32_t)index;
    return 1;
}

/* A segment's keys in the fields of now. */
static int transcode_segment(struct kx_engine *e, const struct parts *old, uint64_t segment)
{
    struct store *s = &e->store;
    uint32_t K = e->parts.key_words;
    uint64_t left = s->count - (segment << SEGMENT_BITS), *from = s->keys[segment];
    uint64_t *keys = pages_take(SEGMENT_STATES * K * sizeof(uint64_t));
    if (!keys) return 0;
    for (uint64_t n = 0; n < left && n < SEGMENT_STATES; n++)
        move_fields(old, from + n * old->key_words, &e->parts, keys + n * K);
    pages_give(from, SEGMENT_STATES * old->key_words * sizeof(uint64_t));
    s->keys[segment] = keys;
    return 1;
}

/* A slot's keys in the fields of now, put into another set. */
static int transcode_slot(struct kx_engine *e, const struct parts *old, const uint64_t *slot,
                          uint32_t index, struct store *to)
{
    const struct store *s = &e->store;
    uint64_t key[MAX_KEY_WORDS], moved[MAX_KEY_WORDS];
    uint64_t members = s->line.ones ? slot[s->key_words] : 1;
    for (; members; members &= members - 1) {
        store_copy(key, slot, s->key_words);
        key[s->line.at] |= (uint64_t)__builtin_ctzll(members) << s->line.from;
        move_fields(old, key, &e->parts, moved);
        if (!put_again(e, to, index, moved)) return 0;
    }
    return 1;
}

/* A shard's keys, likewise; the shard stays. */
static int transcode_shard(struct kx_engine *e, const struct parts *old, const struct shard *from,
                           struct store *to)
{
    for (uint64_t at = 0; at < from->room; at++) {
        const uint64_t *slot = from->slots + at * e->store.slot_words;
        if (!slot[e->store.key_words - 1]) continue;
        if (!transcode_slot(e, old, slot, e->with_edges ? from->index[at] : 0, to)) return 0;
    }
    return 1;
}

/* Where the line that was drawn lies now. */
static struct line_field line_now(const struct kx_engine *e)
{
    const struct part *p = &e->parts.part[e->line_part];
    return (struct line_field){p->at, p->from + e->line_shift, e->store.line.ones};
}

/* Takes the slots of another set, which keeps none. */
static void take_set(struct store *s, struct store *from)
{
    memcpy(s->shard, from->shard, sizeof from->shard);
    memset(from->shard, 0, sizeof from->shard);
    s->key_words = from->key_words;
    s->slot_words = from->slot_words;
    s->line = from->line;
}

/* All keys in the fields of now. */
static int transcode(struct kx_engine *e, const struct parts *old)
{
    struct store *s = &e->store, *to = calloc(1, sizeof *to);
    int done = to && store_open(to, e->parts.key_words, line_now(e), e->workers, e->with_edges);
    for (uint32_t n = 0; done && n < store_shards(s); n++) {
        done = transcode_shard(e, old, &s->shard[n], to);
        shard_close(&s->shard[n], s->slot_words);
    }
    pages_give(s->spare, segment_bytes(s));
    s->spare = NULL;
    for (uint64_t g = s->forgotten; done && g << SEGMENT_BITS < s->count; g++)
        done = transcode_segment(e, old, g);
    if (done) take_set(s, to);
    free(to);
    return done;
}

/* Fields wide enough for the values there are now; nothing that was remembered as a key stays. */
static int lay_out_again(struct kx_engine *e)
{
    struct parts old = e->parts;
    close_batch(e);
    steps_forget(&e->steps, old.key_words);
    lay_key(&e->parts);
    return transcode(e, &old) && steps_lay(&e->steps, &e->parts) &&
           steps_ready(&e->steps, e->parts.key_words) && open_batch(e);
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
        if (!part_grow(p) || !steps_grow(&e->steps, &e->parts, n, room)) return 0;
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
