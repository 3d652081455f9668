// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* daemon.c - the parts as one thing that begins, is reconfigured, and ends. */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "log.h"

/* One descriptor a client; the rest for greetings, replies and the loop itself. */
#define DESCRIPTORS_BESIDE_CLIENTS (JSTD_GREETINGS_MAX + 2 * JSTD_REPLIES_MAX + 64u)

static void descriptors_allow(uint32_t max_clients)
{
	rlim_t need = max_clients + DESCRIPTORS_BESIDE_CLIENTS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
		return;
	limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < need)
		jstd_log(LOG_WARNING, "%llu file descriptors are too few for %u clients",
			 (unsigned long long)limit.rlim_cur, max_clients);
}

/*
 * RDMA applications poll: the cores may all be busy, and slots that are given
 * away too late are lost. The daemon itself runs for a few microseconds a tick.
 */
static void scheduling_set(bool realtime)
{
	int policy = realtime ? SCHED_RR : SCHED_OTHER;
	const struct sched_param param = {
		.sched_priority = realtime ? sched_get_priority_min(SCHED_RR) : 0,
	};

	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == policy)
		return;
	if (sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &param))
		jstd_log(LOG_NOTICE, "scheduling stays as it is: %s", strerror(errno));
}

void jstd_daemon_init(struct jstd_daemon *daemon, sd_event *event)
{
	memset(daemon, 0, sizeof(*daemon));
	daemon->event = event;
	daemon->started_ns = jstd_now_ns();
	daemon->listener.fd = daemon->listener.spare_fd = -1;
	TAILQ_INIT(&daemon->greetings);
	LIST_INIT(&daemon->clients);
	LIST_INIT(&daemon->devices);
	LIST_INIT(&daemon->replies);
}

void jstd_daemon_reconfigure(struct jstd_daemon *daemon, struct jstd_conf *conf)
{
	jstd_conf_free(&daemon->conf);
	daemon->conf = *conf;
	descriptors_allow(conf->max_clients);
	scheduling_set(conf->realtime);
	jstd_devices_retune(daemon);
}

void jstd_daemon_close(struct jstd_daemon *daemon)
{
	jstd_listener_close(daemon);
	jstd_greetings_close(daemon);
	jstd_replies_close(daemon);
	jstd_clients_close(daemon);
	jstd_conf_free(&daemon->conf);
}
