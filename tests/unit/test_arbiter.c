// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * test_arbiter.c - the token clock against regions, in fake time.
 *
 * The right values: slots and shares from the paper's 4.3.4, Rmin from 4.3.1 and
 * figures 23 and 37 (four bandwidth apps of weight w beside one latency app).
 */
#include <errno.h>
#include <string.h>

#include "justitiad/arbiter.h"
#include "unit.h"

#define TICK_NS 100000ull
#define HORIZON_NS 400000ull
#define APPS_MAX 64

/* 1 MB each 200 us; beside a latency app alone 5 KB each 1 us at MaxRate. */
static const struct jst_card card = {
	.max_bytes_per_s = 5000000000,
	.max_bytes_small_per_s = 5000000000,
	.max_ops_per_s = 10000000,
	.token_bytes_large = 1000000,
	.token_bytes_small = 5000,
	.count_latency_once = true,
};

/* An application as a region sees it, and what was found in its ring. */
struct fake {
	struct jstd_app app;
	struct jst_abi_region *region;
	struct jst_ring_consumer ring;
	struct jst_token got[4096];
	uint32_t n_got;
};

static struct jstd_arbiter arbiter;
static struct fake fakes[APPS_MAX];
static uint32_t n_fakes;
static uint64_t now_ns;

static void set_up_card(const struct jst_card *with)
{
	for (uint32_t i = 0; i < n_fakes; i++)
		free(fakes[i].region);
	memset(fakes, 0, sizeof(fakes));
	n_fakes = 0;
	now_ns = 1000000000;
	jstd_arbiter_init(&arbiter, with, TICK_NS, HORIZON_NS);
}

static void set_up(void)
{
	set_up_card(&card);
}

static struct fake *attach(enum jst_class class, uint32_t weight_milli)
{
	struct fake *fake = &fakes[n_fakes++];

	fake->region = aligned_alloc(JST_CACHE_LINE, sizeof(*fake->region));
	memset(fake->region, 0, sizeof(*fake->region));
	fake->ring.region = fake->region;
	ck_assert_int_eq(jstd_arbiter_join(&arbiter, &fake->app, fake->region, class, weight_milli),
			 0);
	return fake;
}

/* Does what a client does: announces the change if the daemon waits for that. */
static void announce(struct fake *fake)
{
	if (atomic_load(&fake->region->daemon.daemon_waits))
		jstd_arbiter_look(&arbiter, &fake->app, now_ns);
}

static void set_flows(struct fake *fake, uint32_t flows)
{
	atomic_store(&fake->region->client.flows, flows);
	announce(fake);
}

/* Wants @more tokens beyond what it has been given. */
static void want(struct fake *fake, uint32_t more)
{
	atomic_store(&fake->region->client.wanted, fake->app.ring.head + more);
	announce(fake);
}

static struct fake *join(enum jst_class class, uint32_t weight_milli)
{
	struct fake *fake = attach(class, weight_milli);

	set_flows(fake, 1);
	return fake;
}

static void take(struct fake *fake)
{
	while (fake->n_got < 4096 && jst_ring_peek(&fake->ring, &fake->got[fake->n_got])) {
		jst_ring_drop(&fake->ring);
		atomic_store(&fake->region->client.used, ++fake->n_got);
	}
}

static void take_all(void)
{
	for (uint32_t i = 0; i < n_fakes; i++)
		take(&fakes[i]);
}

static uint64_t tick(void)
{
	uint64_t next_ns = jstd_arbiter_tick(&arbiter, now_ns);

	take_all();
	return next_ns;
}

/* Ticks as often as the arbiter asks for, for @span_ns; every app stays hungry. */
static void run_hungry(uint64_t span_ns)
{
	uint64_t end_ns = now_ns + span_ns;

	while (now_ns < end_ns) {
		uint64_t next_ns;

		for (uint32_t i = 0; i < n_fakes; i++)
			want(&fakes[i], 512);
		next_ns = tick();
		ck_assert(next_ns > now_ns);
		now_ns = next_ns < end_ns ? next_ns : end_ns;
	}
}

static int by_due(const void *a, const void *b)
{
	const struct jst_token *left = a, *right = b;

	return left->due_ns < right->due_ns ? -1 : left->due_ns > right->due_ns;
}

