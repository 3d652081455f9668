// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * integrity.c - random traffic between two processes, every byte compared.
 *
 * Both sides run it, one with --server, with the same options. Even queue pairs
 * are active at the client, odd ones at the server. Work goes in rounds: what a
 * round does to memory is computed from the seed by both (traffic.h), then it
 * is done, then every byte of every area is compared, and every completion has
 * been checked: one per signalled request, in order, none for others.
 *
 * Exit status: 0 all equal, 1 a difference (said precisely), 2 set-up failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "integrity.h"
#include "post.h"
#include "side.h"

#define POLL_MOST 16
#define STRAY_NS 100000000ull /* how long one waits for completions that must not come */
#define EVENT_MS 10
#define IDLE_POLLS 64u /* between two looks at the socket */
#define GUARD_BYTES 4096u

/* One queue pair: the active half or the passive half of it. */
struct flow {
	bool active;
	struct t_traffic traffic;
	struct t_poster poster;
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t memory_bytes;
	uint32_t posted;     /* operations of this round */
	uint32_t completed;  /* known to be: by the last completion */
	uint32_t received;   /* the operation whose receive is awaited */
};

struct test {
	struct t_integrity_options options;
	struct t_side side;
	struct flow *flow;
	struct t_random random;
	uint64_t ops, bytes, completions;
};

/* ---- memory ------------------------------------------------------------ */

static void map_areas(struct flow *flow)
{
	uint32_t bytes = flow->traffic.area_bytes;
	enum t_area first = flow->active ? T_SOURCE : T_TARGET;

	flow->poster.area[first] = flow->memory + GUARD_BYTES;
	flow->poster.area[first + 1] = flow->memory + GUARD_BYTES + bytes + GUARD_BYTES;
	for (int area = first; area <= (int)first + 1; area++)
		memcpy(flow->poster.area[area], flow->traffic.model[area], bytes);
}

