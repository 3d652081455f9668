/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * daemon.h - the parts of the daemon and how they hang together.
 *
 *   main.c      the life of the process
 *   listener.c  the socket, and whatever was in its way; accept
 *   greeting.c  a connection until it has said what it is: JST_HELLO or JST_STATUS
 *   clients.c   an attached client: its region, its JST_LOOKs, its end
 *   devices.c   one arbiter for each device name, and the timer that ticks it
 *   control.c   the status document
 *
 * All of it runs in one thread, in callbacks of one sd-event loop.
 */
#ifndef JSTD_DAEMON_H
#define JSTD_DAEMON_H

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "abi.h"
#include "arbiter.h"
#include "conf.h"
#include "peer.h"

#define JSTD_DEVICES_MAX 64u /* names come from clients */
#define JSTD_GREETINGS_MAX 64u
#define JSTD_GREETING_US 1000000u
#define JSTD_REPLIES_MAX 16u

struct jstd_daemon;

struct jstd_listener {
	sd_event_source *source;
	sd_event_source *retry; /* after running out of file descriptors */
	int fd;
	int spare_fd; /* given up to accept, and turn away, one more */
	dev_t dev;    /* of the socket, so that only our own is removed */
	ino_t ino;
	char *path;
};

/* One name of a device, and who shares it. */
struct jstd_device {
	LIST_ENTRY(jstd_device) link;
	struct jstd_daemon *daemon;
	char name[64];
	struct jstd_arbiter arbiter;
	sd_event_source *timer; /* when the arbiter asked to be called */
	sd_event_source *soon;	/* after the messages that have already come */
};

struct jstd_client {
	LIST_ENTRY(jstd_client) link;
	struct jstd_daemon *daemon;
	struct jstd_device *device;
	struct jstd_app app;
	struct jst_abi_region *region;
	struct jstd_peer peer;
	sd_event_source *source;
	uint64_t id;
	int fd;
};

struct jstd_greeting;
struct jstd_reply;

LIST_HEAD(jstd_devices, jstd_device);
LIST_HEAD(jstd_clients, jstd_client);
TAILQ_HEAD(jstd_greetings, jstd_greeting);
LIST_HEAD(jstd_replies, jstd_reply);

struct jstd_daemon {
	sd_event *event;
	struct jstd_conf conf;
	struct jstd_listener listener;

	struct jstd_greetings greetings; /* oldest first */
	uint32_t n_greetings;
	struct jstd_clients clients;
	uint32_t n_clients;
	struct jstd_devices devices;
	uint32_t n_devices;
	struct jstd_replies replies;
	uint32_t n_replies;

	uint64_t started_ns;
	uint64_t attached; /* clients ever taken; also the last client's id */
	uint64_t refused;  /* for want of room, ever */
	uint64_t refused_in_row;
};

/* ---- main.c's view: everything that has a beginning and an end ---------------- */

void jstd_daemon_init(struct jstd_daemon *daemon, sd_event *event);

/* The new configuration is taken over, the old one freed. */
void jstd_daemon_reconfigure(struct jstd_daemon *daemon, struct jstd_conf *conf);

/* Closes whatever is open. */
void jstd_daemon_close(struct jstd_daemon *daemon);

/* ---- listener.c --------------------------------------------------------------- */

/* 0, or a negative errno, after having logged what is wrong. */
int jstd_listener_open(struct jstd_daemon *daemon, const char *path);
void jstd_listener_close(struct jstd_daemon *daemon);

/* ---- greeting.c --------------------------------------------------------------- */

/* Takes @fd over. */
void jstd_greeting_begin(struct jstd_daemon *daemon, int fd);
void jstd_greetings_close(struct jstd_daemon *daemon);

/* JST_WELCOME that says no; then @fd is closed. */
void jstd_refuse(int fd, int error);

/* ---- clients.c ---------------------------------------------------------------- */

/* Takes @fd over, in any case. */
void jstd_client_attach(struct jstd_daemon *daemon, int fd, struct jstd_peer *peer,
			const struct jst_msg_hello *hello);
void jstd_clients_close(struct jstd_daemon *daemon);
void jstd_client_wake(struct jstd_app *app);

/* ---- devices.c ---------------------------------------------------------------- */

/* Finds or creates. 0, or a negative errno. */
int jstd_device_get(struct jstd_daemon *daemon, const char *name, struct jstd_device **device);

/* After a client has left, or did not join: frees the device if it is empty. */
void jstd_device_put(struct jstd_device *device);

void jstd_device_look(struct jstd_device *device, struct jstd_app *app);

/* Sends the nudges that the arbiter has asked for. */
void jstd_device_nudge(struct jstd_device *device);
void jstd_devices_retune(struct jstd_daemon *daemon);

/* ---- control.c ---------------------------------------------------------------- */

/* Takes @fd over: answers JST_STATUS, or says who may ask. */
void jstd_status_answer(struct jstd_daemon *daemon, int fd, const struct jstd_peer *peer);
void jstd_replies_close(struct jstd_daemon *daemon);

#endif