/* All tokens given so far, by slot. */
static uint32_t all_tokens(struct jst_token *tokens)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_fakes; i++) {
		memcpy(tokens + n, fakes[i].got, fakes[i].n_got * sizeof(*tokens));
		n += fakes[i].n_got;
	}
	qsort(tokens, n, sizeof(*tokens), by_due);
	return n;
}

/* ---- slots ---------------------------------------------------------------------- */

/* One token a slot, in its first half, and not always at the same place there. */
static void check_slots(uint64_t interval_ns)
{
	static struct jst_token tokens[APPS_MAX * 4096];
	uint32_t n = all_tokens(tokens);
	uint64_t first = UINT64_MAX, last = 0;

	ck_assert_uint_gt(n, 10);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t place = tokens[i].due_ns - i * interval_ns;

		first = place < first ? place : first;
		last = place > last ? place : last;
	}
	ck_assert_uint_le(last - first, interval_ns / 2);
	ck_assert_uint_ge(last - first, interval_ns / 4);
}

START_TEST(each_slot_has_one_token_in_its_first_half)
{
	set_up();
	for (int i = 0; i < 5; i++)
		join(JST_CLASS_BANDWIDTH, 1000);
	run_hungry(10000000);
	check_slots(200000);
	join(JST_CLASS_LATENCY, 1000);
	set_up();
	join(JST_CLASS_LATENCY, 1000);
	join(JST_CLASS_BANDWIDTH, 1000);
	join(JST_CLASS_THROUGHPUT, 1000);
	run_hungry(2000000);
	check_slots(1500); /* 5 KB at two thirds of 5 GB/s */
}
END_TEST

START_TEST(a_token_is_what_the_policy_says)
{
	struct fake *fake;

	set_up();
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	run_hungry(1000000);
	ck_assert_uint_eq(fake->got[0].bytes, 1000000);
	ck_assert_uint_eq(fake->got[0].ops, 2000); /* 10 Mop/s for 200 us */
	ck_assert_uint_eq(fake->app.granted.tokens, fake->n_got);
	ck_assert_uint_eq(fake->app.granted.bytes, fake->n_got * 1000000ull);
	ck_assert_uint_eq(fake->app.granted.ops, fake->n_got * 2000ull);
	ck_assert_uint_eq(arbiter.granted.tokens, fake->n_got);
}
END_TEST

START_TEST(no_slot_is_given_away_beyond_the_horizon)
{
	set_up();
	join(JST_CLASS_LATENCY, 1000);
	join(JST_CLASS_BANDWIDTH, 1000);
	for (int i = 0; i < 200; i++) {
		struct fake *fake = &fakes[1];

		fake->n_got = 0;
		want(fake, 1000);
		tick();
		T_CHECK(fake->got[fake->n_got - 1].due_ns < now_ns + HORIZON_NS + 1000);
		T_CHECK(fake->got[fake->n_got - 1].due_ns >= now_ns + HORIZON_NS - 2000);
		now_ns += TICK_NS;
	}
}
END_TEST

/* ---- shares ---------------------------------------------------------------------- */

START_TEST(shares_of_a_round_are_exactly_the_weights)
{
	static const uint32_t weights[] = {1000, 1500, 2000, 250, 4000};
	uint32_t least = UINT32_MAX;

	set_up();
	join(JST_CLASS_LATENCY, 1000);
	for (int i = 0; i < 5; i++)
		join(JST_CLASS_BANDWIDTH, weights[i]);
	run_hungry(5000000);
	for (int i = 1; i <= 5; i++)
		least = fakes[i].n_got * 1000 / weights[i - 1] < least ?
				fakes[i].n_got * 1000 / weights[i - 1] :
				least;
	ck_assert_uint_gt(least, 300);
	/* After so many whole rounds of four (for the quarter), each has its weight in tokens. */
	for (int i = 1; i <= 5; i++) {
		uint32_t rounds = least / 4 * 4;

		ck_assert_uint_ge(fakes[i].n_got, rounds * weights[i - 1] / 1000);
		ck_assert_uint_le(fakes[i].n_got,
				  (rounds + 8) * weights[i - 1] / 1000 + weights[i - 1] / 1000 + 1);
	}
}
END_TEST

