/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* driver_justitia.h - librxe, the soft-RoCE driver, as glue.c sees it. */
#ifndef JST_DRIVER_JUSTITIA_H
#define JST_DRIVER_JUSTITIA_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <util/util.h>

#include "rxe.h"
#include "provider.h"

/* The vendor's functions are static, but its table of them never changes. */
extern const struct verbs_context_ops rxe_ctx_ops;

#define DRV_create_cq rxe_ctx_ops.create_cq
#define DRV_create_cq_ex rxe_ctx_ops.create_cq_ex
#define DRV_create_qp rxe_ctx_ops.create_qp
#define DRV_create_qp_ex rxe_ctx_ops.create_qp_ex
#define DRV_destroy_cq rxe_ctx_ops.destroy_cq
#define DRV_destroy_qp rxe_ctx_ops.destroy_qp
#define DRV_modify_qp rxe_ctx_ops.modify_qp
#define DRV_post_send rxe_ctx_ops.post_send
#define DRV_query_qp rxe_ctx_ops.query_qp
#define DRV_resize_cq rxe_ctx_ops.resize_cq

static inline struct jst_ctx **drv_ctx(struct ibv_context *context)
{
	return &to_rctx(context)->jst;
}

static inline struct jst_cq **drv_cq(struct ibv_cq *cq)
{
	return &to_rcq(cq)->jst;
}

static inline struct jst_qp **drv_qp(struct ibv_qp *qp)
{
	return &to_rqp(qp)->jst;
}

/*
 * What max_send_wr the kernel makes of @asked: the ring it shares with the
 * driver has a power of two of slots, one of which stays empty.
 */
static inline uint32_t drv_rounded_send_wr(struct ibv_qp *qp, uint32_t asked)
{
	(void)qp;
	return (uint32_t)roundup_pow_of_two((uint64_t)asked + 1) - 1;
}

static inline int (*drv_poll_cq(struct ibv_cq *cq))(struct ibv_cq *, int, struct ibv_wc *)
{
	(void)cq;
	return rxe_ctx_ops.poll_cq;
}

#endif
