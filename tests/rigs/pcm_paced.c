/* ALSA PCM plugin "etpaced": a sound device made of a clock and a file.
 *
 * It plays at rate * speed by CLOCK_MONOTONIC, appends the frames that have been heard to `file`, runs dry for
 * real, and logs one line an event: "<CLOCK_MONOTONIC ns> <EVENT> <frames heard since prepare> <frames written>".
 * Options: file, log, lock (opened by one at a time: EBUSY), speed, rate, channels, format, pause (0: cannot),
 * state (SUSPENDED or DISCONNECTED) and state_at: the state it falls into, once, when that frame is heard,
 * rewind (1; 0: says that it rewinds, but plays what it was given; 2: so, too, but its delay shows it, as with sound
 * servers), fetch: frames that it reads
 * before it plays them; what is written over them later is not heard. */
#include <alsa/asoundlib.h>
#include <alsa/pcm_external.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    snd_pcm_ioplug_t io;
    int file, log, lock;
    double speed;
    unsigned char *ring, *fetched;
    size_t frame_bytes;
    uint64_t size, fetched_to; /* frames of both rings */
    long fetch;
    int rewinds;
    snd_pcm_uframes_t boundary;
    uint64_t heard, written;   /* frames since prepare */
    uint64_t start_frame;
    int64_t start_ns;
    int running, dry, nonblock;
    snd_pcm_state_t state;
    uint64_t state_at;
} paced;

static const snd_pcm_ioplug_callback_t with_pause, without_pause, server;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void note(paced *p, const char *event, int64_t ns)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%lld %s %llu %llu\n", (long long)ns, event, (unsigned long long)p->heard,
                     (unsigned long long)p->written);
    if (p->log >= 0 && write(p->log, line, (size_t)n) != n)
        perror("etpaced: log");
}

static void hear(paced *p, uint64_t until)
{
    uint64_t ahead = until + (uint64_t)p->fetch < p->written ? until + (uint64_t)p->fetch : p->written;
    for (; p->fetched_to < ahead; p->fetched_to++) {
        size_t at = (size_t)(p->fetched_to % p->size) * p->frame_bytes;
        memcpy(p->fetched + at, p->ring + at, p->frame_bytes);
    }
    while (p->heard < until) {
        uint64_t at = p->heard % p->size, n = until - p->heard;
        if (n > p->size - at)
            n = p->size - at;
        size_t bytes = (size_t)n * p->frame_bytes;
        if (p->file >= 0 && write(p->file, p->fetched + at * p->frame_bytes, bytes) != (ssize_t)bytes)
            perror("etpaced: file");
        p->heard += n;
    }
}

static double frames_per_ns(const paced *p)
{
    return p->io.rate * p->speed * 1e-9;
}

/* Play up to now; 0 or -EPIPE when there was not enough. */
static int advance(paced *p)
{
    if (!p->running)
        return p->dry ? -EPIPE : 0;
    int64_t now = now_ns();
    uint64_t target = p->start_frame + (uint64_t)((double)(now - p->start_ns) * frames_per_ns(p));
    if (p->state != SND_PCM_STATE_RUNNING && target >= p->state_at && p->written > p->state_at) {
        hear(p, p->state_at);
        p->running = 0;
        note(p, snd_pcm_state_name(p->state), now);
        snd_pcm_ioplug_set_state(&p->io, p->state);
        p->state = SND_PCM_STATE_RUNNING;
        return 0;
    }
    if (target < p->written) {
        hear(p, target);
        return 0;
    }
    hear(p, p->written);
    p->running = 0;
    p->dry = 1;
    note(p, p->io.state == SND_PCM_STATE_DRAINING ? "DRAINED" : "XRUN",
         p->start_ns + (int64_t)((double)(p->written - p->start_frame) / frames_per_ns(p)));
    return -EPIPE;
}

static void run(paced *p, int on)
{
    /* Ticks a few times a period wake whoever waits for room. */
    int64_t tick = on ? (int64_t)((double)p->io.period_size / frames_per_ns(p)) / 4 + 1 : 0;
    if (on && tick < 1000000)
        tick = 1000000;
    struct itimerspec t = {{tick / 1000000000, tick % 1000000000}, {tick / 1000000000, tick % 1000000000}};
    timerfd_settime(p->io.poll_fd, 0, &t, NULL);
    p->running = on;
    p->start_ns = now_ns();
    p->start_frame = p->heard;
}

static int paced_start(snd_pcm_ioplug_t *io)
{
    paced *p = io->private_data;
    run(p, 1);
    note(p, "START", p->start_ns);
    return 0;
}

static int paced_stop(snd_pcm_ioplug_t *io)
{
    paced *p = io->private_data;
    advance(p);
    note(p, "DROP", now_ns());
    run(p, 0);
    return 0;
}

static int paced_pause(snd_pcm_ioplug_t *io, int enable)
{
    paced *p = io->private_data;
    if (advance(p) < 0)
        return -EPIPE;
    run(p, !enable);
    note(p, enable ? "PAUSE" : "RESUME", now_ns());
    return 0;
}