START_TEST(an_app_that_is_not_hungry_gets_no_token_and_costs_no_slot)
{
	struct fake *eater, *sated, *gone;

	set_up();
	eater = join(JST_CLASS_BANDWIDTH, 1000);
	sated = join(JST_CLASS_BANDWIDTH, 1000);
	gone = attach(JST_CLASS_BANDWIDTH, 1000);
	for (int i = 0; i < 100; i++) {
		want(eater, 100);
		want(gone, 100); /* without flows it has no use for them */
		tick();
		now_ns += TICK_NS;
	}
	ck_assert_uint_eq(sated->n_got, 0);
	ck_assert_uint_eq(gone->n_got, 0);
	check_slots(200000);
	/* 100 ticks are 50 slots; two more lie within the horizon. */
	ck_assert_uint_ge(eater->n_got, 50);
	ck_assert_uint_le(eater->n_got, 52);
}
END_TEST

START_TEST(exactly_what_is_wanted_is_given)
{
	set_up();
	join(JST_CLASS_LATENCY, 1000);
	for (int i = 1; i <= 20; i++) {
		join(JST_CLASS_BANDWIDTH, (uint32_t)t_between(100, 5000));
		want(&fakes[i], (uint32_t)i);
	}
	for (int i = 0; i < 200; i++) {
		tick();
		now_ns += TICK_NS;
	}
	for (uint32_t i = 1; i <= 20; i++)
		ck_assert_uint_eq(fakes[i].n_got, i);
}
END_TEST

START_TEST(a_latency_app_gets_no_tokens_whatever_it_writes)
{
	set_up();
	join(JST_CLASS_LATENCY, 1000);
	run_hungry(1000000);
	ck_assert_uint_eq(fakes[0].n_got, 0);
}
END_TEST

/* ---- idleness and lateness -------------------------------------------------------- */

START_TEST(with_nobody_hungry_there_is_no_tick_and_everybody_must_be_announced)
{
	set_up();
	ck_assert_uint_eq(jstd_arbiter_tick(&arbiter, now_ns), JSTD_NEVER);
	for (int i = 0; i < 10; i++)
		join(i % 3, 1000);
	ck_assert_uint_eq(tick(), JSTD_NEVER);
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(atomic_load(&fakes[i].region->daemon.daemon_waits), 1);
	want(&fakes[0], 3);
	ck_assert_uint_eq(atomic_load(&fakes[0].region->daemon.daemon_waits), 0);
	for (int i = 0; i < 20 && tick() != JSTD_NEVER; i++)
		now_ns += TICK_NS;
	ck_assert_uint_eq(fakes[0].n_got, 3);
	ck_assert_uint_eq(tick(), JSTD_NEVER);
	ck_assert_uint_eq(atomic_load(&fakes[0].region->daemon.daemon_waits), 1);
}
END_TEST

START_TEST(slots_of_an_idle_time_are_gone)
{
	struct fake *fake;

	set_up();
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	want(fake, 1);
	tick();
	now_ns += 1000000000;
	want(fake, 100);
	tick();
	ck_assert_uint_le(fake->n_got, 1 + HORIZON_NS / 200000);
	ck_assert_uint_ge(fake->got[1].due_ns, now_ns);
}
END_TEST

/* The one who was hungry leaves; its unused time is not the next one's. */
START_TEST(slots_left_behind_by_a_hungry_app_that_left_are_gone)
{
	struct fake *fake;

	set_up();
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	want(fake, 1000);
	tick();
	jstd_arbiter_leave(&arbiter, &fake->app);
	n_fakes--;
	free(fake->region);
	memset(fake, 0, sizeof(*fake));
	now_ns += 1000000000;
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	want(fake, 1000);
	tick();
	ck_assert_uint_ge(fake->got[0].due_ns, now_ns);
}
END_TEST

START_TEST(a_late_tick_loses_no_slot_up_to_the_horizon)
{
	uint64_t began_ns;

	set_up();
	join(JST_CLASS_LATENCY, 1000);
	join(JST_CLASS_BANDWIDTH, 1000);
	began_ns = now_ns;
	for (int i = 0; i < 50; i++) {
		want(&fakes[1], 1000);
		tick();
		now_ns += TICK_NS + t_between(0, HORIZON_NS);
	}
	check_slots(2000);
	ck_assert_uint_ge(fakes[1].got[0].due_ns, began_ns);
	ck_assert_uint_lt(fakes[1].got[0].due_ns, began_ns + 1000);
}
END_TEST

