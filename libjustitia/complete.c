// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * complete.c - completions: those of the application corrected, ours hidden.
 *
 * Successes of a queue pair come back in the order in which signals were
 * asked for, so the oldest remembered signal tells what one means. An error
 * completion may belong to any work request; its tag tells which message.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* ---- which queue pair ---------------------------------------------------- */

#define FIRST_QPS 16u

static uint32_t bucket(const struct jst_cq *cq, uint32_t qp_num)
{
	return (qp_num * 2654435761u >> 8) & cq->qps_mask;
}

static void table_put(struct jst_cq *cq, struct jst_qp *qp)
{
	uint32_t i = bucket(cq, qp->qp_num);

	while (cq->qps[i])
		i = (i + 1) & cq->qps_mask;
	cq->qps[i] = qp;
	cq->qps_used++;
}

static int table_resize(struct jst_cq *cq, uint32_t size)
{
	struct jst_qp **old = cq->qps, **new = calloc(size, sizeof(*new));
	uint32_t old_size = old ? cq->qps_mask + 1 : 0;

	if (!new)
		return -ENOMEM;
	cq->qps = new;
	cq->qps_mask = size - 1;
	cq->qps_used = 0;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i])
			table_put(cq, old[i]);
	free(old);
	return 0;
}

int jst_cq_add(struct jst_cq *cq, struct jst_qp *qp)
{
	int error = 0;

	pthread_mutex_lock(&cq->lock);
	if ((cq->qps_used + 1) * 2 > cq->qps_mask + 1)
		error = table_resize(cq, (cq->qps_mask + 1) * 2);
	if (!error)
		table_put(cq, qp);
	pthread_mutex_unlock(&cq->lock);
	return error;
}

void jst_cq_remove(struct jst_cq *cq, struct jst_qp *qp)
{
	uint32_t i, next;

	pthread_mutex_lock(&cq->lock);
	for (i = bucket(cq, qp->qp_num); cq->qps[i] != qp;)
		i = (i + 1) & cq->qps_mask;
	cq->qps[i] = NULL;
	cq->qps_used--;
	/* Those behind it may have been pushed there by it. */
	for (next = (i + 1) & cq->qps_mask; cq->qps[next]; next = (next + 1) & cq->qps_mask) {
		struct jst_qp *moved = cq->qps[next];

		cq->qps[next] = NULL;
		cq->qps_used--;
		table_put(cq, moved);
	}
	pthread_mutex_unlock(&cq->lock);
}

static struct jst_qp *find(const struct jst_cq *cq, uint32_t qp_num)
{
	uint32_t i = bucket(cq, qp_num);

	for (; cq->qps[i]; i = (i + 1) & cq->qps_mask)
		if (cq->qps[i]->qp_num == qp_num)
			return cq->qps[i];
	return NULL;
}

/* ---- what a completion means --------------------------------------------- */

static bool succeeded(struct jst_qp *qp, struct ibv_wc *wc)
{
	const struct jst_signal *signal = &qp->signals[qp->signal_tail & qp->signal_mask];
	const struct jst_message *message = jst_qp_message(qp, signal->message);

	if (qp->signal_tail == qp->signal_head)
		return true; /* nothing of ours is outstanding */
	qp->signal_tail++;
	wc->wr_id = message->wr.wr_id;
	if (wc->opcode == IBV_WC_RDMA_READ)
		wc->byte_len = (uint32_t)message->bytes;
	qp->hw_done = signal->hw + 1;
	/* release: this slot and those before it have been read */
	atomic_store_explicit(&qp->tail, signal->last ? signal->message + 1 : signal->message,
			      memory_order_release);
	if (!signal->visible)
		atomic_fetch_sub_explicit(&qp->cq->hidden, 1, memory_order_relaxed);
	return signal->visible;
}

/* From here on everything completes with an error, and nothing by signal. */
static void forget_signals(struct jst_qp *qp)
{
	for (; qp->signal_tail != qp->signal_head; qp->signal_tail++)
		if (!qp->signals[qp->signal_tail & qp->signal_mask].visible)
			atomic_fetch_sub_explicit(&qp->cq->hidden, 1, memory_order_relaxed);
}

