// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* shaper.c - pass, queue or post: what happens to a work request (paper 4.4). */
#include "internal.h"

/* Everything of this queue pair that may go now. Both locks held. */
static bool run_locked(struct jst_qp *qp)
{
	struct jst_app *app = qp->ctx->app;
	bool posted = false;

	jst_pacer_clamp(app);
	while (jst_qp_has_work(qp)) {
		if (!jst_pacer_allows(app))
			jst_pacer_refill(app, jst_now_ns());
		if (!jst_lane_own_post(qp))
			break;
		posted = true;
	}
	qp->wants_room = jst_qp_has_work(qp) && !qp->paused &&
			 (qp->failed || jst_pacer_allows(app));
	jst_queue_settle(qp);
	return posted;
}

/* The same, and what follows from it. Returns with app->lock given back. */
static void run_and_unlock(struct jst_qp *qp)
{
	struct jst_app *app = qp->ctx->app;
	bool idle = !app->active, work;

	run_locked(qp);
	jst_pacer_publish(app);
	work = app->active != NULL;
	pthread_mutex_unlock(&app->lock);
	if (idle && work)
		jst_progress_kick();
}

void jst_shaper_run(struct jst_qp *qp)
{
	pthread_mutex_lock(&qp->ctx->app->lock);
	run_and_unlock(qp);
}

void jst_shaper_admit(struct jst_qp *qp, uint32_t staged)
{
	struct jst_app *app = qp->ctx->app;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < staged; i++)
		bytes += jst_qp_message(qp, qp->head + i)->bytes;
	pthread_mutex_lock(&qp->lock);
	qp->head += staged;
	pthread_mutex_lock(&app->lock);
	app->queued_bytes += bytes;
	app->queued_ops += staged;
	app->counters.messages += staged;
	run_and_unlock(qp);
	pthread_mutex_unlock(&qp->lock);
}

/* One turn each; true if anything was posted. app->lock held. */
static bool run_round(struct jst_app *app)
{
	uint32_t turns = atomic_load_explicit(&app->actives, memory_order_relaxed);
	bool posted = false;

	while (turns-- && app->active) {
		struct jst_qp *qp = app->active;

		app->active = qp->next_active;
		/* Somebody holds it: he will run it himself. */
		if (pthread_mutex_trylock(&qp->lock))
			continue;
		posted |= run_locked(qp);
		pthread_mutex_unlock(&qp->lock);
	}
	return posted;
}

void jst_shaper_run_all(struct jst_app *app, bool wait)
{
	if (wait)
		pthread_mutex_lock(&app->lock);
	else if (pthread_mutex_trylock(&app->lock))
		return;
	while (run_round(app))
		;
	jst_pacer_publish(app);
	pthread_mutex_unlock(&app->lock);
}

int jst_post_send(struct jst_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	uint32_t staged = 0;
	int error = 0;

	if (qp->ctx->app->orphan)
		return qp->ctx->vendor.post_send(qp->ibqp, wr, bad_wr);
	pthread_mutex_lock(&qp->post_lock);
	for (; wr; wr = wr->next, staged++) {
		error = jst_queue_stage(qp, wr, staged);
		if (error) {
			*bad_wr = wr;
			break;
		}
	}
	if (staged)
		jst_shaper_admit(qp, staged);
	pthread_mutex_unlock(&qp->post_lock);
	return error;
}
