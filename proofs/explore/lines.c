/* Draws the lines of the store (store.h). Part of engine.c's unit: it is compiled before it.
 *
 * Which bits of which part states differ in alone is a property of the model that the states found
 * tell best: a few are asked which of their neighbours were found too. Lines are drawn if they hold
 * enough states, so that a set never becomes larger by them. */

#ifndef FIRST_LOOK /* states */
#define FIRST_LOOK ((uint64_t)1 << 15)
#endif
#define NEXT_LOOK 4
#define ASKED ((uint64_t)1 << 10) /* states */
#define WORTH_A_LINE 2            /* states a line */

/* By bit of a part: of how many states that are asked the neighbour in this bit was found. */
struct neighbours {
    uint32_t found[MAX_FIELD];
};

/* Asks one state for its neighbours in each bit of a part. */
static void ask(const struct store *s, const struct part *p, const uint64_t *key,
                struct neighbours *near)
{
    uint64_t other[MAX_KEY_WORDS];
    store_copy(other, key, s->key_words);
    for (uint32_t bit = 0; bit < bits_for(p->count); bit++) {
        other[p->at] = key[p->at] ^ (uint64_t)1 << (p->from + bit);
        near->found[bit] += (uint32_t)store_has(s, other);
    }
}

/* The states that are asked stand at equal distances in the set. */
static void ask_some(const struct kx_engine *e, struct neighbours *near)
{
    const struct store *s = &e->store;
    for (uint32_t n = 0; n < store_shards(s); n++) {
        const struct shard *x = &s->shard[n];
        uint64_t step = x->room * store_shards(s) / (2 * ASKED) + 1;
        for (uint64_t at = 0; at < x->room; at += step) {
            const uint64_t *key = x->slots + at * s->slot_words;
            if (!key[s->key_words - 1]) continue;
            for (uint32_t part = 0; part < e->parts.count; part++)
                ask(s, &e->parts.part[part], key, &near[part]);
        }
    }
}

/* The neighbouring bits of one part in which most neighbours were found. */
static struct line_field best_line(struct kx_engine *e, const struct neighbours *near)
{
    uint64_t most = 0;
    struct line_field best = NO_LINE;
    for (uint32_t part = 0; part < e->parts.count; part++) {
        const struct part *p = &e->parts.part[part];
        uint32_t width = (uint32_t)__builtin_popcountll(p->field);
        for (uint32_t shift = 0; shift == 0 || shift + LINE_BITS <= width; shift++) {
            uint64_t found = 0;
            for (uint32_t bit = shift; bit < shift + LINE_BITS && bit < width; bit++)
                found += near[part].found[bit];
            if (found <= most) continue;
            most = found;
            e->line_part = part, e->line_shift = shift;
            uint64_t ones = ((uint64_t)1 << LINE_BITS) - 1;
            best = (struct line_field){p->at, p->from + shift, ones & p->field};
        }
    }
    return best;
}

/* The set with lines, in `to`. 0: no memory. */
static int lined(struct kx_engine *e, struct line_field line, struct store *to)
{
    const struct store *s = &e->store;
    if (!store_open(to, s->key_words, line, e->workers, 0)) return 0;
    for (uint32_t n = 0; n < store_shards(s); n++)
        if (!transcode_shard(e, &e->parts, &s->shard[n], to)) return 0;
    return 1;
}

static uint64_t lines_of(const struct store *s)
{
    uint64_t count = 0;
    for (uint32_t n = 0; n < store_shards(s); n++) count += s->shard[n].count;
    return count;
}

/* Draws lines where they hold enough states; else they are looked for again much later. 0: no
 * memory. */
static int draw_lines(struct kx_engine *e)
{
    struct store *s = &e->store, *to = calloc(1, sizeof *to);
    struct neighbours near[KX_MAX_PARTS] = {0};
    ask_some(e, near);
    struct line_field line = best_line(e, near);
    int done = to && (!line.ones || lined(e, line, to)), worth = 0;
    if (done && line.ones) worth = lines_of(to) * WORTH_A_LINE <= lines_of(s);
    if (worth)
        for (uint32_t n = 0; n < store_shards(s); n++) shard_close(&s->shard[n], s->slot_words);
    e->lines_at = worth ? UINT64_MAX : NEXT_LOOK * e->lines_at;
    if (worth)
        take_set(s, to);
    else if (to && line.ones)
        store_close(to);
    free(to);
    return done;
}
