// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* arbiter.c - who is there, who is hungry, whose is the next slot (4.3.4). */
#include "arbiter.h"

#include <errno.h>
#include <string.h>

#define TURNS_OF_LIFE 4u

/* ---- nudges ---------------------------------------------------------------- */

/* Asks for a JST_WAKE if the client sleeps. */
static void nudge(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	if (app->nudge || !jst_ring_must_wake(&app->ring))
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

/* A few turns of an app: long enough for a late thread, too short to save up a burst. */
static uint64_t token_life_ns(const struct jstd_arbiter *arbiter)
{
	const struct jst_population *population = &arbiter->population;
	uint64_t apps = population->apps[JST_CLASS_BANDWIDTH] +
			population->apps[JST_CLASS_THROUGHPUT];
	uint64_t turns_ns = TURNS_OF_LIFE * arbiter->rate.token_interval_ns * (apps ? apps : 1);

	return turns_ns > arbiter->tick_ns ? turns_ns : arbiter->tick_ns;
}

static void policy_store(const struct jstd_arbiter *arbiter, struct jst_abi_region *region)
{
	atomic_store_explicit(&region->policy.token_life_ns, token_life_ns(arbiter),
			      memory_order_relaxed);
	atomic_store_explicit(&region->policy.chunk_bytes, arbiter->rate.token_bytes,
			      memory_order_relaxed);
	atomic_store_explicit(&region->policy.token_ops, arbiter->rate.token_ops,
			      memory_order_relaxed);
}

/* Sleepers are told of another size; how long a token lives they see when they use one. */
static void policy_publish(struct jstd_arbiter *arbiter, bool resized)
{
	for (uint32_t i = 0; i < JST_SCHED_APPS; i++) {
		if (!arbiter->apps[i])
			continue;
		policy_store(arbiter, arbiter->apps[i]->ring.region);
		if (resized)
			nudge(arbiter, arbiter->apps[i]);
	}
}

static void policy_update(struct jstd_arbiter *arbiter)
{
	uint32_t token_bytes = arbiter->rate.token_bytes;
	uint32_t token_ops = arbiter->rate.token_ops;

	jst_capacity(&arbiter->card, &arbiter->population, &arbiter->rate);
	policy_publish(arbiter, arbiter->rate.token_bytes != token_bytes ||
					arbiter->rate.token_ops != token_ops);
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

static void hungry_set(struct jstd_arbiter *arbiter, struct jstd_app *app, bool hungry)
{
	if (hungry == app->hungry)
		return;
	app->hungry = hungry;
	arbiter->n_hungry += hungry ? 1 : -1u;
	jst_sched_set_hungry(&arbiter->sched, app->slot, hungry);
}

/*
 * Tokens that an app will use if it goes on as in the last tick; twice as many
 * if it used all that was due, as it may do with more then. New slots lie up to
 * a horizon ahead, behind those that the others have already, so its ring has
 * to reach as far as that.
 */
static uint32_t tokens_ahead(const struct jstd_arbiter *arbiter, const struct jstd_app *app)
{
	uint64_t ticks = (arbiter->horizon_ns + arbiter->tick_ns - 1) / arbiter->tick_ns;
	uint64_t ahead = app->used * ticks * (app->late <= app->used / 4 ? 2 : 1);

	return ahead < JST_RING_TOKENS / 2 ? (uint32_t)ahead : JST_RING_TOKENS / 2;
}

/* It wants tokens, or will. */
static bool has_use(const struct jstd_arbiter *arbiter, const struct jstd_app *app)
{
	return jst_ring_wanted(&app->ring) ||
	       jst_ring_used(&app->ring) < tokens_ahead(arbiter, app);
}

/*
 * `wanted` before `flows`: a client that asks has raised its flows first, and
 * both are seq_cst. Latency apps bypass the tokens, whatever they write.
 */
static bool region_read(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	bool use = has_use(arbiter, app);
	uint32_t flows =
		atomic_load_explicit(&app->ring.region->client.flows, memory_order_seq_cst);
	bool bypasses = app->class == JST_CLASS_LATENCY || !flows;

	app->stuck = !bypasses && jst_ring_used(&app->ring) == JST_RING_TOKENS;
	flows_set(arbiter, app, flows);
	hungry_set(arbiter, app, use && !bypasses && !app->stuck);
	return app->hungry;
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
	if (app->stuck || app->used || !may_sleep(arbiter, app, now_ns))
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

/* The slots are where the client may write too: a lie costs it its own tokens. */
static uint32_t late_tokens(const struct jstd_app *app, uint64_t now_ns)
{
	uint32_t tokens = jst_ring_used(&app->ring);
	uint32_t tail = app->ring.head - tokens;
	uint32_t late = 0;

	while (late < tokens && app->ring.region->ring[(tail + late) & JST_RING_MASK].due_ns <= now_ns)
		late++;
	return late;
}

/* What the client says it has used and posted. */
static void work_read(struct jstd_app *app, uint64_t now_ns)
{
	const struct jst_abi_region *region = app->ring.region;
	uint32_t total = atomic_load_explicit(&region->client.used, memory_order_relaxed);
	uint32_t posted = atomic_load_explicit(&region->client.posted, memory_order_relaxed);

	app->used = total - app->used_total;
	if (app->used > JST_RING_TOKENS)
		app->used = 0;
	app->used_total = total;
	app->late = late_tokens(app, now_ns);
	if (posted != app->posted)
		app->work_ns = now_ns;
	app->posted = posted;
}

/* A JST_LOOK may call for a tick at any time; what is used is told by whole ones. */
static bool is_whole_tick(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	if (now_ns - arbiter->read_ns < arbiter->tick_ns)
		return false;
	arbiter->read_ns = now_ns;
	return true;
}

static void hunger_read(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	bool whole = is_whole_tick(arbiter, now_ns);

	for (uint32_t i = 0; i < arbiter->n_awake; i++) {
		if (whole)
			work_read(arbiter->awake[i], now_ns);
		region_read(arbiter, arbiter->awake[i]);
	}
}

static void count(struct jstd_granted *granted, const struct jst_token *token)
{
	granted->tokens++;
	granted->bytes += token->bytes;
	granted->ops += token->ops;
}

/*
 * Where in its slot a token falls due: anywhere in the first half, never the same
 * place in a row. A latency app that posts as soon as it has heard would else
 * fall in step with the token clock, and meet a chunk every time.
 */
static uint64_t place_in_slot(struct jstd_arbiter *arbiter)
{
	const uint64_t golden = 0x9e3779b97f4a7c15; /* 2^64 / 1.618: spreads evenly */

	arbiter->place += golden;
	return (uint64_t)((unsigned __int128)arbiter->rate.token_interval_ns * arbiter->place >> 65);
}

/* Puts the token of the next slot into @app's ring. False if it has no room. */
static bool grant(struct jstd_arbiter *arbiter, struct jstd_app *app)
{
	struct jst_token token = {
		.due_ns = arbiter->next_due_ns + place_in_slot(arbiter),
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
	if (!pushed || !has_use(arbiter, app))
		hungry_set(arbiter, app, false);
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

static bool is_at_work(const struct jstd_arbiter *arbiter, const struct jstd_app *app,
		       uint64_t now_ns)
{
	uint64_t span_ns = token_life_ns(arbiter);

	return app->class == JST_CLASS_THROUGHPUT && app->flows && app->work_ns &&
	       now_ns - app->work_ns <= span_ns;
}

/* Throughput apps at work that want nothing just now: in the round, or out of it again. */
static void turns_keep(struct jstd_arbiter *arbiter, uint64_t now_ns, bool keep)
{
	if (!arbiter->population.apps[JST_CLASS_THROUGHPUT])
		return;
	for (uint32_t i = 0; i < JST_SCHED_APPS; i++) {
		struct jstd_app *app = arbiter->apps[i];

		if (!app || app->hungry)
			continue;
		if (keep && app->asleep)
			work_read(app, now_ns);
		jst_sched_set_hungry(&arbiter->sched, i, keep && is_at_work(arbiter, app, now_ns));
	}
}

static void slots_give(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	clock_catch_up(arbiter, now_ns);
	turns_keep(arbiter, now_ns, true);
	while (arbiter->n_hungry && arbiter->next_due_ns < now_ns + arbiter->horizon_ns) {
		struct jstd_app *app = arbiter->apps[jst_sched_next(&arbiter->sched)];

		/* The turn of one at work is its own: if it has tokens enough, nobody's. */
		if (app->hungry || app->late <= app->used)
			grant(arbiter, app);
		else
			arbiter->next_due_ns += arbiter->rate.token_interval_ns;
	}
	turns_keep(arbiter, now_ns, false);
	arbiter->backlog = arbiter->n_hungry > 0;
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
		if (!app->hungry)
			try_sleep(arbiter, app, now_ns);
	}
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
	if (arbiter->n_hungry && arbiter->next_due_ns > next_ns + ahead_ns)
		return arbiter->next_due_ns - ahead_ns;
	return next_ns;
}

uint64_t jstd_arbiter_tick(struct jstd_arbiter *arbiter, uint64_t now_ns)
{
	hunger_read(arbiter, now_ns);
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
	hungry_set(arbiter, app, false);
	if (!app->asleep)
		awake_remove(arbiter, app);
	nudge_forget(arbiter, app);
	arbiter->apps[app->slot] = NULL;
	arbiter->n_apps--;
	flows_set(arbiter, app, 0);
}

bool jstd_arbiter_is_hungry(const struct jstd_arbiter *arbiter, const struct jstd_app *app)
{
	(void)arbiter;
	return app->hungry;
}
