// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * resize.c - completion queues that change their size with completions in them.
 *
 *   resize [SEED]   many rounds: posts, polls some, resizes, polls the rest
 *
 * Every completion must come once and in order. Status 0 if all did.
 */
#include <stdio.h>
#include <stdlib.h>

#include "random.h"
#include "side.h"

#define DEPTH 200u
#define ROUNDS 400u
#define CQE_MAX 2000u
#define PATIENCE_NS 10000000000ull

static struct t_side side;
static struct ibv_mr *mr;
static uint8_t memory[4096];
static uint64_t posted, polled;

static void open_all(void)
{
	struct t_side_options options = {
		.gid_index = -1, .qps = 2, .send_wr = DEPTH, .recv_wr = 1, .sge = 1,
	};

	t_side_open(&side, &options);
	mr = t_must(ibv_reg_mr(side.pd, memory, sizeof(memory),
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
	for (int i = 0; i < 2; i++) {
		struct t_side_address peer = t_side_address(&side, side.qp[i ^ 1]);

		t_side_to_rts(&side, side.qp[i], &peer);
	}
}

static void post(uint32_t count)
{
	for (; count; count--) {
		struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = posted++,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)memory + 2048, mr->rkey},
		}, *bad;

		t_ok(ibv_post_send(side.qp[0], &wr, &bad), "ibv_post_send");
	}
}

static void poll_until(uint64_t wanted)
{
	uint64_t end = t_now_ns() + PATIENCE_NS;

	while (polled < wanted) {
		struct t_completion wc;

		if (t_now_ns() > end)
			t_die(1, "only %llu of %llu completions came",
			      (unsigned long long)polled, (unsigned long long)wanted);
		if (!t_side_poll(&side, false, &wc, 1))
			continue;
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id != polled)
			t_die(1, "completion %llu: wr_id %llu, %s", (unsigned long long)polled,
			      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
		polled++;
	}
}

int main(int argc, char **argv)
{
	struct t_random random;

	t_random_init(&random, argc > 1 ? strtoull(argv[1], NULL, 0) : 1, 0);
	open_all();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		post((uint32_t)t_random_between(&random, 1, DEPTH));
		poll_until(polled + t_random_between(&random, 0, posted - polled));
		t_ok(ibv_resize_cq(side.send_cq, (int)t_random_between(&random, DEPTH, CQE_MAX)),
		     "ibv_resize_cq");
		if (t_random_between(&random, 0, 1))
			poll_until(posted);
		else
			post((uint32_t)(DEPTH - (posted - polled)));
		poll_until(posted);
	}
	printf("resize: ok: %llu completions, %u sizes\n", (unsigned long long)polled, ROUNDS);
	return 0;
}
