/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * unit.h - what every unit test needs: a seed that is printed, and a main.
 *
 * Random inputs come from t_rand(), which starts anew from the seed for every
 * test function; so a failure is repeated with SEED=<the number printed>.
 */
#ifndef T_UNIT_H
#define T_UNIT_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t t_state;

static inline uint64_t t_seed(void)
{
	static uint64_t seed;
	const char *text = getenv("SEED");

	if (!seed)
		seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	if (!seed)
		seed = 1;
	return seed;
}

/* xorshift64*; good enough, and the same on every machine. */
static inline uint64_t t_rand(void)
{
	t_state ^= t_state >> 12;
	t_state ^= t_state << 25;
	t_state ^= t_state >> 27;
	return t_state * 2685821657736338717ull;
}

/* lo to hi, both included. */
static inline uint64_t t_between(uint64_t lo, uint64_t hi)
{
	return lo + t_rand() % (hi - lo + 1);
}

/* As many magnitudes as values: 1 to @max, small ones as often as large ones. */
static inline uint64_t t_magnitude(uint64_t max)
{
	uint64_t bits = 64 - (uint64_t)__builtin_clzll(max);
	uint64_t value = t_rand() >> (64 - t_between(1, bits));

	return value % max + 1;
}

/* For hot loops: ck_assert() writes to a pipe each time, even when all is well. */
#define T_CHECK(condition)                                                                      \
	do {                                                                                    \
		if (!(condition))                                                               \
			ck_abort_msg("%s", #condition);                                         \
	} while (0)

static void t_start(void)
{
	t_state = t_seed() * 0x9e3779b97f4a7c15ull | 1;
}

/* Runs @tests as one suite; the result is what main returns. */
static inline int t_main(const char *name, const TTest *const *tests, size_t count)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner;
	int failed;

	printf("%s: SEED=%llu\n", name, (unsigned long long)t_seed());
	fflush(stdout);
	tcase_add_checked_fixture(tcase, t_start, NULL);
	tcase_set_timeout(tcase, 60);
	for (size_t i = 0; i < count; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define T_MAIN(name, ...)                                                                       \
	int main(void)                                                                          \
	{                                                                                       \
		const TTest *const tests[] = {__VA_ARGS__};                                     \
		return t_main(name, tests, sizeof(tests) / sizeof(tests[0]));                   \
	}

#endif
