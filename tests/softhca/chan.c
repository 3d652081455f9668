// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Event files. Each is a FIFO that the application holds open for reading and writing (so
 * that it never sees end of file) and that the driver writes to through /proc/<pid>/fd:
 * read(), poll() and O_NONBLOCK need no help, and nothing is left behind by a crash.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hca.h"

/* Descriptors this process opened, so that an event costs one write. */
static struct { int fd; uint32_t gen; } cache[HCA_MAX_CHANS];

int hca_chan_make(void)
{
	char path[32];
	int fd, ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(ends[0]);
	close(ends[1]);
	return fd;
}

static int open_in(pid_t pid, const struct hca_chan *ch)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, ch->fd);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) && st.st_ino == ch->inode)
		return fd;
	close(fd);
	return -ESTALE;
}

static int cached_fd(uint32_t chan)
{
	const struct hca_chan *ch = &hca->chan[chan];

	if (cache[chan].gen == ch->gen)
		return cache[chan].fd;
	if (cache[chan].gen && cache[chan].fd >= 0)
		close(cache[chan].fd);
	cache[chan].fd = open_in(hca->proc[ch->owner.proc].pid, ch);
	cache[chan].gen = ch->gen;
	return cache[chan].fd;
}

void hca_chan_post(uint32_t chan, const void *event, size_t bytes)
{
	int fd;

	if (!chan || chan >= HCA_MAX_CHANS || !hca->chan[chan].used)
		return;
	fd = cached_fd(chan);
	/* A FIFO holds thousands of events: full means that nobody has read for ages. */
	if (fd >= 0 && write(fd, event, bytes) < 0)
		return;
	vc_wake(hca->proc[hca->chan[chan].owner.proc].pid, VC_FDS);
}

void hca_async_event(struct hca_owner owner, uint64_t element, uint32_t type)
{
	struct ib_uverbs_async_event_desc e = { .element = element, .event_type = type };

	for (uint32_t i = 1; i < HCA_MAX_CHANS; i++)
		if (hca->chan[i].used && hca->chan[i].is_async &&
		    hca_owns(owner, hca->chan[i].owner))
			hca_chan_post(i, &e, sizeof(e));
}

int hca_chan_create(struct hca_owner o, struct hca_ctl *c)
{
	static uint32_t gen;

	for (uint32_t i = 1; i < HCA_MAX_CHANS; i++) {
		struct hca_chan *ch = &hca->chan[i];

		if (ch->used)
			continue;
		/* In the high bits the maker, so that two drivers never agree by accident. */
		*ch = (struct hca_chan){
			.used = 1, .is_async = c->u.chan.is_async != 0, .owner = o,
			.gen = (uint32_t)hca_self << 12 ^ ++gen, .fd = c->u.chan.fd,
			.inode = c->u.chan.inode,
		};
		c->handle = i;
		return cached_fd(i) >= 0 ? 0 : (ch->used = 0, -EBADF);
	}
	return -ENOMEM;
}

void hca_chan_free(struct hca_chan *ch)
{
	uint32_t i = HCA_INDEX(chan, ch);

	for (uint32_t k = 0; k < HCA_MAX_CQS; k++)
		if (hca->cq[k].chan == i)
			hca->cq[k].chan = 0;
	ch->used = 0;
	if (cache[i].gen && cache[i].fd >= 0)
		close(cache[i].fd);
	cache[i].gen = 0;
}

int hca_chan_destroy(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_chan *ch = &hca->chan[c->handle % HCA_MAX_CHANS];

	if (c->handle >= HCA_MAX_CHANS || !ch->used || !hca_owns(o, ch->owner))
		return -EINVAL;
	hca_chan_free(ch);
	return 0;
}
