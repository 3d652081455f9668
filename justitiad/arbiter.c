// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* arbiter.c - who is there, who is hungry, whose is the next slot (4.3.4). */
#include "arbiter.h"

#include <errno.h>
#include <string.h>

/* ---- nudges ---------------------------------------------------------------- */

/*
 * Asks for a JST_WAKE if the client sleeps. The fence orders what was just
 * published before the look at client_waits; the client does the reverse, so
 * one of the two sees the other.
 */
static void nudge(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (app->nudge || !atomic_load_explicit(&app->ring.region->client.client_waits,
						memory_order_seq_cst))
		return;
	app->nudge = true;
	arbiter->nudges[arbiter->n_nudges++] = app;
}

struct jstd_app *jstd_arbiter_next_nudge(struct jstd_arbiter *arbiter)
{
	struct jstd_app *app;

	if (!arbiter->n_nudges)
		return NULL;
	app = arbiter->nudges[--arbiter->n_nudges];
	app->nudge = false;
	return app;
}

static void nudge_forget(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	for (uint32_t i = 0; i < arbiter->n_nudges; i++) {
		if (arbiter->nudges[i] == app)
			arbiter->nudges[i--] = arbiter->nudges[--arbiter->n_nudges];
	}
}

/* ---- the policy in force ---------------------------------------------------- */

static void policy_store(const struct jstd_arbiter *arbiter, struct jst_abi_region *region)
{
	atomic_store_explicit(&region->policy.chunk_bytes, arbiter->rate.token_bytes,
			      memory_order_relaxed);
	atomic_store_explicit(&region->policy.token_ops, arbiter->rate.token_ops,
			      memory_order_relaxed);
}

static void policy_publish(struct jstd_arbiter *arbiter)
{
	for (uint32_t i = 0; i < JST_SCHED_APPS; i++) {
		if (!arbiter->apps[i])
			continue;
		policy_store(arbiter, arbiter->apps[i]->ring.region);
		nudge(arbiter, arbiter->apps[i]);
	}
}

static void policy_update(struct jstd_arbiter *arbiter)
{
	uint32_t token_bytes = arbiter->rate.token_bytes;
	uint32_t token_ops = arbiter->rate.token_ops;

	jst_capacity(&arbiter->card, &arbiter->population, &arbiter->rate);
	if (arbiter->rate.token_bytes != token_bytes || arbiter->rate.token_ops != token_ops)
		policy_publish(arbiter);
}

/* An app is one of the population while it has flows. */
static void flows_set(struct jstd_arbiter *arbiter, struct jstd_app *app, uint32_t flows)
{
	bool was_there = app->flows > 0;
	bool is_there = flows > 0;

	app->flows = flows > JSTD_FLOWS_MAX ? JSTD_FLOWS_MAX : flows;
	if (was_there == is_there)
		return;
	if (is_there) {
		arbiter->population.apps[app->class]++;
		arbiter->population.weight_milli[app->class] += app->weight_milli;
	} else {
		arbiter->population.apps[app->class]--;
		arbiter->population.weight_milli[app->class] -= app->weight_milli;
	}
	policy_update(arbiter);
}

/* ---- awake and asleep ------------------------------------------------------- */

/*
 * `wanted` before `flows`: a client that asks has raised its flows first, and
 * both are seq_cst. Latency apps bypass the tokens, whatever they write.
 */
static bool region_read(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	uint32_t wanted = jst_ring_wanted(&app->ring);
	uint32_t flows =
		atomic_load_explicit(&app->ring.region->client.flows, memory_order_seq_cst);
	bool bypasses = app->class == JST_CLASS_LATENCY || !flows;
	bool hungry = wanted && !bypasses;

	app->stuck = !bypasses && jst_ring_used(&app->ring) == JST_RING_TOKENS;
	flows_set(arbiter, app, flows);
	if (hungry != jst_sched_is_hungry(&arbiter->sched, app->slot))
		jst_sched_set_hungry(&arbiter->sched, app->slot, hungry);
	return hungry;
}

