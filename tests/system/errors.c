// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * errors.c - what the verbs say when things go wrong, as a transcript.
 *
 * One process with two connected queue pairs, A and B, made anew for every
 * case. Everything that an application can see is printed: results of posts,
 * completions in order, asynchronous events. The stock driver's transcript is
 * the right one; with Justitia it must be the same, line by line.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define LARGE 1000000u /* many chunks, whatever their size */

/* ---- cases: the card refuses ------------------------------------------- */

/* One good, the bad one (@unsignalled or not), one good, one that is not signalled. */
static void around(struct t_bench *bench, enum ibv_wr_opcode opcode, uint32_t bytes,
		   void (*spoil)(struct t_bench *, struct ibv_send_wr *), bool unsignalled)
{
	struct ibv_send_wr *wr;

	t_bench_add_write(bench, LARGE);
	wr = t_bench_add(bench, opcode, bytes);
	spoil(bench, wr);
	if (unsignalled)
		wr->send_flags = 0;
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, 64)->send_flags = 0;
	t_bench_post(bench);
	t_bench_completions(bench, false, 4);
	t_bench_state("A", bench->a);
	t_bench_state("B", bench->b);
}

static void spoil_lkey(struct t_bench *bench, struct ibv_send_wr *wr)
{
	(void)bench;
	wr->sg_list->lkey ^= 0x5a0000;
}

static void spoil_rkey(struct t_bench *bench, struct ibv_send_wr *wr)
{
	(void)bench;
	wr->wr.rdma.rkey ^= 0x5a0000;
}

/* The first 600,000 bytes lie within, the rest does not. */
static void spoil_remote_end(struct t_bench *bench, struct ibv_send_wr *wr)
{
	(void)bench;
	wr->wr.rdma.remote_addr += T_BENCH_BUFFER_BYTES - 600000;
}

static void spoil_local_end(struct t_bench *bench, struct ibv_send_wr *wr)
{
	(void)bench;
	wr->sg_list->addr += 2 * T_BENCH_BUFFER_BYTES - 600000;
}

static void spoil_alignment(struct t_bench *bench, struct ibv_send_wr *wr)
{
	(void)bench;
	wr->wr.atomic.remote_addr += 4;
}

static void write_bad_lkey(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, 64, spoil_lkey, false);
}

static void write_bad_lkey_large_unsignalled(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, LARGE, spoil_lkey, true);
}

static void write_bad_rkey(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, 64, spoil_rkey, false);
}

static void write_bad_rkey_large(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, LARGE, spoil_rkey, false);
}

static void write_remote_end_in_the_middle(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, LARGE, spoil_remote_end, false);
}

static void write_remote_end_unsignalled(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, LARGE, spoil_remote_end, true);
}

static void write_local_end_in_the_middle(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_WRITE, LARGE, spoil_local_end, false);
}

static void read_bad_rkey(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_READ, LARGE, spoil_rkey, false);
}

static void read_remote_end_in_the_middle(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_READ, LARGE, spoil_remote_end, false);
}

static void read_local_end_in_the_middle(struct t_bench *bench)
{
	around(bench, IBV_WR_RDMA_READ, LARGE, spoil_local_end, false);
}

static void atomic_not_aligned(struct t_bench *bench)
{
	around(bench, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, spoil_alignment, false);
}

static void send_too_long(struct t_bench *bench, uint32_t bytes, uint32_t room)
{
	t_bench_post_receive(bench, 100, room);
	t_bench_post_receive(bench, 101, room);
	t_bench_add(bench, IBV_WR_SEND, room);
	t_bench_add(bench, IBV_WR_SEND, bytes);
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 3);
	t_bench_completions(bench, true, 2);
	t_bench_state("A", bench->a);
	t_bench_state("B", bench->b);
}

static void receive_too_small(struct t_bench *bench)
{
	send_too_long(bench, 4097, 4096);
}

static void receive_too_small_large(struct t_bench *bench)
{
	send_too_long(bench, LARGE, 600000);
}

static void no_receive(struct t_bench *bench)
{
	bench->side.options.rnr_retry = 1;
	t_bench_set_state(bench->a, IBV_QPS_RESET);
	t_bench_set_state(bench->b, IBV_QPS_RESET);
	t_bench_to_rts(bench);
	t_bench_add_write(bench, LARGE);
	t_bench_add(bench, IBV_WR_SEND, 64);
	t_bench_add_write(bench, LARGE)->send_flags = 0;
	t_bench_add_write(bench, 64);
	t_bench_post(bench);
	t_bench_completions(bench, false, 4);
	t_bench_state("A", bench->a);
}

