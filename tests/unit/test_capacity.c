// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * test_capacity.c - Rmin, SafeUtil and the token clock.
 *
 * The right values are the paper's: 4.3.1 (Rmin), 4.3.4 (the example of a
 * 56 Gb/s card), 5.2 (TokenBytes), and its figures of weighted sharing.
 */
#include "core/core.h"
#include "unit.h"

/* 48 Gb/s and 30 Mops/s; 1 MB alone, 5 KB beside latency apps. */
static struct jst_card paper_card(void)
{
	return (struct jst_card){
		.max_bytes_per_s = 6000000000,
		.max_bytes_small_per_s = 6000000000,
		.max_ops_per_s = 30000000,
		.token_bytes_large = 1000000,
		.token_bytes_small = 5000,
		.count_latency_once = true,
	};
}

static void join(struct jst_population *pop, enum jst_class class, uint32_t apps,
		 uint32_t weight_milli)
{
	pop->apps[class] += apps;
	pop->weight_milli[class] += (uint64_t)apps * weight_milli;
}

/* SafeUtil of so many bandwidth apps of that weight beside latency apps of weight 1. */
static double safeutil_gbps(const struct jst_card *card, uint32_t bandwidth, uint32_t weight_milli,
			    uint32_t latency)
{
	struct jst_population pop = {0};
	struct jst_rate rate;

	join(&pop, JST_CLASS_BANDWIDTH, bandwidth, weight_milli);
	join(&pop, JST_CLASS_LATENCY, latency, 1000);
	jst_capacity(card, &pop, &rate);
	return (double)rate.safeutil_bytes_per_s * 8 / 1e9;
}

START_TEST(the_papers_token_is_5000_operations_every_167_us)
{
	struct jst_card card = paper_card();
	struct jst_population pop = {0};
	struct jst_rate rate;

	join(&pop, JST_CLASS_BANDWIDTH, 1, 1000);
	jst_capacity(&card, &pop, &rate);
	ck_assert_uint_eq(rate.token_bytes, 1000000);
	ck_assert_uint_eq(rate.token_ops, 5000);
	ck_assert_uint_eq((rate.token_interval_ns + 500) / 1000, 167);
	ck_assert_uint_eq(rate.safeutil_bytes_per_s, 6000000000);
	ck_assert_uint_eq(rate.safeutil_ops_per_s, 30000000);
}
END_TEST

START_TEST(the_papers_minimum_rates)
{
	struct jst_card card = paper_card();

	/* One beside one: half. Eight beside eight, counted as one: 42.7 Gb/s. */
	ck_assert_double_eq_tol(safeutil_gbps(&card, 1, 1000, 1), 24.0, 0.01);
	ck_assert_double_eq_tol(safeutil_gbps(&card, 8, 1000, 8), 42.67, 0.01);
	ck_assert_double_eq_tol(safeutil_gbps(&card, 16, 1000, 1), 48.0 * 16 / 17, 0.01);
	card.count_latency_once = false;
	ck_assert_double_eq_tol(safeutil_gbps(&card, 8, 1000, 8), 24.0, 0.01);
	ck_assert_double_eq_tol(safeutil_gbps(&card, 1, 1000, 3), 12.0, 0.01);
}
END_TEST

/* Its figure of four bandwidth apps with weights beside a latency app: 37.1, 39.7, 41.3 Gb/s. */
START_TEST(weights_raise_the_minimum_rate_as_the_paper_measured)
{
	struct jst_card card = paper_card();

	ck_assert_double_eq_tol(safeutil_gbps(&card, 4, 1000, 1), 37.1, 37.1 * 0.05);
	ck_assert_double_eq_tol(safeutil_gbps(&card, 4, 1500, 1), 39.7, 39.7 * 0.05);
	ck_assert_double_eq_tol(safeutil_gbps(&card, 4, 2000, 1), 41.3, 41.3 * 0.05);
	ck_assert_double_eq_tol(safeutil_gbps(&card, 4, 1500, 1), 48.0 * 6 / 7, 0.01);
}
END_TEST

START_TEST(throughput_apps_count_as_bandwidth_apps_do)
{
	struct jst_card card = paper_card();
	struct jst_population pop = {0};
	struct jst_rate rate;

	join(&pop, JST_CLASS_BANDWIDTH, 1, 1000);
	join(&pop, JST_CLASS_THROUGHPUT, 1, 2000);
	join(&pop, JST_CLASS_LATENCY, 5, 1000);
	jst_capacity(&card, &pop, &rate);
	ck_assert_uint_eq(rate.rmin_bytes_per_s, 6000000000ull * 3 / 4);
	ck_assert_uint_eq(rate.rmin_ops_per_s, 30000000ull * 3 / 4);
}
END_TEST

START_TEST(tokens_are_small_only_beside_latency_apps)
{
	struct jst_card card = paper_card();
	struct jst_population pop = {0};
	struct jst_rate rate;

	card.max_bytes_small_per_s = 5400000000;
	join(&pop, JST_CLASS_BANDWIDTH, 2, 1000);
	jst_capacity(&card, &pop, &rate);
	ck_assert_uint_eq(rate.token_bytes, 1000000);
	ck_assert_uint_eq(rate.safeutil_bytes_per_s, 6000000000);
	join(&pop, JST_CLASS_LATENCY, 1, 1000);
	jst_capacity(&card, &pop, &rate);
	ck_assert_uint_eq(rate.token_bytes, 5000);
	ck_assert_uint_eq(rate.safeutil_bytes_per_s, 3600000000);
}
END_TEST

