/* Large pages for weights: they are streamed from memory once a step, and page walks cost a fifth of the time. */
#ifndef ET_HUGE_H
#define ET_HUGE_H

#include <stddef.h>

/* Ask for huge pages behind this process's private anonymous mappings of at least `least` bytes, at once where the
 * kernel can (Linux 6.1), in the background otherwise. Bytes of the mappings that were asked for; 0 where the
 * kernel has no such pages. Contents and addresses stay. */
size_t et_use_huge_pages(size_t least);

#endif
