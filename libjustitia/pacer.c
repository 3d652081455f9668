// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * pacer.c - tokens from the daemon, and what they permit (paper 4.4).
 *
 * A token is taken when its slot in time has come and the balance is used up.
 * Without a daemon there are no tokens, and everything is permitted.
 */
#include <time.h>

#include "internal.h"

/* The daemon assigns slots a fraction of a second ahead; later ones are a mistake. */
#define SLOT_HORIZON_NS 1000000000ull

uint64_t jst_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Without tokens for so long, or for two lives of a token, the daemon is taken to be stopped. */
#define STALL_NS 1000000000ull

static bool has_tokens(const struct jst_app *app)
{
	return app->region && app->class != JST_CLASS_LATENCY;
}

static bool is_paced(const struct jst_app *app)
{
	return has_tokens(app) && !app->stalled;
}

static uint32_t policy_chunk_bytes(const struct jst_app *app)
{
	return atomic_load_explicit(&app->region->policy.chunk_bytes, memory_order_relaxed);
}

static uint32_t policy_token_ops(const struct jst_app *app)
{
	return atomic_load_explicit(&app->region->policy.token_ops, memory_order_relaxed);
}

uint32_t jst_pacer_chunk_bytes(const struct jst_app *app)
{
	return is_paced(app) ? policy_chunk_bytes(app) : 0;
}

bool jst_pacer_allows(const struct jst_app *app)
{
	return !is_paced(app) || jst_balance_allows(&app->balance);
}

void jst_pacer_clamp(struct jst_app *app)
{
	if (app->stalled && has_tokens(app) && jst_ring_tokens(&app->ring))
		app->stalled = false; /* it gives again */
	if (is_paced(app))
		jst_balance_clamp(&app->balance, policy_chunk_bytes(app), policy_token_ops(app));
}

/* Slots that went by unused are not saved up, but for the last one. */
static bool is_void(const struct jst_app *app, const struct jst_token *token, uint64_t now_ns)
{
	uint64_t life_ns =
		atomic_load_explicit(&app->region->policy.token_life_ns, memory_order_relaxed);

	return life_ns && token->due_ns < now_ns && now_ns - token->due_ns > life_ns &&
	       jst_ring_tokens(&app->ring) > 1;
}

void jst_pacer_refill(struct jst_app *app, uint64_t now_ns)
{
	struct jst_token token;
	bool voided;

	if (!is_paced(app))
		return;
	while (!jst_balance_allows(&app->balance) && jst_ring_peek(&app->ring, &token)) {
		if (token.due_ns > now_ns && token.due_ns - now_ns < SLOT_HORIZON_NS)
			return;
		voided = is_void(app, &token, now_ns);
		jst_ring_drop(&app->ring);
		if (voided)
			continue;
		jst_balance_add(&app->balance, &token, policy_chunk_bytes(app),
				policy_token_ops(app));
		app->counters.tokens++;
	}
}

void jst_pacer_spend(struct jst_app *app, uint64_t bytes, uint64_t ops)
{
	if (is_paced(app))
		jst_balance_spend(&app->balance, bytes, ops);
	app->counters.bytes += bytes;
	app->counters.chunks += ops;
}

void jst_pacer_refund(struct jst_app *app, uint64_t bytes, uint64_t ops)
{
	if (is_paced(app))
		jst_balance_spend(&app->balance, -bytes, -ops);
	app->counters.bytes -= bytes;
	app->counters.chunks -= ops;
}

uint64_t jst_pacer_starve(struct jst_app *app, uint64_t now_ns)
{
	uint64_t patience_ns =
		2 * atomic_load_explicit(&app->region->policy.token_life_ns, memory_order_relaxed);

	if (patience_ns < STALL_NS)
		patience_ns = STALL_NS;
	if (!app->starving_ns)
		app->starving_ns = now_ns;
	if (now_ns - app->starving_ns >= patience_ns)
		app->stalled = true;
	return app->starving_ns + patience_ns;
}

uint64_t jst_pacer_due_ns(const struct jst_app *app)
{
	struct jst_token token;

	if (!is_paced(app) || !jst_ring_peek(&app->ring, &token))
		return UINT64_MAX;
	return token.due_ns;
}

static void publish_statistics(struct jst_app *app)
{
	struct jst_abi_region *region = app->region;
	const struct jst_counters *counters = &app->counters;

	atomic_store_explicit(&region->stats.messages, counters->messages, memory_order_relaxed);
	atomic_store_explicit(&region->stats.bytes, counters->bytes, memory_order_relaxed);
	atomic_store_explicit(&region->stats.chunks, counters->chunks, memory_order_relaxed);
	atomic_store_explicit(&region->stats.tokens, counters->tokens, memory_order_relaxed);
	atomic_store_explicit(&region->stats.paced_whole, counters->paced_whole,
			      memory_order_relaxed);
	atomic_store_explicit(&region->stats.unpaced, counters->unpaced, memory_order_relaxed);
	atomic_store_explicit(&region->stats.queued_bytes, app->queued_bytes,
			      memory_order_relaxed);
}

/*
 * Tokens that there is use for beyond those taken: for all that is queued, and
 * one more, so that neither the next message nor an app whose balance has just
 * run out waits for the daemon's next tick.
 */
static uint32_t tokens_wanted(const struct jst_app *app)
{
	uint64_t tokens = jst_balance_short(&app->balance, app->queued_bytes, app->queued_ops,
					    policy_chunk_bytes(app), policy_token_ops(app)) + 1;

	return tokens < JST_RING_TOKENS / 2 ? (uint32_t)tokens : JST_RING_TOKENS / 2;
}

void jst_pacer_publish(struct jst_app *app)
{
	struct jst_abi_region *region = app->region;
	uint32_t wanted;

	if (!region)
		return;
	publish_statistics(app);
	atomic_store_explicit(&region->client.posted, (uint32_t)app->counters.chunks,
			      memory_order_relaxed);
	atomic_store_explicit(&region->client.used, (uint32_t)app->counters.tokens,
			      memory_order_relaxed);
	if (!has_tokens(app))
		return;
	wanted = app->ring.tail + tokens_wanted(app);
	if (wanted == app->wanted)
		return;
	app->wanted = wanted;
	/* seq_cst: this store, then the look at daemon_waits; see abi.h */
	atomic_store_explicit(&region->client.wanted, wanted, memory_order_seq_cst);
	if (atomic_load_explicit(&region->daemon.daemon_waits, memory_order_seq_cst) &&
	    !jst_ring_covers(&app->ring, wanted))
		jst_client_look(app);
}

void jst_pacer_flows(struct jst_app *app, int change)
{
	pthread_mutex_lock(&app->lock);
	app->flows = (uint32_t)((int)app->flows + change);
	if (app->region) {
		atomic_store_explicit(&app->region->client.flows, app->flows,
				      memory_order_seq_cst);
		/* Rare, and who shares the card depends on it: tell at once. */
		jst_client_look(app);
	}
	pthread_mutex_unlock(&app->lock);
}
