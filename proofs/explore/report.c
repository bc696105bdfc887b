/* What the engine tells, and how it goes on where an earlier search stopped. Part of engine.c's
 * unit: it is compiled behind it. */

static uint64_t get(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void kx_counts(const struct kx_engine *e, uint64_t *counts)
{
    counts[KX_DISTINCT] = get(&e->store.count);
    counts[KX_FULL] = get(&e->total.full);
    counts[KX_TRANSITIONS] = get(&e->total.transitions);
    counts[KX_DEADLOCKS] = get(&e->total.deadlocks);
    counts[KX_DEADLOCK] = get(&e->total.deadlock);
    counts[KX_LEVEL_FIRST] = get(&e->level_first);
    counts[KX_LEVEL_END] = get(&e->level_end);
    counts[KX_CURSOR] = get(&e->cursor);
    counts[KX_EDGES] = get(&e->edges.count);
    counts[KX_BROKEN] = get(&e->broken);
}

void kx_firings(const struct kx_engine *e, uint64_t *firings)
{
    for (uint32_t w = 0; w < e->workers; w++)
        for (uint32_t r = 0; r < kx_model.rules; r++)
            firings[kx_model.rule_number[r]] += e->worker[w].firings[r];
}

void kx_first(const struct kx_engine *e, uint64_t *first)
{
    memcpy(first, e->first, kx_model.checks * sizeof *first);
}

void kx_states(const struct kx_engine *e, uint64_t first, uint64_t count, uint64_t *words)
{
    for (uint64_t i = 0; i < count; i++)
        decode(&e->parts, store_key(&e->store, first + i, e->parts.key_words),
               words + i * KX_WORDS);
}

void kx_origins(const struct kx_engine *e, uint64_t first, uint64_t count, uint32_t *parents,
                uint16_t *rules)
{
    for (uint64_t i = 0; i < count; i++) {
        parents[i] = store_parent(&e->store, first + i);
        rules[i] = store_rule(&e->store, first + i);
    }
}

void kx_release(struct kx_engine *e, uint64_t count)
{
    store_release(&e->store, count);
}

void kx_edges(const struct kx_engine *e, uint64_t first, uint64_t count, uint32_t *sources,
              uint16_t *rules, uint32_t *targets)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t chunk = (first + i) >> EDGE_BITS, at = (first + i) & (EDGE_CHUNK - 1);
        sources[i] = e->edges.sources[chunk][at];
        rules[i] = e->edges.rules[chunk][at];
        targets[i] = e->edges.targets[chunk][at];
    }
}

/* The successor of a stored state by the model's r-th rule instance. */
static enum outcome step_again(struct kx_engine *e, uint64_t source, uint32_t r, uint64_t *next)
{
    const struct steps *steps = &e->steps;
    uint32_t K = e->parts.key_words;
    const uint64_t *key = store_key(&e->store, source, K);
    if (!(enabled_word(&e->parts, steps, key, r / 64) >> r % 64 & 1)) return IDLE;
    EACH_WORD(v) next[v] = (key[v] & steps->keep[r * K + v]) | steps->set[r * K + v];
    return complete(&e->parts, steps, &e->worker[0], r, key, next, K);
}

static int restore_state(struct kx_engine *e, uint32_t parent, uint32_t r)
{
    uint64_t key[MAX_KEY_WORDS];
    enum outcome outcome;
    while ((outcome = step_again(e, parent, r, key)) == CROWDED) {
        e->worker[0].crowded = 0;
        if (!make_room(e)) return KX_NO_MEMORY;
    }
    if (outcome != FIRES) return KX_NO_SEARCH;
    return add_key(e, key, parent, kx_model.rule_number[r], e->parts.key_words);
}

static int restore(struct kx_engine *e, uint64_t count, const uint32_t *parents,
                   const uint16_t *rules)
{
    const uint32_t *place = e->independence.place;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t parent = parents[i], before = store_parent(&e->store, e->store.count - 1);
        if (parent < before || parent >= e->store.count || place[rules[i]] == NO_RULE)
            return KX_NO_SEARCH;
        int status = restore_state(e, parents[i], place[rules[i]]);
        if (status) return status;
        store_forget(&e->store, parent);
    }
    return KX_OK;
}

int kx_restore(struct kx_engine *e, uint64_t count, const uint32_t *parents,
               const uint16_t *rules)
{
    int status = restore(e, count, parents, rules);
    renew_memos(e, &e->worker[0]);
    return status;
}

void kx_resume(struct kx_engine *e, const uint64_t *counts, const uint64_t *firings,
               const uint64_t *first)
{
    e->total = (struct tally){counts[KX_FULL], counts[KX_TRANSITIONS], counts[KX_DEADLOCKS],
                              counts[KX_DEADLOCK]};
    e->level_first = e->cursor = counts[KX_LEVEL_FIRST];
    e->level_end = counts[KX_LEVEL_END];
    for (uint32_t r = 0; r < kx_model.rules; r++)
        e->worker[0].firings[r] = firings[kx_model.rule_number[r]];
    for (uint32_t c = 0; c < kx_model.checks; c++) e->first[c] = e->worker[0].first[c] = first[c];
    merge(e);
}

uint32_t kx_successors(const uint64_t *state, const int64_t *inputs, uint64_t *words,
                       uint16_t *rules)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < kx_model.rules; r++) {
        int outcome = kx_model.rule[r]->step(state, words + (size_t)n * KX_WORDS, inputs);
        if (!outcome) continue;
        if (outcome == 2) {
            rules[0] = kx_model.rule_number[r];
            return UINT32_MAX;
        }
        rules[n++] = kx_model.rule_number[r];
    }
    return n;
}