static void awake_add(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	if (!arbiter->n_awake)
		arbiter->backlog = false; /* whoever was left hungry is gone */
	app->asleep = false;
	app->awake_at = arbiter->n_awake;
	arbiter->awake[arbiter->n_awake++] = app;
}

static void awake_remove(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	struct jstd_app *last = arbiter->awake[--arbiter->n_awake];

	arbiter->awake[app->awake_at] = last;
	last->awake_at = app->awake_at;
	app->asleep = true;
}

static bool may_sleep(const struct jstd_arbiter *arbiter, struct jstd_app *app, uint64_t now_ns)
{
	if (now_ns - app->looks_since_ns >= arbiter->tick_ns) {
		app->looks_since_ns = now_ns;
		app->looks = 0;
	}
	return app->looks < JSTD_LOOKS_PER_TICK;
}

static void waits_store(struct jstd_app *app, uint32_t waits)
{
	atomic_store_explicit(&app->ring.region->daemon.daemon_waits, waits, memory_order_seq_cst);
}

/* Says that a JST_LOOK is needed from now on, then looks once more. */
static bool try_sleep(struct jstd_arbiter *arbiter, struct jstd_app *app, uint64_t now_ns)
{
	if (app->stuck || !may_sleep(arbiter, app, now_ns))
		return false;
	waits_store(app, 1);
	if (region_read(arbiter, app) || app->stuck) {
		waits_store(app, 0);
		return false;
	}
	app->looks++;
	awake_remove(arbiter, app);
	return true;
}

bool jstd_arbiter_look(struct jstd_arbiter *arbiter, struct jstd_app *app, uint64_t now_ns)
{
	if (!app->asleep)
		return false;
	waits_store(app, 0);
	awake_add(arbiter, app);
	if (region_read(arbiter, app))
		return true;
	/* Only the flows changed: no need for a tick, unless it has to be one that looks again. */
	return !try_sleep(arbiter, app, now_ns);
}

/* ---- the token clock -------------------------------------------------------- */

static void hunger_read(struct jstd_arbiter *arbiter)
{
	for (uint32_t i = 0; i < arbiter->n_awake; i++)
		region_read(arbiter, arbiter->awake[i]);
}

static void count(struct jstd_granted *granted, const struct jst_token *token)
{
	granted->tokens++;
	granted->bytes += token->bytes;
	granted->ops += token->ops;
}

/* Puts the token of the next slot into @app's ring. False if it has no room. */
static bool grant(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	struct jst_token token = {
		.due_ns = arbiter->next_due_ns,
		.bytes = arbiter->rate.token_bytes,
		.ops = arbiter->rate.token_ops,
	};
	bool pushed = jst_ring_push(&app->ring, &token);

	if (pushed) {
		app->fed = true;
		count(&app->granted, &token);
		count(&arbiter->granted, &token);
		arbiter->next_due_ns += arbiter->rate.token_interval_ns;
	}
	if (!jst_ring_wanted(&app->ring))
		jst_sched_set_hungry(&arbiter->sched, app->slot, false);
	return pushed;
}

/*
 * Slots that went by while nobody was hungry are gone. Those that went by
 * because the tick was late are made up for, one horizon of them at the most.
 */
static void clock_catch_up(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	uint64_t earliest = now_ns;

	if (arbiter->backlog)
		earliest = now_ns > arbiter->horizon_ns ? now_ns - arbiter->horizon_ns : 0;
	if (arbiter->next_due_ns < earliest)
		arbiter->next_due_ns = earliest;
}

static void slots_give(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	clock_catch_up(arbiter, now_ns);
	arbiter->backlog = true;
	while (arbiter->next_due_ns < now_ns + arbiter->horizon_ns) {
		int slot = jst_sched_next(&arbiter->sched);

		if (slot < 0) {
			arbiter->backlog = false;
			return;
		}
		grant(arbiter, arbiter->apps[slot]);
	}
}

