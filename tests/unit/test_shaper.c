// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * test_shaper.c - from post to completion, against a card and a daemon that
 * the test drives by hand. Right values come from the verbs specification.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_card.h"
#include "justitia.h"
#include "unit.h"

#define AREA (4u << 20)
#define CHUNK 4096u

static struct fake_card card;
static struct fake_daemon fake;
static uint8_t *local, *remote;

static void begin(enum jst_class class, uint32_t chunk_bytes, uint32_t token_ops, uint32_t depth,
		  bool sig_all)
{
	local = malloc(AREA);
	remote = calloc(1, AREA);
	for (uint32_t i = 0; i < AREA; i++)
		local[i] = (uint8_t)(i * 2654435761u >> 13);
	fake_daemon_start(&fake, class, chunk_bytes, token_ops);
	fake_card_open(&card, depth, sig_all);
}

static void finish(void)
{
	fake_card_close(&card);
	fake_daemon_die(&fake);
	free(local);
	free(remote);
}

static struct ibv_send_wr write_wr(struct ibv_sge *sge, uint64_t id, uint32_t offset,
				   uint32_t bytes)
{
	*sge = (struct ibv_sge){ (uintptr_t)(local + offset), bytes, 1 };
	return (struct ibv_send_wr){
		.wr_id = id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)(remote + offset), 2 },
	};
}

static int post_write(uint64_t id, uint32_t offset, uint32_t bytes)
{
	struct ibv_send_wr *bad = NULL;
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(&sge, id, offset, bytes);

	return fake_post(&card, &wr, &bad);
}

static void settle(void)
{
	nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
}

/* Feeds, executes and polls until @n completions came, or nothing moves for a second. */
static int collect(struct ibv_wc *wc, int n)
{
	int got = 0;

	for (int idle = 0; got < n && idle < 500; idle++) {
		int r;

		fake_daemon_feed(&fake, 64);
		r = fake_poll(&card, n - got, wc + got);
		ck_assert_int_ge(r, 0);
		fake_card_run(&card, FAKE_DEPTH);
		got += r;
		if (r)
			idle = 0;
		else
			settle();
	}
	return got;
}

START_TEST(without_daemon_nothing_is_replaced)
{
	setenv("JUSTITIA_SOCKET", "/nonexistent/justitia.sock", 1);
	fake_card_open(&card, 16, false);
	ck_assert_ptr_null(card.ctx);
}
END_TEST

START_TEST(class_off_does_not_attach)
{
	fake_daemon_start(&fake, JST_CLASS_BANDWIDTH, CHUNK, 1);
	setenv("JUSTITIA_CLASS", "off", 1);
	fake_card_open(&card, 16, false);
	ck_assert_ptr_null(card.ctx);
}
END_TEST

START_TEST(latency_class_is_counted_and_not_replaced)
{
	setenv("JUSTITIA_CLASS", "latency", 1);
	setenv("JUSTITIA_WEIGHT", "1.5", 1);
	fake_daemon_start(&fake, JST_CLASS_LATENCY, CHUNK, 1);
	fake_card_open(&card, 16, false);
	ck_assert_ptr_null(card.ctx);
	ck_assert_uint_eq(atomic_load(&fake.region->client.flows), 1);
	ck_assert_str_eq(fake.hello.class, "latency");
	ck_assert_str_eq(fake.hello.weight, "1.5");
	fake_daemon_die(&fake);
}
END_TEST

START_TEST(message_goes_out_in_chunks_and_completes_once)
{
	struct ibv_wc wc[4];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 16, false);
	ck_assert_int_eq(post_write(77, 5, 100000), 0);
	ck_assert_int_eq(collect(wc, 4), 1);
	ck_assert_uint_eq(wc[0].wr_id, 77);
	ck_assert_int_eq(wc[0].status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(card.posted, (100000 + CHUNK - 1) / CHUNK);
	ck_assert_uint_eq(card.largest, CHUNK);
	ck_assert_mem_eq(remote + 5, local + 5, 100000);
	finish();
}
END_TEST

START_TEST(without_tokens_post_returns_and_nothing_is_sent)
{
	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 16, false);
	for (uint64_t i = 0; i < 16; i++)
		ck_assert_int_eq(post_write(i, 0, 50000), 0);
	settle();
	ck_assert_uint_eq(card.posted, 0);
	ck_assert_uint_gt(jst_ring_wanted(&fake.ring), 0);
	finish();
}
END_TEST

