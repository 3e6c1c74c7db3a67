/* Delivery: the samples of one render on their way into a client's descriptor.
 *
 *   playout thread --append--> spool: memory --spill--> overflow file
 *                                       \                /
 *                                        writer thread --write--> descriptor
 *
 * Playout only appends to memory (et_sink operations, see et_sink.h) and so waits for neither a disk nor a client. A
 * thread of its own for each delivery (the writer, of ordinary priority) empties the spool into the descriptor, and one
 * thread for all of them (the store's) moves samples into the overflow file while a writer stands still.
 *
 * The client shares the descriptor's open file description: it can clear or set O_NONBLOCK at any time, and move the
 * offset of a file. A description of its own (opened again by /proc/self/fd) is no way out, because the pipe of another
 * user may not be opened, and a file has one offset that the client expects to move. So the writer counts on nothing:
 *   socket  send with MSG_DONTWAIT never blocks, whatever the flags
 *   pipe    poll, then at most PIPE_BUF bytes; blocks only where somebody else fills the pipe in between
 *   file    write blocks for as long as the file system does
 * and whoever waits for a writer waits a bounded time: et_delivery_cancel makes it leave, et_delivery_kick gets it out of
 * a blocked write by a signal; one that stays in an uninterruptible write is left alone with its descriptor and ends when
 * the kernel lets it go.
 *
 * Nothing of this allocates after et_delivery_new. */
#ifndef ET_DELIVERY_H
#define ET_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "playout/et_sink.h"

typedef struct et_store et_store;
typedef struct et_delivery et_delivery;

/* --- descriptors --------------------------------------------------------------------------------------- */

/* Of et_delivery_error: what was in the overflow file cannot be read. No errno value. */
enum { ET_DELIVERY_LOST = 2002 };

enum et_fd_kind { ET_FD_PIPE = 1, ET_FD_SOCKET, ET_FD_FILE };

/* What kind of descriptor this is, without asking a file system (which may answer late). When it is none that can be
 * delivered to, 0 and *why says so ("a terminal", "not open for writing"); a constant. */
int et_fd_kind(int fd, const char **why);

/* --- the store: overflow file and bell of all deliveries ------------------------------------------------ */

/* At most `bytes` (rounded down to pieces of 32 KiB; 0: none) in one unlinked file in `folder` (NULL: none), made when it
 * is first needed. NULL with *err a negative errno. */
et_store *et_store_new(const char *folder, uint64_t bytes, int *err);
/* End its thread: nothing more goes into the file, what is there can still be read. */
void et_store_stop(et_store *s);
/* The same, and the maker's reference; deliveries that still run keep what they need. */
void et_store_release(et_store *s);
/* An eventfd that is readable when a delivery is over, finds its spool full, or has room again, and when
 * the overflow file fails. */
int et_store_bell(const et_store *s);
/* Bytes in the overflow file; and the errno with which it failed last, 0 when it did not. */
uint64_t et_store_used(et_store *s);
int et_store_failed(et_store *s);

/* --- one delivery ----------------------------------------------------------------------------------------- */

typedef struct {
    int fd;               /* the delivery's from then on; closed by the writer */
    int rate;             /* Hz, for the header */
    bool wav;             /* WAV header before the samples, else s16le alone */
    uint64_t memory;      /* bytes of the spool in memory, at least 65536; rounded up to a power of two */
} et_delivery_config;

/* Starts the writer. NULL with *err a negative errno; the descriptor is the caller's then. */
et_delivery *et_delivery_new(et_store *s, const et_delivery_config *config, int *err);
/* Playout's end of it; its destroy gives the maker's reference back, and leaves the writer to itself. */
et_sink *et_delivery_sink(et_delivery *d);
/* Give the maker's reference back, as the destroy of its sink does. */
void et_delivery_unref(et_delivery *d);

/* Loop: the writer is to leave, what it has not written is lost. A file's header is made right first. */
void et_delivery_cancel(et_delivery *d);
/* Loop: interrupt the writer's write. One that was about to begin is missed, so repeat it until the delivery is over. */
void et_delivery_kick(et_delivery *d);
/* Loop: playout's next n frames are thrown away, because the spool has them already. */
void et_delivery_skip(et_delivery *d, uint64_t n);

/* Over: the writer has closed the descriptor and touches nothing more. */
bool et_delivery_over(const et_delivery *d);
/* Of one that is over: 0 everything was delivered, -ECANCELED, or why the descriptor failed (negative errno; -EPIPE: the
 * reader has gone). */
int et_delivery_error(const et_delivery *d);
/* Frames that playout has appended; bytes of samples that the descriptor has taken. */
uint64_t et_delivery_frames(const et_delivery *d);
uint64_t et_delivery_bytes(const et_delivery *d);
/* Since when the descriptor has taken nothing although there is something to take, CLOCK_MONOTONIC ns; 0: it is not so. */
int64_t et_delivery_stuck_since(const et_delivery *d);
/* Since when playout has found the spool full; 0: it has room. */
int64_t et_delivery_full_since(const et_delivery *d);
/* Frames that fit into the spool's memory now. */
uint64_t et_delivery_room(const et_delivery *d);

#endif
