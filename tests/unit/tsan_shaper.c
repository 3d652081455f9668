// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * tsan_shaper.c - everybody at once, under ThreadSanitizer: one thread posts,
 * one polls, the progress thread sends, the card works, the daemon feeds, dies,
 * and nothing is lost, doubled or out of order.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fake_card.h"
#include "unit.h"

enum { MESSAGES = 4000, DEPTH = 32, BYTES = 20000, CHUNK = 4096 };

static struct fake_card card;
static struct fake_daemon fake;
static uint8_t local[BYTES], remote[BYTES];
static _Atomic uint32_t completed;

static void *post_all(void *unused)
{
	for (uint32_t i = 0; i < MESSAGES;) {
		struct ibv_sge sge = { (uintptr_t)local, BYTES, 1 };
		struct ibv_send_wr *bad, wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)remote, 2 },
		};
		int error = fake_post(&card, &wr, &bad);

		T_CHECK(!error || error == ENOMEM);
		i += !error;
		if (error)
			usleep(50);
	}
	return unused;
}

static void *poll_all(void *unused)
{
	struct ibv_wc wc[8];

	for (uint32_t seen = 0; seen < MESSAGES;) {
		int got = fake_poll(&card, 8, wc);

		T_CHECK(got >= 0);
		for (int i = 0; i < got; i++, seen++) {
			T_CHECK(wc[i].status == IBV_WC_SUCCESS);
			T_CHECK(wc[i].wr_id == seen);
		}
		atomic_store(&completed, seen);
		if (!got)
			usleep(20);
	}
	return unused;
}

START_TEST(threads_post_poll_and_progress_together)
{
	pthread_t poster, poller;
	bool alive = true;

	memset(local, 0x5a, BYTES);
	fake_daemon_start(&fake, JST_CLASS_BANDWIDTH, CHUNK, 10);
	fake_card_open(&card, DEPTH, false);
	ck_assert_ptr_nonnull(card.ctx);
	pthread_create(&poster, NULL, post_all, NULL);
	pthread_create(&poller, NULL, poll_all, NULL);
	while (atomic_load(&completed) < MESSAGES) {
		if (alive && atomic_load(&completed) > MESSAGES / 2) {
			fake_daemon_die(&fake);
			alive = false;
		}
		if (alive)
			fake_daemon_feed(&fake, 16);
		fake_card_run(&card, 40);
		usleep(10);
	}
	pthread_join(poster, NULL);
	pthread_join(poller, NULL);
	ck_assert(!alive);
	ck_assert_mem_eq(local, remote, BYTES);
	fake_card_close(&card);
}
END_TEST

T_MAIN("tsan_shaper", threads_post_poll_and_progress_together)
