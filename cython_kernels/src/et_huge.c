/* See et_huge.h. */
#include "et_huge.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { HUGE_PAGE = 2 << 20 };

size_t et_use_huge_pages(size_t least)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0, asked = 0;
    while (maps && getline(&line, &size, maps) > 0) {
        unsigned long begin, end, inode;
        char access[8];
        int at = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %n", &begin, &end, access, &inode, &at) < 4 || at == 0)
            continue;
        /* Named mappings are files, stacks and the like; the heap grows and shrinks. */
        if (strcmp(access, "rw-p") || inode || (line[at] != '\0' && line[at] != '\n') || end - begin < least)
            continue;
        uintptr_t first = (begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, last = end / HUGE_PAGE * HUGE_PAGE;
        if (last <= first || madvise((void *)first, last - first, MADV_HUGEPAGE))
            continue;
        asked += last - first;
        /* Only whole pages that are in use: an untouched range stays untouched. */
        madvise((void *)first, last - first, MADV_COLLAPSE);
    }
    if (maps)
        fclose(maps);
    free(line);
    return asked;
}
