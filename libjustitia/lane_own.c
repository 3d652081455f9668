// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * lane_own.c - chunks on the application's own queue pair.
 *
 * The card keeps the order of a queue pair, so the chunks of a message go out
 * in sequence and the last one carries the application's completion. Now and
 * then a chunk signals for our own sake, to learn that the send queue has room
 * again; complete.c hides those completions.
 */
#include <assert.h>
#include <errno.h>

#include "internal.h"

static_assert(sizeof(struct jst_segment) == sizeof(struct ibv_sge) &&
		      offsetof(struct jst_segment, length) == offsetof(struct ibv_sge, length) &&
		      offsetof(struct jst_segment, key) == offsetof(struct ibv_sge, lkey),
	      "the core splits verbs' scatter/gather lists");

static bool is_allowed(const struct jst_qp *qp)
{
	return !qp->paused && (qp->failed || jst_pacer_allows(qp->ctx->app));
}

static uint64_t next_length(const struct jst_qp *qp, const struct jst_message *message)
{
	uint64_t left = message->bytes - message->done;

	if (!message->split || qp->failed)
		return left;
	return jst_chunk_length(left, jst_pacer_chunk_bytes(qp->ctx->app));
}

/* Must this one signal for us, so that the queue cannot fill up unheard? */
static bool is_signal_due(const struct jst_qp *qp)
{
	uint32_t unsignaled = qp->hw_unsignaled + 1;

	return unsignaled >= qp->hw_limit / 4 || jst_qp_room(qp) == 1;
}

static bool may_signal(const struct jst_qp *qp)
{
	return atomic_load_explicit(&qp->cq->hidden, memory_order_relaxed) < JST_CQ_SLACK;
}

static void remember_signal(struct jst_qp *qp, bool last, bool visible)
{
	struct jst_signal *signal = &qp->signals[qp->signal_head++ & qp->signal_mask];

	signal->hw = qp->hw_posted;
	signal->message = qp->cursor;
	signal->last = last;
	signal->visible = visible;
	if (!visible)
		atomic_fetch_add_explicit(&qp->cq->hidden, 1, memory_order_relaxed);
}