static void peer_is_gone(struct t_bench *bench)
{
	t_bench_destroy(&bench->b);
	t_bench_add_write(bench, LARGE)->send_flags = 0;
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, 64);
	t_bench_post(bench);
	t_bench_completions(bench, false, 3);
	t_bench_state("A", bench->a);
}

static void post_after_an_error(struct t_bench *bench)
{
	spoil_rkey(bench, t_bench_add_write(bench, LARGE));
	t_bench_post(bench);
	t_bench_completions(bench, false, 1);
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, 64)->send_flags = 0;
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 3);
}

/* ---- cases: the driver refuses ----------------------------------------- */

/*
 * The depth that the driver promises. It may be more than was asked for, and
 * need not be the same for every driver; so results are printed relative to it.
 */
static void ask_room(struct t_bench *bench)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	t_ok(ibv_query_qp(bench->a, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
	bench->room = init.cap.max_send_wr;
	if (bench->room < T_BENCH_DEPTH || bench->room > T_BENCH_WRS - 3)
		t_die(1, "the queue has room for %u, which is not from %u to %u", bench->room,
		      T_BENCH_DEPTH, T_BENCH_WRS - 3);
}

/* So many writes, of which the last that has room is signalled. */
static void add_writes(struct t_bench *bench, uint32_t n, uint32_t bytes)
{
	for (uint32_t i = 0; i < n; i++) {
		struct ibv_send_wr *wr = t_bench_add_write(bench, bytes);

		wr->send_flags = i + 1 == bench->room ? IBV_SEND_SIGNALED : 0;
		wr->wr_id = 1000 + i - bench->room;
	}
}

/* Nothing is polled, so it fills up exactly. */
static void queue_full(struct t_bench *bench)
{
	ask_room(bench);
	/* several times, so that the queue wraps */
	for (int round = 0; round < 3; round++) {
		add_writes(bench, bench->room, 20000);
		t_bench_post(bench);
		add_writes(bench, 1, 20000);
		t_bench_post(bench);
		t_bench_completions(bench, false, 1);
	}
	add_writes(bench, bench->room + 1, 20000);
	t_bench_post(bench);
	t_bench_completions(bench, false, bench->extended ? 0 : 1);
}

static void queue_full_of_large_messages(struct t_bench *bench)
{
	ask_room(bench);
	add_writes(bench, bench->room + 3, LARGE / 4);
	t_bench_post(bench);
	t_bench_completions(bench, false, bench->extended ? 0 : 1);
}

static void bad_opcode_in_a_list(struct t_bench *bench)
{
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, 64);
	t_bench_add_write(bench, 64)->opcode = (enum ibv_wr_opcode)0x55;
	t_bench_add_write(bench, 64);
	t_bench_post(bench);
	t_bench_completions(bench, false, 2);
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 1);
}

static void too_many_segments_in_a_list(struct t_bench *bench)
{
	static struct ibv_sge many[64];

	for (int i = 0; i < 64; i++)
		many[i] = (struct ibv_sge){(uintptr_t)bench->memory, 8, bench->local->lkey};
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, 64);
	bench->wr[1].sg_list = many;
	bench->wr[1].num_sge = 64;
	t_bench_add_write(bench, 64);
	t_bench_post(bench);
	t_bench_completions(bench, false, bench->extended ? 0 : 1);
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 1);
}

static void too_much_inline_in_a_list(struct t_bench *bench)
{
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, 100000)->send_flags |= IBV_SEND_INLINE;
	t_bench_add_write(bench, 64);
	t_bench_post(bench);
	/*
	 * libmlx5 rings the doorbell of this list with what it wrote of the bad
	 * entry so far; the good entry before it may start only with the next post.
	 */
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, bench->extended ? 1 : 2);
}

/* ---- cases: work is outstanding ---------------------------------------- */

/* A SEND that waits for a receive, and work behind it: nothing of it can be done. */
static void post_stuck_work(struct t_bench *bench)
{
	t_bench_add(bench, IBV_WR_SEND, 64);
	t_bench_add_write(bench, LARGE)->send_flags = 0;
	t_bench_add_write(bench, LARGE);
	t_bench_add(bench, IBV_WR_RDMA_READ, LARGE);
	t_bench_add_write(bench, 64);
	t_bench_post(bench);
}

