/* What the files of a delivery share; private to delivery/.
 *
 * Locks: a delivery's is taken before the store's. Playout takes neither. */
#ifndef ET_DELIVERY_PARTS_H
#define ET_DELIVERY_PARTS_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "et_delivery.h"
#include "pipe/et_pipe.h"

/* Bytes of a slot of the overflow file, and most that a writer has in its hands. */
enum { ET_SLOT = 32768, ET_SLOT_FRAMES = ET_SLOT / 2 };

/* Ends a blocked system call of a writer; nothing else in the process uses it. */
#define ET_KICK (SIGRTMIN + 3)

struct et_store {
    pthread_mutex_t lock;      /* for what follows, and the deliveries' refs and links; never held over a system call
                                  that can wait */
    int refs;
    bool stopping, threaded;
    et_delivery *first;        /* of the deliveries */
    uint64_t turns;            /* who was helped when */
    int slots, used, free;     /* in all; taken; first free one, -1: none */
    int *next;                 /* of each slot: the one after it, in the free list or a delivery's queue */
    int bell_fd, wake_fd;
    char *folder;

    /* The thread's own. */
    int fd;                    /* overflow file, -1 before */
    bool grown;
    int64_t retry_ns;          /* not before then after a failure */
    _Atomic int failed;
    int16_t piece[ET_SLOT_FRAMES];
};

struct et_delivery {
    et_sink base;
    et_store *store;
    int refs;
    et_delivery *next;         /* in the store's list */
    uint64_t turn;
    bool spills;               /* the store's thread: above the mark, and not yet far below it */

    et_ring ring;              /* frames in this machine's byte order */
    int wake_fd, room_fd;      /* of the writer; of playout */
    _Atomic int waits;         /* playout sleeps for room */
    _Atomic int64_t full_since;
    _Atomic uint64_t skip, frames;
    _Atomic int ended, cancelled, over, error;

    pthread_mutex_t lock;      /* who takes from the ring: the writer, or the store's thread while `spilling` */
    bool spilling;
    int first, last;           /* slots, oldest and newest; -1: none */
    bool alive;                /* the writer may be sent a signal */
    pthread_t thread;

    /* The writer's own. */
    et_delivery_config config;
    int kind;
    bool patchable;            /* a regular file whose header can be written again */
    off_t start;               /* of the header in the file */
    _Atomic uint64_t bytes;
    _Atomic int64_t stuck_since;
    unsigned char piece[ET_SLOT];
};

/* et_spool_sink.c: make the delivery a sink. */
void et_spool_sink(et_delivery *d);

/* et_spool.c: the spool itself, and the writer's end of it. */
int et_spool_init(et_delivery *d);
void et_spool_free(et_delivery *d);
/* Writer: the next bytes, s16le, into `piece`. Their number; 0: none; -EAGAIN: none before the store's thread is done;
 * or -ET_DELIVERY_LOST. */
ssize_t et_spool_take(et_delivery *d);
/* Throw away what is in slots; with the delivery's lock held. */
void et_spool_forget(et_delivery *d);
/* After something was taken from the ring. */
void et_spool_made_room(et_delivery *d);

/* et_store.c */
int et_store_take_slot(et_store *s);   /* -1: none is free */
void et_store_give_slot(et_store *s, int slot);
void et_store_unref(et_store *s);
/* A detached thread that heeds no signal but ET_KICK. 0 or negative errno. */
int et_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);
/* First call of such a thread: it goes after the loop and playout in a daemon that was started with a higher priority
 * (nice below 0). */
void et_thread_ordinary(void);
/* The file that a taken slot is in. */
static inline int et_store_file(const et_store *s) { return s->fd; }

/* et_delivery_ref.c */
void et_delivery_free(et_delivery *d);

/* et_delivery_fd.c: the descriptor. 0 or negative errno; -ECANCELED when that was asked for. */
int et_fd_begin(et_delivery *d);
int et_fd_put(et_delivery *d, const unsigned char *src, size_t n, bool samples);
/* Sleep until there is something to write or the reader has gone. */
int et_fd_wait(et_delivery *d);
/* Make the header right and close. */
void et_fd_end(et_delivery *d);

#endif