static void open_flow(struct test *test, uint32_t index)
{
	struct flow *flow = &test->flow[index];

	flow->active = (index & 1) == (test->options.side.server ? 1 : 0);
	t_traffic_init(&flow->traffic, &test->options.traffic, index);
	t_poster_init(&flow->poster, &flow->traffic, test->side.qp[index],
		      test->options.side.extended_qp);
	flow->memory_bytes = 2 * (size_t)flow->traffic.area_bytes + 3 * GUARD_BYTES;
	flow->memory = t_must(aligned_alloc(4096, flow->memory_bytes), "malloc");
	memset(flow->memory, 0xa5, flow->memory_bytes);
	map_areas(flow);
	flow->mr = t_must(ibv_reg_mr(test->side.pd, flow->memory, flow->memory_bytes,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
			  "ibv_reg_mr");
	flow->poster.lkey = flow->mr->lkey;
}

static void exchange_memory(struct test *test, struct flow *flow)
{
	struct {
		uint64_t addr;
		uint32_t rkey, zero;
	} self = {(uintptr_t)flow->poster.area[T_TARGET], flow->mr->rkey, 0}, peer;

	t_side_swap(&test->side, &self, &peer, sizeof(self));
	flow->poster.target_addr = peer.addr;
	flow->poster.target_rkey = peer.rkey;
}

static void compare_area(const struct flow *flow, enum t_area area)
{
	static const char *const names[] = {"source", "result", "target", "receive"};
	const uint8_t *is = flow->poster.area[area], *should = flow->traffic.model[area];
	uint32_t at = 0;

	if (!memcmp(is, should, flow->traffic.area_bytes))
		return;
	while (is[at] == should[at])
		at++;
	fprintf(stderr, "the operations of the round:\n");
	for (uint32_t i = 0; i < flow->traffic.ops; i++)
		fprintf(stderr, "  %s\n", t_op_text(&flow->traffic, &flow->traffic.op[i]));
	t_die(1, "queue pair %u: byte %u of the %s area is 0x%02x, should be 0x%02x",
	      flow->traffic.qp, at, names[area], is[at], should[at]);
}

static void compare_guards(const struct flow *flow)
{
	for (uint32_t guard = 0; guard < 3; guard++) {
		const uint8_t *at = flow->memory +
				    guard * ((size_t)flow->traffic.area_bytes + GUARD_BYTES);

		for (uint32_t i = 0; i < GUARD_BYTES; i++)
			if (at[i] != 0xa5)
				t_die(1, "queue pair %u: byte %u of guard %u was changed",
				      flow->traffic.qp, i, guard);
	}
}

static void compare(const struct flow *flow)
{
	enum t_area first = flow->active ? T_SOURCE : T_TARGET;

	compare_area(flow, first);
	compare_area(flow, first + 1);
	compare_guards(flow);
}

/* ---- completions ------------------------------------------------------- */

static struct flow *flow_of(struct test *test, const struct t_completion *wc)
{
	for (uint32_t i = 0; i < test->options.side.qps; i++)
		if (test->side.qp[i]->qp_num == wc->qpn)
			return &test->flow[i];
	t_die(1, "completion of queue pair number 0x%x, which is none of ours (wr_id 0x%llx)",
	      wc->qpn, (unsigned long long)wc->wr_id);
}

static void expect(const struct flow *flow, const struct t_op *op, const char *what,
		   uint64_t is, uint64_t should)
{
	if (is != should)
		t_die(1, "completion of %s: %s is 0x%llx, should be 0x%llx",
		      t_op_text(&flow->traffic, op), what, (unsigned long long)is,
		      (unsigned long long)should);
}

static enum ibv_wc_opcode send_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

static bool is_signalled(const struct test *test, const struct t_op *op)
{
	return test->options.side.signal_all || op->flags & IBV_SEND_SIGNALED;
}

static void check_status(const struct flow *flow, const struct t_completion *wc, const char *kind)
{
	if (wc->status != IBV_WC_SUCCESS)
		t_die(1, "%s completion of queue pair %u, wr_id 0x%llx: status %s", kind,
		      flow->traffic.qp, (unsigned long long)wc->wr_id,
		      ibv_wc_status_str(wc->status));
}

static void check_send(struct test *test, const struct t_completion *wc)
{
	struct flow *flow = flow_of(test, wc);
	uint32_t at = flow->completed;
	const struct t_op *op;

	check_status(flow, wc, "send");
	while (at < flow->posted && !is_signalled(test, &flow->traffic.op[at]))
		at++;
	if (!flow->active || at == flow->posted)
		t_die(1, "queue pair %u: a completion too many, wr_id 0x%llx", flow->traffic.qp,
		      (unsigned long long)wc->wr_id);
	op = &flow->traffic.op[at];
	expect(flow, op, "wr_id", wc->wr_id, op->wr_id);
	expect(flow, op, "opcode", wc->opcode, send_opcode(op->opcode));
	/* defined for what brings data back (verbs: poll for completion) */
	if (op->opcode == IBV_WR_RDMA_READ || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		expect(flow, op, "byte_len", wc->byte_len, op->bytes);
	flow->completed = at + 1;
	test->completions++;
}

static void check_receive(struct test *test, const struct t_completion *wc)
{
	struct flow *flow = flow_of(test, wc);
	bool has_imm, is_write;
	const struct t_op *op;

	check_status(flow, wc, "receive");
	while (flow->received < flow->traffic.ops && !flow->traffic.op[flow->received].receives)
		flow->received++;
	if (flow->active || flow->received == flow->traffic.ops)
		t_die(1, "queue pair %u: a receive completion too many, wr_id 0x%llx",
		      flow->traffic.qp, (unsigned long long)wc->wr_id);
	op = &flow->traffic.op[flow->received++];
	is_write = op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	has_imm = is_write || op->opcode == IBV_WR_SEND_WITH_IMM;
	expect(flow, op, "receive wr_id", wc->wr_id, op->recv_wr_id);
	expect(flow, op, "receive opcode", wc->opcode,
	       is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	expect(flow, op, "receive byte_len", wc->byte_len, op->bytes);
	expect(flow, op, "receive wc_flags", wc->flags & IBV_WC_WITH_IMM,
	       has_imm ? IBV_WC_WITH_IMM : 0);
	if (has_imm)
		expect(flow, op, "receive imm", wc->imm, op->imm);
	test->completions++;
}

/* Returns the number of completions that were there. */
static int reap(struct test *test)
{
	struct t_completion wc[POLL_MOST];
	int sends = t_side_poll(&test->side, false, wc, POLL_MOST), receives;

	for (int i = 0; i < sends; i++)
		check_send(test, &wc[i]);
	receives = t_side_poll(&test->side, true, wc, POLL_MOST);
	for (int i = 0; i < receives; i++)
		check_receive(test, &wc[i]);
	return sends + receives;
}

/* ---- rounds ------------------------------------------------------------ */

static void post_more(struct test *test, struct flow *flow)
{
	uint32_t depth = test->options.side.send_wr;

	while (flow->active && flow->posted < flow->traffic.ops) {
		uint32_t room = depth - (flow->posted - flow->completed);
		uint32_t n = (uint32_t)t_random_between(&test->random, 1, test->options.list);

		if (n > flow->traffic.ops - flow->posted)
			n = flow->traffic.ops - flow->posted;
		if (n > room)
			return;
		/* counted first: a completion may be there before the call returns */
		flow->posted += n;
		t_post_list(&flow->poster, &flow->traffic.op[flow->posted - n], n);
	}
}

static bool is_done(const struct flow *flow)
{
	if (flow->active)
		return flow->completed == flow->traffic.ops;
	for (uint32_t i = flow->received; i < flow->traffic.ops; i++)
		if (flow->traffic.op[i].receives)
			return false;
	return true;
}

static bool all_done(const struct test *test)
{
	for (uint32_t i = 0; i < test->options.side.qps; i++)
		if (!is_done(&test->flow[i]))
			return false;
	return true;
}

static void give_up(const struct test *test)
{
	for (uint32_t i = 0; i < test->options.side.qps; i++) {
		const struct flow *flow = &test->flow[i];

		if (!is_done(flow))
			fprintf(stderr, "queue pair %u (%s): %u posted, %u completed, %u received "
					"of %u operations\n", i, flow->active ? "active" : "passive",
				flow->posted, flow->completed, flow->received, flow->traffic.ops);
	}
	t_die(1, "a round was not finished within %llu s",
	      (unsigned long long)test->options.timeout_ns / 1000000000);
}

static void wait_for_event(struct test *test)
{
	t_side_arm(&test->side);
	if (!reap(test))
		t_side_sleep(&test->side, EVENT_MS);
}

static void prepare_round(struct test *test, uint32_t index, uint32_t ops)
{
	struct flow *flow = &test->flow[index];

	t_traffic_round(&flow->traffic, ops);
	flow->posted = flow->completed = flow->received = 0;
	if (flow->active) {
		memcpy(flow->poster.area[T_SOURCE], flow->traffic.model[T_SOURCE],
		       flow->traffic.area_bytes);
		return;
	}
	for (uint32_t i = 0; i < ops; i++)
		if (flow->traffic.op[i].receives)
			t_post_receive(&flow->poster, &flow->traffic.op[i]);
}

static void barrier(struct test *test)
{
	char self = 'b', peer;

	t_side_swap(&test->side, &self, &peer, 1);
}

static void run_round(struct test *test, uint32_t ops)
{
	uint64_t end = t_now_ns() + test->options.timeout_ns;
	uint32_t qps = test->options.side.qps, idle = 0;

	for (uint32_t i = 0; i < qps; i++)
		prepare_round(test, i, ops);
	barrier(test);
	while (!all_done(test)) {
		for (uint32_t i = 0; i < qps; i++)
			post_more(test, &test->flow[i]);
		if (reap(test))
			continue;
		if (t_now_ns() > end)
			give_up(test);
		if (++idle % IDLE_POLLS == 0 && !t_side_has_peer(&test->side))
			t_die(2, "the other side is gone");
		if (test->side.channel)
			wait_for_event(test);
	}
	barrier(test);
	reap(test);
	for (uint32_t i = 0; i < qps; i++) {
		compare(&test->flow[i]);
		for (uint32_t op = 0; op < ops; op++)
			test->bytes += test->flow[i].traffic.op[op].bytes;
	}
	test->ops += (uint64_t)ops * qps;
}

/* With --seconds: both sides go on until the clock of one of them says stop. */
static bool both_go_on(struct test *test, uint64_t end)
{
	char self = !test->options.seconds || t_now_ns() < end, peer;

	t_side_swap(&test->side, &self, &peer, 1);
	return self && peer;
}

static void run(struct test *test)
{
	uint64_t end = t_now_ns() + test->options.seconds * 1000000000ull;
	/* the same numbers on both sides */
	struct t_random rounds;
	uint64_t left = test->options.seconds ? UINT64_MAX : test->options.count, quiet_until;

	t_random_init(&rounds, test->options.traffic.seed, 500);
	while (left && both_go_on(test, end)) {
		uint32_t most = 3 * test->options.side.send_wr;
		uint32_t ops;

		most = most > T_OPS_MOST ? T_OPS_MOST : most;
		ops = (uint32_t)t_random_between(&rounds, 1, most < left ? most : left);
		run_round(test, ops);
		left -= ops;
	}
	quiet_until = t_now_ns() + STRAY_NS;
	while (t_now_ns() < quiet_until)
		reap(test);
	barrier(test);
}

static void open_test(struct test *test)
{
	struct t_side_options *side = &test->options.side;

	t_random_init(&test->random, test->options.traffic.seed, side->server ? 2000 : 2001);
	t_side_open(&test->side, side);
	test->flow = t_must(calloc(side->qps, sizeof(*test->flow)), "malloc");
	for (uint32_t i = 0; i < side->qps; i++) {
		open_flow(test, i);
		exchange_memory(test, &test->flow[i]);
	}
	t_side_connect(&test->side);
	barrier(test);
}

static void close_test(struct test *test)
{
	for (uint32_t i = 0; i < test->options.side.qps; i++) {
		t_ok(ibv_dereg_mr(test->flow[i].mr), "ibv_dereg_mr");
		free(test->flow[i].memory);
		t_poster_free(&test->flow[i].poster);
		t_traffic_free(&test->flow[i].traffic);
	}
	t_side_close(&test->side);
	free(test->flow);
}

int main(int argc, char **argv)
{
	static struct test test;

	t_integrity_parse(&test.options, argc, argv);
	open_test(&test);
	run(&test);
	usleep(test.options.linger_ms * 1000);
	barrier(&test);
	close_test(&test);
	printf("integrity: ok: seed %llu, %llu operations, %llu bytes, %llu completions\n",
	       (unsigned long long)test.options.traffic.seed, (unsigned long long)test.ops,
	       (unsigned long long)test.bytes, (unsigned long long)test.completions);
	return 0;
}