static void flush_by_error_state(struct t_bench *bench)
{
	post_stuck_work(bench);
	t_bench_set_state(bench->a, IBV_QPS_ERR);
	t_bench_completions(bench, false, 5);
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 1);
	t_bench_state("A", bench->a);
}

static void send_works(struct t_bench *bench)
{
	t_bench_post_receive(bench, 200, LARGE);
	t_bench_add(bench, IBV_WR_SEND, LARGE);
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 2);
	t_bench_completions(bench, true, 1);
}

static void reset_with_work_and_reuse(struct t_bench *bench)
{
	for (int round = 0; round < 3; round++) {
		post_stuck_work(bench);
		t_bench_set_state(bench->a, IBV_QPS_RESET);
		t_bench_completions(bench, false, 0);
		t_bench_set_state(bench->b, IBV_QPS_RESET);
		t_bench_to_rts(bench);
		send_works(bench);
	}
}

static void reset_after_an_error_and_reuse(struct t_bench *bench)
{
	spoil_remote_end(bench, t_bench_add_write(bench, LARGE));
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	t_bench_completions(bench, false, 2);
	t_bench_set_state(bench->a, IBV_QPS_RESET);
	t_bench_set_state(bench->b, IBV_QPS_RESET);
	t_bench_to_rts(bench);
	send_works(bench);
}

static void destroyed_with_work(struct t_bench *bench)
{
	post_stuck_work(bench);
	t_bench_destroy(&bench->a);
	t_bench_completions(bench, false, 0);
}

static void destroyed_with_completions(struct t_bench *bench)
{
	t_bench_add_write(bench, LARGE);
	t_bench_add_write(bench, LARGE);
	t_bench_post(bench);
	usleep(100000);
	t_bench_destroy(&bench->a);
	t_bench_completions(bench, false, 0);
}

static void stuck_work_goes_on_when_it_can(struct t_bench *bench)
{
	post_stuck_work(bench);
	usleep(20000);
	t_bench_post_receive(bench, 300, LARGE);
	t_bench_completions(bench, true, 1);
	t_bench_completions(bench, false, 4);
}

/* ---- main -------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(struct t_bench *bench);
	bool legacy_only; /* ibv_wr_*() leaves it undefined */
} cases[] = {
#define CASE(name) {#name, name, false}
	CASE(write_bad_lkey),
	CASE(write_bad_lkey_large_unsignalled),
	CASE(write_bad_rkey),
	CASE(write_bad_rkey_large),
	CASE(write_remote_end_in_the_middle),
	CASE(write_remote_end_unsignalled),
	CASE(write_local_end_in_the_middle),
	CASE(read_bad_rkey),
	CASE(read_remote_end_in_the_middle),
	CASE(read_local_end_in_the_middle),
	CASE(atomic_not_aligned),
	CASE(receive_too_small),
	CASE(receive_too_small_large),
	CASE(no_receive),
	CASE(peer_is_gone),
	CASE(post_after_an_error),
	CASE(queue_full),
	CASE(queue_full_of_large_messages),
	{"bad_opcode_in_a_list", bad_opcode_in_a_list, true},
	CASE(too_many_segments_in_a_list),
	CASE(too_much_inline_in_a_list),
	CASE(flush_by_error_state),
	CASE(reset_with_work_and_reuse),
	CASE(reset_after_an_error_and_reuse),
	CASE(destroyed_with_work),
	CASE(destroyed_with_completions),
	CASE(stuck_work_goes_on_when_it_can),
};

int main(int argc, char **argv)
{
	static struct t_bench bench;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--wr"))
			bench.extended = bench.side.options.extended_qp = true;
		else if (!strcmp(argv[i], "--ex"))
			bench.side.options.extended_cq = true;
		else if (argv[i][0] != '-' && !bench.only)
			bench.only = argv[i];
		else
			t_die(2, "usage: errors [--wr] [--ex] [CASE]: ibv_wr_*(), extended CQs");
	}
	t_bench_open(&bench);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if ((bench.only && strcmp(bench.only, cases[i].name)) ||
		    (bench.extended && cases[i].legacy_only))
			continue;
		printf("%s\n", cases[i].name);
		fflush(stdout);
		t_bench_make_pair(&bench);
		cases[i].run(&bench);
		t_bench_drop_pair(&bench);
		fflush(stdout);
	}
	t_bench_close(&bench);
	return 0;
}
