/* Weights that were rearranged for this CPU, kept in a file that is mapped in their place: pages that the kernel can
 * drop and read again, instead of anonymous memory. */
#ifndef ET_WEIGHT_FILE_H
#define ET_WEIGHT_FILE_H

#include <stddef.h>

/* Map the file `path` over the whole pages of a block that nobody writes to meanwhile; its bytes stay the same. A file
 * with other content, or none, is written first (under another name, then renamed).
 * Returns the bytes that are no longer anonymous; 0 when the block stays as it is, with the reason in err,
 * which is empty for a block that is no anonymous memory in the first place. */
size_t et_weight_file_map(const char *path, void *block, size_t bytes, char *err, size_t err_size);
/* Before a block that was moved is freed: memory again, of any content. Its allocator may use it for something else,
 * and that must not depend on the file. */
void et_weight_file_unmap(void *block, size_t bytes);

/* The whole pages of an anonymous block become zero and take no memory until they are used, which goes by small pages. */
void et_empty_pages(void *block, size_t bytes);

/* Give back the pages of a file that this process maps, but no longer needs (all of them): what is read again comes
 * back by itself. */
void et_drop_file_pages(const char *path);

#endif