START_TEST(no_more_is_sent_than_tokens_allow)
{
	struct ibv_wc wc;
	uint32_t fed = 0;

	begin(JST_CLASS_BANDWIDTH, CHUNK, 1, 4, false);
	ck_assert_int_eq(post_write(1, 0, 100 * CHUNK), 0);
	for (uint32_t i = 0; i < 50; i++) {
		fed += fake_daemon_feed(&fake, 1);
		ck_assert_uint_eq(fake_card_posted(&card, fed), fed);
		fake_card_run(&card, FAKE_DEPTH);
		ck_assert_int_eq(fake_poll(&card, 1, &wc), 0);
	}
	ck_assert_uint_eq(fed, 50);
	finish();
}
END_TEST

START_TEST(tokens_are_not_used_before_their_slot)
{
	struct jst_token later = { .due_ns = 0, .bytes = CHUNK, .ops = 1 };
	struct timespec now;
	struct ibv_wc wc;

	begin(JST_CLASS_BANDWIDTH, CHUNK, 1, 4, false);
	ck_assert_int_eq(post_write(1, 0, CHUNK), 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	later.due_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec + 100000000ull;
	ck_assert(jst_ring_push(&fake.ring, &later));
	for (int i = 0; i < 10; i++) {
		settle();
		ck_assert_int_eq(fake_poll(&card, 1, &wc), 0);
	}
	ck_assert_uint_eq(card.posted, 0);
	for (int i = 0; i < 200 && !card.posted; i++) {
		settle();
		fake_poll(&card, 1, &wc);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	ck_assert_uint_eq(card.posted, 1);
	ck_assert_uint_ge((uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec,
			  later.due_ns);
	finish();
}
END_TEST

START_TEST(slots_that_went_by_are_not_saved_up)
{
	struct jst_token token = { .due_ns = 1, .bytes = CHUNK, .ops = 1 };

	begin(JST_CLASS_BANDWIDTH, CHUNK, 1, 4, false);
	atomic_store(&fake.region->policy.token_life_ns, 1000000);
	for (int i = 0; i < 100; i++)
		ck_assert(jst_ring_push(&fake.ring, &token));
	ck_assert_int_eq(post_write(1, 0, 50 * CHUNK), 0);
	settle();
	ck_assert_uint_eq(fake_card_posted(&card, 1), 1);
	ck_assert_uint_eq(jst_ring_used(&fake.ring), 0);
	finish();
}
END_TEST

START_TEST(progress_thread_needs_no_help_from_the_application)
{
	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 16, false);
	ck_assert_int_eq(post_write(1, 0, 2000 * CHUNK / 4), 0);
	/* no poll: it must use the tokens, and read completions for room itself */
	for (int i = 0; i < 1000 && card.executed < 500; i++) {
		fake_daemon_feed(&fake, 16);
		settle();
		fake_card_run(&card, FAKE_DEPTH);
	}
	ck_assert_uint_eq(card.executed, 500);
	ck_assert_mem_eq(remote, local, 500 * CHUNK);
	finish();
}
END_TEST

START_TEST(queue_full_is_enomem_at_the_right_request)
{
	struct ibv_send_wr wr[6], *bad = NULL;
	struct ibv_sge sge[6];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	for (int i = 0; i < 6; i++) {
		wr[i] = write_wr(&sge[i], (uint64_t)i, 0, 8);
		wr[i].next = i < 5 ? &wr[i + 1] : NULL;
	}
	ck_assert_int_eq(fake_post(&card, wr, &bad), ENOMEM);
	ck_assert_ptr_eq(bad, &wr[4]);
	finish();
}
END_TEST

START_TEST(bad_request_in_a_list_stops_there)
{
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_sge sge[3];
	struct ibv_wc wc[3];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	for (int i = 0; i < 3; i++) {
		wr[i] = write_wr(&sge[i], (uint64_t)i, 0, 8);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].opcode = 99;
	ck_assert_int_eq(fake_post(&card, wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr[1]);
	ck_assert_int_eq(collect(wc, 3), 1);
	ck_assert_uint_eq(wc[0].wr_id, 0);
	finish();
}
END_TEST

START_TEST(failed_chunk_gives_one_error_then_flushes_in_order)
{
	struct ibv_wc wc[8];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 8, false);
	card.fail_at = 10 + 7; /* in the middle of the second message */
	for (uint64_t i = 0; i < 5; i++)
		ck_assert_int_eq(post_write(100 + i, 0, 10 * CHUNK), 0);
	ck_assert_int_eq(collect(wc, 8), 5);
	ck_assert_int_eq(wc[0].status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc[1].status, IBV_WC_REM_ACCESS_ERR);
	for (int i = 2; i < 5; i++)
		ck_assert_int_eq(wc[i].status, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 0; i < 5; i++)
		ck_assert_uint_eq(wc[i].wr_id, 100 + i);
	finish();
}
END_TEST

START_TEST(posts_after_an_error_are_flushed_too)
{
	struct ibv_wc wc[4];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	card.fail_at = 0;
	ck_assert_int_eq(post_write(1, 0, 10), 0);
	ck_assert_int_eq(collect(wc, 1), 1);
	for (uint64_t i = 2; i < 20; i++) {
		ck_assert_int_eq(post_write(i, 0, 3 * CHUNK), 0);
		ck_assert_int_eq(collect(wc, 1), 1);
		ck_assert_uint_eq(wc[0].wr_id, i);
		ck_assert_int_eq(wc[0].status, IBV_WC_WR_FLUSH_ERR);
	}
	finish();
}
END_TEST

START_TEST(reset_forgets_everything_and_the_queue_works_again)
{
	const struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc[2];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	ck_assert_int_eq(post_write(1, 0, 40 * CHUNK), 0);
	fake_daemon_feed(&fake, 3);
	settle();
	jst_qp_pause(card.jqp);
	fake_daemon_feed(&fake, 3);
	settle();
	card.posted = card.executed = card.retired = card.cq_head = card.cq_tail = 0;
	jst_qp_modified(card.jqp, &reset, IBV_QP_STATE);
	ck_assert_int_eq(fake_poll(&card, 1, wc), 0);
	ck_assert_int_eq(post_write(2, 0, 8), ENOMEM);
	fake_card_ready(&card);
	ck_assert_int_eq(post_write(2, 0, 5 * CHUNK), 0);
	ck_assert_int_eq(collect(wc, 2), 1);
	ck_assert_uint_eq(wc[0].wr_id, 2);
	finish();
}
END_TEST

START_TEST(a_vendor_that_takes_work_in_any_state_gets_it)
{
	const struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc[2];

	fake_card_refuses = false;
	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	jst_qp_pause(card.jqp);
	jst_qp_modified(card.jqp, &reset, IBV_QP_STATE);
	ck_assert_int_eq(post_write(2, 0, 5 * CHUNK), 0);
	ck_assert_int_eq(collect(wc, 2), 1);
	ck_assert_uint_eq(wc[0].wr_id, 2);
	finish();
	fake_card_refuses = true;
}
END_TEST

START_TEST(when_the_daemon_dies_traffic_flows)
{
	struct justitia_status status;
	struct ibv_wc wc[2];

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	ck_assert_int_eq(post_write(9, 0, 400 * CHUNK), 0);
	fake_daemon_feed(&fake, 5);
	settle();
	fake_daemon_die(&fake);
	for (int i = 0, got = 0; i < 1000 && !got; i++) {
		settle();
		fake_card_run(&card, FAKE_DEPTH);
		got = fake_poll(&card, 2, wc);
	}
	ck_assert_uint_eq(wc[0].wr_id, 9);
	ck_assert_mem_eq(remote, local, 400 * CHUNK);
	ck_assert_int_eq(justitia_query(card.device.name, &status), 0);
	ck_assert_uint_eq(status.attached, 0);
	fake_card_close(&card);
	free(local);
	free(remote);
}
END_TEST

START_TEST(a_daemon_that_stops_giving_does_not_stop_traffic)
{
	struct ibv_wc wc[2];
	uint32_t before;

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	ck_assert_int_eq(post_write(1, 0, 400 * CHUNK), 0);
	fake_daemon_feed(&fake, 5);
	for (int i = 0, got = 0; i < 4000 && !got; i++) {
		settle();
		fake_card_run(&card, FAKE_DEPTH);
		got = fake_poll(&card, 2, wc);
	}
	ck_assert_uint_eq(wc[0].wr_id, 1);
	ck_assert_mem_eq(remote, local, 400 * CHUNK);
	/* It gives again, and is obeyed again. */
	ck_assert_uint_gt(fake_daemon_feed(&fake, 1), 0);
	before = card.posted;
	ck_assert_int_eq(post_write(2, 0, 10 * CHUNK), 0);
	ck_assert_uint_le(fake_card_posted(&card, before + 1), before + 2);
	ck_assert_int_eq(collect(wc, 2), 1);
	finish();
}
END_TEST

START_TEST(chunk_size_is_read_for_every_chunk)
{
	struct ibv_wc wc[2];

	begin(JST_CLASS_BANDWIDTH, 1u << 20, 10, 4, false);
	ck_assert_int_eq(post_write(1, 0, 3u << 20), 0);
	fake_daemon_feed(&fake, 1);
	ck_assert_uint_eq(fake_card_posted(&card, 1), 1);
	card.largest = 0;
	fake.chunk_bytes = CHUNK;
	atomic_store(&fake.region->policy.chunk_bytes, CHUNK);
	ck_assert_int_eq(collect(wc, 2), 1);
	ck_assert_uint_eq(card.largest, CHUNK);
	ck_assert_uint_eq(card.posted, 1 + (2u << 20) / CHUNK);
	ck_assert_mem_eq(remote, local, 3u << 20);
	finish();
}
END_TEST

START_TEST(throughput_batch_takes_one_doorbell_and_one_token)
{
	struct ibv_send_wr wr[64], *bad = NULL;
	struct ibv_sge sge[64];
	struct ibv_wc wc[64];
	uint32_t posts;

	begin(JST_CLASS_THROUGHPUT, 1u << 20, 640, 128, false);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 64; i++) {
			wr[i] = write_wr(&sge[i], (uint64_t)i, (uint32_t)i * 16, 16);
			wr[i].send_flags = i == 63 ? IBV_SEND_SIGNALED : 0;
			wr[i].next = i < 63 ? &wr[i + 1] : NULL;
		}
		posts = card.posts;
		ck_assert_int_eq(fake_post(&card, wr, &bad), 0);
		ck_assert_int_eq(collect(wc, 1), 1);
		ck_assert_uint_eq(wc[0].wr_id, 63);
		if (round)
			ck_assert_uint_eq(card.posts - posts, 1);
	}
	ck_assert_uint_eq(fake.ring.head - jst_ring_used(&fake.ring), 1);
	finish();
}
END_TEST

