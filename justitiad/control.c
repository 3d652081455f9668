// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * control.c - JST_STATUS: who may ask, the document, and sending it.
 *
 * The document is sent in pieces that fit any socket buffer, as the reader
 * takes them, and the connection is closed after the last one. Its keys are
 * described in justitiactl(8); they are only ever added to.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "daemon.h"
#include "log.h"

#define PIECE_BYTES 16384u
#define REPLY_US 5000000u
#define DEADLINE_ACCURACY_US 100000u

struct jstd_reply {
	LIST_ENTRY(jstd_reply) link;
	struct jstd_daemon *daemon;
	struct json_object *document;
	const char *text; /* belongs to the document */
	size_t bytes;
	size_t sent;
	sd_event_source *source;
	sd_event_source *deadline;
	int fd;
};

/* ---- the document ------------------------------------------------------------------ */

static void add_number(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void add_text(struct json_object *object, const char *key, const char *value)
{
	json_object_object_add(object, key, json_object_new_string(value));
}

static uint64_t claim(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* What the client says of itself: shown as such. */
static struct json_object *claims(struct jst_abi_region *region)
{
	struct json_object *object = json_object_new_object();

	add_number(object, "messages", claim(&region->stats.messages));
	add_number(object, "bytes", claim(&region->stats.bytes));
	add_number(object, "chunks", claim(&region->stats.chunks));
	add_number(object, "queued_bytes", claim(&region->stats.queued_bytes));
	add_number(object, "tokens", claim(&region->stats.tokens));
	add_number(object, "paced_whole", claim(&region->stats.paced_whole));
	add_number(object, "unpaced", claim(&region->stats.unpaced));
	return object;
}

static struct json_object *client_object(const struct jstd_client *client)
{
	const struct jstd_app *app = &client->app;
	struct json_object *object = json_object_new_object();
	char command[4 * JSTD_COMMAND_BYTES];

	add_number(object, "id", client->id);
	add_number(object, "pid", (uint64_t)client->peer.pid);
	add_number(object, "uid", client->peer.uid);
	add_text(object, "command",
		 jstd_quote(command, sizeof(command), client->peer.command, JSTD_COMMAND_BYTES));
	add_text(object, "device", client->device->name);
	add_text(object, "class", jst_class_name(app->class));
	add_number(object, "weight_milli", app->weight_milli);
	add_number(object, "flows", app->flows);
	json_object_object_add(object, "hungry",
			       json_object_new_boolean(jstd_arbiter_is_hungry(
				       &client->device->arbiter, app)));
	add_number(object, "granted_tokens", app->granted.tokens);
	add_number(object, "granted_bytes", app->granted.bytes);
	add_number(object, "granted_ops", app->granted.ops);
	json_object_object_add(object, "claimed", claims(client->region));
	return object;
}

static struct json_object *population_object(const struct jst_population *population)
{
	struct json_object *object = json_object_new_object();

	for (uint32_t class = 0; class < JST_CLASSES; class++) {
		struct json_object *entry = json_object_new_object();

		add_number(entry, "apps", population->apps[class]);
		add_number(entry, "weight_milli", population->weight_milli[class]);
		json_object_object_add(object, jst_class_name(class), entry);
	}
	return object;
}

static struct json_object *device_object(const struct jstd_device *device)
{
	const struct jstd_arbiter *arbiter = &device->arbiter;
	const struct jst_rate *rate = &arbiter->rate;
	bool guarded = arbiter->population.apps[JST_CLASS_LATENCY] > 0;
	struct json_object *object = json_object_new_object();

	add_text(object, "device", device->name);
	add_number(object, "clients", arbiter->n_apps);
	add_number(object, "max_bytes_per_s",
		   guarded ? arbiter->card.max_bytes_small_per_s : arbiter->card.max_bytes_per_s);
	add_number(object, "max_ops_per_s", arbiter->card.max_ops_per_s);
	add_number(object, "rmin_bytes_per_s", rate->rmin_bytes_per_s);
	add_number(object, "rmin_ops_per_s", rate->rmin_ops_per_s);
	add_number(object, "safeutil_bytes_per_s", rate->safeutil_bytes_per_s);
	add_number(object, "safeutil_ops_per_s", rate->safeutil_ops_per_s);
	add_number(object, "token_bytes", rate->token_bytes);
	add_number(object, "token_ops", rate->token_ops);
	add_number(object, "token_interval_ns", rate->token_interval_ns);
	add_number(object, "granted_tokens", arbiter->granted.tokens);
	add_number(object, "granted_bytes", arbiter->granted.bytes);
	add_number(object, "granted_ops", arbiter->granted.ops);
	json_object_object_add(object, "population", population_object(&arbiter->population));
	return object;
}

static struct json_object *status_object(const struct jstd_daemon *daemon)
{
	struct json_object *object = json_object_new_object();
	struct json_object *devices = json_object_new_array();
	struct json_object *clients = json_object_new_array();
	struct jstd_device *device;
	struct jstd_client *client;

	add_text(object, "version", JST_VERSION);
	add_number(object, "protocol", JST_ABI_VERSION);
	add_number(object, "pid", (uint64_t)getpid());
	add_number(object, "uptime_ns", jstd_now_ns() - daemon->started_ns);
	add_number(object, "max_clients", daemon->conf.max_clients);
	add_number(object, "attached", daemon->attached);
	add_number(object, "refused", daemon->refused);
	LIST_FOREACH(device, &daemon->devices, link)
		json_object_array_add(devices, device_object(device));
	LIST_FOREACH(client, &daemon->clients, link)
		json_object_array_add(clients, client_object(client));
	json_object_object_add(object, "devices", devices);
	json_object_object_add(object, "clients", clients);
	return object;
}

/* ---- sending it --------------------------------------------------------------------- */

static void reply_end(struct jstd_reply *reply)
{
	LIST_REMOVE(reply, link);
	reply->daemon->n_replies--;
	sd_event_source_disable_unref(reply->source);
	sd_event_source_disable_unref(reply->deadline);
	json_object_put(reply->document);
	close(reply->fd);
	free(reply);
}

void jstd_replies_close(struct jstd_daemon *daemon)
{
	while (!LIST_EMPTY(&daemon->replies))
		reply_end(LIST_FIRST(&daemon->replies));
}

static int on_writable(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct jstd_reply *reply = data;
	size_t left = reply->bytes - reply->sent;
	ssize_t sent = send(fd, reply->text + reply->sent, left < PIECE_BYTES ? left : PIECE_BYTES,
			    MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)source;
	(void)events;
	if (sent > 0)
		reply->sent += (size_t)sent;
	else if (errno == EAGAIN || errno == EINTR)
		return 0;
	if (sent < 0 || reply->sent == reply->bytes)
		reply_end(reply);
	return 0;
}

static int on_deadline(sd_event_source *source, uint64_t us, void *reply)
{
	(void)source;
	(void)us;
	reply_end(reply);
	return 0;
}

/* Takes @document and @fd over. */
static void reply_begin(struct jstd_daemon *daemon, int fd, struct json_object *document)
{
	struct jstd_reply *reply = calloc(1, sizeof(*reply));
	int ret;

	if (!reply) {
		json_object_put(document);
		jstd_refuse(fd, -ENOMEM);
		return;
	}
	reply->daemon = daemon;
	reply->fd = fd;
	reply->document = document;
	reply->text = json_object_to_json_string_length(document, JSON_C_TO_STRING_PLAIN,
							&reply->bytes);
	LIST_INSERT_HEAD(&daemon->replies, reply, link);
	daemon->n_replies++;
	ret = sd_event_add_io(daemon->event, &reply->source, fd, EPOLLOUT, on_writable, reply);
	if (ret >= 0)
		ret = sd_event_add_time(daemon->event, &reply->deadline, CLOCK_MONOTONIC,
					jstd_now_ns() / 1000 + REPLY_US, DEADLINE_ACCURACY_US,
					on_deadline, reply);
	if (ret < 0)
		reply_end(reply);
}

/* ---- who may ask ---------------------------------------------------------------------- */

static bool may_ask(const struct jstd_daemon *daemon, int fd, const struct jstd_peer *peer)
{
	if (peer->uid == 0 || peer->uid == geteuid())
		return true;
	return daemon->conf.has_admin_group &&
	       jstd_peer_in_group(peer, fd, daemon->conf.admin_gid);
}

static struct json_object *denial(const struct jstd_daemon *daemon, const struct jstd_peer *peer)
{
	struct json_object *object = json_object_new_object();
	char group[64] = "admin_group, which is not set";
	char text[256];

	if (daemon->conf.has_admin_group)
		snprintf(group, sizeof(group), "group %u", (unsigned int)daemon->conf.admin_gid);
	snprintf(text, sizeof(text),
		 "user %u may not see the status; accepted: root, user %u, members of %s",
		 (unsigned int)peer->uid, (unsigned int)geteuid(), group);
	add_text(object, "error", text);
	return object;
}

void jstd_status_answer(struct jstd_daemon *daemon, int fd, const struct jstd_peer *peer)
{
	if (daemon->n_replies == JSTD_REPLIES_MAX)
		jstd_refuse(fd, -EBUSY);
	else if (may_ask(daemon, fd, peer))
		reply_begin(daemon, fd, status_object(daemon));
	else
		reply_begin(daemon, fd, denial(daemon, peer));
}
