// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The driver's part of the commands, as the kernel's mlx4_ib and libmlx4 share it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/mlx4-abi.h>

#include "uverbs.h"
#include "wqe.h"

#define CQE_BYTES 32
#define SEGMENT_SHIFT 4
#define SQ_MIN_SHIFT 6
#define SQ_MAX_SHIFT 12		/* 4096 bytes, more than any work request of HCA_MAX_SGE */

static uint32_t ceil_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

static bool has_blueflame(void)
{
	const char *wish = getenv("SOFTHCA_BLUEFLAME");

	return wish && !strcmp(wish, "1");
}

/* BlueFlame only on request: a copy to it means as many faults as it has words. */
static void context(const struct uv_io *io)
{
	struct mlx4_ib_alloc_ucontext_resp out = {
		.qp_tab_size = 1 << 18, .cqe_size = CQE_BYTES,
	};

	if (has_blueflame()) {
		out.bf_reg_size = HCA_MLX4_BF_BYTES;
		out.bf_regs_per_page = 8;
	}

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void device(const struct uv_io *io)
{
	const struct mlx4_uverbs_ex_query_device_resp out = { .response_length = sizeof(out) };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void pd(const struct uv_io *io, uint32_t pdn)
{
	const struct mlx4_ib_alloc_pd_resp out = { .pdn = pdn };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void cq(const struct uv_io *io, struct hca_ctl_cq *c)
{
	struct mlx4_ib_create_cq in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	c->buf = in.buf_addr;
	c->db = in.db_addr;
	c->cqe_bytes = CQE_BYTES;
}

static void cq_done(const struct uv_io *io, uint32_t cqn)
{
	const struct mlx4_ib_create_cq_resp out = { .cqn = cqn };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void resize(const struct uv_io *io, struct hca_ctl_cq *c)
{
	struct mlx4_ib_resize_cq in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	c->buf = in.buf_addr;
	c->cqe_bytes = CQE_BYTES;
}

/* The driver rounds the receive queue up, as the library does for itself. */
static void receive_queue(const struct hca_ctl_qp *c, struct hca_qp_geometry *g)
{
	uint32_t sge = c->cap.max_recv_sge ? c->cap.max_recv_sge : 1;

	if (c->has_srq)
		return;
	g->rq_entries = ceil_pow2(c->cap.max_recv_wr);
	g->rq_shift = SEGMENT_SHIFT + (uint32_t)__builtin_ctz(ceil_pow2(sge));
}

/* One buffer with both queues, the one with the larger stride first. */
static int qp(const struct uv_io *io, const struct hca_ctl_qp *c, struct hca_qp_geometry *g)
{
	struct mlx4_ib_create_qp in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	if (in.log_sq_stride < SQ_MIN_SHIFT || in.log_sq_stride > SQ_MAX_SHIFT ||
	    in.log_sq_bb_count > 15 || in.inl_recv_sz)
		return -EINVAL;
	*g = (struct hca_qp_geometry){
		.sq = in.buf_addr, .rq = in.buf_addr, .db = in.db_addr,
		.sq_entries = 1u << in.log_sq_bb_count, .sq_shift = in.log_sq_stride,
	};
	receive_queue(c, g);
	if (g->rq_shift > g->sq_shift)
		g->sq += (uint64_t)g->rq_entries << g->rq_shift;
	else
		g->rq += (uint64_t)g->sq_entries << g->sq_shift;
	return 0;
}

/* The entries that the library made, of which one is always free. */
static void srq(const struct uv_io *io, struct hca_ctl_srq *c)
{
	struct mlx4_ib_create_srq in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	c->buf = in.buf_addr;
	c->db = in.db_addr;
	c->stride_shift = uv_srq_stride_shift(c->max_sge);
	if (c->max_wr <= HCA_MAX_SRQ_WR)
		c->max_wr = ceil_pow2(c->max_wr + 1) - 1;
}

static void srq_done(const struct uv_io *io, uint32_t srqn)
{
	const struct mlx4_ib_create_srq_resp out = { .srqn = srqn };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

const struct uv_driver uv_mlx4 = {
	.context = context,
	.device = device,
	.pd = pd,
	.cq = cq,
	.cq_done = cq_done,
	.resize = resize,
	.qp = qp,
	.srq = srq,
	.srq_done = srq_done,
};