START_TEST(a_very_late_tick_bursts_no_more_than_one_horizon)
{
	struct fake *fake;
	uint32_t before, past = 0;

	set_up();
	join(JST_CLASS_LATENCY, 1000);
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	want(fake, 1000);
	tick();
	before = fake->n_got;
	now_ns += 50000000;
	want(fake, 1000);
	tick();
	for (uint32_t i = before; i < fake->n_got; i++)
		past += fake->got[i].due_ns < now_ns;
	/* The last one's slot may have come, but not its place there. */
	ck_assert_uint_le(past, HORIZON_NS / 2000);
	ck_assert_uint_ge(past, HORIZON_NS / 2000 - 1);
}
END_TEST

START_TEST(slots_farther_apart_than_ticks_are_not_ticked_for)
{
	struct jst_card slow = card;
	int ticks = 0;

	slow.max_bytes_per_s = 100000000; /* 1 MB each 10 ms */
	set_up_card(&slow);
	join(JST_CLASS_BANDWIDTH, 1000);
	for (uint64_t end_ns = now_ns + 1000000000; now_ns < end_ns; ticks++) {
		want(&fakes[0], 10);
		now_ns = tick();
	}
	ck_assert_uint_ge(fakes[0].n_got, 100);
	ck_assert_uint_le(fakes[0].n_got, 101);
	ck_assert_int_le(ticks, 102);
	check_slots(10000000);
	/* Each was in the ring before it was due. */
	ck_assert_uint_lt(now_ns, fakes[0].got[fakes[0].n_got - 1].due_ns + 10000000);
}
END_TEST

/* ---- the population ---------------------------------------------------------------- */

static uint32_t chunk_bytes(const struct fake *fake)
{
	return atomic_load(&fake->region->policy.chunk_bytes);
}

START_TEST(tokens_are_small_while_a_latency_app_has_flows)
{
	struct fake *bandwidth, *latency;

	set_up();
	bandwidth = join(JST_CLASS_BANDWIDTH, 1000);
	ck_assert_uint_eq(chunk_bytes(bandwidth), 1000000);
	latency = attach(JST_CLASS_LATENCY, 1000);
	ck_assert_uint_eq(chunk_bytes(bandwidth), 1000000); /* it has no flow yet */
	set_flows(latency, 2);
	ck_assert_uint_eq(chunk_bytes(bandwidth), 5000);
	set_flows(latency, 0);
	ck_assert_uint_eq(chunk_bytes(bandwidth), 1000000);
	now_ns += TICK_NS;
	tick();
	set_flows(latency, 1);
	ck_assert_uint_eq(chunk_bytes(bandwidth), 5000);
	jstd_arbiter_leave(&arbiter, &latency->app);
	ck_assert_uint_eq(chunk_bytes(bandwidth), 1000000);
	ck_assert_uint_eq(arbiter.population.apps[JST_CLASS_LATENCY], 0);
	ck_assert_uint_eq(arbiter.population.weight_milli[JST_CLASS_LATENCY], 0);
}
END_TEST

/* Rmin in thousandths of MaxRate. */
static uint64_t rmin_milli(uint32_t bandwidth, uint32_t weight_milli, uint32_t latency, bool once)
{
	struct jst_card with = card;

	with.count_latency_once = once;
	set_up_card(&with);
	for (uint32_t i = 0; i < bandwidth; i++)
		join(JST_CLASS_BANDWIDTH, weight_milli);
	for (uint32_t i = 0; i < latency; i++)
		join(JST_CLASS_LATENCY, 1000);
	ck_assert_uint_eq(arbiter.rate.safeutil_bytes_per_s, arbiter.rate.rmin_bytes_per_s);
	return arbiter.rate.rmin_bytes_per_s * 1000 / with.max_bytes_small_per_s;
}

START_TEST(rmin_is_the_papers)
{
	ck_assert_uint_eq(rmin_milli(1, 1000, 1, true), 500);
	ck_assert_uint_eq(rmin_milli(8, 1000, 8, true), 888);
	ck_assert_uint_eq(rmin_milli(8, 1000, 8, false), 500);
	ck_assert_uint_eq(rmin_milli(4, 1000, 1, true), 800);
	ck_assert_uint_eq(rmin_milli(4, 1500, 1, true), 857);
	ck_assert_uint_eq(rmin_milli(4, 2000, 1, true), 888);
}
END_TEST

