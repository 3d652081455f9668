// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Event files on the application's side. Destroying an object waits in the library until
 * as many of its events are acknowledged as were *reported*: those that were read.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "uverbs.h"

struct obj {
	enum uv_obj_type type;
	uint32_t handle, ctx;
	uint64_t user;
	int comp_fd, async_fd;
	struct uv_reported reported;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct obj *objs;
static size_t count, room;

int uv_event_file(uint8_t kind, uint32_t ctx)
{
	struct hca_ctl c = { .op = HCA_CTL_CREATE_CHAN, .ctx = ctx };
	int rc, fd = hca_chan_make();
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st)) {
		rc = -errno;
	} else {
		c.u.chan.fd = fd;
		c.u.chan.inode = st.st_ino;
		c.u.chan.is_async = kind == UV_ASYNC;
		rc = hca_app_ctl(&c);
	}
	if (rc) {
		close(fd);
		return rc;
	}
	uv_note_event_file(fd, kind, ctx, c.handle);
	return fd;
}

int uv_obj_add(enum uv_obj_type type, uint32_t handle, uint64_t user, uint32_t ctx,
	       int comp_fd, int async_fd)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (count == room) {
		size_t more = room ? 2 * room : 64;
		struct obj *grown = reallocarray(objs, more, sizeof(*objs));

		if (grown) {
			objs = grown;
			room = more;
		} else {
			rc = -ENOMEM;
		}
	}
	if (!rc)
		objs[count++] = (struct obj){ type, handle, ctx, user, comp_fd, async_fd,
					      { 0, 0 } };
	pthread_mutex_unlock(&lock);
	return rc;
}

static bool is_event_of(uint32_t event_type, enum uv_obj_type type)
{
	switch (event_type) {
	case IBV_EVENT_CQ_ERR: return type == UV_OBJ_CQ;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: return type == UV_OBJ_SRQ;
	case IBV_EVENT_QP_LAST_WQE_REACHED: return type == UV_OBJ_QP;
	default: return type == UV_OBJ_QP && event_type <= IBV_EVENT_PATH_MIG_ERR;
	}
}

/* Does the event in @buf name @o? */
static bool names(const struct obj *o, uint8_t kind, const void *buf)
{
	const struct ib_uverbs_async_event_desc *a = buf;
	const struct ib_uverbs_comp_event_desc *c = buf;

	if (kind == UV_COMP)
		return o->type == UV_OBJ_CQ && c->cq_handle == o->user;
	return a->element == o->user && is_event_of(a->event_type, o->type);
}

static size_t event_bytes(uint8_t kind)
{
	return kind == UV_COMP ? sizeof(struct ib_uverbs_comp_event_desc) :
				 sizeof(struct ib_uverbs_async_event_desc);
}

void uv_was_read(int fd, const void *buf, ssize_t bytes)
{
	const struct uv_file *f = uv_file(fd);
	ssize_t each = (ssize_t)event_bytes(f->kind);

	pthread_mutex_lock(&lock);
	for (ssize_t at = 0; at + each <= bytes; at += each)
		for (size_t i = 0; i < count; i++) {
			if (!names(&objs[i], f->kind, (const char *)buf + at))
				continue;
			if (f->kind == UV_COMP)
				objs[i].reported.comp++;
			else
				objs[i].reported.async++;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

/* Takes the unread events of a vanished object out; all others go back in their order. */
static void purge(int fd, uint8_t kind, const struct obj *o)
{
	const struct uv_file *f = uv_file(fd);
	char event[sizeof(struct ib_uverbs_async_event_desc)];
	size_t bytes = event_bytes(kind);
	int queued = 0;

	if (!f || f->kind != kind || ioctl(fd, FIONREAD, &queued))
		return;
	for (size_t n = (size_t)queued / bytes; n && is_readable(fd); n--) {
		/* read() is the interposed one: it counts, and must not here */
		if (readv(fd, &(struct iovec){ event, bytes }, 1) != (ssize_t)bytes)
			return;
		if (!names(o, kind, event) && write(fd, event, bytes) < 0)
			return;
	}
}

struct uv_reported uv_obj_del(enum uv_obj_type type, uint32_t handle)
{
	struct uv_reported r = { 0, 0 };

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++) {
		struct obj o = objs[i];

		if (o.type != type || o.handle != handle)
			continue;
		objs[i] = objs[--count];
		purge(o.comp_fd, UV_COMP, &o);
		purge(o.async_fd, UV_ASYNC, &o);
		r = o.reported;
		break;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void uv_obj_forget_ctx(uint32_t ctx)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count;)
		if (objs[i].ctx == ctx)
			objs[i] = objs[--count];
		else
			i++;
	pthread_mutex_unlock(&lock);
}
