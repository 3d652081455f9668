/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* driver_justitia.h - libmlx5 as glue.c sees it. */
#ifndef JST_DRIVER_JUSTITIA_H
#define JST_DRIVER_JUSTITIA_H

#include <limits.h>

#include "mlx5.h"
#include "provider.h"

#define DRV_create_cq mlx5_create_cq
#define DRV_create_cq_ex mlx5_create_cq_ex
#define DRV_create_qp mlx5_create_qp
#define DRV_create_qp_ex mlx5_create_qp_ex
#define DRV_destroy_cq mlx5_destroy_cq
#define DRV_destroy_qp mlx5_destroy_qp
#define DRV_modify_qp mlx5_modify_qp
#define DRV_post_send mlx5_post_send
#define DRV_query_qp mlx5_query_qp
#define DRV_resize_cq mlx5_resize_cq

#define DRV_REFUSES_UNTIL_RTS true

static inline struct jst_ctx **drv_ctx(struct ibv_context *context)
{
	return &to_mctx(context)->jst;
}

static inline struct jst_cq **drv_cq(struct ibv_cq *cq)
{
	return &to_mcq(cq)->jst;
}

static inline struct jst_qp **drv_qp(struct ibv_qp *qp)
{
	return &to_mqp(qp)->jst;
}

/*
 * What max_send_wr the vendor makes of @asked. It rounds the bytes of the queue
 * up to a power of two; the bytes of one work request, a multiple of 16, follow
 * from the queue @qp that it has made, as that has some hundreds of them.
 */
static inline uint32_t drv_rounded_send_wr(struct ibv_qp *qp, uint32_t asked)
{
	const struct mlx5_wq *sq = &to_mqp(qp)->sq;
	uint32_t wr_bytes = ((uint32_t)sq->wqe_cnt << sq->wqe_shift) / sq->max_post & ~15u;

	return (uint32_t)roundup_pow_of_two((uint64_t)asked * wr_bytes) / wr_bytes;
}

/* Which of two it is depends on the card's completion format. */
static inline int (*drv_poll_cq(struct ibv_cq *cq))(struct ibv_cq *, int, struct ibv_wc *)
{
	return to_mctx(cq->context)->cqe_version ? mlx5_poll_cq_v1 : mlx5_poll_cq;
}

#endif