/* As measured there: 37.1, 39.7 and 41.3 Gb/s with weights 1, 1.5 and 2. */
START_TEST(weights_raise_rmin_in_the_papers_ratios)
{
	double one = (double)rmin_milli(4, 1000, 1, true);

	ck_assert_double_eq_tol((double)rmin_milli(4, 1500, 1, true) / one, 39.7 / 37.1, 0.01);
	ck_assert_double_eq_tol((double)rmin_milli(4, 2000, 1, true) / one, 41.3 / 37.1, 0.01);
}
END_TEST

/* What is given in a time is SafeUtil, before and after a latency app came. */
START_TEST(tokens_amount_to_safeutil)
{
	uint64_t bytes;

	set_up();
	for (int i = 0; i < 4; i++)
		join(JST_CLASS_BANDWIDTH, 1000);
	run_hungry(100000000);
	bytes = arbiter.granted.bytes;
	ck_assert_double_eq_tol((double)bytes, 0.1 * 5e9, 3e6);
	join(JST_CLASS_LATENCY, 1000);
	run_hungry(10000000);
	bytes = arbiter.granted.bytes - bytes;
	ck_assert_double_eq_tol((double)bytes, 0.01 * 4e9, 3e6);
}
END_TEST

START_TEST(a_sleeping_client_is_nudged_once_for_all_its_tokens)
{
	struct fake *fake;

	set_up();
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	want(fake, 2);
	tick();
	ck_assert_ptr_null(jstd_arbiter_next_nudge(&arbiter));
	atomic_store(&fake->region->client.client_waits, 1);
	want(fake, 2);
	now_ns += HORIZON_NS;
	tick();
	ck_assert_ptr_eq(jstd_arbiter_next_nudge(&arbiter), &fake->app);
	ck_assert_ptr_null(jstd_arbiter_next_nudge(&arbiter));
	/* Hungry, but without a new token: no reason to wake it. */
	want(fake, 100);
	tick();
	jstd_arbiter_next_nudge(&arbiter);
	tick();
	ck_assert_ptr_null(jstd_arbiter_next_nudge(&arbiter));
	join(JST_CLASS_LATENCY, 1000);
	ck_assert_ptr_eq(jstd_arbiter_next_nudge(&arbiter), &fake->app);
}
END_TEST

START_TEST(looks_beyond_their_number_wait_for_the_tick)
{
	struct fake *fake;
	int looked = 0;

	set_up();
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	now_ns += TICK_NS;
	for (int i = 0; i < 100; i++) {
		looked += atomic_load(&fake->region->daemon.daemon_waits);
		want(fake, 1);
		tick();
		now_ns += TICK_NS / 100;
	}
	ck_assert_int_le(looked, (int)JSTD_LOOKS_PER_TICK + 1);
	/* It is not forgotten: the tick is still to come. */
	want(fake, 1);
	ck_assert_uint_ne(tick(), JSTD_NEVER);
}
END_TEST

/* ---- what an app may write ------------------------------------------------------------ */

START_TEST(a_full_ring_keeps_its_app_awake_but_is_ticked_for_rarely)
{
	struct fake *fake;

	set_up();
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	want(fake, 1);
	atomic_store(&fake->region->client.tail, fake->app.ring.head - JST_RING_TOKENS);
	ck_assert_uint_eq(jstd_arbiter_tick(&arbiter, now_ns), now_ns + JSTD_STUCK_TICKS * TICK_NS);
	ck_assert_uint_eq(fake->app.granted.tokens, 0);
	atomic_store(&fake->region->client.tail, fake->app.ring.head);
	now_ns += JSTD_STUCK_TICKS * TICK_NS;
	jstd_arbiter_tick(&arbiter, now_ns);
	ck_assert_uint_eq(fake->app.granted.tokens, 1);
}
END_TEST

START_TEST(an_app_that_uses_its_tokens_gets_some_ahead)
{
	struct fake *fake;

	set_up();
	join(JST_CLASS_LATENCY, 1000);
	fake = join(JST_CLASS_BANDWIDTH, 1000);
	/* It never has more than ten chunks to send, and so never wants more. */
	for (int i = 0; i < 20; i++) {
		want(fake, fake->app.ring.head == fake->ring.tail ? 10 : 0);
		tick();
		now_ns += TICK_NS;
	}
	/* 5 KB at half of 5 GB/s: a slot each 2 us, 50 a tick; ten would be a fifth. */
	ck_assert_uint_ge(fake->n_got, 20 * 40);
	/* It stops: what was given ahead is all it has, and nobody is awake. */
	want(fake, 0);
	for (int i = 0; i < 3; i++) {
		jstd_arbiter_tick(&arbiter, now_ns);
		now_ns += TICK_NS;
	}
	ck_assert_uint_eq(jstd_arbiter_tick(&arbiter, now_ns), JSTD_NEVER);
}
END_TEST

