// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* clients.c - an attached client, from its JST_WELCOME to the end of its socket. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "rules.h"

#define MESSAGES_PER_TURN 4

/* The fastest client, JSTD_LOOKS_PER_TICK with the shortest tick, stays below. */
#define NUDGES_PERIOD_US 10000u
#define NUDGES_PER_PERIOD 500u

static struct jstd_complaint bad_wishes, bad_devices, bad_messages, denials, failures;

/* ---- the region --------------------------------------------------------------- */

/*
 * Its size is sealed, so that no client can make the daemon's reads fail, and
 * its pages are allocated now, so that no lack of memory can.
 */
static int region_create(struct jst_abi_region **region)
{
	const size_t bytes = sizeof(**region);
	int ret, fd = memfd_create("justitia", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (fallocate(fd, 0, 0, (off_t)bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto fail;
	*region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*region == MAP_FAILED)
		goto fail;
	return fd;
fail:
	ret = -errno;
	close(fd);
	return ret;
}

static void region_introduce(struct jst_abi_region *region, const struct jstd_client *client)
{
	region->id.magic = JST_ABI_MAGIC;
	region->id.version = JST_ABI_VERSION;
	region->id.region_bytes = sizeof(*region);
	region->id.ring_tokens = JST_RING_TOKENS;
	region->id.client_id = client->id;
	region->id.class = client->app.class;
	region->id.weight_milli = client->app.weight_milli;
}

static int welcome_send(const struct jstd_client *client, int region_fd)
{
	struct jst_msg_welcome welcome = {
		.header = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_WELCOME },
		.class = client->app.class,
		.weight_milli = client->app.weight_milli,
		.region_bytes = sizeof(struct jst_abi_region),
	};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { &welcome, sizeof(welcome) };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &region_fd, sizeof(int));
	if (sendmsg(client->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* ---- the end ------------------------------------------------------------------- */

static void client_free(struct jstd_client *client)
{
	if (client->region)
		munmap(client->region, sizeof(*client->region));
	sd_event_source_disable_unref(client->source);
	if (client->fd >= 0)
		close(client->fd);
	free(client);
}

static void client_detach(struct jstd_client *client, const char *why)
{
	struct jstd_daemon *daemon = client->daemon;
	struct jstd_device *device = client->device;

	jstd_log(LOG_INFO, "client %llu, pid %d: %s; had %llu tokens, %llu bytes",
		 (unsigned long long)client->id, (int)client->peer.pid, why,
		 (unsigned long long)client->app.granted.tokens,
		 (unsigned long long)client->app.granted.bytes);
	LIST_REMOVE(client, link);
	daemon->n_clients--;
	jstd_arbiter_leave(&device->arbiter, &client->app);
	jstd_device_nudge(device);
	jstd_device_put(device);
	client_free(client);
}

void jstd_clients_close(struct jstd_daemon *daemon)
{
	while (!LIST_EMPTY(&daemon->clients))
		client_detach(LIST_FIRST(&daemon->clients), "the daemon ends");
}

/* ---- nudges, both ways ------------------------------------------------------------ */

void jstd_client_wake(struct jstd_app *app)
{
	struct jstd_client *client =
		(struct jstd_client *)((char *)app - offsetof(struct jstd_client, app));
	const struct jst_msg_header wake = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_WAKE };

	/* If it is full, there are nudges that were not read yet: one more adds nothing. */
	(void)!send(client->fd, &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_look(const struct jst_msg_header *message, ssize_t bytes)
{
	return bytes == sizeof(*message) && message->magic == JST_ABI_MAGIC &&
	       message->version == JST_ABI_VERSION && message->type == JST_LOOK;
}

/* 1: a message; 0: no more now; negative: the end, and the client is gone. */
static int message_take(struct jstd_client *client)
{
	struct jst_msg_header message = { 0 };
	ssize_t bytes;

	/* No room for control data: the kernel drops descriptors that are passed. */
	bytes = recv(client->fd, &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (is_look(&message, bytes)) {
		jstd_device_look(client->device, &client->app);
		return 1;
	}
	if (bytes > 0) {
		jstd_complain(&bad_messages,
			      "client %llu, pid %d: a message of %zd bytes, type %u; accepted: "
			      "JST_LOOK of %zu bytes",
			      (unsigned long long)client->id, (int)client->peer.pid, bytes,
			      message.type, sizeof(message));
		client_detach(client, "closed for what it sent");
	} else {
		client_detach(client, "gone");
	}
	return -EPIPE;
}

static int on_client(sd_event_source *source, int fd, uint32_t events, void *client)
{
	(void)source;
	(void)fd;
	(void)events;
	for (unsigned int i = 0; i < MESSAGES_PER_TURN; i++) {
		if (message_take(client) <= 0)
			break;
	}
	return 0;
}

/* ---- the beginning ----------------------------------------------------------------- */

static bool is_device_name(const char *name, size_t bytes)
{
	static const char accepted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789_.-";
	size_t length = strnlen(name, bytes);

	return length > 0 && length < bytes && strspn(name, accepted) == length;
}

static void complain_of_wishes(const struct jstd_peer *peer, const struct jst_msg_hello *hello,
			       const struct jstd_verdict *verdict)
{
	char text[4 * JST_TEXT_BYTES + 8];

	if (verdict->bad_class)
		jstd_complain(&bad_wishes,
			      "pid %d: class \"%s\" ignored; accepted: latency, throughput, bandwidth",
			      (int)peer->pid,
			      jstd_quote(text, sizeof(text), hello->class, JST_TEXT_BYTES));
	if (verdict->bad_weight)
		jstd_complain(&bad_wishes, "pid %d: weight \"%s\" ignored; accepted: 0.1 to 100",
			      (int)peer->pid,
			      jstd_quote(text, sizeof(text), hello->weight, JST_TEXT_BYTES));
}

/* Room in the table? Says so once when it fills, and once when it has room again. */
static int table_check(struct jstd_daemon *daemon)
{
	if (daemon->n_clients >= daemon->conf.max_clients) {
		daemon->refused++;
		if (!daemon->refused_in_row++)
			jstd_log(LOG_WARNING, "all %u places for clients are taken; refusing more",
				 daemon->conf.max_clients);
		return -EUSERS;
	}
	if (daemon->refused_in_row)
		jstd_log(LOG_NOTICE, "room for clients again; %llu were refused",
			 (unsigned long long)daemon->refused_in_row);
	daemon->refused_in_row = 0;
	return 0;
}

static int client_judge(struct jstd_daemon *daemon, const struct jstd_peer *peer,
			const struct jst_msg_hello *hello, struct jstd_verdict *verdict)
{
	char text[4 * sizeof(hello->device) + 8];

	if (!is_device_name(hello->device, sizeof(hello->device))) {
		jstd_complain(&bad_devices, "pid %d: device \"%s\"; accepted: 1 to 63 of A-Za-z0-9_.-",
			      (int)peer->pid,
			      jstd_quote(text, sizeof(text), hello->device, sizeof(hello->device)));
		return -EINVAL;
	}
	jstd_rules_judge(&daemon->conf, peer, hello, verdict);
	if (verdict->denied) {
		jstd_complain(&denials, "pid %d: denied by rule \"%s\"", (int)peer->pid,
			      verdict->rule->name);
		return -EACCES;
	}
	complain_of_wishes(peer, hello, verdict);
	return table_check(daemon);
}

static int client_listen(struct jstd_client *client)
{
	int ret = sd_event_add_io(client->daemon->event, &client->source, client->fd, EPOLLIN,
				  on_client, client);

	if (ret < 0)
		return ret;
	return sd_event_source_set_ratelimit(client->source, NUDGES_PERIOD_US, NUDGES_PER_PERIOD);
}

/* Region and place in the arbiter; undone by the caller's client_free. */
static int client_join(struct jstd_client *client, const struct jstd_verdict *verdict)
{
	struct jstd_arbiter *arbiter = &client->device->arbiter;
	int ret, region_fd = region_create(&client->region);

	if (region_fd < 0)
		return region_fd;
	ret = jstd_arbiter_join(arbiter, &client->app, client->region, verdict->class,
				verdict->weight_milli);
	if (!ret) {
		region_introduce(client->region, client);
		ret = client_listen(client);
		if (ret >= 0)
			ret = welcome_send(client, region_fd);
		if (ret < 0)
			jstd_arbiter_leave(arbiter, &client->app);
	}
	close(region_fd); /* the mapping and the client have it */
	return ret;
}

static int client_create(struct jstd_daemon *daemon, int fd, const struct jstd_peer *peer,
			 const struct jst_msg_hello *hello, const struct jstd_verdict *verdict)
{
	struct jstd_client *client = calloc(1, sizeof(*client));
	int ret;

	if (!client)
		return -ENOMEM;
	client->daemon = daemon;
	client->peer = *peer;
	client->fd = fd;
	client->id = daemon->attached + 1;
	ret = jstd_device_get(daemon, hello->device, &client->device);
	if (!ret) {
		ret = client_join(client, verdict);
		if (ret < 0)
			jstd_device_put(client->device);
	}
	if (ret < 0) {
		client->fd = -1; /* stays the caller's */
		client_free(client);
		return ret;
	}
	daemon->attached++;
	daemon->n_clients++;
	LIST_INSERT_HEAD(&daemon->clients, client, link);
	return 0;
}

void jstd_client_attach(struct jstd_daemon *daemon, int fd, struct jstd_peer *peer,
			const struct jst_msg_hello *hello)
{
	char command[4 * JSTD_COMMAND_BYTES];
	struct jstd_verdict verdict;
	int ret;

	jstd_peer_describe(peer);
	ret = client_judge(daemon, peer, hello, &verdict);
	if (!ret) {
		ret = client_create(daemon, fd, peer, hello, &verdict);
		if (ret)
			jstd_complain(&failures, "pid %d: could not be taken: %s", (int)peer->pid,
				      strerror(-ret));
	}
	if (ret) {
		jstd_refuse(fd, ret);
		return;
	}
	jstd_log(LOG_INFO, "client %llu, pid %d (%s), uid %u: %s on %s, weight %u.%03u%s%s",
		 (unsigned long long)daemon->attached, (int)peer->pid,
		 jstd_quote(command, sizeof(command), peer->command, sizeof(peer->command)),
		 (unsigned int)peer->uid, jst_class_name(verdict.class), hello->device,
		 verdict.weight_milli / 1000, verdict.weight_milli % 1000,
		 verdict.rule ? ", rule " : "", verdict.rule ? verdict.rule->name : "");
}