struct posted {
	uint64_t id;
	uint32_t bytes, offset;
	bool read, signaled;
};

/* A random work request at @offset; what it should do goes to @posted. */
static void random_post(struct posted *posted, uint32_t offset, bool sig_all, bool must_signal)
{
	struct ibv_sge sge[FAKE_SGES];
	struct ibv_send_wr *bad, wr = { .sg_list = sge };
	uint64_t most = t_rand() % 4 ? 40 : 9000;

	memset(posted, 0, sizeof(*posted));
	wr.num_sge = (int)(t_rand() % (FAKE_SGES + 1));
	for (int i = 0; i < wr.num_sge; i++) {
		uint32_t length = (uint32_t)(t_rand() % (most + 1));

		sge[i] = (struct ibv_sge){ (uintptr_t)(local + offset + posted->bytes), length, 1 };
		posted->bytes += length;
	}
	posted->offset = offset;
	posted->id = wr.wr_id = t_rand();
	posted->read = t_rand() % 5 == 0;
	wr.opcode = posted->read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)(remote + offset);
	if (posted->read) /* remote to local: the pattern must arrive there */
		memset(local + offset, 0, posted->bytes);
	if (!posted->read && posted->bytes <= 256 && t_rand() % 2)
		wr.send_flags |= IBV_SEND_INLINE;
	if (must_signal || t_rand() % 4 == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	posted->signaled = sig_all || (wr.send_flags & IBV_SEND_SIGNALED);
	ck_assert_int_eq(fake_post(&card, &wr, &bad), 0);
}