/* Ten tokens used a tick, of thirty that it could have: the others get the rest. */
START_TEST(an_app_that_uses_little_is_given_little)
{
	struct fake *light, *heavy;
	uint32_t before = 0;

	set_up();
	join(JST_CLASS_LATENCY, 1000);
	light = join(JST_CLASS_BANDWIDTH, 1000);
	heavy = join(JST_CLASS_BANDWIDTH, 1000);
	for (int i = 0; i < 60; i++) {
		if (i == 30)
			before = heavy->n_got;
		want(light, light->app.ring.head == light->ring.tail ? 10 : 0);
		want(heavy, 200);
		jstd_arbiter_tick(&arbiter, now_ns);
		now_ns += TICK_NS;
		take(heavy);
		for (int n = 0; n < 10 && jst_ring_used(&light->app.ring); n++) {
			jst_ring_drop(&light->ring);
			atomic_store(&light->region->client.used, ++light->n_got);
		}
	}
	/* 5 KB at two thirds of 5 GB/s: 66 slots a tick, 10 of them the light one's. */
	ck_assert_uint_eq(light->n_got, 60 * 10);
	ck_assert_uint_ge(heavy->n_got - before, 30 * 55);
}
END_TEST

/* Two apps; how many of the slots in a while the bandwidth app gets. */
static uint32_t slots_beside_throughput(bool at_work)
{
	struct fake *bandwidth, *throughput;

	set_up();
	bandwidth = join(JST_CLASS_BANDWIDTH, 1000);
	throughput = join(JST_CLASS_THROUGHPUT, 1000);
	for (int i = 0; i < 100; i++) {
		want(bandwidth, 100);
		if (at_work) /* posts, but is far from using up its token */
			atomic_fetch_add(&throughput->region->client.posted, 1);
		jstd_arbiter_tick(&arbiter, now_ns);
		take(bandwidth);
		now_ns += TICK_NS;
	}
	/* Given a turn or two for nothing, and no more: they lie unused. */
	ck_assert_uint_le(jst_ring_used(&throughput->app.ring), at_work ? 2 : 0);
	return bandwidth->n_got;
}

START_TEST(a_throughput_app_at_work_keeps_its_turn)
{
	uint32_t slots = 100 * TICK_NS / 200000; /* 1 MB at 5 GB/s each */

	ck_assert_uint_ge(slots_beside_throughput(false), slots);
	ck_assert_uint_le(slots_beside_throughput(true), slots / 2 + HORIZON_NS / 200000);
	ck_assert_uint_ge(slots_beside_throughput(true), slots / 2);
}
END_TEST

START_TEST(noise_in_one_region_leaves_the_others_their_tokens)
{
	struct fake *good, *bad;

	set_up();
	join(JST_CLASS_LATENCY, 1000);
	good = join(JST_CLASS_BANDWIDTH, 1000);
	bad = join(JST_CLASS_BANDWIDTH, 1000);
	for (int i = 0; i < 2000; i++) {
		atomic_store(&bad->region->client.tail, (uint32_t)t_rand());
		atomic_store(&bad->region->client.wanted, (uint32_t)t_rand());
		atomic_store(&bad->region->client.flows, t_rand() % 3 ? (uint32_t)t_rand() : 0);
		atomic_store(&bad->region->client.client_waits, (uint32_t)t_rand());
		jstd_arbiter_look(&arbiter, &bad->app, now_ns);
		T_CHECK(bad->app.flows <= JSTD_FLOWS_MAX);
		T_CHECK(arbiter.population.apps[JST_CLASS_BANDWIDTH] <= 2);
		want(good, 300);
		jstd_arbiter_tick(&arbiter, now_ns);
		good->n_got = 0;
		take(good);
		T_CHECK(good->n_got >= 20); /* its half, or a third of the slots of a tick */
		while (jstd_arbiter_next_nudge(&arbiter))
			;
		now_ns += TICK_NS;
	}
	jstd_arbiter_leave(&arbiter, &bad->app);
	ck_assert_uint_eq(arbiter.population.apps[JST_CLASS_BANDWIDTH], 1);
	ck_assert_uint_eq(arbiter.population.weight_milli[JST_CLASS_BANDWIDTH], 1000);
}
END_TEST

