/* A ring of entries of one size between one thread that writes and one that reads, without locks. */
#ifndef ET_RING_H
#define ET_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    unsigned char *data;
    size_t entry;                        /* bytes of an entry */
    size_t capacity;                     /* entries, a power of two */
    _Alignas(64) _Atomic uint64_t head;  /* entries ever written; the writer alone stores it */
    _Alignas(64) _Atomic uint64_t tail;  /* entries ever read; the reader alone stores it */
} et_ring;

/* Memory for at least `capacity` entries. ET_OK, ET_E_ARG (a size of 0, or above 1 GiB) or ET_E_MEMORY. */
int et_ring_init(et_ring *r, size_t entry, size_t capacity);
void et_ring_free(et_ring *r);
/* Entries that can be read, and entries that can be written. Either side may ask. */
size_t et_ring_used(const et_ring *r);
size_t et_ring_space(const et_ring *r);
/* Copy up to n entries in, or out; the number copied. */
size_t et_ring_write(et_ring *r, const void *src, size_t n);
size_t et_ring_read(et_ring *r, void *dst, size_t n);
/* Reader: copy up to n entries and leave them in the ring; or drop up to n entries. The number of them. */
size_t et_ring_peek(const et_ring *r, void *dst, size_t n);
size_t et_ring_skip(et_ring *r, size_t n);

#endif