/*
 * Any mix of messages, one behind the other in memory: every byte, every
 * completion, in order, and none too many.
 */
START_TEST(random_traffic_is_as_if_unshaped)
{
	enum { MESSAGES = 400 };
	static struct posted posted[MESSAGES];
	uint32_t n = 0, done = 0, offset = 0;
	uint8_t *pattern = malloc(AREA);
	bool sig_all = t_rand() % 2;
	uint32_t depth = (uint32_t)t_between(1, 40);
	struct ibv_wc wc[16];

	begin(JST_CLASS_BANDWIDTH, 512u << t_rand() % 8, 3, depth, sig_all);
	memcpy(pattern, local, AREA);
	memcpy(remote, local, AREA);
	while (n < MESSAGES || done < n) {
		if (n < MESSAGES && n - done < depth && offset < AREA - FAKE_SGES * 9000 &&
		    t_rand() % 3) {
			random_post(&posted[n], offset, sig_all,
				    n - done + 1 == depth || n + 1 == MESSAGES);
			if (!posted[n].read)
				memset(remote + offset, 0, posted[n].bytes);
			offset += posted[n++].bytes;
		} else {
			int got;

			fake_daemon_feed(&fake, (uint32_t)(t_rand() % 5));
			fake_card_run(&card, (uint32_t)(t_rand() % 50));
			got = fake_poll(&card, 16, wc);
			for (int i = 0; i < got; i++) {
				while (done < n && !posted[done].signaled)
					done++;
				ck_assert_uint_lt(done, n);
				ck_assert_int_eq(wc[i].status, IBV_WC_SUCCESS);
				ck_assert_uint_eq(wc[i].wr_id, posted[done].id);
				if (posted[done].read)
					ck_assert_uint_eq(wc[i].byte_len, posted[done].bytes);
				done++;
			}
		}
		ck_assert_uint_lt(offset, AREA - FAKE_SGES * 9000);
	}
	for (int i = 0; i < 20; i++) {
		fake_card_run(&card, FAKE_DEPTH);
		ck_assert_int_eq(fake_poll(&card, 16, wc), 0);
	}
	ck_assert_mem_eq(local, pattern, AREA);
	ck_assert_mem_eq(remote, pattern, AREA);
	free(pattern);
	finish();
}
END_TEST

