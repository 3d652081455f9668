// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* bench.c - a pair of queue pairs in one process, and its transcript. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PATIENCE_NS 20000000000ull
#define QUIET_NS 50000000ull

/* ---- a pair of queue pairs --------------------------------------------- */

void t_bench_to_rts(struct t_bench *bench)
{
	struct t_side_address a = t_side_address(&bench->side, bench->a);
	struct t_side_address b = t_side_address(&bench->side, bench->b);

	t_side_to_init(&bench->side, bench->a);
	t_side_to_init(&bench->side, bench->b);
	t_side_to_rts(&bench->side, bench->a, &b);
	t_side_to_rts(&bench->side, bench->b, &a);
}

void t_bench_set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	t_ok(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
}

void t_bench_make_pair(struct t_bench *bench)
{
	bench->side.options.timeout = 8; /* 1 ms */
	bench->side.options.retry = 2;
	bench->side.options.rnr_retry = 7; /* for ever */
	bench->a = t_side_make_qp(&bench->side);
	bench->b = t_side_make_qp(&bench->side);
	t_bench_to_rts(bench);
	bench->n = bench->room = 0;
}

static void print_events(struct t_bench *bench)
{
	struct ibv_async_event event;

	/* which ones, not when: they come beside the completions */
	while (!ibv_get_async_event(bench->side.context, &event)) {
		printf("  event %s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

static int completions_left(struct t_bench *bench)
{
	struct t_completion wc[T_BENCH_WRS];

	return t_side_poll(&bench->side, false, wc, 16) + t_side_poll(&bench->side, true, wc, 16);
}

void t_bench_destroy(struct ibv_qp **qp)
{
	if (*qp)
		t_ok(ibv_destroy_qp(*qp), "ibv_destroy_qp");
	*qp = NULL;
}

void t_bench_drop_pair(struct t_bench *bench)
{
	print_events(bench);
	t_bench_destroy(&bench->a);
	t_bench_destroy(&bench->b);
	if (completions_left(bench))
		printf("  completions of queue pairs that are gone\n");
}

/* ---- posting ----------------------------------------------------------- */

struct ibv_send_wr *t_bench_add(struct t_bench *bench, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_send_wr *wr = &bench->wr[bench->n];
	struct ibv_sge *sge = &bench->sge[bench->n];

	*sge = (struct ibv_sge){(uintptr_t)bench->memory, bytes, bench->local->lkey};
	*wr = (struct ibv_send_wr){
		.wr_id = bench->n,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.atomic.remote_addr = (uintptr_t)bench->remote->addr;
		wr->wr.atomic.rkey = bench->remote->rkey;
	} else {
		wr->wr.rdma.remote_addr = (uintptr_t)bench->remote->addr;
		wr->wr.rdma.rkey = bench->remote->rkey;
	}
	if (bench->n)
		bench->wr[bench->n - 1].next = wr;
	bench->n++;
	return wr;
}

struct ibv_send_wr *t_bench_add_write(struct t_bench *bench, uint32_t bytes)
{
	return t_bench_add(bench, IBV_WR_RDMA_WRITE, bytes);
}

static void start_extended(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)wr->sg_list->addr,
				       wr->sg_list->length);
	else
		ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
}

static int post_extended(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(extended);
	for (; wr; wr = wr->next)
		start_extended(extended, wr);
	return ibv_wr_complete(extended);
}

static void print_post(const struct t_bench *bench, int error, const struct ibv_send_wr *bad)
{
	bool relative = bench->room && bench->n >= bench->room;
	const char *base = relative ? "room+" : "";
	int less = relative ? (int)bench->room : 0;

	printf("  post of %s%d: %s", base, (int)bench->n - less,
	       error ? strerror(abs(error)) : "ok");
	if (bad)
		printf(", bad_wr %s%d", base, (int)(bad - bench->wr) - less);
	putchar('\n');
}

/* Posts the list that was added; says what came of it. Returns the error. */
int t_bench_post(struct t_bench *bench)
{
	struct ibv_send_wr *bad = NULL;
	int error;

	if (bench->extended)
		error = post_extended(bench->a, bench->wr);
	else
		error = ibv_post_send(bench->a, bench->wr, &bad);
	print_post(bench, error, bad);
	bench->n = 0;
	return error;
}

void t_bench_post_receive(struct t_bench *bench, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)bench->remote->addr, bytes, bench->local->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	t_ok(ibv_post_recv(bench->b, &wr, &bad), "ibv_post_recv");
}

/* ---- completions ------------------------------------------------------- */

static char name_of(const struct t_bench *bench, uint32_t qpn)
{
	return bench->a && bench->a->qp_num == qpn   ? 'A'
	       : bench->b && bench->b->qp_num == qpn ? 'B'
						     : '?';
}

static void print_completion(const struct t_bench *bench, const struct t_completion *wc,
			     bool receive)
{
	printf("  %c %s %llu: %s", name_of(bench, wc->qpn), receive ? "receive" : "send",
	       (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	/* of a failed request nothing else is defined */
	if (wc->status == IBV_WC_SUCCESS)
		printf(", opcode %d", wc->opcode);
	if (wc->status == IBV_WC_SUCCESS && (receive || wc->opcode == IBV_WC_RDMA_READ))
		printf(", %u bytes", wc->byte_len);
	putchar('\n');
}

/* Prints @n completions of one queue, or says how many did not come. */
void t_bench_completions(struct t_bench *bench, bool receives, int n)
{
	uint64_t end = t_now_ns() + PATIENCE_NS, quiet = 0;
	struct t_completion wc;

	if (n <= 0)
		quiet = t_now_ns() + QUIET_NS;
	while (t_now_ns() < (n > 0 ? end : quiet)) {
		if (!t_side_poll(&bench->side, receives, &wc, 1))
			continue;
		print_completion(bench, &wc, receives);
		/* the last that is expected: any more must come soon after it */
		if (!--n)
			quiet = t_now_ns() + QUIET_NS;
	}
	if (n > 0)
		printf("  %d completions are missing\n", n);
}

void t_bench_state(const char *name, struct ibv_qp *qp)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	t_ok(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	printf("  %s is in %s\n", name, attr.qp_state <= 6 ? names[attr.qp_state] : "?");
}

void t_bench_open(struct t_bench *bench)
{
	struct t_side_options *options = &bench->side.options, copy;
	int fd;

	options->gid_index = -1;
	options->send_wr = options->recv_wr = T_BENCH_DEPTH;
	options->sge = 2;
	options->inline_bytes = 64;
	options->cqe = 2 * T_BENCH_WRS;
	copy = *options;
	t_side_open(&bench->side, &copy);
	fd = bench->side.context->async_fd;
	t_ok(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "fcntl");
	bench->memory = t_must(aligned_alloc(4096, 2 * T_BENCH_BUFFER_BYTES), "malloc");
	memset(bench->memory, 0, 2 * T_BENCH_BUFFER_BYTES);
	bench->local = t_must(ibv_reg_mr(bench->side.pd, bench->memory, 2 * T_BENCH_BUFFER_BYTES,
					 IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	bench->remote = t_must(ibv_reg_mr(bench->side.pd, bench->memory + T_BENCH_BUFFER_BYTES,
					  T_BENCH_BUFFER_BYTES,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
			       "ibv_reg_mr");
}

void t_bench_close(struct t_bench *bench)
{
	t_ok(ibv_dereg_mr(bench->local), "ibv_dereg_mr");
	t_ok(ibv_dereg_mr(bench->remote), "ibv_dereg_mr");
	t_side_close(&bench->side);
	free(bench->memory);
}
