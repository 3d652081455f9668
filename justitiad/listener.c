// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* listener.c - the socket at its path, whatever was there before, and accept. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "daemon.h"
#include "log.h"

#define RETRY_US 100000u

static struct jstd_complaint no_descriptors;

/* ---- in the way ------------------------------------------------------------------ */

static int in_the_way_live(const char *path, int fd)
{
	struct jstd_peer peer;

	if (jstd_peer_identify(&peer, fd) || peer.pid <= 0)
		jstd_log(LOG_ERR, "%s: another process listens there already", path);
	else
		jstd_log(LOG_ERR, "%s: process %d listens there already", path, (int)peer.pid);
	return -EADDRINUSE;
}

static int in_the_way_socket(const char *path, const struct sockaddr_un *address)
{
	int error = 0, ret, fd;

	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)))
		error = errno;
	/* EAGAIN: its backlog is full; EPROTOTYPE: a socket of another kind. */
	if (error == ECONNREFUSED) {
		jstd_log(LOG_NOTICE, "%s: nobody listens there any more; replaced", path);
		ret = unlink(path) ? -errno : 0;
	} else if (!error || error == EAGAIN || error == EPROTOTYPE) {
		ret = in_the_way_live(path, fd);
	} else {
		jstd_log(LOG_ERR, "%s: a socket is in the way: %s", path, strerror(error));
		ret = -error;
	}
	close(fd);
	return ret;
}

static int in_the_way(const char *path, const struct sockaddr_un *address)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISSOCK(st.st_mode))
		return in_the_way_socket(path, address);
	jstd_log(LOG_ERR, "%s: is there and is not a socket; accepted: no file, or an old socket",
		 path);
	return -EEXIST;
}

/* ---- open and close ---------------------------------------------------------------- */

static void make_directory(const char *path)
{
	char *copy = strdup(path);

	if (copy && mkdir(dirname(copy), 0755) && errno != EEXIST)
		jstd_log(LOG_WARNING, "%s: %s", copy, strerror(errno));
	free(copy);
}

static int socket_bind(struct jstd_listener *listener, const struct sockaddr_un *address)
{
	struct stat st;
	mode_t mask = umask(0111); /* every user may attach */
	int ret = bind(listener->fd, (const struct sockaddr *)address, sizeof(*address));

	ret = ret ? -errno : 0;
	umask(mask);
	if (ret)
		return ret;
	if (stat(address->sun_path, &st))
		return -errno;
	listener->dev = st.st_dev;
	listener->ino = st.st_ino;
	return listen(listener->fd, SOMAXCONN) ? -errno : 0;
}

static int socket_open(struct jstd_listener *listener, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int ret;

	if (strlen(path) >= sizeof(address.sun_path)) {
		jstd_log(LOG_ERR, "%s: too long for a socket; accepted: at most %zu bytes", path,
			 sizeof(address.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	strcpy(address.sun_path, path);
	make_directory(path);
	ret = in_the_way(path, &address);
	if (ret)
		return ret;
	listener->path = strdup(path);
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (!listener->path || listener->spare_fd < 0 || listener->fd < 0)
		ret = -errno;
	else
		ret = socket_bind(listener, &address);
	if (ret)
		jstd_log(LOG_ERR, "%s: %s", path, strerror(-ret));
	return ret;
}

/* ---- accept ------------------------------------------------------------------------ */

static int on_retry(sd_event_source *source, uint64_t us, void *data)
{
	struct jstd_daemon *daemon = data;
	struct jstd_listener *listener = &daemon->listener;

	(void)source;
	(void)us;
	if (listener->spare_fd < 0)
		listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sd_event_source_set_enabled(listener->source, SD_EVENT_ON);
	return 0;
}

/*
 * Out of descriptors. The spare one serves to turn a client away; without it
 * the connection would stay in the backlog and accept would be called for ever,
 * so the listener rests for a while.
 */
static void accept_without_room(struct jstd_daemon *daemon, int error)
{
	struct jstd_listener *listener = &daemon->listener;
	int fd = -1;

	jstd_complain(&no_descriptors, "a client was turned away: %s", strerror(error));
	if (listener->spare_fd >= 0) {
		close(listener->spare_fd);
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			jstd_refuse(fd, -error);
		listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0 && listener->spare_fd >= 0)
		return;
	sd_event_source_set_enabled(listener->source, SD_EVENT_OFF);
	sd_event_source_set_time_relative(listener->retry, RETRY_US);
	sd_event_source_set_enabled(listener->retry, SD_EVENT_ONESHOT);
}

static int on_listener(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct jstd_daemon *daemon = data;
	int peer_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)source;
	(void)events;
	if (peer_fd >= 0)
		jstd_greeting_begin(daemon, peer_fd);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		accept_without_room(daemon, errno);
	/* Anything else concerns a connection that is gone already. */
	return 0;
}

static int listener_sources(struct jstd_daemon *daemon)
{
	struct jstd_listener *listener = &daemon->listener;
	int ret;

	ret = sd_event_add_time(daemon->event, &listener->retry, CLOCK_MONOTONIC, 0, 0, on_retry,
				daemon);
	if (ret < 0)
		return ret;
	sd_event_source_set_enabled(listener->retry, SD_EVENT_OFF);
	ret = sd_event_add_io(daemon->event, &listener->source, listener->fd, EPOLLIN, on_listener,
			      daemon);
	if (ret < 0)
		return ret;
	/* Those who are in come first: greetings are read before more are accepted. */
	return sd_event_source_set_priority(listener->source, SD_EVENT_PRIORITY_IDLE);
}

int jstd_listener_open(struct jstd_daemon *daemon, const char *path)
{
	int ret = socket_open(&daemon->listener, path);

	if (!ret)
		ret = listener_sources(daemon);
	return ret;
}

static bool is_still_ours(const struct jstd_listener *listener)
{
	struct stat st;

	return listener->ino && !lstat(listener->path, &st) && st.st_dev == listener->dev &&
	       st.st_ino == listener->ino;
}

void jstd_listener_close(struct jstd_daemon *daemon)
{
	struct jstd_listener *listener = &daemon->listener;

	sd_event_source_disable_unref(listener->source);
	sd_event_source_disable_unref(listener->retry);
	if (is_still_ours(listener))
		unlink(listener->path);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->spare_fd >= 0)
		close(listener->spare_fd);
	free(listener->path);
	memset(listener, 0, sizeof(*listener));
	listener->fd = listener->spare_fd = -1;
}
