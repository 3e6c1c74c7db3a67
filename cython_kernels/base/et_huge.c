/* See et_huge.h. */
#include "et_huge.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { HUGE_PAGE = 2 << 20 };

/* Ask for one mapping; returns its bytes in whole huge pages. */
static size_t ask(unsigned long begin, unsigned long end)
{
    uintptr_t first = (begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, last = end / HUGE_PAGE * HUGE_PAGE;
    if (last <= first || madvise((void *)first, last - first, MADV_HUGEPAGE))
        return 0;
    /* Only whole pages that are in use: an untouched range stays untouched. */
    madvise((void *)first, last - first, MADV_COLLAPSE);
    return last - first;
}

size_t et_use_huge_pages(size_t least)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    char *line = NULL;
    size_t size = 0, asked = 0;
    unsigned long begin = 0, end = 0;
    while (maps && getline(&line, &size, maps) > 0) {
        unsigned long from, to, inode;
        char access[8];
        int at = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %n", &from, &to, access, &inode, &at) == 4 && at > 0) {
            /* Named mappings are files, stacks and the like; the heap grows and shrinks. */
            bool plain = !strcmp(access, "rw-p") && !inode && (line[at] == '\0' || line[at] == '\n');
            begin = from;
            end = plain && to - from >= least ? to : from;
        } else if (!strncmp(line, "VmFlags:", 8) && end > begin) {
            /* The last line of a mapping; nh: small pages were asked for. */
            if (!strstr(line, " nh"))
                asked += ask(begin, end);
            end = begin;
        }
    }
    if (maps)
        fclose(maps);
    free(line);
    return asked;
}
