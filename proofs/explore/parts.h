/* States as keys: for each part of a state, which of its values it has.
 *
 * A system has few values of each actor, however many states they make together. So a wide part
 * keeps a list of the values met, each once, and the key holds the number of the part's value; a
 * narrow part stands in the key as it is. Equal states have equal keys and different ones
 * different keys: nothing is lost. A key has the fewest words that hold the numbers; when a part
 * has more values than its field can number, all keys are written again with wider fields.
 *
 * With each value stand the rule instances that the value alone does not forbid, and the checks
 * that it alone does not make false: what is enabled in a state is the intersection over its parts.
 */

#ifndef KX_PARTS_H
#define KX_PARTS_H

#include <pthread.h>
#include <stdlib.h>

#include "model.h"
#include "store.h"

#define FIRST_ROOM 512
#define MAX_FIELD 32
#define NO_VALUE UINT32_MAX

extern const struct kx_model kx_model;

struct conjunct {
    uint32_t number; /* of the rule of the model, or of the check */
    kx_test *holds;
};

/* By value, which of a list of conditions the value does not make false. */
struct allowed {
    uint32_t words, conjuncts;
    struct conjunct *conjunct;
    uint64_t *bits; /* NULL if the part is never tested alone */
};

struct part {
    struct kx_part place;
    uint32_t at, from; /* the field's word in the key and its lowest bit, */
    uint64_t field;    /* and its ones, at bit 0 */
    uint64_t count, room;
    uint64_t *raw;     /* wide: the values' words */
    uint32_t *slots;   /* wide: finds a value; its number + 1 */
    struct allowed rules, checks;
    int crowded;       /* a value was met for which there is no room */
    pthread_mutex_t lock;
};

struct parts {
    uint32_t count, key_words;
    const int64_t *inputs;
    struct part part[KX_MAX_PARTS];
};

static inline int is_wide(const struct part *p)
{
    return p->place.bits == 0;
}

INLINE uint32_t part_number(const struct part *p, const uint64_t *key)
{
    return (uint32_t)(key[p->at] >> p->from & p->field);
}

/* ---- values ---- */

/* Which conditions hold as far as the part `p` of the packed state tells. */
static inline void allow(struct allowed *a, uint64_t value, const uint64_t *state,
                         const int64_t *inputs)
{
    if (!a->bits) return;
    uint64_t *bits = a->bits + value * a->words;
    memset(bits, 0xff, a->words * sizeof *bits);
    for (uint32_t n = 0; n < a->conjuncts; n++) {
        const struct conjunct *c = &a->conjunct[n];
        if (!c->holds(state, inputs)) bits[c->number / 64] &= ~((uint64_t)1 << c->number % 64);
    }
}

/* The slot of a value, or the free one where it belongs; `number` is what the slot says. */
static inline uint64_t value_slot(const struct part *p, const uint64_t *value, uint32_t *number)
{
    uint64_t mask = 2 * p->room - 1, words = p->place.words, h = store_hash(value, p->place.words);
    for (uint64_t at = h & mask;; at = (at + 1) & mask) {
        uint32_t said = __atomic_load_n(p->slots + at, __ATOMIC_ACQUIRE);
        *number = said - 1;
        if (!said || !memcmp(p->raw + (said - 1) * words, value, words * sizeof *value)) return at;
    }
}

/* The number of a value that may be new; NO_VALUE if it is and there is no room. */
static inline uint32_t value_add(const struct parts *all, struct part *p, const uint64_t *state)
{
    const uint64_t *value = state + p->place.word;
    uint32_t number;
    uint64_t at = value_slot(p, value, &number);
    if (number != NO_VALUE) return number;
    if (p->count == p->room || p->count > p->field) {
        p->crowded = 1;
        return NO_VALUE;
    }
    number = (uint32_t)p->count++;
    memcpy(p->raw + (size_t)number * p->place.words, value, p->place.words * sizeof *value);
    allow(&p->rules, number, state, all->inputs);
    allow(&p->checks, number, state, all->inputs);
    __atomic_store_n(p->slots + at, number + 1, __ATOMIC_RELEASE);
    return number;
}

