// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * test_abi.c - the golden layout of everything that two processes share.
 *
 * Literal numbers on purpose: who changes the layout must change them here,
 * and JST_ABI_VERSION with them.
 */
#include "abi.h"
#include "core/core.h"
#include "unit.h"

#define AT(type, member, offset, bytes)                                                         \
	do {                                                                                    \
		ck_assert_uint_eq(offsetof(type, member), (offset));                            \
		ck_assert_uint_eq(sizeof(((type *)0)->member), (bytes));                        \
	} while (0)

START_TEST(numbers_on_the_wire)
{
	ck_assert_uint_eq(JST_ABI_MAGIC, 0x4a535431);
	ck_assert_uint_eq(JST_ABI_VERSION, 1);
	ck_assert_uint_eq(JST_HELLO, 1);
	ck_assert_uint_eq(JST_WELCOME, 2);
	ck_assert_uint_eq(JST_LOOK, 3);
	ck_assert_uint_eq(JST_WAKE, 4);
	ck_assert_uint_eq(JST_STATUS, 5);
	ck_assert_uint_eq(JST_CLASS_BANDWIDTH, 0);
	ck_assert_uint_eq(JST_CLASS_THROUGHPUT, 1);
	ck_assert_uint_eq(JST_CLASS_LATENCY, 2);
	ck_assert_str_eq(JST_SOCKET_DEFAULT, "/run/justitia/justitia.sock");
}
END_TEST

START_TEST(messages)
{
	ck_assert_uint_eq(sizeof(struct jst_msg_header), 8);
	AT(struct jst_msg_header, magic, 0, 4);
	AT(struct jst_msg_header, version, 4, 2);
	AT(struct jst_msg_header, type, 6, 2);

	ck_assert_uint_eq(sizeof(struct jst_msg_hello), 168);
	AT(struct jst_msg_hello, class, 8, 32);
	AT(struct jst_msg_hello, weight, 40, 32);
	AT(struct jst_msg_hello, device, 72, 64);
	AT(struct jst_msg_hello, reserved, 136, 32);

	ck_assert_uint_eq(sizeof(struct jst_msg_welcome), 56);
	AT(struct jst_msg_welcome, error, 8, 4);
	AT(struct jst_msg_welcome, class, 12, 4);
	AT(struct jst_msg_welcome, weight_milli, 16, 4);
	AT(struct jst_msg_welcome, region_bytes, 20, 4);
	AT(struct jst_msg_welcome, reserved, 24, 32);
}
END_TEST

START_TEST(region_written_by_the_daemon)
{
	AT(struct jst_abi_region, id.magic, 0, 4);
	AT(struct jst_abi_region, id.version, 4, 4);
	AT(struct jst_abi_region, id.region_bytes, 8, 4);
	AT(struct jst_abi_region, id.ring_tokens, 12, 4);
	AT(struct jst_abi_region, id.client_id, 16, 8);
	AT(struct jst_abi_region, id.class, 24, 4);
	AT(struct jst_abi_region, id.weight_milli, 28, 4);
	AT(struct jst_abi_region, policy.chunk_bytes, 64, 4);
	AT(struct jst_abi_region, policy.token_ops, 68, 4);
	AT(struct jst_abi_region, policy.token_life_ns, 72, 8);
	AT(struct jst_abi_region, daemon.head, 128, 4);
	AT(struct jst_abi_region, daemon.daemon_waits, 132, 4);
	AT(struct jst_abi_region, ring, 320, 16384);
	AT(struct jst_abi_token, due_ns, 0, 8);
	AT(struct jst_abi_token, bytes, 8, 4);
	AT(struct jst_abi_token, ops, 12, 4);
	ck_assert_uint_eq(sizeof(struct jst_abi_token), 16);
	ck_assert_uint_eq(JST_RING_TOKENS, 1024);
	ck_assert_uint_eq(sizeof(struct jst_abi_region), 16704);
}
END_TEST

START_TEST(region_written_by_the_client)
{
	AT(struct jst_abi_region, client.tail, 192, 4);
	AT(struct jst_abi_region, client.wanted, 196, 4);
	AT(struct jst_abi_region, client.flows, 200, 4);
	AT(struct jst_abi_region, client.client_waits, 204, 4);
	AT(struct jst_abi_region, client.posted, 208, 4);
	AT(struct jst_abi_region, client.used, 212, 4);
	AT(struct jst_abi_region, stats.messages, 256, 8);
	AT(struct jst_abi_region, stats.bytes, 264, 8);
	AT(struct jst_abi_region, stats.chunks, 272, 8);
	AT(struct jst_abi_region, stats.queued_bytes, 280, 8);
	AT(struct jst_abi_region, stats.tokens, 288, 8);
	AT(struct jst_abi_region, stats.paced_whole, 296, 8);
	AT(struct jst_abi_region, stats.unpaced, 304, 8);
}
END_TEST

T_MAIN("abi", numbers_on_the_wire, messages, region_written_by_the_daemon,
       region_written_by_the_client)
