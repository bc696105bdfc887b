/* Successors of many packed states in one call, for a search that keeps its states elsewhere. Part
 * of engine.c's unit: it is compiled behind it.
 *
 * A state is known by a fingerprint of 128 bits. Up to two words the fingerprint is a bijection of
 * them, so that different states have different ones. */


/* ---- fingerprints: MurmurHash3, x64, 128 bits ---- */

static uint64_t turned(uint64_t x, uint32_t bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t finished(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static void fingerprint(const uint64_t *state, int64_t *high, int64_t *low)
{
    const uint64_t first = UINT64_C(0x87c37b91114253d5), second = UINT64_C(0x4cf5ad432745937f);
    uint64_t a = 0, b = 0;
    for (uint32_t w = 0; w < KX_WORDS; w += 2) {
        a ^= turned(state[w] * first, 31) * second;
        a = (turned(a, 27) + b) * 5 + 0x52dce729;
        if (w + 1 < KX_WORDS) b ^= turned(state[w + 1] * second, 33) * first;
        b = (turned(b, 31) + a) * 5 + 0x38495ab5;
    }
    a ^= 8 * KX_WORDS, b ^= 8 * KX_WORDS;
    a += b, b += a;
    a = finished(a), b = finished(b);
    a += b, b += a;
    *high = (int64_t)a, *low = (int64_t)b;
}

/* ---- rows ---- */

/* The slot of a successor that these rows have already, or the free one where it belongs. */
static uint32_t *row_slot(const struct kx_rows *out, int64_t high, int64_t low)
{
    uint32_t *slot = out->slots + ((uint64_t)low & out->slot_mask);
    for (; *slot; slot = slot < out->slots + out->slot_mask ? slot + 1 : out->slots)
        if (out->high[*slot - 1] == high && out->low[*slot - 1] == low) break;
    return slot;
}

/* Whether a check is true. */
static int is_true(const struct kx_check *check, const uint64_t *state, const int64_t *inputs)
{
    for (uint32_t n = 0; n < check->locals; n++)
        if (!check->local[n].holds(state, inputs)) return 0;
    for (uint32_t n = 0; n < check->factors; n++)
        if (!check->factor[n].guard(state, inputs)) return 0;
    return 1;
}

/* By check the least fingerprint of what is worth a note: it does not depend on the order. */
static void note_checks(struct kx_rows *out, const uint64_t *state, const int64_t *inputs,
                        int64_t high, int64_t low)
{
    for (uint32_t c = 0; c < kx_model.checks; c++) {
        if (out->noted[c] == KX_CLOSED) continue;
        if (is_true(kx_model.check[c], state, inputs) != kx_model.wanted[c]) continue;
        int64_t *least = out->first + 2 * c;
        if (out->noted[c] && (least[0] < high || (least[0] == high && least[1] <= low))) continue;
        out->noted[c] = KX_NOTED;
        least[0] = high, least[1] = low;
    }
}

/* One successor: a row of its own, or a smaller parent in the row that it has. */
static void put_row(struct kx_rows *out, const uint64_t *state, const int64_t *inputs,
                    int64_t parent)
{
    int64_t high, low;
    fingerprint(state, &high, &low);
    uint32_t *slot = row_slot(out, high, low);
    if (*slot) {
        if (parent < out->parent[*slot - 1]) out->parent[*slot - 1] = parent;
        return;
    }
    out->high[out->rows] = high;
    out->low[out->rows] = low;
    out->parent[out->rows] = parent;
    *slot = (uint32_t)++out->rows;
    note_checks(out, state, inputs, high, low);
}

uint64_t kx_expand(const int64_t *inputs, const uint64_t *states, uint64_t count,
                   struct kx_rows *out)
{
    uint64_t n = 0;
    out->rows = 0;
    memset(out->slots, 0, (out->slot_mask + 1) * sizeof *out->slots);
    for (; n < count && out->rows + kx_model.rules <= out->room; n++) {
        const uint64_t *state = states + n * KX_WORDS;
        uint32_t leaving = 0;
        int64_t high, low;
        fingerprint(state, &high, &low);
        for (uint32_t r = 0; r < kx_model.rules; r++) {
            uint64_t *next = out->words + out->rows * KX_WORDS;
            int outcome = kx_model.rule[r]->step(state, next, inputs);
            if (!outcome) continue;
            if (outcome == 2) {
                out->broken = kx_model.rule_number[r];
                out->high[out->rows] = high, out->low[out->rows] = low;
                return n;
            }
            leaving++;
            out->firings[kx_model.rule_number[r]]++;
            put_row(out, next, inputs, high);
        }
        out->transitions += leaving;
        out->deadlocks += !leaving;
    }
    return n;
}

void kx_look_at(const int64_t *inputs, const uint64_t *state, struct kx_rows *out)
{
    fingerprint(state, out->high, out->low);
    note_checks(out, state, inputs, *out->high, *out->low);
}