/* The number of a wide part's value; NO_VALUE if it is new and there is no room. Only for a new
 * value a lock is taken: a slot is set once, when its value is complete. */
static inline uint32_t value_number(const struct parts *all, struct part *p, const uint64_t *state)
{
    uint32_t number;
    value_slot(p, state + p->place.word, &number);
    if (number != NO_VALUE) return number;
    pthread_mutex_lock(&p->lock);
    number = value_add(all, p, state);
    pthread_mutex_unlock(&p->lock);
    return number;
}

/* The number of a part in a packed state. */
static inline uint32_t number_of(const struct parts *all, struct part *p, const uint64_t *state)
{
    if (is_wide(p)) return value_number(all, p, state);
    return (uint32_t)(state[p->place.word] >> p->place.shift & p->field);
}

/* A packed state as a key. 0: a part is crowded. */
static inline int encode(struct parts *all, const uint64_t *state, uint64_t *key)
{
    memset(key, 0, all->key_words * sizeof *key);
    key[all->key_words - 1] = OCCUPIED;
    for (uint32_t n = 0; n < all->count; n++) {
        uint32_t number = number_of(all, &all->part[n], state);
        if (number == NO_VALUE) return 0;
        key[all->part[n].at] |= (uint64_t)number << all->part[n].from;
    }
    return 1;
}

static inline void decode(const struct parts *all, const uint64_t *key, uint64_t *state)
{
    memset(state, 0, KX_WORDS * sizeof *state);
    for (uint32_t n = 0; n < all->count; n++) {
        const struct part *p = &all->part[n];
        size_t words = p->place.words, number = part_number(p, key);
        if (is_wide(p))
            memcpy(state + p->place.word, p->raw + number * words, words * sizeof *state);
        else
            state[p->place.word] |= (uint64_t)number << p->place.shift;
    }
}

/* A key in the fields of another layout of the same parts. */
static inline void move_fields(const struct parts *from, const uint64_t *key,
                               const struct parts *to, uint64_t *moved)
{
    memset(moved, 0, to->key_words * sizeof *moved);
    moved[to->key_words - 1] = OCCUPIED;
    for (uint32_t n = 0; n < to->count; n++) {
        uint64_t number = part_number(&from->part[n], key);
        moved[to->part[n].at] |= number << to->part[n].from;
    }
}

/* ---- fields ---- */

static inline uint32_t bits_for(uint64_t count)
{
    return count < 2 ? 1 : 64 - (uint32_t)__builtin_clzll(count - 1);
}

/* Places fields of these widths in as few words as their order allows; returns how many. */
static inline uint32_t lay_fields(struct parts *all, const uint32_t *width)
{
    uint32_t word = 0, used = 0;
    for (uint32_t n = 0; n < all->count; n++) {
        if (used + width[n] > 63) word++, used = 0;
        struct part *p = &all->part[n];
        p->at = word;
        p->from = used;
        p->field = ((uint64_t)1 << width[n]) - 1;
        used += width[n];
    }
    return word + 1;
}

/* Fields for all values known and some to come: one bit more, and all bits that are left. */
static inline void lay_key(struct parts *all)
{
    uint32_t width[KX_MAX_PARTS], wider[KX_MAX_PARTS];
    for (uint32_t n = 0; n < all->count; n++) {
        const struct part *p = &all->part[n];
        width[n] = is_wide(p) ? bits_for(p->count) + 1 : p->place.bits;
    }
    all->key_words = lay_fields(all, width);
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t n = 0; n < all->count; n++) {
            memcpy(wider, width, sizeof width);
            wider[n]++;
            if (!is_wide(&all->part[n]) || wider[n] > MAX_FIELD) continue;
            if (lay_fields(all, wider) > all->key_words) continue;
            width[n]++;
            more = 1;
        }
    }
    lay_fields(all, width);
}

/* ---- room ---- */

static inline void *pages_moved(void *old, size_t size, size_t room)
{
    void *new = pages_take(room);
    if (new && old) memcpy(new, old, size);
    if (new) pages_give(old, size);
    return new;
}

