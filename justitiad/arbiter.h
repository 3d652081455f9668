/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * arbiter.h - the policy meets the memory that apps share: one arbiter a device.
 *
 * It makes no system call and reads no clock: `now_ns` comes in, tokens go out
 * into the regions, and what is left to do for the caller, a time to come back
 * at and a list of clients to nudge, is asked for afterwards.
 *
 * Tokens fall into slots that lie token_interval_ns apart. At each tick the
 * slots up to `horizon_ns` ahead are given away in turn, so that the daemon runs
 * once a tick however many tokens there are, and the apps pace themselves.
 *
 * What the hungry do not want goes to the others at once, with two exceptions:
 *
 * - An app that used tokens in the last tick gets some ahead, as it will want
 *   them before the next one.
 * - A throughput app that is at work keeps its turn even while it has tokens
 *   left: the card is what holds it up then, busy with the others' large
 *   messages, and the slot in which they send nothing is what lets it use its
 *   share. (The paper goes round all active apps, which is the same here.)
 *
 * An app is *awake* while the arbiter looks at its region at every tick, and
 * asleep (daemon.daemon_waits is 1 there) while a JST_LOOK must announce any
 * change. With nobody awake there is no tick.
 */
#ifndef JSTD_ARBITER_H
#define JSTD_ARBITER_H

#include "core/core.h"
#include "ring.h"

#define JSTD_NEVER UINT64_MAX
#define JSTD_FLOWS_MAX (1u << 24) /* queue pair numbers have 24 bits */

/*
 * An app that is no longer hungry is put to sleep at once, for the answer to a
 * JST_LOOK comes sooner than the next tick, but only so often a tick: after
 * that it has to wait for the tick, so that nudges cost a bounded time.
 */
#define JSTD_LOOKS_PER_TICK 2u

/*
 * An app whose ring is full (a stopped process, or a lie) is not asked to say
 * when it no longer is, so it stays awake; alone it is looked at this rarely.
 */
#define JSTD_STUCK_TICKS 100u

struct jstd_granted {
	uint64_t tokens;
	uint64_t bytes;
	uint64_t ops;
};

/* One app as the arbiter knows it. Embedded in whatever owns the app. */
struct jstd_app {
	struct jst_ring_producer ring;
	enum jst_class class;
	uint32_t weight_milli;
	uint32_t slot;	/* in jstd_arbiter.apps and in the scheduler */
	uint32_t flows; /* as last read, at most JSTD_FLOWS_MAX */
	struct jstd_granted granted;

	uint32_t used_total; /* as read at the last tick */
	uint32_t used;	     /* tokens in the tick before that */
	uint32_t late;	     /* tokens whose slot has come, and which lie unused */
	uint32_t posted;     /* work requests, as read at the last tick */
	uint64_t work_ns;    /* when that was last seen to move */

	uint32_t awake_at; /* in jstd_arbiter.awake, if not asleep */
	bool hungry;
	bool asleep;
	bool nudge; /* is in jstd_arbiter.nudges */
	bool fed;   /* got a token in this tick */
	bool stuck; /* its ring was full when last read */
	uint32_t looks; /* put to sleep so many times since */
	uint64_t looks_since_ns;
};

struct jstd_arbiter {
	struct jst_card card;
	uint64_t tick_ns;
	uint64_t horizon_ns; /* at least two ticks */

	struct jst_sched sched;
	struct jst_population population;
	struct jst_rate rate;
	struct jstd_granted granted;

	uint64_t next_due_ns;
	uint64_t place; /* of the last token in its slot, in 2^-64 of half a slot */
	uint64_t read_ns;  /* when `used` and `posted` were last read */
	uint32_t n_hungry; /* of the apps: has use for a token now */
	bool backlog; /* somebody was left hungry when the last slot was given away */

	struct jstd_app *apps[JST_SCHED_APPS];
	uint32_t n_apps;
	struct jstd_app *awake[JST_SCHED_APPS];
	uint32_t n_awake;
	struct jstd_app *nudges[JST_SCHED_APPS];
	uint32_t n_nudges;
};

void jstd_arbiter_init(struct jstd_arbiter *arbiter, const struct jst_card *card, uint64_t tick_ns,
		       uint64_t horizon_ns);

/* Another card or clock, after a reload; the apps stay. */
void jstd_arbiter_retune(struct jstd_arbiter *arbiter, const struct jst_card *card,
			 uint64_t tick_ns, uint64_t horizon_ns);

/* @region is zeroed and not yet shared. 0, or -EUSERS. */
int jstd_arbiter_join(struct jstd_arbiter *arbiter, struct jstd_app *app,
		      struct jst_abi_region *region, enum jst_class class, uint32_t weight_milli);
void jstd_arbiter_leave(struct jstd_arbiter *arbiter, struct jstd_app *app);

/* JST_LOOK came from @app. True if a tick is due now. */
bool jstd_arbiter_look(struct jstd_arbiter *arbiter, struct jstd_app *app, uint64_t now_ns);

/* Gives away what is due; returns when to tick next, or JSTD_NEVER. */
uint64_t jstd_arbiter_tick(struct jstd_arbiter *arbiter, uint64_t now_ns);

/* An app whose client is to be sent JST_WAKE, or NULL when there is no more. */
struct jstd_app *jstd_arbiter_next_nudge(struct jstd_arbiter *arbiter);

bool jstd_arbiter_is_hungry(const struct jstd_arbiter *arbiter, const struct jstd_app *app);

#endif
