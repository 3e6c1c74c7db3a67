#include "et_vocab.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"

#define TOKENS_KEY "tokenizer.ggml.tokens"
#define MERGES_KEY "tokenizer.ggml.merges"
#define MAX_ENTRIES (1 << 23)
#define NONE INT32_MAX

/* Two neighbouring ids -> the rank of their merge and its id. Open addressing; rank NONE is a free slot. */
typedef struct {
    int32_t left, right, rank, id;
} merge;

struct et_vocab {
    int32_t tokens;
    int32_t bytes[256]; /* id of every single byte */
    merge *merges;
    size_t mask;
};

/* --- loading ------------------------------------------------------------------------------------------ */

typedef struct {
    const char **text; /* by slot, NULL: free */
    int32_t *id;
    size_t mask;
} names;

static uint64_t hash_text(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return h ^ (h >> 29);
}

static uint64_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

static size_t table_size(size_t entries)
{
    size_t size = 64;
    while (size < 2 * entries)
        size *= 2;
    return size;
}

static int32_t find_name(const names *t, const char *s, size_t n)
{
    for (size_t i = hash_text(s, n) & t->mask; t->text[i]; i = (i + 1) & t->mask)
        if (!strncmp(t->text[i], s, n) && !t->text[i][n])
            return t->id[i];
    return -1;
}

static bool add_name(names *t, const char *s, int32_t id)
{
    size_t n = strlen(s), i = hash_text(s, n) & t->mask;
    for (; t->text[i]; i = (i + 1) & t->mask)
        if (!strcmp(t->text[i], s))
            return false;
    t->text[i] = s;
    t->id[i] = id;
    return true;
}

static const merge *find_merge(const et_vocab *v, int32_t left, int32_t right)
{
    for (size_t i = hash_pair(left, right) & v->mask; v->merges[i].rank != NONE; i = (i + 1) & v->mask)
        if (v->merges[i].left == left && v->merges[i].right == right)
            return &v->merges[i];
    return NULL;
}

static void add_merge(et_vocab *v, merge m)
{
    /* A pair that is listed twice keeps its first rank. */
    if (find_merge(v, m.left, m.right))
        return;
    size_t i = hash_pair(m.left, m.right) & v->mask;
    while (v->merges[i].rank != NONE)
        i = (i + 1) & v->mask;
    v->merges[i] = m;
}

/* The character that stands for a byte: printable ones for themselves, the others from U+0100 on. */
static size_t byte_character(int byte, char out[4])
{
    int code = byte;
    if (!((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)) {
        code = 256;
        for (int b = 0; b < byte; b++)
            code += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    }
    if (code < 128) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

static int refuse(char *message, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, size, format, args);
    va_end(args);
    return ET_E_ARG;
}

/* Index of a key that holds an array of strings, its length in *n; -1 when there is none. */
static int64_t string_array(const struct gguf_context *g, const char *key, size_t *n)
{
    int64_t at = gguf_find_key(g, key);
    if (at < 0 || gguf_get_kv_type(g, at) != GGUF_TYPE_ARRAY || gguf_get_arr_type(g, at) != GGUF_TYPE_STRING)
        return -1;
    *n = gguf_get_arr_n(g, at);
    return at;
}

static int read_tokens(et_vocab *v, const struct gguf_context *g, names *t, char *message, size_t size)
{
    size_t n = 0;
    int64_t at = string_array(g, TOKENS_KEY, &n);
    if (at < 0 || n == 0 || n > MAX_ENTRIES)
        return refuse(message, size, "%s is not a list of 1 to %d strings", TOKENS_KEY, MAX_ENTRIES);
    t->mask = table_size(n) - 1;
    t->text = calloc(t->mask + 1, sizeof *t->text);
    t->id = calloc(t->mask + 1, sizeof *t->id);
    if (!t->text || !t->id)
        return ET_E_MEMORY;
    v->tokens = (int32_t)n;
    for (size_t i = 0; i < n; i++)
        if (!add_name(t, gguf_get_arr_str(g, at, i), (int32_t)i))
            return refuse(message, size, "%s has token %zu twice", TOKENS_KEY, i);
    for (int b = 0; b < 256; b++) {
        char character[4];
        v->bytes[b] = find_name(t, character, byte_character(b, character));
        if (v->bytes[b] < 0)
            return refuse(message, size, "%s has no token for byte %d", TOKENS_KEY, b);
    }
    return ET_OK;
}

static int read_merges(et_vocab *v, const struct gguf_context *g, const names *t, char *message, size_t size)
{
    size_t n = 0;
    int64_t at = string_array(g, MERGES_KEY, &n);
    if (at < 0 || n > MAX_ENTRIES)
        return refuse(message, size, "%s is not a list of up to %d strings", MERGES_KEY, MAX_ENTRIES);
    v->mask = table_size(n) - 1;
    v->merges = malloc((v->mask + 1) * sizeof *v->merges);
    if (!v->merges)
        return ET_E_MEMORY;
    for (size_t i = 0; i <= v->mask; i++)
        v->merges[i].rank = NONE;
    for (size_t i = 0; i < n; i++) {
        const char *left = gguf_get_arr_str(g, at, i), *blank = strchr(left, ' ');
        char joined[1024];
        size_t length = strlen(left);
        if (!blank || length >= sizeof joined)
            return refuse(message, size, "%s: merge %zu is not two tokens with a blank between", MERGES_KEY, i);
        size_t first = (size_t)(blank - left);
        memcpy(joined, left, first);
        memcpy(joined + first, blank + 1, length - first);
        merge m = {
            .left = find_name(t, left, first),
            .right = find_name(t, blank + 1, length - first - 1),
            .rank = (int32_t)i,
            .id = find_name(t, joined, length - 1),
        };
        if (m.left < 0 || m.right < 0 || m.id < 0)
            return refuse(message, size, "%s: merge %zu (%.60s) names a token that is missing", MERGES_KEY, i, left);
        add_merge(v, m);
    }
    return ET_OK;
}

int et_vocab_load(et_vocab **out, const char *path, char *message, size_t size)
{
    names t = {0};
    int result = ET_E_MEMORY;
    et_vocab *v = calloc(1, sizeof *v);
    struct gguf_context *g = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true, .ctx = NULL});
    if (!g) {
        result = refuse(message, size, "it is not a GGUF file");
    } else if (v) {
        result = read_tokens(v, g, &t, message, size);
        if (result == ET_OK)
            result = read_merges(v, g, &t, message, size);
    }
    free(t.text);
    free(t.id);
    if (g)
        gguf_free(g);
    if (result != ET_OK) {
        et_vocab_free(v);
        return result;
    }
    *out = v;
    return ET_OK;
}

