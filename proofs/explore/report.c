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

void kx_states(const struct kx_engine *e, uint64_t first, uint64_t count, uint64_t *words,
               uint32_t *parents, uint16_t *rules)
{
    for (uint64_t i = 0; i < count; i++) {
        decode(&e->parts, store_key(&e->store, first + i, e->parts.key_words),
               words + i * KX_WORDS);
        parents[i] = store_parent(&e->store, first + i);
        rules[i] = store_rule(&e->store, first + i);
    }
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

int kx_restore(struct kx_engine *e, uint64_t count, const uint64_t *words,
               const uint32_t *parents, const uint16_t *rules)
{
    for (uint64_t i = 0; i < count; i++) {
        int status = add_state(e, words + i * KX_WORDS, parents[i], rules[i]);
        if (status) return status;
    }
    return KX_OK;
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
