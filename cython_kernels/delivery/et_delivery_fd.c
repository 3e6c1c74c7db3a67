/* The client's descriptor, as the writer sees it: what it is, how it is written, how it ends. See et_delivery.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "et_delivery_parts.h"
#include "playout/et_wav.h"

/* Where a descriptor says that it is full although poll said that it is not. */
enum { AGAIN_MS = 5 };

/* --- kinds --------------------------------------------------------------------------------------------- */

static int refuse(const char **why, const char *reason)
{
    *why = reason;
    return 0;
}

static int socket_kind(int fd, const char **why)
{
    int type = 0;
    socklen_t size = sizeof type;
    struct sockaddr_storage peer;
    socklen_t peer_size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM)
        return refuse(why, "a socket that is no stream");
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0)
        return refuse(why, "a socket that is not connected");
    return ET_FD_SOCKET;
}

int et_fd_kind(int fd, const char **why)
{
    struct statx st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return refuse(why, "not open");
    if (flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
        return refuse(why, "not open for writing");
    /* The type is known without the file system; a user's own one could let fstat wait for ever. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
        return refuse(why, "of a kind that cannot be found out");
    *why = NULL;
    switch (st.stx_mode & S_IFMT) {
    case S_IFIFO: return ET_FD_PIPE;
    case S_IFSOCK: return socket_kind(fd, why);
    case S_IFREG: return ET_FD_FILE;
    case S_IFCHR: return refuse(why, isatty(fd) ? "a terminal" : "a character device");
    case S_IFBLK: return refuse(why, "a block device");
    case S_IFDIR: return refuse(why, "a folder");
    default: return refuse(why, "of no kind that has a name");
    }
}

/* --- writing ------------------------------------------------------------------------------------------- */

static bool cancelled(const et_delivery *d)
{
    return atomic_load_explicit(&d->cancelled, memory_order_acquire) != 0;
}

static void empty(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0)
        count = 0;
}

/* Sleep until the writer is woken, the reader has gone (-EPIPE) or, when asked for, there is room (1). */
static int sleep_on(et_delivery *d, bool room)
{
    struct pollfd fds[2] = {{.fd = d->wake_fd, .events = POLLIN},
                            {.fd = d->kind == ET_FD_FILE ? -1 : d->config.fd, .events = room ? POLLOUT : 0}};
    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[0].revents & POLLIN)
        empty(d->wake_fd);
    if (fds[1].revents & POLLNVAL)
        return -EBADF;
    /* A pipe without readers, a socket whose other end is closed. */
    if (fds[1].revents & (POLLERR | POLLHUP))
        return -EPIPE;
    return fds[1].revents & POLLOUT ? 1 : 0;
}

int et_fd_wait(et_delivery *d)
{
    int r = sleep_on(d, false);
    return r < 0 ? r : 0;
}

static ssize_t put_some(et_delivery *d, const unsigned char *src, size_t n)
{
    switch (d->kind) {
    case ET_FD_SOCKET:
        return send(d->config.fd, src, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    case ET_FD_PIPE:
        return write(d->config.fd, src, n < PIPE_BUF ? n : PIPE_BUF);
    default:
        return write(d->config.fd, src, n);
    }
}

int et_fd_put(et_delivery *d, const unsigned char *src, size_t n, bool samples)
{
    bool room = d->kind != ET_FD_PIPE;
    atomic_store(&d->stuck_since, et_now_ns());
    while (n > 0) {
        if (cancelled(d))
            return -ECANCELED;
        if (!room) {
            int r = sleep_on(d, true);
            if (r < 0)
                return r;
            if (r == 0)
                continue;
        }
        ssize_t got = put_some(d, src, n);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (room && d->kind == ET_FD_SOCKET) {
                room = false;
                continue;
            }
            poll(NULL, 0, AGAIN_MS);
        }
        room = d->kind != ET_FD_PIPE;
        if (got < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)
                continue;
            return errno == ECONNRESET ? -EPIPE : -errno;
        }
        src += got;
        n -= (size_t)got;
        if (samples)
            atomic_fetch_add_explicit(&d->bytes, (uint64_t)got, memory_order_relaxed);
        atomic_store(&d->stuck_since, et_now_ns());
    }
    return 0;
}

/* --- begin and end ------------------------------------------------------------------------------------- */

int et_fd_begin(et_delivery *d)
{
    unsigned char header[ET_WAV_HEADER];
    const char *why;
    d->kind = et_fd_kind(d->config.fd, &why);
    if (!d->kind)
        return -EBADF;
    if (!d->config.wav)
        return 0;
    d->start = lseek(d->config.fd, 0, SEEK_CUR);
    /* With O_APPEND a positioned write goes to the end all the same. */
    d->patchable = d->kind == ET_FD_FILE && d->start >= 0 && !(fcntl(d->config.fd, F_GETFL) & O_APPEND);
    et_wav_header(header, d->config.rate, true, 0);
    return et_fd_put(d, header, ET_WAV_HEADER, false);
}

void et_fd_end(et_delivery *d)
{
    unsigned char header[ET_WAV_HEADER];
    /* Shows whoever waits that closing can take long, too. */
    atomic_store(&d->stuck_since, et_now_ns());
    if (d->patchable) {
        et_wav_header(header, d->config.rate, false, atomic_load(&d->bytes) & ~(uint64_t)1);
        /* A header that cannot be patched still says "to the end of the file". */
        if (pwrite(d->config.fd, header, ET_WAV_HEADER, d->start) < 0)
            d->patchable = false;
    }
    close(d->config.fd);
    d->config.fd = -1;
    atomic_store(&d->stuck_since, 0);
}