START_TEST(forked_child_leaves_the_parent_alone)
{
	struct ibv_wc wc[2];
	int status;
	pid_t child;

	begin(JST_CLASS_BANDWIDTH, CHUNK, 10, 4, false);
	ck_assert_int_eq(post_write(1, 0, 20 * CHUNK), 0);
	child = fork();
	if (!child) {
		struct ibv_send_wr *bad;
		struct ibv_sge sge;
		struct ibv_send_wr wr = write_wr(&sge, 5, 0, 8);

		/* passed through to the vendor, without locks or tokens */
		if (fake_post(&card, &wr, &bad) || card.posted != 1)
			_exit(1);
		_exit(fake_poll(&card, 1, wc) ? 2 : 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(collect(wc, 2), 1);
	ck_assert_uint_eq(wc[0].wr_id, 1);
	finish();
}
END_TEST

T_MAIN("shaper",
       without_daemon_nothing_is_replaced,
       class_off_does_not_attach,
       latency_class_is_counted_and_not_replaced,
       message_goes_out_in_chunks_and_completes_once,
       without_tokens_post_returns_and_nothing_is_sent,
       no_more_is_sent_than_tokens_allow,
       tokens_are_not_used_before_their_slot,
       slots_that_went_by_are_not_saved_up,
       progress_thread_needs_no_help_from_the_application,
       queue_full_is_enomem_at_the_right_request,
       bad_request_in_a_list_stops_there,
       failed_chunk_gives_one_error_then_flushes_in_order,
       posts_after_an_error_are_flushed_too,
       reset_forgets_everything_and_the_queue_works_again,
       a_vendor_that_takes_work_in_any_state_gets_it,
       when_the_daemon_dies_traffic_flows,
       a_daemon_that_stops_giving_does_not_stop_traffic,
       chunk_size_is_read_for_every_chunk,
       throughput_batch_takes_one_doorbell_and_one_token,
       random_traffic_is_as_if_unshaped,
       forked_child_leaves_the_parent_alone)
