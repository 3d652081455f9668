// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The requester: takes work requests off send queues, has them executed when their last
 * byte has arrived, completes them in order, and retries or fails what was refused.
 */
#include <errno.h>

#include "wqe.h"

#define FETCH_WINDOW 0
#define EXEC_WINDOW 1

/* All of a request that is needed once its entry may be gone. */
static uint64_t cookie_of(const struct hca_wqe *w)
{
	return w->idx | (uint64_t)w->blocks << 16 | (uint64_t)w->signalled << 21 |
	       (uint64_t)w->opcode << 22 | w->bytes << 30;
}

static struct hca_wqe wqe_of(uint64_t cookie)
{
	return (struct hca_wqe){
		.idx = (uint16_t)cookie, .blocks = cookie >> 16 & 0x1f,
		.signalled = cookie >> 21 & 1, .opcode = (uint8_t)(cookie >> 22),
		.bytes = cookie >> 30,
	};
}

static bool may_send(const struct hca_qp *q)
{
	return q->used && q->state == IBV_QPS_RTS && !q->stalled && !q->nak &&
	       q->sq_fetch != q->sq_pi;
}

static uint32_t port_of(const struct hca_qp *q, const struct hca_wqe *w)
{
	uint32_t host = q->peer_host;

	if (q->type == IBV_QPT_UD) {
		struct ib_uverbs_qp_dest d = { .dlid = w->av.dlid };
		int h;

		__builtin_memcpy(d.dgid, w->av.gid, sizeof(d.dgid));
		h = hca_host_of_ah(&d);
		host = h < 0 ? UINT32_MAX : (uint32_t)h;
	}
	return host < hca->hosts ? host : q->host;	/* to nowhere: out of the own port */
}

int hca_req_gather(struct hca_qp *q, const struct hca_wqe *w, struct hca_sgl *out)
{
	bool takes_data = w->op == HCA_OP_READ || w->op >= HCA_OP_CMP_SWAP;
	uint32_t need = takes_data ? IBV_ACCESS_LOCAL_WRITE : 0;

	out->pid = w->is_inline ? 0 : hca->proc[q->owner.proc].pid;
	out->n = 0;
	for (uint32_t i = 0; i < w->nsge; i++) {
		const struct hca_sge *s = &w->sge[i];
		uint64_t at = (uintptr_t)s->inl;

		if (!s->inl && hca_mr_translate(s->lkey, q->owner, q->pd, s->va, s->bytes, need,
						&at))
			return -EACCES;
		hca_sgl_add(out, at, s->bytes);
	}
	return 0;
}

static uint8_t kind_of(const struct hca_wqe *w)
{
	if (w->op == HCA_OP_READ)
		return NIC_PULL;
	return w->op == HCA_OP_CMP_SWAP || w->op == HCA_OP_FETCH_ADD ? NIC_ATOMIC : NIC_PUSH;
}

static int fetch(void *ctx, uint32_t queue, struct nic_wr *out)
{
	struct hca_qp *q = &hca->qp[queue];
	struct hca_sgl unused;
	struct hca_wqe w;

	(void)ctx;
	if (!may_send(q) || hca_sq_read(q, q->sq_fetch, FETCH_WINDOW, &w))
		return 0;
	/* What will fail at home is not sent: it travels as an empty request. */
	if (w.bad || w.op == HCA_OP_BAD || w.bytes > HCA_MAX_MSG_BYTES ||
	    hca_req_gather(q, &w, &unused))
		w.bytes = 0;
	/*
	 * Unreliable requests ask for an ack too: their buffers belong to the application
	 * again on completion, and data is moved on delivery.
	 */
	*out = (struct nic_wr){
		.cookie = cookie_of(&w), .bytes = w.bytes, .dst_port = port_of(q, &w),
		.kind = kind_of(&w), .is_inline = w.is_inline || !w.bytes, .wants_ack = 1,
	};
	q->sq_fetch = (uint16_t)(q->sq_fetch + w.blocks);
	hca_early_note(q, &w);
	return 1;
}

static void put_error(struct hca_qp *q, uint16_t idx, uint8_t opcode, uint8_t status)
{
	const struct hca_cqe c = {
		.kind = HCA_CQE_REQ_ERR, .opcode = opcode, .status = status, .idx = idx,
		.qpn = HCA_INDEX(qp, q), .uidx = q->geo.uidx,
	};

	hca_cq_put(&hca->cq[q->scq], &c);
}