static bool errored(struct jst_qp *qp, struct ibv_wc *wc)
{
	struct jst_message *message;
	uint32_t position;
	bool first;

	atomic_store_explicit(&qp->failed, true, memory_order_relaxed);
	if (!jst_qp_from_tag(qp, wc->wr_id, &position))
		return true; /* a receive */
	forget_signals(qp);
	message = jst_qp_message(qp, position);
	first = !message->failed;
	message->failed = true;
	wc->wr_id = message->wr.wr_id;
	atomic_store_explicit(&qp->tail, position, memory_order_release);
	/* What went before is done; how much of this message was, is not known. */
	if (first && (int32_t)(message->hw_first - qp->hw_done) > 0)
		qp->hw_done = message->hw_first;
	if (qp->hw_done != qp->hw_posted)
		qp->hw_done++;
	return first;
}

/* Corrects @wc; false if the application must not see it. cq->lock held. */
static bool absorb(struct jst_cq *cq, struct ibv_wc *wc)
{
	struct jst_qp *qp = find(cq, wc->qp_num);
	bool visible;

	if (!qp || (wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV)))
		return true;
	pthread_mutex_lock(&qp->lock);
	visible = wc->status == IBV_WC_SUCCESS ? succeeded(qp, wc) : errored(qp, wc);
	if (jst_qp_has_work(qp)) /* there may be room now, or all must be flushed */
		jst_shaper_run(qp);
	pthread_mutex_unlock(&qp->lock);
	return visible;
}

/* Keeps the visible ones of @n together; returns their number. */
static int filter(struct jst_cq *cq, struct ibv_wc *wc, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (!absorb(cq, &wc[i]))
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	return kept;
}

/* ---- completions held for the application -------------------------------- */

static bool has_stash_room(const struct jst_cq *cq, uint32_t n)
{
	return cq->stash_room - atomic_load_explicit(&cq->stashed, memory_order_relaxed) >= n;
}

static void stash_put(struct jst_cq *cq, const struct ibv_wc *wc)
{
	uint32_t stashed = atomic_load_explicit(&cq->stashed, memory_order_relaxed);

	cq->stash[(cq->stash_first + stashed) % cq->stash_room] = *wc;
	atomic_store_explicit(&cq->stashed, stashed + 1, memory_order_relaxed);
}

void jst_cq_hold(struct jst_cq *cq, const struct ibv_wc *wc)
{
	pthread_mutex_lock(&cq->stash_lock);
	if (has_stash_room(cq, 1))
		stash_put(cq, wc);
	pthread_mutex_unlock(&cq->stash_lock);
}

static int stash_take(struct jst_cq *cq, int n, struct ibv_wc *wc)
{
	uint32_t stashed;
	int taken = 0;

	if (!atomic_load_explicit(&cq->stashed, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&cq->stash_lock);
	stashed = atomic_load_explicit(&cq->stashed, memory_order_relaxed);
	for (; taken < n && stashed; taken++, stashed--) {
		wc[taken] = cq->stash[cq->stash_first];
		cq->stash_first = (cq->stash_first + 1) % cq->stash_room;
	}
	atomic_store_explicit(&cq->stashed, stashed, memory_order_relaxed);
	pthread_mutex_unlock(&cq->stash_lock);
	return taken;
}

void jst_cq_forget(struct jst_cq *cq, uint32_t qp_num)
{
	uint32_t stashed, kept = 0;

	pthread_mutex_lock(&cq->stash_lock);
	stashed = atomic_load_explicit(&cq->stashed, memory_order_relaxed);
	for (uint32_t i = 0; i < stashed; i++) {
		struct ibv_wc *from = &cq->stash[(cq->stash_first + i) % cq->stash_room];

		if (from->qp_num != qp_num)
			cq->stash[(cq->stash_first + kept++) % cq->stash_room] = *from;
	}
	atomic_store_explicit(&cq->stashed, kept, memory_order_relaxed);
	pthread_mutex_unlock(&cq->stash_lock);
}

#define DRAIN_WCS 16

void jst_cq_drain(struct jst_cq *cq)
{
	struct ibv_wc wc[DRAIN_WCS];
	int n;

	if (cq->cq_ex)
		return; /* its completions cannot be held; the application polls */
	pthread_mutex_lock(&cq->lock);
	while (has_stash_room(cq, DRAIN_WCS)) {
		n = cq->ctx->vendor.poll_cq(cq->ibcq, DRAIN_WCS, wc);
		if (n <= 0)
			break;
		n = filter(cq, wc, n);
		for (int i = 0; i < n; i++)
			jst_cq_hold(cq, &wc[i]);
	}
	pthread_mutex_unlock(&cq->lock);
}

/* ---- the verbs ------------------------------------------------------------ */

struct jst_cq *jst_cq_create(struct jst_ctx *ctx, struct ibv_cq *ibcq, struct ibv_cq_ex *cq_ex)
{
	struct jst_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		goto nomem;
	cq->ctx = ctx;
	cq->ibcq = ibcq;
	cq->cq_ex = cq_ex;
	cq->stash_room = (uint32_t)ibcq->cqe + DRAIN_WCS;
	cq->stash = calloc(cq->stash_room, sizeof(*cq->stash));
	if (!cq->stash || table_resize(cq, FIRST_QPS))
		goto free;
	pthread_mutex_init(&cq->lock, NULL);
	pthread_mutex_init(&cq->stash_lock, NULL);
	if (cq_ex) {
		cq->start_poll = cq_ex->start_poll;
		cq->next_poll = cq_ex->next_poll;
		cq->end_poll = cq_ex->end_poll;
		cq->read_byte_len = cq_ex->read_byte_len;
	}
	return cq;
free:
	free(cq->stash);
	free(cq);
nomem:
	errno = ENOMEM;
	return NULL;
}

void jst_cq_destroy(struct jst_cq *cq)
{
	if (cq->ctx->app->orphan)
		return;
	pthread_mutex_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->stash_lock);
	free(cq->qps);
	free(cq->stash);
	free(cq);
}

