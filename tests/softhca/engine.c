// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The engine: doorbells in, the contention model (or none) in the middle, timers beside it.
 * Protocol timers (RNR, transport retry) run in wall time whatever the slowdown: they are
 * there to find out that somebody is gone.
 */
#include "wqe.h"

#define FETCH_WINDOW 0
#define BLUEFLAME_BLOCKS 4	/* what fits half a 512 byte register */

bool hca_is_card;

/* A library copies a lone inline entry to the doorbell page, so that it need not be fetched. */
static bool came_along(struct hca_qp *q)
{
	uint16_t blocks = (uint16_t)(q->sq_pi - q->sq_fetch);
	struct hca_wqe w;

	if (blocks > BLUEFLAME_BLOCKS || hca_sq_read(q, q->sq_fetch, FETCH_WINDOW, &w))
		return false;
	return w.is_inline && w.blocks == blocks;
}

/* The queue may have something to send, visible since @at_ns. */
void hca_engine_kick(struct hca_qp *q, uint64_t at_ns)
{
	if (q->state != IBV_QPS_RTS || q->stalled || q->sq_fetch == q->sq_pi)
		return;
	if (q->in_nic)
		nic_doorbell(&hca->nic, HCA_INDEX(qp, q), hca_model_ns(at_ns), came_along(q));
	else
		hca_req_run_now(q);
}

/* A producer index moves forward, and by no more than the queue holds. */
static bool is_ahead(const struct hca_qp *q, uint16_t pi)
{
	uint16_t posted = (uint16_t)(pi - q->sq_ci);

	return posted <= q->geo.sq_entries && posted >= (uint16_t)(q->sq_pi - q->sq_ci);
}

static void ring_sq(uint32_t proc, const struct hca_bell *b)
{
	struct hca_qp *q = &hca->qp[b->num % HCA_MAX_QPS];

	if (b->num >= HCA_MAX_QPS || !q->used || q->owner.proc != proc ||
	    q->state == IBV_QPS_RESET || !is_ahead(q, (uint16_t)b->value))
		return;
	q->sq_pi = (uint16_t)b->value;
	if (q->state == IBV_QPS_ERR || q->state == IBV_QPS_SQE)
		hca_req_flush(q);
	else
		hca_engine_kick(q, b->at_ns);
}

void hca_engine_bell(uint32_t proc, const struct hca_bell *b)
{
	if (b->kind == HCA_BELL_SQ)
		ring_sq(proc, b);
	else if (b->kind == HCA_BELL_ARM && b->num < HCA_MAX_CQS && hca->cq[b->num].used &&
		 hca->cq[b->num].owner.proc == proc)
		hca_cq_armed(&hca->cq[b->num], b->value);
}

void hca_engine_timer(struct hca_qp *q, uint64_t at_ns)
{
	q->timer_ns = at_ns;
	if (at_ns >= hca->timers_ns)
		return;
	hca->timers_ns = at_ns;
	if (!hca_is_card)
		hca_card_poke();	/* nobody may poll until then */
}

static void run_timers(uint64_t now_ns)
{
	/* First forget, then collect anew: a kick may start the timer of any queue again. */
	hca->timers_ns = HCA_NEVER;
	for (uint32_t i = 0; i < hca->qp_high; i++) {
		struct hca_qp *q = &hca->qp[i];

		if (!q->used || !q->timer_ns)
			continue;
		if (q->timer_ns > now_ns) {
			if (q->timer_ns < hca->timers_ns)
				hca->timers_ns = q->timer_ns;
			continue;
		}
		q->timer_ns = 0;
		q->stalled = 0;
		hca_engine_kick(q, now_ns);
	}
}

uint64_t hca_engine_step(uint64_t now_ns)
{
	uint64_t next = HCA_NEVER;

	if (hca->has_model)
		nic_run(&hca->nic, &hca_nic_ops, NULL, hca_model_ns(now_ns));
	if (now_ns >= hca->timers_ns)
		run_timers(now_ns);
	hca_wake_pollers();
	if (hca->has_model)
		next = hca_wall_ns(nic_next_ns(&hca->nic));
	return next < hca->timers_ns ? next : hca->timers_ns;
}

/* Posting a receive rings no doorbell, so nobody tells when a failed queue pair gets one. */
void hca_engine_tick(void)
{
	if (!hca->err_qps)
		return;
	for (uint32_t i = 0; i < hca->qp_high; i++)
		if (hca->qp[i].used && hca->qp[i].state == IBV_QPS_ERR)
			hca_req_flush(&hca->qp[i]);
	hca_wake_pollers();
}
