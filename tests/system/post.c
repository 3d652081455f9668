// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* post.c - posts lists of random operations by ibv_post_send() or ibv_wr_*(). */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "post.h"
#include "side.h"

#define ABORT_PERCENT 5
#define NO_KEY 0xdeadu

void t_poster_init(struct t_poster *poster, const struct t_traffic *traffic, struct ibv_qp *qp,
		   bool extended)
{
	size_t bytes = T_LIST_MOST * ((size_t)traffic->options.inline_bytes + 1);

	memset(poster, 0, sizeof(*poster));
	poster->traffic = traffic;
	poster->qp = qp;
	if (extended)
		poster->qp_ex = t_must(ibv_qp_to_qp_ex(qp), "ibv_qp_to_qp_ex");
	poster->scratch = t_must(malloc(bytes), "malloc");
	t_random_init(&poster->random, traffic->options.seed, 1000 + traffic->qp);
}

void t_poster_free(struct t_poster *poster)
{
	free(poster->scratch);
}

static bool is_read_or_atomic(const struct t_op *op)
{
	return op->opcode == IBV_WR_RDMA_READ || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Inline data comes from memory that the card does not know. */
static void make_inline_sges(struct t_poster *poster, const struct t_op *op, uint8_t *scratch,
			     struct ibv_sge *sge)
{
	t_layout_gather(&op->local, poster->area[T_SOURCE], scratch);
	for (uint32_t i = 0; i < op->local.segments; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)scratch, op->local.segment[i].length, NO_KEY};
		scratch += op->local.segment[i].length;
	}
}

static void make_sges(struct t_poster *poster, const struct t_op *op, uint32_t index,
		      struct ibv_sge *sge)
{
	const uint8_t *area = poster->area[is_read_or_atomic(op) ? T_RESULT : T_SOURCE];

	if (op->flags & IBV_SEND_INLINE) {
		make_inline_sges(poster, op,
				 poster->scratch + index * poster->traffic->options.inline_bytes,
				 sge);
		return;
	}
	for (uint32_t i = 0; i < op->local.segments; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)area + op->local.segment[i].offset,
					  op->local.segment[i].length, poster->lkey};
}

/* Whoever keeps a pointer to inline data instead of the data sends this. */
static void spoil_inline_data(struct t_poster *poster)
{
	memset(poster->scratch, 0xee, T_LIST_MOST * poster->traffic->options.inline_bytes);
}

/* ---- ibv_post_send() --------------------------------------------------- */

static void make_wr(struct t_poster *poster, const struct t_op *op, struct ibv_send_wr *wr)
{
	uint64_t remote = poster->target_addr + op->remote_offset;

	wr->wr_id = op->wr_id;
	wr->opcode = op->opcode;
	wr->send_flags = op->flags;
	wr->num_sge = (int)op->local.segments;
	wr->imm_data = htonl(op->imm);
	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = poster->target_rkey;
		wr->wr.atomic.compare_add = op->compare_add;
		wr->wr.atomic.swap = op->swap;
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = poster->target_rkey;
	}
}

static void post_legacy(struct t_poster *poster, const struct t_op *op, uint32_t n)
{
	struct ibv_sge sge[T_LIST_MOST][T_SEGMENTS];
	struct ibv_send_wr wr[T_LIST_MOST], *bad = NULL;
	int error;

	memset(wr, 0, sizeof(wr));
	for (uint32_t i = 0; i < n; i++) {
		make_sges(poster, &op[i], i, sge[i]);
		make_wr(poster, &op[i], &wr[i]);
		wr[i].sg_list = sge[i];
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	error = ibv_post_send(poster->qp, wr, &bad);
	if (error)
		t_die(1, "ibv_post_send of a list of %u: error %d (%s) at entry %d: %s", n, error,
		      strerror(abs(error)), bad ? (int)(bad - wr) : -1,
		      t_op_text(poster->traffic, bad ? &op[bad - wr] : op));
	/* neither the list nor what it points at may be needed any more */
	memset(wr, 0xee, sizeof(wr));
	memset(sge, 0xee, sizeof(sge));
}

/* ---- ibv_wr_*() -------------------------------------------------------- */

static void start_op(struct t_poster *poster, const struct t_op *op)
{
	uint64_t remote = poster->target_addr + op->remote_offset;
	struct ibv_qp_ex *qp = poster->qp_ex;
	uint32_t rkey = poster->target_rkey;

	switch (op->opcode) {
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, rkey, remote);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, rkey, remote, htonl(op->imm));
		break;
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, htonl(op->imm));
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, rkey, remote);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, rkey, remote, op->compare_add, op->swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(qp, rkey, remote, op->compare_add);
	}
}