static void refuse(struct hca_qp *q, const struct hca_wqe *w, const struct hca_verdict *v)
{
	q->nak = v->nak;
	q->nak_syndrome = v->syndrome;
	q->nak_wait_ns = v->wait_ns;
	q->nak_idx = w->idx;
	q->nak_opcode = w->opcode;
	q->nak_blocks = w->blocks;
	q->sq_fetch = w->idx;
	q->early_bytes = 0;
	if (q->in_nic)
		nic_queue_rewind(&hca->nic, HCA_INDEX(qp, q));
	if (q->sq_ci == w->idx)
		hca_req_settle(q);
}

static bool is_sending(const struct hca_qp *q)
{
	return q->used && (q->state == IBV_QPS_RTS || q->state == IBV_QPS_SQD);
}

static int deliver(void *ctx, uint32_t queue, uint64_t cookie, uint64_t now_ns)
{
	struct hca_qp *q = &hca->qp[queue];
	struct hca_verdict v = { .nak = HCA_NAK_NONE };
	struct hca_wqe w;

	(void)ctx;
	(void)now_ns;
	if (!is_sending(q) || q->nak || hca_sq_read(q, (uint16_t)cookie, EXEC_WINDOW, &w))
		return -1;
	if (hca_resp_execute(q, &w, &v)) {
		if (is_sending(q))
			refuse(q, &w, &v);
		return -1;
	}
	q->rnr_tries = q->retry_tries = 0;
	q->early_bytes = 0;
	q->sq_dv = (uint16_t)(w.idx + w.blocks);
	return 0;
}

static void complete(void *ctx, uint32_t queue, uint64_t cookie, uint64_t now_ns)
{
	struct hca_qp *q = &hca->qp[queue];
	struct hca_wqe w = wqe_of(cookie);

	(void)ctx;
	(void)now_ns;
	if (!is_sending(q))
		return;
	if (w.signalled) {
		const struct hca_cqe c = {
			.kind = HCA_CQE_REQ, .opcode = w.opcode, .idx = w.idx,
			.qpn = queue, .uidx = q->geo.uidx, .bytes = (uint32_t)w.bytes,
		};

		hca_cq_put(&hca->cq[q->scq], &c);
	}
	q->sq_ci = (uint16_t)(w.idx + w.blocks);
	if (q->nak && q->sq_ci == q->nak_idx)
		hca_req_settle(q);
	hca_qp_check_drained(q);
}

const struct nic_ops hca_nic_ops = { .fetch = fetch, .deliver = deliver, .complete = complete };

/* Everything before the refused request has completed: now it is its turn. */
void hca_req_settle(struct hca_qp *q)
{
	uint8_t nak = q->nak;

	q->nak = HCA_NAK_NONE;
	if (nak != HCA_NAK_FATAL) {
		q->stalled = 1;
		hca_engine_timer(q, hca_now_ns() + q->nak_wait_ns);
		return;
	}
	put_error(q, q->nak_idx, q->nak_opcode, q->nak_syndrome);
	q->sq_ci = q->sq_fetch = (uint16_t)(q->nak_idx + q->nak_blocks);
	hca_qp_set_state(q, q->type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE);
}

/* Without contention model: everything at once. */
void hca_req_run_now(struct hca_qp *q)
{
	uint32_t queue = HCA_INDEX(qp, q);
	struct nic_wr wr;

	while (fetch(NULL, queue, &wr))
		if (!deliver(NULL, queue, wr.cookie, 0))
			complete(NULL, queue, wr.cookie, 0);
}

static void flush_sends(struct hca_qp *q)
{
	struct hca_wqe w;

	while (q->sq_ci != q->sq_pi && !hca_sq_read(q, q->sq_ci, EXEC_WINDOW, &w)) {
		put_error(q, w.idx, w.opcode, IBV_WC_WR_FLUSH_ERR);
		q->sq_ci = (uint16_t)(q->sq_ci + w.blocks);
	}
	q->sq_fetch = q->sq_dv = q->sq_ci;
}

static void flush_receives(struct hca_qp *q)
{
	struct hca_rwqe w;

	while (!hca_rq_peek(q, &w)) {
		const struct hca_cqe c = {
			.kind = HCA_CQE_RESP_ERR, .status = IBV_WC_WR_FLUSH_ERR, .idx = w.idx,
			.qpn = HCA_INDEX(qp, q), .uidx = q->geo.uidx,
		};

		hca_cq_put(&hca->cq[q->rcq], &c);
		hca_rq_take(q, &w);
	}
}

/* Work on a failed queue pair, old or posted since. */
void hca_req_flush(struct hca_qp *q)
{
	if (q->geo.sq_entries)
		flush_sends(q);
	if (q->state != IBV_QPS_ERR)
		return;
	if (!q->has_srq) {
		flush_receives(q);
	} else if (!q->last_wqe_told) {
		q->last_wqe_told = 1;
		hca_async_event(q->owner, q->user, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}
