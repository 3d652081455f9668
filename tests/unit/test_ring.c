// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_ring.c - the token ring, honest and with a hostile other side. */
#include <string.h>

#include "ring.h"
#include "unit.h"

/* The region between two canaries: no operation may touch those. */
static struct {
	uint8_t before[4096];
	struct jst_abi_region region;
	uint8_t behind[4096];
} arena;

static struct jst_ring_producer producer;
static struct jst_ring_consumer consumer;

/* Both positions start anywhere, so that every test crosses the wrap at 2^32 too. */
static void reset(void)
{
	uint32_t start = t_rand() & 1 ? (uint32_t)(0 - t_rand() % 3000) : (uint32_t)t_rand();

	memset(&arena, 0xc5, sizeof(arena));
	memset(&arena.region, 0, sizeof(arena.region));
	producer = (struct jst_ring_producer){&arena.region, start};
	consumer = (struct jst_ring_consumer){&arena.region, start};
	atomic_store(&arena.region.daemon.head, start);
	atomic_store(&arena.region.client.tail, start);
	atomic_store(&arena.region.client.wanted, start);
}

static void check_canaries(void)
{
	for (size_t i = 0; i < sizeof(arena.before); i++)
		T_CHECK(arena.before[i] == 0xc5 && arena.behind[i] == 0xc5);
}

static struct jst_token numbered(uint64_t n)
{
	return (struct jst_token){n, (uint32_t)n ^ 0x5555, (uint32_t)n ^ 0xaaaa};
}

static bool push(uint64_t n)
{
	struct jst_token token = numbered(n);

	return jst_ring_push(&producer, &token);
}

static bool pop(struct jst_token *token)
{
	if (!jst_ring_peek(&consumer, token))
		return false;
	jst_ring_drop(&consumer);
	return true;
}

START_TEST(tokens_come_out_once_and_in_order)
{
	for (int round = 0; round < 50; round++) {
		uint64_t in = 0, out = 0;

		reset();
		for (int step = 0; step < 10000; step++) {
			struct jst_token token;

			if (t_rand() & 1) {
				bool room = in - out < JST_RING_TOKENS;

				T_CHECK(push(in) == room);
				in += room;
			} else if (pop(&token)) {
				struct jst_token want = numbered(out++);

				T_CHECK(!memcmp(&token, &want, sizeof(want)));
			} else {
				T_CHECK(in == out);
			}
			T_CHECK(jst_ring_used(&producer) == in - out);
		}
		check_canaries();
	}
}
END_TEST

START_TEST(a_full_ring_refuses_and_loses_nothing)
{
	struct jst_token token;

	reset();
	for (uint64_t n = 0; n < JST_RING_TOKENS; n++)
		ck_assert(push(n));
	for (int i = 0; i < 10; i++)
		ck_assert(!push(999999));
	for (uint64_t n = 0; n < JST_RING_TOKENS; n++) {
		ck_assert(pop(&token));
		ck_assert_uint_eq(token.due_ns, n);
	}
	ck_assert(!pop(&token));
}
END_TEST

START_TEST(peek_leaves_the_token_in_place)
{
	struct jst_token token;

	reset();
	ck_assert(!jst_ring_peek(&consumer, &token));
	ck_assert(push(42));
	for (int i = 0; i < 5; i++) {
		ck_assert(jst_ring_peek(&consumer, &token));
		ck_assert_uint_eq(token.due_ns, 42);
		ck_assert_uint_eq(jst_ring_used(&producer), 1);
	}
	jst_ring_drop(&consumer);
	ck_assert(!jst_ring_peek(&consumer, &token));
	ck_assert_uint_eq(jst_ring_used(&producer), 0);
}
END_TEST

START_TEST(wanted_is_what_the_client_asked_for_and_has_room)
{
	for (int round = 0; round < 5000; round++) {
		uint64_t filled = t_between(0, JST_RING_TOKENS);
		uint64_t ask = t_between(0, 3000), ahead, room;

		reset();
		for (uint64_t n = 0; n < filled; n++)
			T_CHECK(push(n));
		atomic_store(&arena.region.client.wanted, consumer.tail + (uint32_t)ask);
		ahead = ask > filled ? ask - filled : 0;
		room = JST_RING_TOKENS - filled;
		ck_assert_uint_eq(jst_ring_wanted(&producer), ahead < room ? ahead : room);
	}
}
END_TEST

/*
 * The client writes anything into its line. Whatever it says: no more than a
 * ring of tokens counts as used or wanted, nothing but ring slots and `head`
 * is written, and what is pushed is what was given, not less than zero.
 */
