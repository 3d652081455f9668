// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* queue.c - the work requests of one queue pair, from post to completion. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/*
 * Work requests beyond the application's own that the card's queue gets, so
 * that chunks flow while completions are on their way back.
 */
#define CHUNKS_IN_FLIGHT 256u

static uint32_t power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power <<= 1;
	return power;
}

/* Operations that an ordinary work request can express; others stay with the vendor. */
#define SHAPED_OPS                                                                              \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

int jst_qp_prepare(struct jst_ctx *ctx, struct jst_cq *send_cq, struct ibv_qp_init_attr *attr,
		   uint64_t send_ops, struct jst_qp_request *request)
{
	bool known = attr->qp_type == IBV_QPT_RC || attr->qp_type == IBV_QPT_UC ||
		     attr->qp_type == IBV_QPT_UD;

	if (!known || !send_cq || !attr->cap.max_send_wr || ctx->app->orphan ||
	    attr->cap.max_send_sge > JST_BATCH_SGES || (send_ops & ~(uint64_t)SHAPED_OPS))
		return 0;
	request->max_send_wr = attr->cap.max_send_wr;
	request->sq_sig_all = attr->sq_sig_all;
	attr->cap.max_send_wr += CHUNKS_IN_FLIGHT;
	attr->sq_sig_all = 0; /* we say which chunks signal */
	return 1;
}

void jst_qp_restore(const struct jst_qp_request *request, struct ibv_qp_init_attr *attr)
{
	attr->cap.max_send_wr = request->max_send_wr;
	attr->sq_sig_all = request->sq_sig_all;
}

static void qp_free(struct jst_qp *qp)
{
	free(qp->messages);
	free(qp->sges);
	free(qp->inlines);
	free(qp->signals);
	free(qp);
}

static int qp_alloc(struct jst_qp *qp)
{
	/* one to spare: see the limit in jst_queue_slot() */
	uint32_t slots = power_of_two(qp->limit + 1);
	uint32_t signals = power_of_two(qp->hw_limit);

	qp->mask = slots - 1;
	qp->signal_mask = signals - 1;
	qp->messages = calloc(slots, sizeof(*qp->messages));
	qp->sges = calloc((size_t)slots * qp->max_sge, sizeof(*qp->sges));
	qp->inlines = calloc((size_t)slots * qp->max_inline + 1, 1);
	qp->signals = calloc(signals, sizeof(*qp->signals));
	return qp->messages && qp->sges && qp->inlines && qp->signals ? 0 : -ENOMEM;
}

struct jst_qp *jst_qp_create(struct jst_ctx *ctx, struct jst_cq *send_cq, struct ibv_qp *ibqp,
			     struct ibv_qp_ex *qp_ex, const struct ibv_qp_init_attr *attr,
			     const struct jst_qp_request *request)
{
	struct jst_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		goto nomem;
	qp->ctx = ctx;
	qp->ibqp = ibqp;
	qp->qp_num = ibqp->qp_num;
	qp->qp_ex = qp_ex;
	qp->cq = send_cq;
	qp->request = *request;
	qp->ready = !ctx->vendor.refuses_until_rts;
	qp->limit = request->max_send_wr;
	qp->hw_limit = attr->cap.max_send_wr;
	qp->max_sge = attr->cap.max_send_sge ? attr->cap.max_send_sge : 1;
	qp->max_inline = attr->cap.max_inline_data;
	pthread_mutex_init(&qp->post_lock, NULL);
	pthread_mutex_init(&qp->lock, NULL);
	if (qp_alloc(qp) || jst_cq_add(send_cq, qp))
		goto free;
	jst_pacer_flows(ctx->app, 1);
	return qp;
free:
	qp_free(qp);
nomem:
	errno = ENOMEM;
	return NULL;
}

void jst_qp_pause(struct jst_qp *qp)
{
	if (qp->ctx->app->orphan)
		return;
	pthread_mutex_lock(&qp->lock);
	qp->paused = true;
	pthread_mutex_unlock(&qp->lock);
}

void jst_qp_resume(struct jst_qp *qp)
{
	if (qp->ctx->app->orphan)
		return;
	pthread_mutex_lock(&qp->lock);
	qp->paused = false;
	jst_shaper_run(qp);
	pthread_mutex_unlock(&qp->lock);
}

