// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* devices.c - the arbiters, and the timers that drive them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "log.h"

#define TIMER_ACCURACY_US 1u /* 0 would mean the default, a quarter of a second */

void jstd_device_nudge(struct jstd_device *device)
{
	struct jstd_app *app;

	while ((app = jstd_arbiter_next_nudge(&device->arbiter)))
		jstd_client_wake(app);
}

static void timer_set(struct jstd_device *device, uint64_t next_ns)
{
	if (next_ns == JSTD_NEVER) {
		sd_event_source_set_enabled(device->timer, SD_EVENT_OFF);
		return;
	}
	sd_event_source_set_time(device->timer, (next_ns + 999) / 1000);
	sd_event_source_set_enabled(device->timer, SD_EVENT_ONESHOT);
}

static void device_tick(struct jstd_device *device)
{
	uint64_t next_ns = jstd_arbiter_tick(&device->arbiter, jstd_now_ns());

	timer_set(device, next_ns);
	jstd_device_nudge(device);
}

static int on_timer(sd_event_source *source, uint64_t us, void *device)
{
	(void)source;
	(void)us;
	device_tick(device);
	return 0;
}

static int on_soon(sd_event_source *source, void *device)
{
	(void)source;
	device_tick(device);
	return 0;
}

/*
 * The tick that a JST_LOOK calls for is put off until the messages that came
 * together with it are read, so that many of them cost one tick.
 */
void jstd_device_look(struct jstd_device *device, struct jstd_app *app)
{
	if (jstd_arbiter_look(&device->arbiter, app, jstd_now_ns()))
		sd_event_source_set_enabled(device->soon, SD_EVENT_ONESHOT);
	jstd_device_nudge(device);
}

static void device_free(struct jstd_device *device)
{
	sd_event_source_disable_unref(device->timer);
	sd_event_source_disable_unref(device->soon);
	free(device);
}

static int device_sources(struct jstd_device *device)
{
	sd_event *event = device->daemon->event;
	int ret;

	ret = sd_event_add_time(event, &device->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
				on_timer, device);
	if (ret < 0)
		return ret;
	sd_event_source_set_enabled(device->timer, SD_EVENT_OFF);
	ret = sd_event_add_defer(event, &device->soon, on_soon, device);
	if (ret < 0)
		return ret;
	return sd_event_source_set_enabled(device->soon, SD_EVENT_OFF);
}

static int device_create(struct jstd_daemon *daemon, const char *name, struct jstd_device **out)
{
	struct jstd_device *device;
	int ret;

	if (daemon->n_devices == JSTD_DEVICES_MAX)
		return -EUSERS;
	device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	device->daemon = daemon;
	strncpy(device->name, name, sizeof(device->name) - 1);
	ret = device_sources(device);
	if (ret < 0) {
		device_free(device);
		return ret;
	}
	jstd_arbiter_init(&device->arbiter, &daemon->conf.card, daemon->conf.tick_ns,
			  daemon->conf.horizon_ns);
	LIST_INSERT_HEAD(&daemon->devices, device, link);
	daemon->n_devices++;
	*out = device;
	return 0;
}

int jstd_device_get(struct jstd_daemon *daemon, const char *name, struct jstd_device **out)
{
	struct jstd_device *device;

	LIST_FOREACH(device, &daemon->devices, link) {
		if (!strcmp(device->name, name)) {
			*out = device;
			return 0;
		}
	}
	return device_create(daemon, name, out);
}

void jstd_device_put(struct jstd_device *device)
{
	if (device->arbiter.n_apps)
		return;
	LIST_REMOVE(device, link);
	device->daemon->n_devices--;
	device_free(device);
}

void jstd_devices_retune(struct jstd_daemon *daemon)
{
	const struct jstd_conf *conf = &daemon->conf;
	struct jstd_device *device;

	LIST_FOREACH(device, &daemon->devices, link) {
		jstd_arbiter_retune(&device->arbiter, &conf->card, conf->tick_ns, conf->horizon_ns);
		device_tick(device);
	}
}
