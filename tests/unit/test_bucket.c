// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_bucket.c - the balance: caps, debt, and how many tokens are short. */
#include "core/core.h"
#include "unit.h"

#define TOKEN_BYTES 5000u
#define TOKEN_OPS 25u

static const struct jst_token token = {.bytes = TOKEN_BYTES, .ops = TOKEN_OPS};

static void add(struct jst_balance *balance)
{
	jst_balance_add(balance, &token, TOKEN_BYTES, TOKEN_OPS);
}

START_TEST(an_empty_balance_allows_nothing)
{
	struct jst_balance balance = {0};

	ck_assert(!jst_balance_allows(&balance));
	add(&balance);
	ck_assert(jst_balance_allows(&balance));
}
END_TEST

START_TEST(both_resources_must_be_there)
{
	struct jst_balance balance = {.bytes = 1, .ops = 0};

	ck_assert(!jst_balance_allows(&balance));
	balance = (struct jst_balance){.bytes = 0, .ops = 1};
	ck_assert(!jst_balance_allows(&balance));
	balance = (struct jst_balance){.bytes = -1, .ops = 1};
	ck_assert(!jst_balance_allows(&balance));
	balance = (struct jst_balance){.bytes = 1, .ops = 1};
	ck_assert(jst_balance_allows(&balance));
}
END_TEST

START_TEST(balance_never_exceeds_one_token_after_idle)
{
	struct jst_balance balance = {0};

	for (int i = 0; i < 1000; i++)
		add(&balance);
	ck_assert_int_eq(balance.bytes, TOKEN_BYTES);
	ck_assert_int_eq(balance.ops, TOKEN_OPS);
}
END_TEST

START_TEST(each_resource_is_capped_by_itself)
{
	struct jst_balance balance = {.bytes = -2000, .ops = 20};

	add(&balance);
	ck_assert_int_eq(balance.bytes, 3000);
	ck_assert_int_eq(balance.ops, TOKEN_OPS);
}
END_TEST

START_TEST(smaller_tokens_cut_what_was_saved_and_forgive_no_debt)
{
	struct jst_balance balance = {.bytes = 1000000, .ops = 5000};

	jst_balance_clamp(&balance, TOKEN_BYTES, TOKEN_OPS);
	ck_assert_int_eq(balance.bytes, TOKEN_BYTES);
	ck_assert_int_eq(balance.ops, TOKEN_OPS);
	balance = (struct jst_balance){.bytes = -900000, .ops = -3};
	jst_balance_clamp(&balance, TOKEN_BYTES, TOKEN_OPS);
	ck_assert_int_eq(balance.bytes, -900000);
	ck_assert_int_eq(balance.ops, -3);
}
END_TEST

/* A 1 GB message that cannot be split takes as many tokens as its bytes. */
START_TEST(a_message_larger_than_a_token_is_paid_in_full)
{
	struct jst_balance balance = {0};
	uint64_t tokens = 0;

	add(&balance);
	jst_balance_spend(&balance, 1000000000, 1);
	for (; !jst_balance_allows(&balance); tokens++)
		add(&balance);
	/* 1 token was spent in advance; the balance must be above zero again */
	ck_assert_uint_eq(tokens, 1000000000 / TOKEN_BYTES);
}
END_TEST

/* In the long run an app that is always hungry spends what it was given, never more. */
START_TEST(long_run_spending_is_what_was_given)
{
	for (int round = 0; round < 50; round++) {
		struct jst_balance balance = {0};
		uint64_t given = 0, spent = 0, largest = t_magnitude(100000);

		for (int i = 0; i < 5000; i++) {
			add(&balance);
			given += TOKEN_BYTES;
			while (jst_balance_allows(&balance)) {
				uint64_t bytes = t_between(largest, 2 * largest);

				jst_balance_spend(&balance, bytes, 0);
				spent += bytes;
			}
		}
		ck_assert_uint_ge(spent, given);
		ck_assert_uint_le(spent - given, 2 * largest);
	}
}
END_TEST

/* The definition, done step by step: add a token, let through what is allowed. */
static uint64_t short_by_simulation(struct jst_balance balance, uint64_t bytes, uint64_t ops,
				    uint32_t token_bytes, uint32_t token_ops)
{
	uint64_t tokens = 0;

	while (balance.bytes < (int64_t)bytes || balance.ops < (int64_t)ops) {
		balance.bytes += token_bytes;
		balance.ops += token_ops;
		tokens++;
	}
	return tokens;
}

START_TEST(short_is_the_number_of_tokens_that_it_takes)
{
	for (int round = 0; round < 4000; round++) {
		uint32_t bytes = (uint32_t)t_magnitude(1000000);
		uint32_t ops = (uint32_t)t_magnitude(5000);
		struct jst_balance balance = {
			.bytes = (int64_t)t_between(0, 2ull * bytes) - bytes,
			.ops = (int64_t)t_between(0, 2ull * ops) - ops,
		};
		uint64_t queued_ops = t_magnitude(50ull * ops);
		uint64_t queued_bytes = t_magnitude(50ull * bytes);
		uint64_t want = short_by_simulation(balance, queued_bytes, queued_ops, bytes, ops);

		T_CHECK(jst_balance_short(&balance, queued_bytes, queued_ops, bytes, ops) == want);
	}
}
END_TEST

START_TEST(nothing_queued_needs_no_token)
{
	struct jst_balance balance = {.bytes = -5, .ops = -5};

	ck_assert_uint_eq(jst_balance_short(&balance, 0, 0, TOKEN_BYTES, TOKEN_OPS), 0);
}
END_TEST

/* Empty messages still need a balance that allows them: never 0 tokens while blocked. */
START_TEST(work_that_is_blocked_always_asks_for_a_token)
{
	for (int round = 0; round < 100000; round++) {
		struct jst_balance balance = {
			.bytes = (int64_t)t_between(0, 6) - 3,
			.ops = (int64_t)t_between(0, 6) - 3,
		};
		uint64_t ops = t_between(1, 4), bytes = t_between(0, 4);
		uint64_t tokens = jst_balance_short(&balance, bytes, ops, 2, 2);

		if (!jst_balance_allows(&balance))
			T_CHECK(tokens >= 1);
	}
}
END_TEST

START_TEST(a_token_size_of_zero_from_outside_does_not_divide_by_zero)
{
	struct jst_balance balance = {0};

	ck_assert_uint_ge(jst_balance_short(&balance, 100, 1, 0, 0), 1);
}
END_TEST

T_MAIN("bucket", an_empty_balance_allows_nothing, both_resources_must_be_there,
       balance_never_exceeds_one_token_after_idle, each_resource_is_capped_by_itself,
       smaller_tokens_cut_what_was_saved_and_forgive_no_debt,
       a_message_larger_than_a_token_is_paid_in_full, long_run_spending_is_what_was_given,
       short_is_the_number_of_tokens_that_it_takes, nothing_queued_needs_no_token,
       work_that_is_blocked_always_asks_for_a_token,
       a_token_size_of_zero_from_outside_does_not_divide_by_zero)