/* After the slots: nudges the clients that sleep, and lets the sated apps be. */
static void awake_settle(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	/* Downwards: try_sleep puts the last one, already seen, in its place. */
	for (uint32_t i = arbiter->n_awake; i-- > 0;) {
		struct jstd_app *app = arbiter->awake[i];

		if (app->fed)
			nudge(arbiter, app);
		app->fed = false;
		if (!jst_sched_is_hungry(&arbiter->sched, app->slot))
			try_sleep(arbiter, app, now_ns);
	}
}

static bool is_anyone_hungry(const struct jstd_arbiter *arbiter)
{
	for (uint32_t i = 0; i < arbiter->n_awake; i++) {
		if (jst_sched_is_hungry(&arbiter->sched, arbiter->awake[i]->slot))
			return true;
	}
	return false;
}

static bool is_everyone_stuck(const struct jstd_arbiter *arbiter)
{
	for (uint32_t i = 0; i < arbiter->n_awake; i++) {
		if (!arbiter->awake[i]->stuck)
			return false;
	}
	return true;
}

static uint64_t next_tick(const struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	uint64_t ahead_ns = arbiter->horizon_ns - arbiter->tick_ns;
	uint64_t next_ns = now_ns + arbiter->tick_ns;

	if (!arbiter->n_awake)
		return JSTD_NEVER;
	if (is_everyone_stuck(arbiter))
		return now_ns + JSTD_STUCK_TICKS * arbiter->tick_ns;
	/* Slots farther apart than ticks: until the next one there is nothing to give. */
	if (is_anyone_hungry(arbiter) && arbiter->next_due_ns > next_ns + ahead_ns)
		return arbiter->next_due_ns - ahead_ns;
	return next_ns;
}

uint64_t jstd_arbiter_tick(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	hunger_read(arbiter);
	slots_give(arbiter, now_ns);
	awake_settle(arbiter, now_ns);
	return next_tick(arbiter, now_ns);
}

/* ---- coming and going ------------------------------------------------------- */

void jstd_arbiter_init(struct jstd_arbiter *arbiter, const struct jst_card *card, uint64_t tick_ns,
		       uint64_t horizon_ns)
{
	memset(arbiter, 0, sizeof(*arbiter));
	jst_sched_init(&arbiter->sched);
	jstd_arbiter_retune(arbiter, card, tick_ns, horizon_ns);
}

void jstd_arbiter_retune(struct jstd_arbiter *arbiter, const struct jst_card *card,
			 uint64_t tick_ns, uint64_t horizon_ns)
{
	arbiter->card = *card;
	arbiter->tick_ns = tick_ns;
	arbiter->horizon_ns = horizon_ns;
	policy_update(arbiter);
}

static uint32_t slot_find(const struct jstd_arbiter *arbiter)
{
	uint32_t slot = 0;

	while (slot < JST_SCHED_APPS && arbiter->apps[slot])
		slot++;
	return slot;
}

int jstd_arbiter_join(struct jstd_arbiter *arbiter, struct jstd_app *app,
		      struct jst_abi_region *region, enum jst_class class, uint32_t weight_milli)
{
	uint32_t slot = slot_find(arbiter);

	if (slot == JST_SCHED_APPS)
		return -EUSERS;
	memset(app, 0, sizeof(*app));
	app->ring.region = region;
	app->class = class;
	app->weight_milli = weight_milli;
	app->slot = slot;
	app->asleep = true;
	arbiter->apps[slot] = app;
	arbiter->n_apps++;
	jst_sched_join(&arbiter->sched, slot, weight_milli);
	policy_store(arbiter, region);
	waits_store(app, 1);
	return 0;
}

void jstd_arbiter_leave(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	jst_sched_set_hungry(&arbiter->sched, app->slot, false);
	if (!app->asleep)
		awake_remove(arbiter, app);
	nudge_forget(arbiter, app);
	arbiter->apps[app->slot] = NULL;
	arbiter->n_apps--;
	flows_set(arbiter, app, 0);
}

bool jstd_arbiter_is_hungry(const struct jstd_arbiter *arbiter, const struct jstd_app *app)
{
	return jst_sched_is_hungry(&arbiter->sched, app->slot);
}
