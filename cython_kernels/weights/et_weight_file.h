/* Weights in files: a block of memory that was computed once (weights rearranged for this CPU) is written to a file,
 * and the file is mapped over the block. The kernel can then drop the block's pages and read them again from the file,
 * which it cannot do with anonymous memory. */
#ifndef ET_WEIGHT_FILE_H
#define ET_WEIGHT_FILE_H

#include <stddef.h>

/* Map the file `path` over the whole pages of `block`. The block's content stays the same, and nobody may write to the
 * block meanwhile. A file that is missing or holds other bytes is written first, under another name, and renamed.
 * Returns the bytes of the block that the file backs now, or 0 when the block stays as it is: with the reason in err,
 * or with an empty err for a block that is no anonymous memory in the first place. */
size_t et_weight_file_map(const char *path, void *block, size_t bytes, char *err, size_t err_size);
/* Turn a mapped block into anonymous memory of any content. Call this before the block is freed, because its allocator
 * may hand the block out again and the new owner must not depend on the file. */
void et_weight_file_unmap(void *block, size_t bytes);

/* Drop the content of an anonymous block's whole pages: they read as zero and take no memory until they are written to.
 * Small pages are used from then on, because a large one would take memory for parts that nobody writes. */
void et_empty_pages(void *block, size_t bytes);

/* Drop this process's pages of a file that it maps. A page that is needed again is read from the file. */
void et_drop_file_pages(const char *path);

#endif
