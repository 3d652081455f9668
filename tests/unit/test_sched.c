// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_sched.c - weighted round robin: fair, work conserving, nothing saved up. */
#include "core/core.h"
#include "unit.h"

static void join_hungry(struct jst_sched *sched, uint32_t app, uint32_t weight_milli)
{
	jst_sched_join(sched, app, weight_milli);
	jst_sched_set_hungry(sched, app, true);
}

START_TEST(nobody_hungry_nobody_served)
{
	struct jst_sched sched;

	jst_sched_init(&sched);
	ck_assert_int_eq(jst_sched_next(&sched), -1);
	jst_sched_join(&sched, 7, 1000);
	ck_assert(!jst_sched_is_hungry(&sched, 7));
	ck_assert_int_eq(jst_sched_next(&sched), -1);
}
END_TEST

START_TEST(equal_weights_take_turns)
{
	struct jst_sched sched;
	int first;

	jst_sched_init(&sched);
	join_hungry(&sched, 0, 1000);
	join_hungry(&sched, 63, 1000);
	join_hungry(&sched, 1023, 1000);
	first = jst_sched_next(&sched);
	for (int i = 0; i < 300; i++) {
		int second = jst_sched_next(&sched), third = jst_sched_next(&sched);

		ck_assert_int_ne(first, second);
		ck_assert_int_ne(second, third);
		ck_assert_int_ne(first, third);
		ck_assert_int_eq(jst_sched_next(&sched), first);
	}
}
END_TEST

/* Weight 1.5 beside weight 1: one and two in turn, against one and one. */
START_TEST(one_and_a_half_shares_are_one_then_two)
{
	struct jst_sched sched;
	int runs[8], run = 0, filled = 0;

	jst_sched_init(&sched);
	join_hungry(&sched, 1, 1500);
	join_hungry(&sched, 2, 1000);
	while (filled < 8) {
		if (jst_sched_next(&sched) == 1) {
			run++;
		} else if (run) {
			runs[filled++] = run;
			run = 0;
		}
	}
	for (int i = 1; i < 8; i++)
		ck_assert_int_eq(runs[i - 1] + runs[i], 3);
}
END_TEST

/* The distance between any two apps' shares stays within one round, at any moment. */
START_TEST(shares_follow_the_weights_at_any_moment)
{
	enum { APPS = 12 };

	for (int round = 0; round < 100; round++) {
		uint32_t app[APPS], weight[APPS];
		double served[JST_SCHED_APPS] = {0};
		struct jst_sched sched;

		jst_sched_init(&sched);
		for (uint32_t i = 0; i < APPS; i++) {
			app[i] = (uint32_t)(i * 85 + t_rand() % 85);
			weight[i] = (uint32_t)t_between(100, 4000);
			join_hungry(&sched, app[i], weight[i]);
		}
		for (int n = 0; n < 3000; n++) {
			double least = 1e9, most = -1e9, slack = 0;
			int next = jst_sched_next(&sched);

			T_CHECK(next >= 0);
			served[next]++;
			for (uint32_t i = 0; i < APPS; i++) {
				double share = served[app[i]] * 1000 / weight[i];
				double one = 1000.0 / weight[i];

				least = share < least ? share : least;
				most = share > most ? share : most;
				slack = one > slack ? one : slack;
			}
			/* a round, plus the whole token that the lightest may be waiting for */
			T_CHECK(most - least <= 1 + 2 * slack);
		}
	}
}
END_TEST

/* Random joining, eating and leaving: only the hungry are served, and always somebody. */
START_TEST(only_the_hungry_and_always_somebody)
{
	bool hungry[JST_SCHED_APPS] = {false};
	struct jst_sched sched;
	uint32_t count = 0;

	jst_sched_init(&sched);
	for (uint32_t app = 0; app < JST_SCHED_APPS; app++)
		jst_sched_join(&sched, app, (uint32_t)t_between(100, 100000));
	for (int step = 0; step < 200000; step++) {
		uint32_t app = (uint32_t)(t_rand() % JST_SCHED_APPS);
		bool wish = t_rand() % 8 == 0;
		int next;

		if (t_rand() % 16 == 0) {
			jst_sched_join(&sched, app, (uint32_t)t_between(100, 100000));
			wish = false;
		} else {
			jst_sched_set_hungry(&sched, app, wish);
		}
		count += (uint32_t)wish - (uint32_t)hungry[app];
		hungry[app] = wish;
		T_CHECK(jst_sched_is_hungry(&sched, app) == wish);
		next = jst_sched_next(&sched);
		if (!count) {
			T_CHECK(next == -1);
			continue;
		}
		T_CHECK(next >= 0 && next < (int)JST_SCHED_APPS);
		T_CHECK(hungry[next]);
	}
}
END_TEST

/* Who was away does not get now what it did not want then. */
START_TEST(a_turn_not_used_is_not_saved_up)
{
	struct jst_sched sched;
	int served[3] = {0};

	jst_sched_init(&sched);
	join_hungry(&sched, 1, 1000);
	jst_sched_join(&sched, 2, 1000);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(jst_sched_next(&sched), 1);
	jst_sched_set_hungry(&sched, 2, true);
	for (int i = 0; i < 100; i++)
		served[jst_sched_next(&sched)]++;
	ck_assert_int_le(abs(served[1] - served[2]), 1);
}
END_TEST

/* A heavy app in the middle of its run that stops being hungry does not go on. */
START_TEST(leaving_in_the_middle_of_a_run_ends_it)
{
	struct jst_sched sched;

	jst_sched_init(&sched);
	join_hungry(&sched, 1, 100000);
	join_hungry(&sched, 2, 1000);
	while (jst_sched_next(&sched) != 1)
		;
	jst_sched_set_hungry(&sched, 1, false);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(jst_sched_next(&sched), 2);
	/* nor does it go on when it is back: what was left of the run is gone */
	jst_sched_set_hungry(&sched, 1, true);
	ck_assert_int_eq(jst_sched_next(&sched), 1);
	jst_sched_set_hungry(&sched, 1, false);
	jst_sched_set_hungry(&sched, 1, true);
	ck_assert_int_eq(jst_sched_next(&sched), 2);
}
END_TEST

START_TEST(the_lightest_app_alone_gets_every_token)
{
	struct jst_sched sched;

	jst_sched_init(&sched);
	join_hungry(&sched, 1023, JST_WEIGHT_MILLI_MIN);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(jst_sched_next(&sched), 1023);
}
END_TEST

T_MAIN("sched", nobody_hungry_nobody_served, equal_weights_take_turns,
       one_and_a_half_shares_are_one_then_two, shares_follow_the_weights_at_any_moment,
       only_the_hungry_and_always_somebody, a_turn_not_used_is_not_saved_up,
       leaving_in_the_middle_of_a_run_ends_it, the_lightest_app_alone_gets_every_token)
