/* Descriptor sink: s16le or WAV to a pipe, a socket or a file.
 *
 * The descriptor's description may be shared with the client, so O_NONBLOCK is not set on it. After poll(2) said
 * POLLOUT a pipe takes PIPE_BUF bytes without blocking; sockets are asked not to block call by call. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "et_wav.h"
#include "et_sink.h"

enum { PIECE = 4096, HEADER = ET_WAV_HEADER };

typedef struct {
    et_sink base;
    et_fd_config config;
    int fd;
    bool is_socket, is_file;
    bool patchable;          /* a regular file whose header can be written again */
    bool header_done;
    off_t start;             /* of the header in the file */
    uint64_t bytes;          /* of samples, over all utterances */
    unsigned char piece[PIECE];
    size_t have, gone;       /* bytes in piece; of them written */
} fd_sink;

static fd_sink *self(et_sink *s)
{
    return (fd_sink *)s;
}

static void put_le(unsigned char *dst, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        dst[i] = (unsigned char)(v >> (8 * i));
}

static int fd_open(et_sink *s)
{
    fd_sink *f = self(s);
    if (s->is_open)
        return 0;
    struct stat st;
    s->failed_step = "open";
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return -EBADF;
    int flags = fcntl(f->fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return -EBADF;
    f->is_socket = S_ISSOCK(st.st_mode);
    f->is_file = S_ISREG(st.st_mode);
    f->have = f->gone = 0;
    if (f->config.wav && !f->header_done) {
        f->start = lseek(f->fd, 0, SEEK_CUR);
        /* With O_APPEND a positioned write goes to the end all the same. */
        f->patchable = f->is_file && f->start >= 0 && !(flags & O_APPEND);
        et_wav_header(f->piece, s->rate, true, 0);
        f->have = HEADER;
        f->header_done = true;
    }
    s->is_open = true;
    s->failed_step = NULL;
    atomic_fetch_add(&s->opens, 1);
    return 0;
}

/* Write what waits, without blocking. 0 when some of it still waits, 1 when all is gone, negative errno. */
static int flush(fd_sink *f)
{
    while (f->gone < f->have) {
        ssize_t n;
        if (f->is_socket) {
            n = send(f->fd, f->piece + f->gone, f->have - f->gone, MSG_DONTWAIT | MSG_NOSIGNAL);
        } else {
            if (!f->is_file) {
                struct pollfd p = {.fd = f->fd, .events = POLLOUT};
                int r = poll(&p, 1, 0);
                if (r <= 0)
                    return r < 0 && errno != EINTR ? -errno : 0;
                if (p.revents & POLLNVAL)
                    return -EBADF;
                if (p.revents & POLLERR)
                    return -EPIPE;
                if (!(p.revents & POLLOUT))
                    return 0;
            }
            n = write(f->fd, f->piece + f->gone, f->have - f->gone);
        }
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                return 0;
            return errno == ECONNRESET ? -EPIPE : -errno;
        }
        f->gone += (size_t)n;
    }
    f->have = f->gone = 0;
    return 1;
}

static int fd_write(et_sink *s, const int16_t *pcm, size_t n)
{
    fd_sink *f = self(s);
    int r = flush(f);
    if (r <= 0)
        return r;
    if (n > PIECE / 2)
        n = PIECE / 2;
    for (size_t i = 0; i < n; i++)
        put_le(f->piece + 2 * i, (uint16_t)pcm[i], 2);
    f->have = 2 * n;
    f->bytes += 2 * n;
    /* An error shows at the next call: these frames have been taken. */
    flush(f);
    return (int)n;
}

static int fd_start(et_sink *s)
{
    (void)s;
    return 0;
}

static int fd_poll(et_sink *s, struct pollfd *fds, int max, bool want, int *timeout_ms)
{
    fd_sink *f = self(s);
    (void)timeout_ms;
    if (max < 1 || f->is_file || f->fd < 0)
        return 0;
    fds[0] = (struct pollfd){.fd = f->fd, .events = want ? POLLOUT : 0};
    return 1;
}

static int fd_polled(et_sink *s, struct pollfd *fds, int n)
{
    (void)s;
    if (n < 1)
        return 0;
    if (fds[0].revents & POLLNVAL)
        return -EBADF;
    /* A pipe without readers, a socket whose other end is closed. */
    return fds[0].revents & (POLLERR | POLLHUP) ? -EPIPE : 0;
}

static int fd_delay(et_sink *s, int64_t *frames)
{
    fd_sink *f = self(s);
    int r = flush(f);
    /* The header is no sound. */
    size_t waiting = f->have - f->gone;
    uint64_t limit = f->bytes;
    *frames = (int64_t)((waiting < limit ? waiting : limit) + 1) / 2;
    return r < 0 ? r : 0;
}

static int fd_pause(et_sink *s, bool hold)
{
    (void)s;
    (void)hold;
    return 0;
}

static void patch(fd_sink *f)
{
    unsigned char h[HEADER];
    if (!f->patchable)
        return;
    et_wav_header(h, f->base.rate, false, f->bytes);
    /* A header that cannot be patched still says "to the end of the file". */
    if (pwrite(f->fd, h, HEADER, f->start) < 0)
        f->patchable = false;
}

static void fd_drop(et_sink *s)
{
    fd_sink *f = self(s);
    if (f->is_file && s->is_open) {
        /* A file takes it at once, and then is whole. */
        flush(f);
        patch(f);
    }
    f->have = f->gone = 0;
}

static int fd_finish(et_sink *s)
{
    (void)s;
    return 0;
}

static int fd_drained(et_sink *s)
{
    int r = flush(self(s));
    if (r == 1)
        patch(self(s));
    return r;
}

static void fd_close(et_sink *s)
{
    fd_sink *f = self(s);
    if (s->is_open)
        fd_drop(s);
    s->is_open = false;
    if (!f->config.keep && f->config.close_fd && f->fd >= 0)
        close(f->fd);
    if (!f->config.keep)
        f->fd = -1;
}

void et_sink_fd_end(et_sink *s)
{
    self(s)->config.keep = false;
    fd_close(s);
}

static void fd_destroy(et_sink *s)
{
    et_sink_fd_end(s);
    free(s);
}

static const et_sink_ops fd_ops = {
    .name = "fd",
    .open = fd_open,
    .write = fd_write,
    .start = fd_start,
    .poll = fd_poll,
    .polled = fd_polled,
    .delay = fd_delay,
    .pause = fd_pause,
    .drop = fd_drop,
    .finish = fd_finish,
    .drained = fd_drained,
    .close = fd_close,
    .destroy = fd_destroy,
};

et_sink *et_sink_fd_new(const et_fd_config *config, int *err)
{
    *err = -EINVAL;
    if (config->fd < 0 || config->rate < 1000 || config->stall_ms < 0)
        return NULL;
    *err = -ENOMEM;
    fd_sink *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->base.ops = &fd_ops;
    f->base.rate = config->rate;
    f->base.stall_ms = config->stall_ms;
    f->config = *config;
    f->fd = config->fd;
    *err = 0;
    return &f->base;
}