void jst_qp_destroy(struct jst_qp *qp)
{
	if (qp->ctx->app->orphan)
		return; /* its locks may be held by threads that are not here */
	pthread_mutex_lock(&jst_progress_lock);
	jst_cq_remove(qp->cq, qp);
	pthread_mutex_lock(&qp->lock);
	jst_queue_clear(qp);
	pthread_mutex_unlock(&qp->lock);
	jst_cq_forget(qp->cq, qp->qp_num);
	pthread_mutex_unlock(&jst_progress_lock);
	jst_pacer_flows(qp->ctx->app, -1);
	pthread_mutex_destroy(&qp->lock);
	pthread_mutex_destroy(&qp->post_lock);
	qp_free(qp);
}

bool jst_qp_from_tag(const struct jst_qp *qp, uint64_t wr_id, uint32_t *position)
{
	uintptr_t offset = (uintptr_t)wr_id - (uintptr_t)qp->messages;
	uint32_t slot = (uint32_t)(offset / sizeof(*qp->messages));
	uint32_t tail = atomic_load_explicit(&qp->tail, memory_order_relaxed);

	if (offset >= (size_t)(qp->mask + 1) * sizeof(*qp->messages) ||
	    offset % sizeof(*qp->messages))
		return false;
	*position = tail + ((slot - tail) & qp->mask);
	return *position - tail < qp->head - tail;
}

struct jst_message *jst_queue_slot(struct jst_qp *qp, uint32_t staged)
{
	/* A failed message keeps its slot until the next one is heard of. */
	bool failed = atomic_load_explicit(&qp->failed, memory_order_relaxed);
	uint32_t limit = qp->limit + (failed ? 1 : 0);
	uint32_t position = qp->head + staged;
	struct jst_message *message = jst_qp_message(qp, position);

	/* acquire: whoever completed the slot's last message has read it */
	if (position - atomic_load_explicit(&qp->tail, memory_order_acquire) >= limit)
		return NULL;
	memset(message, 0, sizeof(*message));
	message->wr.sg_list = qp->sges + (size_t)(position & qp->mask) * qp->max_sge;
	return message;
}

static uint64_t total_bytes(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

/*
 * One segment in the slot's own memory: the application may reuse its buffer
 * as soon as the post returns.
 */
static int copy_inline(struct jst_qp *qp, struct jst_message *message, const struct ibv_send_wr *wr)
{
	size_t slot = (size_t)(message - qp->messages);
	uint8_t *to = qp->inlines + slot * qp->max_inline;
	uint64_t bytes = total_bytes(wr);

	if (bytes > qp->max_inline)
		return ENOMEM; /* as the vendor */
	message->wr.sg_list[0] = (struct ibv_sge){ (uintptr_t)to, (uint32_t)bytes, 0 };
	message->wr.num_sge = bytes ? 1 : 0;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	return 0;
}

static bool is_known(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
	case IBV_WR_SEND_WITH_INV:
		return true;
	default:
		return false;
	}
}

int jst_queue_stage(struct jst_qp *qp, const struct ibv_send_wr *wr, uint32_t staged)
{
	struct jst_message *message;
	struct ibv_sge *sges;
	int error = 0;

	/* In the vendor's order, with the vendor's errors. */
	if (!is_known(wr->opcode))
		return EINVAL;
	message = qp->ready ? jst_queue_slot(qp, staged) : NULL;
	if (!message)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->max_sge)
		return ENOMEM;
	sges = message->wr.sg_list;
	message->wr = *wr;
	message->wr.sg_list = sges;
	if (wr->send_flags & IBV_SEND_INLINE)
		error = copy_inline(qp, message, wr);
	else if (wr->num_sge)
		memcpy(sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*sges));
	if (!error)
		jst_message_finish(qp, message);
	return error;
}

void jst_message_finish(struct jst_qp *qp, struct jst_message *message)
{
	const struct ibv_send_wr *wr = &message->wr;

	message->bytes = total_bytes(wr);
	message->signaled = qp->request.sq_sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
	message->split = qp->ibqp->qp_type == IBV_QPT_RC && !(wr->send_flags & IBV_SEND_INLINE) &&
			 (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ);
}