static void set_data(struct t_poster *poster, const struct t_op *op, const struct ibv_sge *sge)
{
	struct ibv_data_buf buffer[T_SEGMENTS];
	struct ibv_qp_ex *qp = poster->qp_ex;
	uint32_t n = op->local.segments;

	if (op->flags & IBV_SEND_INLINE) {
		for (uint32_t i = 0; i < n; i++)
			buffer[i] = (struct ibv_data_buf){(void *)(uintptr_t)sge[i].addr,
							  sge[i].length};
		if (n == 1)
			ibv_wr_set_inline_data(qp, buffer[0].addr, buffer[0].length);
		else
			ibv_wr_set_inline_data_list(qp, n, buffer);
	} else if (n == 1) {
		ibv_wr_set_sge(qp, sge[0].lkey, sge[0].addr, sge[0].length);
	} else {
		ibv_wr_set_sge_list(qp, n, sge);
	}
}

static void build(struct t_poster *poster, const struct t_op *op, uint32_t n, uint64_t wr_id_xor)
{
	struct ibv_sge sge[T_SEGMENTS];

	for (uint32_t i = 0; i < n; i++) {
		poster->qp_ex->wr_id = op[i].wr_id ^ wr_id_xor;
		/* inline is said by the setter here, not by a flag */
		poster->qp_ex->wr_flags = op[i].flags & ~(unsigned int)IBV_SEND_INLINE;
		make_sges(poster, &op[i], i, sge);
		start_op(poster, &op[i]);
		set_data(poster, &op[i], sge);
		memset(sge, 0xee, sizeof(sge));
	}
}

static void post_extended(struct t_poster *poster, const struct t_op *op, uint32_t n)
{
	int error;

	ibv_wr_start(poster->qp_ex);
	if (t_random_percent(&poster->random, ABORT_PERCENT)) {
		build(poster, op, (uint32_t)t_random_between(&poster->random, 0, n), ~0ull);
		ibv_wr_abort(poster->qp_ex);
		ibv_wr_start(poster->qp_ex);
	}
	build(poster, op, n, 0);
	error = ibv_wr_complete(poster->qp_ex);
	if (error)
		t_die(1, "ibv_wr_complete of %u operations: %s; the first is %s", n,
		      strerror(abs(error)), t_op_text(poster->traffic, op));
}

void t_post_list(struct t_poster *poster, const struct t_op *op, uint32_t n)
{
	if (poster->qp_ex)
		post_extended(poster, op, n);
	else
		post_legacy(poster, op, n);
	spoil_inline_data(poster);
}

void t_post_receive(struct t_poster *poster, const struct t_op *op)
{
	struct ibv_sge sge[T_SEGMENTS];
	struct ibv_recv_wr wr = {
		.wr_id = op->recv_wr_id,
		.sg_list = sge,
		.num_sge = (int)op->recv.segments,
	}, *bad;

	for (uint32_t i = 0; i < op->recv.segments; i++)
		sge[i] = (struct ibv_sge){
			(uintptr_t)poster->area[T_RECEIVE] + op->recv.segment[i].offset,
			op->recv.segment[i].length, poster->lkey};
	t_ok(ibv_post_recv(poster->qp, &wr, &bad), "ibv_post_recv");
}