static inline int allowed_grow(struct allowed *a, uint64_t from, uint64_t to)
{
    size_t size = a->words * sizeof *a->bits;
    if (!a->conjuncts) return 1;
    uint64_t *bits = pages_moved(a->bits, from * size, to * size);
    if (bits) a->bits = bits;
    return bits != NULL;
}

/* Twice the room for values. 0: no memory. */
static inline int part_grow(struct part *p)
{
    uint64_t room = p->room ? 2 * p->room : FIRST_ROOM;
    size_t value = p->place.words * sizeof *p->raw;
    uint64_t *raw = pages_moved(p->raw, p->room * value, room * value);
    uint32_t *slots = pages_take(2 * room * sizeof *slots);
    if (raw) p->raw = raw;
    if (!raw || !slots) return 0;
    pages_give(p->slots, 2 * p->room * sizeof *slots);
    p->slots = slots;
    if (!allowed_grow(&p->rules, p->room, room) || !allowed_grow(&p->checks, p->room, room))
        return 0;
    p->room = room;
    for (uint64_t n = 0; n < p->count; n++) {
        uint32_t nobody;
        p->slots[value_slot(p, p->raw + n * p->place.words, &nobody)] = (uint32_t)n + 1;
    }
    return 1;
}

/* All values of a narrow part are known from the beginning. */
static inline int part_fill(struct part *p, const int64_t *inputs)
{
    uint64_t state[KX_WORDS] = {0};
    p->count = p->room = (uint64_t)1 << p->place.bits;
    if (!allowed_grow(&p->rules, 0, p->room) || !allowed_grow(&p->checks, 0, p->room)) return 0;
    for (uint64_t value = 0; value < p->count; value++) {
        state[p->place.word] = value << p->place.shift;
        allow(&p->rules, value, state, inputs);
        allow(&p->checks, value, state, inputs);
    }
    return 1;
}

/* Takes what the conditions say of this part. 0: no memory. */
static inline int allowed_take(struct allowed *a, uint32_t number, uint32_t locals,
                               const struct kx_local *local, uint32_t part)
{
    for (uint32_t n = 0; n < locals; n++) {
        if (local[n].part != part) continue;
        void *more = realloc(a->conjunct, (a->conjuncts + 1) * sizeof *a->conjunct);
        if (!more) return 0;
        a->conjunct = more;
        a->conjunct[a->conjuncts++] = (struct conjunct){number, local[n].holds};
    }
    return 1;
}

static inline int part_open(struct part *p, uint32_t number, const int64_t *inputs)
{
    p->place = kx_model.part[number];
    p->rules.words = (kx_model.rules + 63) / 64;
    p->checks.words = (kx_model.checks + 63) / 64;
    pthread_mutex_init(&p->lock, NULL);
    for (uint32_t r = 0; r < kx_model.rules; r++) {
        const struct kx_rule *x = kx_model.rule[r];
        if (!allowed_take(&p->rules, r, x->locals, x->local, number)) return 0;
    }
    for (uint32_t c = 0; c < kx_model.checks; c++) {
        const struct kx_check *x = kx_model.check[c];
        if (!allowed_take(&p->checks, c, x->locals, x->local, number)) return 0;
    }
    return is_wide(p) ? part_grow(p) : part_fill(p, inputs);
}

static inline int parts_open(struct parts *all, const int64_t *inputs)
{
    all->count = kx_model.parts;
    all->inputs = inputs;
    for (uint32_t n = 0; n < all->count; n++)
        if (!part_open(&all->part[n], n, inputs)) return 0;
    lay_key(all);
    return 1;
}

static inline void allowed_close(struct allowed *a, uint64_t room)
{
    pages_give(a->bits, room * a->words * sizeof *a->bits);
    free(a->conjunct);
}

static inline void parts_close(struct parts *all)
{
    for (uint32_t n = 0; n < all->count; n++) {
        struct part *p = &all->part[n];
        allowed_close(&p->rules, p->room);
        allowed_close(&p->checks, p->room);
        if (!is_wide(p)) continue;
        pages_give(p->raw, p->room * p->place.words * sizeof *p->raw);
        pages_give(p->slots, 2 * p->room * sizeof *p->slots);
    }
}

#endif
