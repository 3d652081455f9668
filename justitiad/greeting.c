// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * greeting.c - a connection that has not said yet what it is.
 *
 * It has one second and one message. There are at most JSTD_GREETINGS_MAX such
 * connections; one more pushes out the oldest, which has had the most time, so
 * that somebody who opens many and says nothing keeps nobody else out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "daemon.h"
#include "log.h"

#define DEADLINE_ACCURACY_US 10000u

/* What a peer sent beyond its greeting is read away, up to so many messages. */
#define DRAIN_MESSAGES 64

struct jstd_greeting {
	TAILQ_ENTRY(jstd_greeting) link;
	struct jstd_daemon *daemon;
	struct jstd_peer peer;
	sd_event_source *source;
	sd_event_source *deadline;
	int fd;
};

static struct jstd_complaint bad_greetings, late_greetings, crowding;

/*
 * Unread messages would make the peer's next recv() fail with ECONNRESET in
 * place of the answer, hence the draining.
 */
static void drain(int fd)
{
	char byte;

	for (unsigned int i = 0; i < DRAIN_MESSAGES; i++) {
		if (recv(fd, &byte, 1, MSG_DONTWAIT) <= 0)
			return;
	}
}

void jstd_refuse(int fd, int error)
{
	const struct jst_msg_welcome welcome = {
		.header = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_WELCOME },
		.error = error,
	};

	drain(fd);
	(void)!send(fd, &welcome, sizeof(welcome), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/* Leaves the descriptor, which goes on to whoever takes it. */
static int greeting_end(struct jstd_greeting *greeting)
{
	int fd = greeting->fd;

	TAILQ_REMOVE(&greeting->daemon->greetings, greeting, link);
	greeting->daemon->n_greetings--;
	sd_event_source_disable_unref(greeting->source);
	sd_event_source_disable_unref(greeting->deadline);
	free(greeting);
	return fd;
}

static int header_check(const struct jstd_peer *peer, const struct jst_msg_header *header,
			size_t bytes)
{
	if (bytes < sizeof(*header)) {
		jstd_complain(&bad_greetings,
			      "pid %d: a greeting of %zu bytes; accepted: %zu or more",
			      (int)peer->pid, bytes, sizeof(*header));
		return -EPROTONOSUPPORT;
	}
	if (header->magic != JST_ABI_MAGIC || header->version != JST_ABI_VERSION) {
		jstd_complain(&bad_greetings,
			      "pid %d: protocol %#x version %u; accepted: %#x version %u",
			      (int)peer->pid, header->magic, header->version, JST_ABI_MAGIC,
			      JST_ABI_VERSION);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

static int body_check(const struct jstd_peer *peer, const struct jst_msg_header *header,
		      size_t bytes)
{
	if ((header->type == JST_HELLO && bytes == sizeof(struct jst_msg_hello)) ||
	    (header->type == JST_STATUS && bytes == sizeof(*header)))
		return 0;
	jstd_complain(&bad_greetings,
		      "pid %d: a greeting of type %u and %zu bytes; accepted: type %u of %zu, or %u of %zu",
		      (int)peer->pid, header->type, bytes, JST_HELLO, sizeof(struct jst_msg_hello),
		      JST_STATUS, sizeof(*header));
	return -EBADMSG;
}

static int on_greeting(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct jstd_greeting *greeting = data;
	struct jstd_daemon *daemon = greeting->daemon;
	struct jstd_peer peer = greeting->peer;
	struct jst_msg_hello hello = { 0 };
	ssize_t bytes;
	int ret;

	(void)source;
	(void)events;
	/* No room for control data: the kernel drops descriptors that are passed. */
	bytes = recv(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_TRUNC);
	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	fd = greeting_end(greeting);
	if (bytes <= 0) {
		close(fd);
		return 0;
	}
	ret = header_check(&peer, &hello.header, (size_t)bytes);
	if (!ret)
		ret = body_check(&peer, &hello.header, (size_t)bytes);
	if (ret)
		jstd_refuse(fd, ret);
	else if (hello.header.type == JST_HELLO)
		jstd_client_attach(daemon, fd, &peer, &hello);
	else
		jstd_status_answer(daemon, fd, &peer);
	return 0;
}

static int on_deadline(sd_event_source *source, uint64_t us, void *data)
{
	struct jstd_greeting *greeting = data;

	(void)source;
	(void)us;
	jstd_complain(&late_greetings, "pid %d: connected and said nothing for %u ms",
		      (int)greeting->peer.pid, JSTD_GREETING_US / 1000);
	jstd_refuse(greeting_end(greeting), -ETIMEDOUT);
	return 0;
}

static int greeting_sources(struct jstd_greeting *greeting)
{
	sd_event *event = greeting->daemon->event;
	int ret;

	ret = sd_event_add_io(event, &greeting->source, greeting->fd, EPOLLIN, on_greeting,
			      greeting);
	if (ret < 0)
		return ret;
	return sd_event_add_time(event, &greeting->deadline, CLOCK_MONOTONIC,
				 jstd_now_ns() / 1000 + JSTD_GREETING_US, DEADLINE_ACCURACY_US,
				 on_deadline, greeting);
}

static void make_room(struct jstd_daemon *daemon)
{
	struct jstd_greeting *oldest = TAILQ_FIRST(&daemon->greetings);

	if (daemon->n_greetings < JSTD_GREETINGS_MAX)
		return;
	jstd_complain(&crowding, "pid %d: pushed out; %u connections have not said what they are",
		      (int)oldest->peer.pid, daemon->n_greetings);
	jstd_refuse(greeting_end(oldest), -EBUSY);
}

void jstd_greeting_begin(struct jstd_daemon *daemon, int fd)
{
	struct jstd_greeting *greeting = calloc(1, sizeof(*greeting));
	int ret;

	if (!greeting) {
		jstd_refuse(fd, -ENOMEM);
		return;
	}
	make_room(daemon);
	greeting->daemon = daemon;
	greeting->fd = fd;
	TAILQ_INSERT_TAIL(&daemon->greetings, greeting, link);
	daemon->n_greetings++;
	ret = jstd_peer_identify(&greeting->peer, fd);
	if (!ret)
		ret = greeting_sources(greeting);
	if (ret < 0)
		jstd_refuse(greeting_end(greeting), ret);
}

void jstd_greetings_close(struct jstd_daemon *daemon)
{
	while (!TAILQ_EMPTY(&daemon->greetings))
		close(greeting_end(TAILQ_FIRST(&daemon->greetings)));
}