static snd_pcm_sframes_t paced_pointer(snd_pcm_ioplug_t *io)
{
    paced *p = io->private_data;
    int err = advance(p);
    return err < 0 ? err : (snd_pcm_sframes_t)(p->heard % p->boundary);
}

static snd_pcm_sframes_t paced_transfer(snd_pcm_ioplug_t *io, const snd_pcm_channel_area_t *areas,
                                        snd_pcm_uframes_t offset, snd_pcm_uframes_t size)
{
    paced *p = io->private_data;
    if (p->rewinds)
        p->written = io->appl_ptr;
    const unsigned char *src = (const unsigned char *)areas->addr + areas->first / 8 + offset * p->frame_bytes;
    for (snd_pcm_uframes_t i = 0; i < size; i++, p->written++)
        memcpy(p->ring + p->written % p->size * p->frame_bytes, src + i * p->frame_bytes, p->frame_bytes);
    return (snd_pcm_sframes_t)size;
}

static int paced_delay(snd_pcm_ioplug_t *io, snd_pcm_sframes_t *delay)
{
    paced *p = io->private_data;
    int err = advance(p);
    *delay = (snd_pcm_sframes_t)(p->written - p->heard);
    return err < 0 ? err : 0;
}

static int paced_hw_params(snd_pcm_ioplug_t *io, snd_pcm_hw_params_t *params)
{
    paced *p = io->private_data;
    (void)params;
    p->frame_bytes = (size_t)snd_pcm_format_physical_width(io->format) / 8 * io->channels;
    free(p->ring);
    free(p->fetched);
    /* One that does not rewind keeps the old and what is written "over" it. */
    p->size = (uint64_t)io->buffer_size * (p->rewinds ? 1 : 2);
    p->ring = calloc(p->size, p->frame_bytes);
    p->fetched = calloc(p->size, p->frame_bytes);
    return p->ring && p->fetched ? 0 : -ENOMEM;
}

static int paced_sw_params(snd_pcm_ioplug_t *io, snd_pcm_sw_params_t *params)
{
    return snd_pcm_sw_params_get_boundary(params, &((paced *)io->private_data)->boundary);
}

static int paced_prepare(snd_pcm_ioplug_t *io)
{
    paced *p = io->private_data;
    run(p, 0);
    p->heard = p->written = p->start_frame = p->fetched_to = 0;
    p->dry = 0;
    return 0;
}

static int paced_drain(snd_pcm_ioplug_t *io)
{
    paced *p = io->private_data;
    note(p, "DRAIN", now_ns());
    /* Like a kernel device: the state tells a non-blocking caller when it is done. */
    while (advance(p) == 0) {
        if (p->nonblock || io->nonblock)
            return -EAGAIN;
        usleep(1000);
    }
    return 0;
}

static int paced_poll_revents(snd_pcm_ioplug_t *io, struct pollfd *pfd, unsigned n, unsigned short *revents)
{
    paced *p = io->private_data;
    uint64_t ticks;
    if (n != 1)
        return -EINVAL;
    if ((pfd->revents & POLLIN) && read(pfd->fd, &ticks, sizeof ticks) < 0)
        ticks = 0;
    *revents = advance(p) < 0 ? POLLERR : io->buffer_size - (p->written - p->heard) >= io->period_size ? POLLOUT : 0;
    return 0;
}

static int paced_close(snd_pcm_ioplug_t *io)
{
    paced *p = io->private_data;
    note(p, "CLOSE", now_ns());
    const int fds[] = {io->poll_fd, p->file, p->log, p->lock};
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(p->ring);
    free(p->fetched);
    free(p);
    return 0;
}

#define CALLBACKS \
    .start = paced_start, .stop = paced_stop, .pointer = paced_pointer, .transfer = paced_transfer, \
    .close = paced_close, .hw_params = paced_hw_params, .sw_params = paced_sw_params, .prepare = paced_prepare, \
    .drain = paced_drain, .poll_revents = paced_poll_revents
static const snd_pcm_ioplug_callback_t with_pause = {CALLBACKS, .pause = paced_pause};
static const snd_pcm_ioplug_callback_t without_pause = {CALLBACKS};
static const snd_pcm_ioplug_callback_t server = {CALLBACKS, .pause = paced_pause, .delay = paced_delay};