/* Nobody else may be polling for the work that waits in our queues. */
static void help(struct jst_app *app)
{
	if (atomic_load_explicit(&app->actives, memory_order_relaxed))
		jst_shaper_run_all(app, false);
}

int jst_poll_cq(struct jst_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int got, n = 0;

	if (cq->ctx->app->orphan)
		return cq->ctx->vendor.poll_cq(cq->ibcq, num_entries, wc);
	pthread_mutex_lock(&cq->lock);
	got = stash_take(cq, num_entries, wc);
	while (got < num_entries) {
		n = cq->ctx->vendor.poll_cq(cq->ibcq, num_entries - got, wc + got);
		if (n <= 0)
			break;
		got += filter(cq, wc + got, n);
	}
	pthread_mutex_unlock(&cq->lock);
	if (!got)
		help(cq->ctx->app);
	return got || n > 0 ? got : n;
}

/* The same, for the completion that the extended interface stands at. */
static bool absorb_current(struct jst_cq *cq)
{
	struct ibv_cq_ex *ex = cq->cq_ex;
	struct ibv_wc wc = {
		.wr_id = ex->wr_id,
		.status = ex->status,
		.qp_num = ex->read_qp_num(ex),
	};
	bool visible;

	if (wc.status == IBV_WC_SUCCESS)
		wc.opcode = ex->read_opcode(ex);
	visible = absorb(cq, &wc);
	ex->wr_id = wc.wr_id;
	cq->byte_len = wc.byte_len;
	cq->byte_len_known = wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ &&
			     wc.byte_len;
	return visible;
}

static int skip_hidden(struct jst_cq *cq)
{
	int error;

	while (!absorb_current(cq)) {
		error = cq->next_poll(cq->cq_ex);
		if (error)
			return error;
	}
	return 0;
}

int jst_start_poll(struct jst_cq *cq, struct ibv_poll_cq_attr *attr)
{
	int error;

	if (cq->ctx->app->orphan)
		return cq->start_poll(cq->cq_ex, attr);
	pthread_mutex_lock(&cq->lock);
	error = cq->start_poll(cq->cq_ex, attr);
	if (!error) {
		error = skip_hidden(cq);
		if (error)
			cq->end_poll(cq->cq_ex);
	}
	if (error) {
		pthread_mutex_unlock(&cq->lock);
		help(cq->ctx->app);
	}
	return error;
}

int jst_next_poll(struct jst_cq *cq)
{
	int error = cq->next_poll(cq->cq_ex);

	if (!error && !cq->ctx->app->orphan)
		error = skip_hidden(cq);
	return error;
}

void jst_end_poll(struct jst_cq *cq)
{
	cq->end_poll(cq->cq_ex);
	if (!cq->ctx->app->orphan)
		pthread_mutex_unlock(&cq->lock);
}

uint32_t jst_read_byte_len(struct jst_cq *cq)
{
	return cq->byte_len_known ? cq->byte_len : cq->read_byte_len(cq->cq_ex);
}
