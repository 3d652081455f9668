/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* driver_justitia.h - librxe, the soft-RoCE driver, as glue.c sees it. */
#ifndef JST_DRIVER_JUSTITIA_H
#define JST_DRIVER_JUSTITIA_H

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <util/util.h>

#include "rxe_queue.h"
#include "provider.h"

/* The vendor's functions are static, but its table of them never changes. */
extern const struct verbs_context_ops rxe_ctx_ops;

#define DRV_create_cq rxe_ctx_ops.create_cq
#define DRV_create_cq_ex rxe_ctx_ops.create_cq_ex
#define DRV_create_qp rxe_ctx_ops.create_qp
#define DRV_create_qp_ex rxe_ctx_ops.create_qp_ex
#define DRV_destroy_cq rxe_ctx_ops.destroy_cq
#define DRV_destroy_qp drv_destroy_qp
#define DRV_modify_qp drv_modify_qp
#define DRV_post_send rxe_ctx_ops.post_send
#define DRV_query_qp rxe_ctx_ops.query_qp
#define DRV_resize_cq rxe_ctx_ops.resize_cq

/* The kernel does, when it is told of them. */
#define DRV_REFUSES_UNTIL_RTS true

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
 * Drops what lies in @ibcq of the queue pair @qp_num. Other drivers do this
 * themselves when a queue pair is destroyed or reset; here completions survive
 * it, and nobody could tell any more what the wr_id of ours stood for.
 */
static inline void drv_drop_completions(struct ibv_cq *ibcq, uint32_t qp_num)
{
	struct rxe_cq *cq = to_rcq(ibcq);
	uint32_t first, from, to;

	pthread_spin_lock(&cq->lock);
	first = load_consumer_index(cq->queue);
	from = to = atomic_load_explicit(producer(cq->queue), memory_order_acquire);
	while (from != first) { /* the newest first: those that stay move up */
		const struct ib_uverbs_wc *wc;

		from = (from - 1) & cq->queue->index_mask;
		wc = addr_from_index(cq->queue, from);
		if (wc->qp_num == qp_num)
			continue;
		to = (to - 1) & cq->queue->index_mask;
		memmove(addr_from_index(cq->queue, to), wc, sizeof(*wc));
	}
	store_consumer_index(cq->queue, to);
	pthread_spin_unlock(&cq->lock);
}

static inline void drv_drop_both(struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t qp_num)
{
	drv_drop_completions(send_cq, qp_num);
	if (recv_cq && recv_cq != send_cq)
		drv_drop_completions(recv_cq, qp_num);
}

static inline int drv_destroy_qp(struct ibv_qp *qp)
{
	struct ibv_cq *send_cq = qp->send_cq, *recv_cq = qp->recv_cq;
	bool shaped = *drv_qp(qp) != NULL;
	uint32_t qp_num = qp->qp_num;
	int error = rxe_ctx_ops.destroy_qp(qp);

	if (!error && shaped)
		drv_drop_both(send_cq, recv_cq, qp_num);
	return error;
}

static inline int drv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	int error = rxe_ctx_ops.modify_qp(qp, attr, attr_mask);

	if (!error && *drv_qp(qp) && (attr_mask & IBV_QP_STATE) &&
	    attr->qp_state == IBV_QPS_RESET)
		drv_drop_both(qp->send_cq, qp->recv_cq, qp->qp_num);
	return error;
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
