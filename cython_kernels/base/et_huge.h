/* Large pages for weights, because every step reads all weights and page walks took a fifth of its time. */
#ifndef ET_HUGE_H
#define ET_HUGE_H

#include <stddef.h>

/* Ask for huge pages behind this process's private anonymous mappings of at least `least` bytes, at once where the
 * kernel can (Linux 6.1), in the background otherwise. Bytes of the mappings that were asked for; 0 where the
 * kernel has no such pages. The mappings' contents and addresses stay. */
size_t et_use_huge_pages(size_t least);

#endif