START_TEST(coming_and_going_at_random_keeps_the_books)
{
	static struct fake *in[APPS_MAX];

	set_up();
	for (int round = 0; round < 5000; round++) {
		uint32_t i = (uint32_t)t_between(0, APPS_MAX - 1);
		uint32_t apps = 0;

		if (!fakes[i].region) {
			fakes[i].region = aligned_alloc(JST_CACHE_LINE, sizeof(*fakes[i].region));
			memset(fakes[i].region, 0, sizeof(*fakes[i].region));
			ck_assert_int_eq(jstd_arbiter_join(&arbiter, &fakes[i].app, fakes[i].region,
							   (enum jst_class)t_between(0, 2),
							   (uint32_t)t_between(100, 9000)), 0);
			in[i] = &fakes[i];
		} else if (t_rand() % 3) {
			set_flows(&fakes[i], (uint32_t)t_between(0, 2));
			want(&fakes[i], (uint32_t)t_between(0, 3));
			atomic_store(&fakes[i].region->client.client_waits, t_rand() & 1);
		} else {
			jstd_arbiter_leave(&arbiter, &fakes[i].app);
			free(fakes[i].region);
			memset(&fakes[i], 0, sizeof(fakes[i]));
			in[i] = NULL;
		}
		now_ns += t_between(0, 2 * TICK_NS);
		jstd_arbiter_tick(&arbiter, now_ns);
		if (t_rand() & 1)
			while (jstd_arbiter_next_nudge(&arbiter))
				;
		for (i = 0; i < APPS_MAX; i++)
			apps += in[i] && in[i]->app.flows;
		T_CHECK(apps == arbiter.population.apps[0] + arbiter.population.apps[1] +
					arbiter.population.apps[2]);
	}
	n_fakes = APPS_MAX; /* to be freed */
	set_up();
}
END_TEST

START_TEST(the_1025th_app_of_a_device_is_refused)
{
	static struct jstd_app apps[JST_SCHED_APPS + 1];
	static struct jst_abi_region region;

	set_up();
	for (uint32_t i = 0; i < JST_SCHED_APPS; i++)
		T_CHECK(!jstd_arbiter_join(&arbiter, &apps[i], &region, JST_CLASS_LATENCY, 1000));
	ck_assert_int_eq(jstd_arbiter_join(&arbiter, &apps[JST_SCHED_APPS], &region,
					   JST_CLASS_LATENCY, 1000), -EUSERS);
	jstd_arbiter_leave(&arbiter, &apps[500]);
	ck_assert_int_eq(jstd_arbiter_join(&arbiter, &apps[JST_SCHED_APPS], &region,
					   JST_CLASS_LATENCY, 1000), 0);
}
END_TEST

T_MAIN("arbiter", each_slot_has_one_token_in_its_first_half, a_token_is_what_the_policy_says,
       no_slot_is_given_away_beyond_the_horizon, shares_of_a_round_are_exactly_the_weights,
       an_app_that_is_not_hungry_gets_no_token_and_costs_no_slot, exactly_what_is_wanted_is_given,
       a_latency_app_gets_no_tokens_whatever_it_writes,
       with_nobody_hungry_there_is_no_tick_and_everybody_must_be_announced,
       slots_of_an_idle_time_are_gone, slots_left_behind_by_a_hungry_app_that_left_are_gone,
       a_late_tick_loses_no_slot_up_to_the_horizon, a_very_late_tick_bursts_no_more_than_one_horizon,
       slots_farther_apart_than_ticks_are_not_ticked_for,
       tokens_are_small_while_a_latency_app_has_flows, rmin_is_the_papers,
       weights_raise_rmin_in_the_papers_ratios, tokens_amount_to_safeutil,
       a_sleeping_client_is_nudged_once_for_all_its_tokens,
       looks_beyond_their_number_wait_for_the_tick,
       a_full_ring_keeps_its_app_awake_but_is_ticked_for_rarely,
       an_app_that_uses_its_tokens_gets_some_ahead,
       an_app_that_uses_little_is_given_little, a_throughput_app_at_work_keeps_its_turn,
       noise_in_one_region_leaves_the_others_their_tokens,
       coming_and_going_at_random_keeps_the_books, the_1025th_app_of_a_device_is_refused)
