// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Queue pairs: creation, the state machine of the verbs spec, destruction. */
#include <errno.h>
#include <string.h>

#include "wqe.h"

enum { RC = 1 << IBV_QPT_RC, UC = 1 << IBV_QPT_UC, UD = 1 << IBV_QPT_UD, CONN = RC | UC };

#define M_BASE (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define M_PATH (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define M_LIVE (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | M_PATH)
#define M_RTR (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define M_RTS (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	       IBV_QP_MAX_QP_RD_ATOMIC)

/* Which attributes a transition must and may carry (verbs spec, Modify Queue Pair). */
static const struct transition {
	uint8_t from, to, types;
	uint32_t must, may;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, CONN, M_BASE | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT, UD, M_BASE | IBV_QP_QKEY, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, CONN, 0, M_BASE | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_INIT, UD, 0, M_BASE | IBV_QP_QKEY },
	{ IBV_QPS_INIT, IBV_QPS_RTR, RC,
	  M_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_INIT, IBV_QPS_RTR, UC, M_RTR,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_INIT, IBV_QPS_RTR, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, RC, M_RTS, M_LIVE | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTR, IBV_QPS_RTS, UC, IBV_QP_SQ_PSN, M_LIVE },
	{ IBV_QPS_RTR, IBV_QPS_RTS, UD, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_RTS, RC, 0, M_LIVE | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, UC, 0, M_LIVE },
	{ IBV_QPS_RTS, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_SQD, CONN | UD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, RC, 0, M_LIVE | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_SQD, IBV_QPS_RTS, UC, 0, M_LIVE },
	{ IBV_QPS_SQD, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_SQD, IBV_QPS_SQD, RC, 0,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | M_PATH | IBV_QP_ACCESS_FLAGS |
	  IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_SQD, IBV_QPS_SQD, UC, 0,
	  IBV_QP_AV | M_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_SQD, IBV_QPS_SQD, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_SQE, IBV_QPS_RTS, UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_SQE, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
};

static bool transition_ok(const struct hca_qp *q, uint8_t to, uint32_t mask)
{
	mask &= ~(uint32_t)IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return !mask;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == q->state && t->to == to && t->types >> q->type & 1)
			return (mask & t->must) == t->must && !(mask & ~(t->must | t->may));
	}
	return false;
}

int hca_host_of_gid(const uint8_t gid[16])
{
	uint8_t have[16];

	for (uint32_t h = 0; h < hca->hosts; h++)
		for (uint32_t i = 0; !hca_host_gid(h, (int)hca->is_eth, i, have); i++)
			if (!memcmp(have, gid, sizeof(have)))
				return (int)h;
	return -ENOENT;
}

int hca_host_of_ah(const struct ib_uverbs_qp_dest *d)
{
	if (hca->is_eth)
		return hca_host_of_gid(d->dgid);
	for (uint32_t h = 0; h < hca->hosts; h++)
		if (hca_host_lid(h) == d->dlid)
			return (int)h;
	return -ENOENT;
}

static struct hca_qp *find(uint32_t handle, struct hca_owner o)
{
	struct hca_qp *q = &hca->qp[handle % HCA_MAX_QPS];

	return handle < HCA_MAX_QPS && q->used && hca_owns(o, q->owner) ? q : NULL;
}

static bool parts_ok(struct hca_owner o, const struct hca_ctl_qp *in)
{
	if (in->pd >= HCA_MAX_PDS || !hca->pd[in->pd].used ||
	    !hca_owns(o, hca->pd[in->pd].owner))
		return false;
	if (in->scq >= HCA_MAX_CQS || !hca->cq[in->scq].used ||
	    !hca_owns(o, hca->cq[in->scq].owner))
		return false;
	if (in->rcq >= HCA_MAX_CQS || !hca->cq[in->rcq].used ||
	    !hca_owns(o, hca->cq[in->rcq].owner))
		return false;
	return !in->has_srq || (in->srq < HCA_MAX_SRQS && hca->srq[in->srq].used &&
				hca_owns(o, hca->srq[in->srq].owner));
}

static void count_refs(const struct hca_qp *q, int by)
{
	hca->pd[q->pd].refs += (uint32_t)by;
	hca->cq[q->scq].refs += (uint32_t)by;
	hca->cq[q->rcq].refs += (uint32_t)by;
	if (q->has_srq)
		hca->srq[q->srq].refs += (uint32_t)by;
}

static struct hca_qp *alloc(void)
{
	for (uint32_t i = HCA_FIRST_QPN; i < HCA_MAX_QPS; i++) {
		struct hca_qp *q = &hca->qp[i];
		uint32_t gen = q->gen + 1;

		if (q->used)
			continue;
		memset(q, 0, sizeof(*q));
		q->used = 1;
		q->gen = gen;
		if (i >= hca->qp_high)
			hca->qp_high = i + 1;
		return q;
	}
	return NULL;
}