static void list_leave(struct jst_app *app, struct jst_qp *qp)
{
	if (!qp->is_active)
		return;
	if (qp->next_active == qp) {
		app->active = NULL;
	} else {
		qp->prev_active->next_active = qp->next_active;
		qp->next_active->prev_active = qp->prev_active;
		if (app->active == qp)
			app->active = qp->next_active;
	}
	qp->is_active = false;
	atomic_fetch_sub_explicit(&app->actives, 1, memory_order_relaxed);
}

static void list_join(struct jst_app *app, struct jst_qp *qp)
{
	if (qp->is_active)
		return;
	if (!app->active) {
		app->active = qp->next_active = qp->prev_active = qp;
	} else { /* last: before the one whose turn it is */
		qp->next_active = app->active;
		qp->prev_active = app->active->prev_active;
		qp->prev_active->next_active = qp;
		app->active->prev_active = qp;
	}
	qp->is_active = true;
	atomic_fetch_add_explicit(&app->actives, 1, memory_order_relaxed);
}

void jst_queue_settle(struct jst_qp *qp)
{
	if (jst_qp_has_work(qp))
		list_join(qp->ctx->app, qp);
	else
		list_leave(qp->ctx->app, qp);
}

void jst_queue_clear(struct jst_qp *qp)
{
	struct jst_app *app = qp->ctx->app;

	pthread_mutex_lock(&app->lock);
	for (; jst_qp_has_work(qp); qp->cursor++) {
		const struct jst_message *message = jst_qp_message(qp, qp->cursor);

		app->queued_bytes -= message->bytes - message->done;
		app->queued_ops--;
	}
	jst_queue_settle(qp);
	jst_pacer_publish(app);
	pthread_mutex_unlock(&app->lock);

	for (; qp->signal_tail != qp->signal_head; qp->signal_tail++)
		if (!qp->signals[qp->signal_tail & qp->signal_mask].visible)
			atomic_fetch_sub_explicit(&qp->cq->hidden, 1, memory_order_relaxed);
	qp->cursor = qp->head = 0;
	atomic_store_explicit(&qp->tail, 0, memory_order_release);
	qp->hw_posted = qp->hw_done = qp->hw_unsignaled = 0;
	atomic_store_explicit(&qp->failed, false, memory_order_relaxed);
}

/* Whoever still holds a completion of its former life has absorbed it first. */
static void after_reset(struct jst_qp *qp)
{
	pthread_mutex_lock(&qp->cq->lock);
	pthread_mutex_lock(&qp->lock);
	jst_queue_clear(qp);
	qp->ready = !qp->ctx->vendor.refuses_until_rts;
	qp->paused = false;
	pthread_mutex_unlock(&qp->lock);
	jst_cq_forget(qp->cq, qp->qp_num);
	pthread_mutex_unlock(&qp->cq->lock);
}

void jst_qp_modified(struct jst_qp *qp, const struct ibv_qp_attr *attr, int attr_mask)
{
	if (!(attr_mask & IBV_QP_STATE) || qp->ctx->app->orphan)
		return;
	if (attr->qp_state == IBV_QPS_RESET) {
		after_reset(qp);
		return;
	}
	pthread_mutex_lock(&qp->lock);
	if (attr->qp_state == IBV_QPS_ERR) {
		atomic_store_explicit(&qp->failed, true, memory_order_relaxed);
		jst_shaper_run(qp);
	} else if (attr->qp_state == IBV_QPS_RTS) {
		qp->ready = true;
		/* also from the send queue error state of UD */
		atomic_store_explicit(&qp->failed, false, memory_order_relaxed);
	}
	pthread_mutex_unlock(&qp->lock);
}

void jst_qp_queried(struct jst_qp *qp, struct ibv_qp_attr *attr,
		    struct ibv_qp_init_attr *init_attr)
{
	attr->cap.max_send_wr = qp->request.max_send_wr;
	init_attr->cap.max_send_wr = qp->request.max_send_wr;
	init_attr->sq_sig_all = qp->request.sq_sig_all;
}
