// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The driver's part of the commands, as the kernel's mlx5_ib and libmlx5 share it. */
#include <errno.h>
#include <string.h>
#include <rdma/mlx5-abi.h>

#include "uverbs.h"

#define BF_REG_BYTES 512
#define SQ_SHIFT 6
#define SEGMENT 16u
#define FLAG_SIGNATURE 1u	/* MLX5_QP_FLAG_SIGNATURE: a signature segment comes first */
#define CQE_VERSION 1		/* completions name queues by user index */

static void context(const struct uv_io *io)
{
	struct mlx5_ib_alloc_ucontext_req_v2 in;
	struct mlx5_ib_alloc_ucontext_resp out = {
		.qp_tab_size = 1 << 18, .bf_reg_size = BF_REG_BYTES, .cache_line_size = 64,
		.max_sq_desc_sz = 1024, .max_rq_desc_sz = 512, .max_send_wqebb = HCA_MAX_WR,
		.max_recv_wr = HCA_MAX_WR, .max_srq_recv_wr = HCA_MAX_SRQ_WR, .num_ports = 1,
		.response_length = sizeof(out), .cqe_version = CQE_VERSION,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE |
				 MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE, .log_uar_size = 12,
		.num_uars_per_page = 1, .num_dyn_bfregs = 512,
	};

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	out.tot_bfregs = in.total_num_bfregs;
	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void device(const struct uv_io *io)
{
	struct mlx5_ib_query_device_resp out = { .response_length = sizeof(out) };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void pd(const struct uv_io *io, uint32_t pdn)
{
	struct mlx5_ib_alloc_pd_resp out = { .pdn = pdn };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void ah(const struct uv_io *io, const uint8_t mac[6])
{
	struct mlx5_ib_create_ah_resp out = { .response_length = sizeof(out) };

	memcpy(out.dmac, mac, sizeof(out.dmac));
	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void cq(const struct uv_io *io, struct hca_ctl_cq *c)
{
	struct mlx5_ib_create_cq in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	c->buf = in.buf_addr;
	c->db = in.db_addr;
	c->cqe_bytes = in.cqe_size;
}

static void cq_done(const struct uv_io *io, uint32_t cqn)
{
	struct mlx5_ib_create_cq_resp out = { .cqn = cqn };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void resize(const struct uv_io *io, struct hca_ctl_cq *c)
{
	struct mlx5_ib_resize_cq in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	c->buf = in.buf_addr;
	c->cqe_bytes = in.cqe_size;
}

static bool is_pow2_or_0(uint32_t n)
{
	return !(n & (n - 1));
}

/* One buffer: the receive queue, then the send queue. */
static int qp(const struct uv_io *io, const struct hca_ctl_qp *c,
		      struct hca_qp_geometry *g)
{
	struct mlx5_ib_create_qp in;

	(void)c;
	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	if (!is_pow2_or_0(in.sq_wqe_count) || in.sq_wqe_count > HCA_MAX_WR ||
	    !is_pow2_or_0(in.rq_wqe_count) || in.rq_wqe_count > HCA_MAX_WR ||
	    (in.rq_wqe_count && (in.rq_wqe_shift < 4 || in.rq_wqe_shift > 10)))
		return -EINVAL;
	*g = (struct hca_qp_geometry){
		.rq = in.buf_addr, .db = in.db_addr, .sq_entries = in.sq_wqe_count,
		.rq_entries = in.rq_wqe_count, .sq_shift = SQ_SHIFT,
		.rq_shift = in.rq_wqe_count ? in.rq_wqe_shift : 0, .uidx = in.uidx,
		.rq_skip = in.flags & FLAG_SIGNATURE ? SEGMENT : 0,
	};
	g->sq = in.sq_buf_addr ? in.sq_buf_addr :
		in.buf_addr + ((uint64_t)g->rq_entries << g->rq_shift);
	return 0;
}

/* Register 0 takes plain eight byte doorbells: one fault per doorbell, no BlueFlame copy. */
static void qp_done(const struct uv_io *io)
{
	struct mlx5_ib_create_qp_resp out = { .bfreg_index = 0 };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void modify_done(const struct uv_io *io)
{
	struct mlx5_ib_modify_qp_resp out = { .response_length = sizeof(out) };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

static void srq(const struct uv_io *io, struct hca_ctl_srq *c)
{
	struct mlx5_ib_create_srq in;

	uv_get(&in, sizeof(in), io->uin, io->uin_bytes);
	c->buf = in.buf_addr;
	c->db = in.db_addr;
	c->stride_shift = uv_srq_stride_shift(c->max_sge);
}

static void srq_done(const struct uv_io *io, uint32_t srqn)
{
	struct mlx5_ib_create_srq_resp out = { .srqn = srqn };

	uv_put(io->uout, io->uout_bytes, &out, sizeof(out));
}

const struct uv_driver uv_mlx5 = {
	.has_timestamps = true,
	.context = context,
	.device = device,
	.pd = pd,
	.ah = ah,
	.cq = cq,
	.cq_done = cq_done,
	.resize = resize,
	.qp = qp,
	.qp_done = qp_done,
	.modify_done = modify_done,
	.srq = srq,
	.srq_done = srq_done,
};