void et_vocab_free(et_vocab *v)
{
    if (v)
        free(v->merges);
    free(v);
}

int et_vocab_tokens(const et_vocab *v)
{
    return v->tokens;
}

/* --- encoding ----------------------------------------------------------------------------------------- */

/* A merge that was possible when it was queued: the symbols at `at` and its next one were (left, right). */
typedef struct {
    int32_t rank, at, left, right, id;
} candidate;

typedef struct {
    int32_t id, previous, next; /* next of the last: -1; id of a merged-away symbol: -1 */
} symbol;

static bool before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(candidate *heap, size_t *n, candidate c)
{
    size_t i = (*n)++;
    for (; i && before(&c, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

static candidate heap_pop(candidate *heap, size_t *n)
{
    candidate top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

static void offer(const et_vocab *v, const symbol *s, int32_t at, candidate *heap, size_t *n)
{
    if (at < 0 || s[at].next < 0)
        return;
    const merge *m = find_merge(v, s[at].id, s[s[at].next].id);
    if (m)
        heap_push(heap, n, (candidate){m->rank, at, m->left, m->right, m->id});
}

int64_t et_vocab_encode(const et_vocab *v, const uint8_t *text, int32_t n, int32_t *ids)
{
    if (n <= 0)
        return 0;
    /* Each merge removes a symbol and offers at most two candidates: 3n bounds what is ever queued. */
    symbol *s = malloc((size_t)n * sizeof *s);
    candidate *heap = malloc(3 * (size_t)n * sizeof *heap);
    if (!s || !heap) {
        free(s);
        free(heap);
        return ET_E_MEMORY;
    }
    size_t queued = 0;
    for (int32_t i = 0; i < n; i++)
        s[i] = (symbol){v->bytes[text[i]], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i < n; i++)
        offer(v, s, i, heap, &queued);
    while (queued) {
        candidate c = heap_pop(heap, &queued);
        symbol *left = &s[c.at];
        if (left->id != c.left || left->next < 0 || s[left->next].id != c.right)
            continue; /* one of the two has been merged since */
        symbol *right = &s[left->next];
        left->id = c.id;
        left->next = right->next;
        if (right->next >= 0)
            s[right->next].previous = c.at;
        right->id = -1;
        offer(v, s, left->previous, heap, &queued);
        offer(v, s, c.at, heap, &queued);
    }
    int64_t count = 0;
    for (int32_t i = 0; i >= 0; i = s[i].next)
        ids[count++] = s[i].id;
    free(s);
    free(heap);
    return count;
}