static struct jst_card random_card(void)
{
	uint64_t max = t_between(1000000, 50000000000);

	return (struct jst_card){
		.max_bytes_per_s = max,
		.max_bytes_small_per_s = t_between(max / 2, max),
		.max_ops_per_s = t_between(1, 200000000),
		.token_bytes_large = (uint32_t)t_between(4096, 16 << 20),
		.token_bytes_small = (uint32_t)t_between(256, 65536),
		.count_latency_once = t_rand() & 1,
	};
}

static struct jst_population random_population(void)
{
	struct jst_population pop = {0};

	for (int class = 0; class < JST_CLASSES; class++)
		for (uint64_t n = t_rand() % 4 ? t_between(0, 300) : 0; n; n--)
			join(&pop, class, 1,
			     (uint32_t)t_between(JST_WEIGHT_MILLI_MIN, JST_WEIGHT_MILLI_MAX));
	return pop;
}

START_TEST(rmin_safeutil_maxrate_are_in_order)
{
	for (int round = 0; round < 20000; round++) {
		struct jst_card card = random_card();
		struct jst_population pop = random_population();
		struct jst_rate rate;

		jst_capacity(&card, &pop, &rate);
		T_CHECK(rate.rmin_bytes_per_s <= rate.safeutil_bytes_per_s);
		T_CHECK(rate.rmin_ops_per_s <= rate.safeutil_ops_per_s);
		T_CHECK(rate.safeutil_bytes_per_s <= card.max_bytes_per_s);
		T_CHECK(rate.safeutil_ops_per_s <= card.max_ops_per_s);
		T_CHECK(rate.token_ops >= 1);
		T_CHECK(rate.token_interval_ns >= 1);
		if (!pop.apps[JST_CLASS_LATENCY])
			T_CHECK(rate.safeutil_bytes_per_s == card.max_bytes_per_s);
	}
}
END_TEST

/* One token per interval is SafeUtil, in bytes and in operations, to rounding. */
START_TEST(the_token_clock_makes_safeutil)
{
	for (int round = 0; round < 20000; round++) {
		struct jst_card card = random_card();
		struct jst_population pop = random_population();
		struct jst_rate rate;
		double bytes, ops;

		jst_capacity(&card, &pop, &rate);
		bytes = (double)rate.safeutil_bytes_per_s * (double)rate.token_interval_ns / 1e9;
		/* the interval is whole nanoseconds: off by less than one */
		T_CHECK(bytes <= rate.token_bytes * (1 + 1e-9));
		T_CHECK(bytes + (double)rate.safeutil_bytes_per_s / 1e9 > rate.token_bytes * (1 - 1e-9));
		ops = (double)rate.token_bytes * (double)rate.safeutil_ops_per_s /
		      (double)rate.safeutil_bytes_per_s;
		if (ops < 1 || ops > UINT32_MAX)
			continue;
		T_CHECK(rate.token_ops <= ops * (1 + 1e-9));
		T_CHECK(rate.token_ops + 1 > ops * (1 - 1e-9));
	}
}
END_TEST

START_TEST(another_bandwidth_app_never_lowers_rmin_another_latency_app_never_raises_it)
{
	for (int round = 0; round < 5000; round++) {
		struct jst_card card = random_card();
		struct jst_population pop = random_population();
		struct jst_population more = pop, guarded = pop;
		struct jst_rate rate, richer, poorer;

		join(&pop, JST_CLASS_LATENCY, 1, 1000);
		join(&pop, JST_CLASS_BANDWIDTH, 1, 1000);
		more = pop;
		join(&more, JST_CLASS_BANDWIDTH, 1, (uint32_t)t_between(100, 100000));
		guarded = pop;
		card.count_latency_once = false;
		join(&guarded, JST_CLASS_LATENCY, 1, (uint32_t)t_between(100, 100000));
		jst_capacity(&card, &pop, &rate);
		jst_capacity(&card, &more, &richer);
		jst_capacity(&card, &guarded, &poorer);
		T_CHECK(richer.rmin_bytes_per_s >= rate.rmin_bytes_per_s);
		T_CHECK(poorer.rmin_bytes_per_s <= rate.rmin_bytes_per_s);
	}
}
END_TEST

START_TEST(latency_apps_of_equal_weight_counted_once_are_one_app)
{
	struct jst_card card = paper_card();

	for (uint32_t latency = 1; latency < 100; latency++)
		ck_assert_double_eq_tol(safeutil_gbps(&card, 3, 1000, latency), 36.0, 0.01);
}
END_TEST

T_MAIN("capacity", the_papers_token_is_5000_operations_every_167_us, the_papers_minimum_rates,
       weights_raise_the_minimum_rate_as_the_paper_measured,
       throughput_apps_count_as_bandwidth_apps_do, tokens_are_small_only_beside_latency_apps,
       rmin_safeutil_maxrate_are_in_order, the_token_clock_makes_safeutil,
       another_bandwidth_app_never_lowers_rmin_another_latency_app_never_raises_it,
       latency_apps_of_equal_weight_counted_once_are_one_app)