int hca_qp_create(struct hca_owner o, struct hca_ctl *c)
{
	const struct hca_ctl_qp *in = &c->u.qp;
	struct hca_qp *q;

	if (in->type != IBV_QPT_RC && in->type != IBV_QPT_UC && in->type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	if (!parts_ok(o, in))
		return -EINVAL;
	q = alloc();
	if (!q)
		return -ENOMEM;
	q->type = (uint8_t)in->type;
	q->sig_all = in->sig_all != 0;
	q->has_srq = in->has_srq != 0;
	q->owner = o;
	q->host = hca->proc[o.proc].host;
	q->user = in->user;
	q->pd = in->pd;
	q->scq = in->scq;
	q->rcq = in->rcq;
	q->srq = in->srq;
	q->cap = in->cap;
	q->geo = in->geo;
	q->state = IBV_QPS_RESET;
	count_refs(q, 1);
	c->handle = HCA_INDEX(qp, q);
	return 0;
}

static void enter_nic(struct hca_qp *q)
{
	if (!hca->has_model || q->in_nic)
		return;
	q->in_nic = !nic_queue_open(&hca->nic, HCA_INDEX(qp, q), q->host);
}

static void leave_nic(struct hca_qp *q)
{
	if (q->in_nic)
		nic_queue_close(&hca->nic, HCA_INDEX(qp, q));
	q->in_nic = 0;
}

/* Nothing of the past may act on the queue any more. */
static void quiesce(struct hca_qp *q)
{
	leave_nic(q);
	q->stalled = q->is_delayed = 0;
	q->timer_ns = 0;
	q->nak = HCA_NAK_NONE;
	q->early_bytes = 0;
}

static void clear_queues(struct hca_qp *q)
{
	q->sq_pi = q->sq_fetch = q->sq_dv = q->sq_ci = 0;
	q->rq_pi = q->rq_ci = 0;
	q->rnr_tries = q->retry_tries = q->last_wqe_told = 0;
	q->gen++;
}

void hca_qp_set_state(struct hca_qp *q, uint8_t state)
{
	uint8_t old = q->state;

	hca->err_qps -= old == IBV_QPS_ERR;
	hca->err_qps += state == IBV_QPS_ERR;
	q->state = state;
	switch (state) {
	case IBV_QPS_RESET:
		quiesce(q);
		clear_queues(q);
		break;
	case IBV_QPS_ERR:
	case IBV_QPS_SQE:
		quiesce(q);
		hca_req_flush(q);
		if (!hca_is_card)
			hca_card_poke();	/* it looks after failed queues from now on */
		break;
	case IBV_QPS_RTS:
		enter_nic(q);
		hca_engine_kick(q, hca_now_ns());
		break;
	}
}

static void take_attributes(struct hca_qp *q, const struct ib_uverbs_modify_qp *m)
{
	struct ib_uverbs_modify_qp *a = &q->attr;
	uint32_t mask = m->attr_mask;

#define TAKE(bit, field) do { if (mask & (bit)) a->field = m->field; } while (0)
	TAKE(IBV_QP_AV, dest);
	TAKE(IBV_QP_ALT_PATH, alt_dest);
	TAKE(IBV_QP_ALT_PATH, alt_pkey_index);
	TAKE(IBV_QP_ALT_PATH, alt_port_num);
	TAKE(IBV_QP_ALT_PATH, alt_timeout);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
#undef TAKE
	if (mask & IBV_QP_AV) {
		int host = hca_host_of_ah(&m->dest);

		q->peer_host = host < 0 ? UINT32_MAX : (uint32_t)host;
	}
}

static bool values_ok(const struct ib_uverbs_modify_qp *m)
{
	uint32_t mask = m->attr_mask;

	if (mask & IBV_QP_PORT && m->port_num != 1)
		return false;
	if (mask & IBV_QP_PKEY_INDEX && m->pkey_index)
		return false;
	if (mask & IBV_QP_PATH_MTU && (m->path_mtu < IBV_MTU_256 || m->path_mtu > IBV_MTU_4096))
		return false;
	if (mask & IBV_QP_AV && hca->is_eth && !m->dest.is_global)
		return false;
	return !(mask & IBV_QP_DEST_QPN) || m->dest_qp_num <= 0xffffff;
}

/* Send queue drained: told once it is empty of what the card had begun. */
void hca_qp_check_drained(struct hca_qp *q)
{
	if (q->state != IBV_QPS_SQD || !q->sqd_notify || q->sq_ci != q->sq_fetch)
		return;
	q->sqd_notify = 0;
	hca_async_event(q->owner, q->user, IBV_EVENT_SQ_DRAINED);
}

int hca_qp_modify(struct hca_owner o, struct hca_ctl *c)
{
	const struct ib_uverbs_modify_qp *m = &c->u.modify;
	struct hca_qp *q = find(m->qp_handle, o);
	uint8_t to;

	if (!q)
		return -EINVAL;
	if (m->attr_mask & IBV_QP_CUR_STATE && m->cur_qp_state != q->state)
		return -EINVAL;
	to = m->attr_mask & IBV_QP_STATE ? m->qp_state : q->state;
	if (!transition_ok(q, to, m->attr_mask) || !values_ok(m))
		return -EINVAL;
	take_attributes(q, m);
	q->sqd_notify = m->attr_mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && m->en_sqd_async_notify;
	if (to != q->state || to == IBV_QPS_RESET)
		hca_qp_set_state(q, to);
	hca_qp_check_drained(q);
	return 0;
}

int hca_qp_query(struct hca_owner o, struct hca_ctl *c)
{
	const struct hca_qp *q = find(c->handle, o);

	if (!q)
		return -EINVAL;
	c->u.query = (struct hca_ctl_query){
		.attr = q->attr, .cap = q->cap, .state = q->state, .sig_all = q->sig_all,
		.sq_draining = q->state == IBV_QPS_SQD && q->sq_ci != q->sq_fetch,
	};
	return 0;
}

void hca_qp_free(struct hca_qp *q)
{
	hca->err_qps -= q->state == IBV_QPS_ERR;
	quiesce(q);
	count_refs(q, -1);
	q->state = IBV_QPS_RESET;
	q->used = 0;
	q->gen++;
}

int hca_qp_destroy(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_qp *q = find(c->handle, o);

	if (!q)
		return -EINVAL;
	hca_qp_free(q);
	return 0;
}
