/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* driver_justitia.h - libmlx4 as glue.c sees it. */
#ifndef JST_DRIVER_JUSTITIA_H
#define JST_DRIVER_JUSTITIA_H

#include <limits.h>

#include "mlx4.h"
#include "provider.h"

#define DRV_create_cq mlx4_create_cq
#define DRV_create_cq_ex mlx4_create_cq_ex
#define DRV_create_qp mlx4_create_qp
#define DRV_create_qp_ex mlx4_create_qp_ex
#define DRV_destroy_cq mlx4_destroy_cq
#define DRV_destroy_qp mlx4_destroy_qp
#define DRV_modify_qp mlx4_modify_qp
#define DRV_post_send mlx4_post_send
#define DRV_query_qp mlx4_query_qp
#define DRV_resize_cq mlx4_resize_cq

/* It takes work requests in any state. */
#define DRV_REFUSES_UNTIL_RTS false

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

/* The queue is a power of two, of which the card's prefetcher needs some. */
static inline uint32_t drv_rounded_send_wr(struct ibv_qp *qp, uint32_t asked)
{
	uint32_t spare = (uint32_t)to_mqp(qp)->sq_spare_wqes;

	return (uint32_t)roundup_pow_of_two((uint64_t)asked + spare) - spare;
}

static inline int (*drv_poll_cq(struct ibv_cq *cq))(struct ibv_cq *, int, struct ibv_wc *)
{
	(void)cq;
	return mlx4_poll_cq;
}

#endif