/* The chunk [done, done + length) of @message as a work request of the batch. */
static void write_wr(struct jst_batch *batch, const struct jst_message *message, uint64_t length,
		     bool signaled)
{
	struct ibv_send_wr *wr = &batch->wr[batch->wrs];
	bool last = message->done + length == message->bytes;

	*wr = message->wr;
	wr->next = NULL;
	wr->wr_id = jst_qp_tag(message);
	wr->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	if (signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (!message->done && last)
		return;
	if (message->done)
		wr->send_flags &= ~(unsigned int)IBV_SEND_FENCE;
	if (!last)
		wr->send_flags &= ~(unsigned int)IBV_SEND_SOLICITED;
	wr->wr.rdma.remote_addr += message->done;
	wr->sg_list = &batch->sge[batch->sges];
	wr->num_sge = (int)jst_split((const struct jst_segment *)message->wr.sg_list,
				     (uint32_t)message->wr.num_sge, message->done, length,
				     (struct jst_segment *)wr->sg_list);
	batch->sges += (uint32_t)wr->num_sge;
}

/* Everything that handing one chunk over changes; take_back() is its mirror. */
static void hand_over(struct jst_qp *qp, struct jst_message *message, uint64_t length)
{
	struct jst_app *app = qp->ctx->app;

	if (!message->started) {
		message->started = true;
		message->hw_first = qp->hw_posted;
	}
	message->done += length;
	qp->hw_posted++;
	app->queued_bytes -= length;
	jst_pacer_spend(app, length, 1);
	if (message->done == message->bytes) {
		app->queued_ops--;
		qp->cursor++;
	}
}

static void take_back(struct jst_qp *qp, const struct jst_batch *batch, uint32_t i)
{
	struct jst_app *app = qp->ctx->app;
	struct jst_message *message = jst_qp_message(qp, batch->undo[i].message);
	uint64_t length = message->done - batch->undo[i].done;

	qp->hw_posted--;
	if (qp->signal_head != qp->signal_tail) {
		const struct jst_signal *signal =
			&qp->signals[(qp->signal_head - 1) & qp->signal_mask];

		if (signal->hw == qp->hw_posted) {
			if (!signal->visible)
				atomic_fetch_sub_explicit(&qp->cq->hidden, 1,
							  memory_order_relaxed);
			qp->signal_head--;
		}
	}
	qp->hw_unsignaled = batch->undo[i].unsignaled;
	if (message->done == message->bytes) {
		app->queued_ops++;
		qp->cursor = batch->undo[i].message;
	}
	message->done = batch->undo[i].done;
	if (message->hw_first == qp->hw_posted)
		message->started = false;
	app->queued_bytes += length;
	jst_pacer_refund(app, length, 1);
}

/* A message of which a part failed is over; what was not posted never will be. */
static void skip_failed(struct jst_qp *qp)
{
	struct jst_app *app = qp->ctx->app;

	while (jst_qp_has_work(qp)) {
		struct jst_message *message = jst_qp_message(qp, qp->cursor);

		if (!message->failed)
			return;
		app->queued_bytes -= message->bytes - message->done;
		app->queued_ops--;
		qp->cursor++;
	}
}

/* Adds the next chunk to the batch; false if it has to wait. */
static bool add_chunk(struct jst_qp *qp, struct jst_batch *batch)
{
	struct jst_message *message = jst_qp_message(qp, qp->cursor);
	uint64_t length = next_length(qp, message);
	bool last = message->done + length == message->bytes;
	bool visible = last && message->signaled;
	bool signaled = visible;

	if (batch->sges + (uint32_t)message->wr.num_sge > JST_BATCH_SGES)
		return false;
	/* In the error state every work request completes, signaled or not. */
	if (!qp->failed) {
		if (!visible && is_signal_due(qp)) {
			if (may_signal(qp))
				signaled = true;
			else if (jst_qp_room(qp) == 1)
				return false;
		}
		if (signaled)
			remember_signal(qp, last, visible);
	}
	write_wr(batch, message, length, signaled);
	batch->undo[batch->wrs].message = qp->cursor;
	batch->undo[batch->wrs].done = message->done;
	batch->undo[batch->wrs].unsignaled = qp->hw_unsignaled;
	batch->wrs++;
	qp->hw_unsignaled = signaled ? 0 : qp->hw_unsignaled + 1;
	hand_over(qp, message, length);
	return true;
}

/*
 * The vendor refused a work request that it would have refused when the
 * application posted it, had it been let through at once. The application is
 * told by a completion, because its post has long returned.
 */
static void complete_refused(struct jst_qp *qp, uint32_t position)
{
	struct jst_message *message = jst_qp_message(qp, position);
	struct ibv_wc wc = {
		.wr_id = message->wr.wr_id,
		.status = IBV_WC_LOC_QP_OP_ERR,
		.qp_num = qp->qp_num,
	};

	message->failed = true;
	skip_failed(qp);
	jst_cq_hold(qp->cq, &wc);
}

static uint32_t submit(struct jst_qp *qp, struct jst_batch *batch)
{
	struct ibv_send_wr *bad = NULL;
	uint32_t posted;
	int error;

	for (uint32_t i = 1; i < batch->wrs; i++)
		batch->wr[i - 1].next = &batch->wr[i];
	error = qp->ctx->vendor.post_send(qp->ibqp, batch->wr, &bad);
	if (!error)
		return batch->wrs;
	posted = bad ? (uint32_t)(bad - batch->wr) : 0;
	for (uint32_t i = batch->wrs; i > posted; i--)
		take_back(qp, batch, i - 1);
	/* ENOMEM: no room after all; completions will make some. */
	if (error != ENOMEM)
		complete_refused(qp, batch->undo[posted].message);
	return posted;
}

static void count(struct jst_qp *qp)
{
	struct jst_app *app = qp->ctx->app;
	const struct jst_message *message = jst_qp_message(qp, qp->cursor);
	uint32_t chunk_bytes = jst_pacer_chunk_bytes(app);

	if (message->done)
		return;
	if (!chunk_bytes)
		app->counters.unpaced++;
	else if (!message->split && message->bytes > chunk_bytes)
		app->counters.paced_whole++;
}

uint32_t jst_lane_own_post(struct jst_qp *qp)
{
	struct jst_batch *batch = &qp->ctx->app->batch;

	batch->wrs = batch->sges = 0;
	while (batch->wrs < JST_BATCH_WRS) {
		skip_failed(qp);
		if (!jst_qp_has_work(qp) || !jst_qp_room(qp) || !is_allowed(qp))
			break;
		count(qp);
		if (!add_chunk(qp, batch))
			break;
	}
	return batch->wrs ? submit(qp, batch) : 0;
}
