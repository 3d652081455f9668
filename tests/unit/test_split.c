// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_split.c - chunks of scattered messages cover every byte once, in order. */
#include <string.h>

#include "core/core.h"
#include "unit.h"

#define SEGMENTS 32u

struct message {
	struct jst_segment segment[SEGMENTS];
	uint32_t segments;
	uint64_t bytes;
};

/* Segments far apart, of which some may be empty. */
static struct message random_message(uint64_t largest)
{
	struct message message = {.segments = (uint32_t)t_between(0, SEGMENTS)};

	for (uint32_t i = 0; i < message.segments; i++) {
		struct jst_segment *segment = &message.segment[i];

		segment->addr = (t_rand() & 0xffff) << 40 | (uint64_t)i << 34;
		segment->length = t_rand() % 8 ? (uint32_t)t_magnitude(largest) : 0;
		segment->key = (uint32_t)t_rand();
		message.bytes += segment->length;
	}
	return message;
}

/* Where byte @at of the message lies: address, and the key for it. */
static uint64_t locate(const struct message *message, uint64_t at, uint32_t *key)
{
	for (uint32_t i = 0; i < message->segments; i++) {
		if (at < message->segment[i].length) {
			*key = message->segment[i].key;
			return message->segment[i].addr + at;
		}
		at -= message->segment[i].length;
	}
	ck_abort_msg("byte beyond the message");
	return 0;
}

/* The chunk is exactly the bytes [offset, offset + length), each where it belongs. */
static void check_chunk(const struct message *message, uint64_t offset, uint64_t length)
{
	struct jst_segment out[SEGMENTS + 1];
	uint32_t used;
	uint64_t at = offset;

	memset(out, 0xa5, sizeof(out));
	used = jst_split(message->segment, message->segments, offset, length, out);
	T_CHECK(used <= message->segments);
	for (uint32_t i = 0; i < used; i++) {
		uint32_t key;

		T_CHECK(out[i].length > 0);
		T_CHECK(out[i].addr == locate(message, at, &key));
		T_CHECK(out[i].key == key);
		at += out[i].length;
		T_CHECK(out[i].addr + out[i].length - 1 == locate(message, at - 1, &key));
		T_CHECK(out[i].key == key);
	}
	T_CHECK(at == offset + length);
	/* nothing is written behind the last one */
	T_CHECK(out[used].addr == 0xa5a5a5a5a5a5a5a5ull);
}

START_TEST(any_range_of_a_message_is_found)
{
	for (int round = 0; round < 20000; round++) {
		struct message message = random_message(1 << 20);
		uint64_t offset = t_between(0, message.bytes);

		check_chunk(&message, offset, t_between(0, message.bytes - offset));
	}
}
END_TEST

START_TEST(chunk_after_chunk_covers_the_message_once)
{
	for (int round = 0; round < 300; round++) {
		struct message message = random_message(1 << 18);
		uint32_t chunk_bytes = (uint32_t)t_between(4096, 1 << 20);
		uint64_t offset = 0, chunks = 0;

		while (offset < message.bytes) {
			uint64_t left = message.bytes - offset;
			uint64_t length = jst_chunk_length(left, chunk_bytes);

			T_CHECK(length > 0 && length <= chunk_bytes);
			check_chunk(&message, offset, length);
			offset += length;
			chunks++;
		}
		ck_assert_uint_eq(offset, message.bytes);
		ck_assert_uint_eq(chunks, (message.bytes + chunk_bytes - 1) / chunk_bytes);
	}
}
END_TEST

START_TEST(segments_of_4_gib_do_not_overflow)
{
	struct message message = {.segments = 3, .bytes = 3ull * UINT32_MAX};

	for (uint32_t i = 0; i < 3; i++)
		message.segment[i] = (struct jst_segment){(uint64_t)i << 40, UINT32_MAX, i};
	for (int round = 0; round < 10000; round++) {
		uint64_t offset = t_between(0, message.bytes);

		check_chunk(&message, offset, t_between(0, message.bytes - offset));
	}
}
END_TEST

START_TEST(an_empty_message_is_one_empty_chunk)
{
	struct jst_segment segment = {.addr = 4096, .length = 0, .key = 1}, out;

	ck_assert_uint_eq(jst_chunk_length(0, 5000), 0);
	ck_assert_uint_eq(jst_split(&segment, 1, 0, 0, &out), 0);
	ck_assert_uint_eq(jst_split(NULL, 0, 0, 0, &out), 0);
}
END_TEST

START_TEST(chunk_length_is_the_rest_or_a_chunk)
{
	ck_assert_uint_eq(jst_chunk_length(1, 5000), 1);
	ck_assert_uint_eq(jst_chunk_length(5000, 5000), 5000);
	ck_assert_uint_eq(jst_chunk_length(5001, 5000), 5000);
	ck_assert_uint_eq(jst_chunk_length(1ull << 31, 1000000), 1000000);
	/* A chunk size of zero may stand in shared memory for a moment: it must not loop. */
	ck_assert_uint_gt(jst_chunk_length(5000, 0), 0);
}
END_TEST

T_MAIN("split", any_range_of_a_message_is_found, chunk_after_chunk_covers_the_message_once,
       segments_of_4_gib_do_not_overflow, an_empty_message_is_one_empty_chunk,
       chunk_length_is_the_rest_or_a_chunk)