static int constrain(paced *p, long rate, long channels, const char *format)
{
    const unsigned access[] = {SND_PCM_ACCESS_RW_INTERLEAVED, SND_PCM_ACCESS_MMAP_INTERLEAVED};
    unsigned formats[] = {SND_PCM_FORMAT_S16_LE, SND_PCM_FORMAT_S32_LE, SND_PCM_FORMAT_FLOAT_LE,
                          SND_PCM_FORMAT_S24_LE, SND_PCM_FORMAT_S24_3LE};
    unsigned count = 5;
    int err;
    if (*format) {
        formats[0] = (unsigned)snd_pcm_format_value(format);
        count = 1;
    }
    if ((err = snd_pcm_ioplug_set_param_list(&p->io, SND_PCM_IOPLUG_HW_ACCESS, 2, access)) < 0 ||
        (err = snd_pcm_ioplug_set_param_list(&p->io, SND_PCM_IOPLUG_HW_FORMAT, count, formats)) < 0 ||
        (err = snd_pcm_ioplug_set_param_minmax(&p->io, SND_PCM_IOPLUG_HW_CHANNELS, channels ? channels : 1,
                                               channels ? channels : 8)) < 0 ||
        (err = snd_pcm_ioplug_set_param_minmax(&p->io, SND_PCM_IOPLUG_HW_RATE, rate ? rate : 8000,
                                               rate ? rate : 192000)) < 0 ||
        (err = snd_pcm_ioplug_set_param_minmax(&p->io, SND_PCM_IOPLUG_HW_PERIOD_BYTES, 32, 1 << 20)) < 0 ||
        (err = snd_pcm_ioplug_set_param_minmax(&p->io, SND_PCM_IOPLUG_HW_BUFFER_BYTES, 64, 1 << 22)) < 0)
        return err;
    return snd_pcm_ioplug_set_param_minmax(&p->io, SND_PCM_IOPLUG_HW_PERIODS, 2, 1024);
}

SND_PCM_PLUGIN_DEFINE_FUNC(etpaced)
{
    snd_config_iterator_t i, next;
    const char *file = "", *log = "", *lock = "", *format = "", *state = "";
    long rate = 0, channels = 0, pause = 1, state_at = 0, rewinds = 1, fetch = 0;
    double speed = 1.0;
    (void)root;
    snd_config_for_each(i, next, conf) {
        snd_config_t *n = snd_config_iterator_entry(i);
        const char *id;
        if (snd_config_get_id(n, &id) < 0)
            continue;
        if (!strcmp(id, "file"))
            snd_config_get_string(n, &file);
        else if (!strcmp(id, "log"))
            snd_config_get_string(n, &log);
        else if (!strcmp(id, "lock"))
            snd_config_get_string(n, &lock);
        else if (!strcmp(id, "format"))
            snd_config_get_string(n, &format);
        else if (!strcmp(id, "rate"))
            snd_config_get_integer(n, &rate);
        else if (!strcmp(id, "channels"))
            snd_config_get_integer(n, &channels);
        else if (!strcmp(id, "pause"))
            snd_config_get_integer(n, &pause);
        else if (!strcmp(id, "state"))
            snd_config_get_string(n, &state);
        else if (!strcmp(id, "rewind"))
            snd_config_get_integer(n, &rewinds);
        else if (!strcmp(id, "fetch"))
            snd_config_get_integer(n, &fetch);
        else if (!strcmp(id, "state_at"))
            snd_config_get_integer(n, &state_at);
        else if (!strcmp(id, "speed"))
            snd_config_get_ireal(n, &speed);
    }
    const int append = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    int lock_fd = *lock ? open(lock, append, 0666) : -1;
    if (lock_fd >= 0 && flock(lock_fd, LOCK_EX | LOCK_NB) < 0) {
        close(lock_fd);
        return -EBUSY;
    }
    paced *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->speed = speed;
    p->rewinds = rewinds == 1;
    p->fetch = fetch;
    p->lock = lock_fd;
    p->nonblock = (mode & SND_PCM_NONBLOCK) != 0;
    p->state = !strcmp(state, "SUSPENDED")      ? SND_PCM_STATE_SUSPENDED
               : !strcmp(state, "DISCONNECTED") ? SND_PCM_STATE_DISCONNECTED
                                                : SND_PCM_STATE_RUNNING;
    p->state_at = (uint64_t)state_at;
    p->file = *file ? open(file, append, 0666) : -1;
    p->log = *log ? open(log, append, 0666) : -1;
    p->boundary = 1 << 30;
    p->io.version = SND_PCM_IOPLUG_VERSION;
    p->io.name = "etpaced";
    p->io.flags = SND_PCM_IOPLUG_FLAG_MONOTONIC | SND_PCM_IOPLUG_FLAG_BOUNDARY_WA;
    p->io.callback = rewinds == 2 ? &server : pause ? &with_pause : &without_pause;
    p->io.private_data = p;
    p->io.poll_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    p->io.poll_events = POLLIN;
    note(p, "OPEN", now_ns());
    int err = snd_pcm_ioplug_create(&p->io, name, stream, mode);
    if (err < 0) {
        paced_close(&p->io);
        return err;
    }
    if ((err = constrain(p, rate, channels, format)) < 0) {
        snd_pcm_ioplug_delete(&p->io);
        return err;
    }
    *pcmp = p->io.pcm;
    return 0;
}
SND_PCM_PLUGIN_SYMBOL(etpaced);