START_TEST(a_hostile_client_moves_nothing_but_its_own_ring)
{
	static struct jst_abi_region before;

	for (int round = 0; round < 5000; round++) {
		struct jst_abi_region *region = &arena.region;
		struct jst_token token = numbered(t_rand());
		uint32_t head, slot;
		bool pushed;

		if (round % 100 == 0)
			reset();
		atomic_store(&region->client.tail, (uint32_t)(t_rand() >> t_between(0, 63)));
		atomic_store(&region->client.wanted, (uint32_t)(t_rand() >> t_between(0, 63)));
		atomic_store(&region->client.flows, (uint32_t)t_rand());
		ck_assert_uint_le(jst_ring_used(&producer), JST_RING_TOKENS);
		ck_assert_uint_le(jst_ring_wanted(&producer),
				  JST_RING_TOKENS - jst_ring_used(&producer));

		memcpy(&before, region, sizeof(before));
		head = producer.head;
		slot = head & JST_RING_MASK;
		pushed = jst_ring_push(&producer, &token);
		ck_assert_uint_eq(producer.head, head + pushed);
		if (pushed) {
			before.ring[slot] = (struct jst_abi_token){token.due_ns, token.bytes,
								   token.ops};
			atomic_store(&before.daemon.head, head + 1);
		}
		ck_assert_mem_eq(&before, region, sizeof(before));
		check_canaries();
	}
}
END_TEST

/* The producer goes by its private head, whatever stands in shared memory. */
START_TEST(a_client_that_overwrites_head_does_not_lead_the_daemon_astray)
{
	reset();
	for (uint64_t n = 0; n < 100; n++) {
		uint32_t head = producer.head;

		atomic_store(&arena.region.daemon.head, (uint32_t)t_rand());
		ck_assert(push(n));
		ck_assert_uint_eq(producer.head, head + 1);
		ck_assert_uint_eq(atomic_load(&arena.region.daemon.head), head + 1);
		ck_assert_uint_eq(jst_ring_used(&producer), n + 1);
	}
}
END_TEST

/* A head that is nonsense may give nonsense tokens, but only out of the ring's slots. */
START_TEST(a_hostile_daemon_does_not_lead_the_client_out_of_the_ring)
{
	reset();
	for (uint32_t i = 0; i < JST_RING_TOKENS; i++)
		arena.region.ring[i] = (struct jst_abi_token){i, i, i};
	for (int round = 0; round < 10000; round++) {
		uint32_t tail = consumer.tail;
		struct jst_token token;

		atomic_store(&arena.region.daemon.head, (uint32_t)t_rand());
		if (!jst_ring_peek(&consumer, &token))
			continue;
		ck_assert_uint_eq(token.due_ns, tail & JST_RING_MASK);
		jst_ring_drop(&consumer);
		ck_assert_uint_eq(consumer.tail, tail + 1);
	}
	check_canaries();
}
END_TEST

START_TEST(the_clients_count_of_tokens_is_right_and_never_above_a_ring)
{
	for (int round = 0; round < 2000; round++) {
		uint64_t filled = t_between(0, JST_RING_TOKENS);
		struct jst_token token;

		reset();
		for (uint64_t n = 0; n < filled; n++)
			T_CHECK(push(n));
		T_CHECK(jst_ring_tokens(&consumer) == filled);
		T_CHECK(jst_ring_covers(&consumer, consumer.tail + (uint32_t)filled));
		T_CHECK(!jst_ring_covers(&consumer, consumer.tail + (uint32_t)filled + 1));
		for (uint64_t n = 0; n < filled; n++)
			T_CHECK(pop(&token));
		T_CHECK(jst_ring_tokens(&consumer) == 0);
		atomic_store(&arena.region.daemon.head, (uint32_t)t_rand());
		T_CHECK(jst_ring_tokens(&consumer) <= JST_RING_TOKENS);
	}
}
END_TEST

START_TEST(who_waits_is_woken_only_while_it_waits)
{
	reset();
	ck_assert(!jst_ring_must_wake(&producer));
	ck_assert(!jst_ring_wait(&consumer, true));
	ck_assert(jst_ring_must_wake(&producer));
	ck_assert(push(1));
	/* there is one after all: no sleep */
	ck_assert(jst_ring_wait(&consumer, true));
	ck_assert(jst_ring_wait(&consumer, false));
	ck_assert(!jst_ring_must_wake(&producer));
}
END_TEST

T_MAIN("ring", tokens_come_out_once_and_in_order, a_full_ring_refuses_and_loses_nothing,
       peek_leaves_the_token_in_place, wanted_is_what_the_client_asked_for_and_has_room,
       a_hostile_client_moves_nothing_but_its_own_ring,
       a_client_that_overwrites_head_does_not_lead_the_daemon_astray,
       a_hostile_daemon_does_not_lead_the_client_out_of_the_ring,
       the_clients_count_of_tokens_is_right_and_never_above_a_ring,
       who_waits_is_woken_only_while_it_waits)
