// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The responder: checks and executes one request whose last byte has arrived. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "wqe.h"

#define US 1000ull
#define UD_MTU 4096u
#define GRH_BYTES 40u
#define GRH_NEXT_IBA 0x1b
#define GRH_HOPS 64
#define FOREVER_POLL_NS (10 * HCA_NS_PER_MS)	/* a peer is missing and timeout is 0 = never */
#define RNR_FLOOR_NS (20 * US)			/* a wait the driver can still time */
#define RNR_FOREVER 7

/* RNR NAK timer codes (verbs spec, table of the RNR NAK timer field), microseconds. */
static const uint32_t rnr_us[32] = {
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560,
	3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840,
	245760, 327680, 491520,
};

static int fatal(struct hca_verdict *v, uint8_t status)
{
	*v = (struct hca_verdict){ .nak = HCA_NAK_FATAL, .syndrome = status };
	return -1;
}

static int not_there(struct hca_qp *q, struct hca_verdict *v)
{
	if (!q->attr.timeout) {
		*v = (struct hca_verdict){ .nak = HCA_NAK_RETRY, .wait_ns = FOREVER_POLL_NS };
		return -1;
	}
	if (q->retry_tries++ > q->attr.retry_cnt)
		return fatal(v, IBV_WC_RETRY_EXC_ERR);
	*v = (struct hca_verdict){ .nak = HCA_NAK_RETRY,
				   .wait_ns = 4096ull << (q->attr.timeout & 0x1f) };
	return -1;
}

static int not_ready(struct hca_qp *q, const struct hca_qp *r, struct hca_verdict *v)
{
	uint64_t wait = rnr_us[r->attr.min_rnr_timer & 31] * US;

	if (q->attr.rnr_retry != RNR_FOREVER && q->rnr_tries++ >= q->attr.rnr_retry)
		return fatal(v, IBV_WC_RNR_RETRY_EXC_ERR);
	*v = (struct hca_verdict){ .nak = HCA_NAK_RNR,
				   .wait_ns = wait < RNR_FLOOR_NS ? RNR_FLOOR_NS : wait };
	return -1;
}

static bool can_receive(const struct hca_qp *r)
{
	return r->state == IBV_QPS_RTR || r->state == IBV_QPS_RTS || r->state == IBV_QPS_SQD ||
	       r->state == IBV_QPS_SQE;
}

static bool is_for(const struct hca_qp *r, const struct hca_wqe *w)
{
	struct ib_uverbs_qp_dest d = { .dlid = w->av.dlid };

	memcpy(d.dgid, w->av.gid, sizeof(d.dgid));
	return hca_host_of_ah(&d) == (int)r->host;
}

/* The queue pair at the other end, or NULL if nobody would answer. */
struct hca_qp *hca_resp_find(struct hca_qp *q, const struct hca_wqe *w)
{
	bool ud = q->type == IBV_QPT_UD;
	uint32_t qpn = ud ? w->av.qpn : q->attr.dest_qp_num;
	struct hca_qp *r = &hca->qp[qpn % HCA_MAX_QPS];

	if (qpn >= HCA_MAX_QPS || !r->used || r->type != q->type || !can_receive(r))
		return NULL;
	if (ud)
		return is_for(r, w) ? r : NULL;
	if (r->attr.dest_qp_num != HCA_INDEX(qp, q) || r->host != q->peer_host ||
	    r->peer_host != q->host)
		return NULL;
	return r;
}

/* A request that the responder refuses: its own queue pair fails too. */
static int remote_fault(struct hca_qp *q, struct hca_qp *r, struct hca_verdict *v,
			uint8_t status, uint32_t event)
{
	if (q->type != IBV_QPT_RC)
		return 0;	/* unreliable: dropped */
	hca_async_event(r->owner, r->user, event);
	hca_qp_set_state(r, IBV_QPS_ERR);
	return fatal(v, status);
}

static uint32_t right_for(uint8_t op)
{
	if (op == HCA_OP_READ)
		return IBV_ACCESS_REMOTE_READ;
	return op >= HCA_OP_CMP_SWAP ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

/* Remote memory of a WRITE, READ or atomic. */
int hca_resp_target(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		    struct hca_sgl *out)
{
	uint64_t bytes = w->op >= HCA_OP_CMP_SWAP ? 8 : w->bytes, at;
	uint32_t need = right_for(w->op);

	(void)q;
	out->pid = hca->proc[r->owner.proc].pid;
	out->n = 0;
	if ((r->attr.qp_access_flags & need) != need)
		return -EACCES;
	if (!bytes)
		return 0;	/* the key of an empty message is not looked at */
	if (hca_mr_translate(w->rkey, r->owner, r->pd, w->raddr, bytes, need, &at))
		return -EACCES;
	hca_sgl_add(out, at, bytes);
	return 0;
}

static void count(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w)
{
	struct hca_host *from = &hca->host[w->op == HCA_OP_READ ? r->host : q->host];
	struct hca_host *to = &hca->host[w->op == HCA_OP_READ ? q->host : r->host];

	q->tx_bytes += w->bytes;
	q->tx_msgs++;
	r->rx_bytes += w->bytes;
	r->rx_msgs++;
	from->tx_bytes += w->bytes;
	from->tx_msgs++;
	to->rx_bytes += w->bytes;
	to->rx_msgs++;
}

static int copy_failed(struct hca_qp *q, struct hca_verdict *v, int rc)
{
	if (q->type != IBV_QPT_RC)
		return 0;
	return rc == -ESRCH ? not_there(q, v) : fatal(v, IBV_WC_REM_OP_ERR);
}

static int atomic(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		  const struct hca_sgl *local, struct hca_sgl *remote, struct hca_verdict *v)
{
	uint64_t old, new, at = (uintptr_t)remote->v[0].iov_base;
	struct hca_sgl value = { .n = 1, .v = { { &old, sizeof(old) } } };
	int rc;

	if (at & 7)
		return remote_fault(q, r, v, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	rc = hca_dma_read(remote->pid, at, &old, sizeof(old));
	if (rc)
		return copy_failed(q, v, rc);
	new = w->op == HCA_OP_FETCH_ADD ? old + w->swap_add :
	      old == w->compare ? w->swap_add : old;
	rc = hca_dma_write(remote->pid, at, &new, sizeof(new));
	if (!rc)
		rc = hca_dma_copy(local, &value, 0, sizeof(old));
	return rc ? copy_failed(q, v, rc) : 0;
}

static int rdma(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		const struct hca_sgl *local, struct hca_verdict *v)
{
	struct hca_sgl remote;
	uint64_t done = q->early_bytes;
	int rc;

	if (hca_resp_target(q, r, w, &remote))
		return remote_fault(q, r, v, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	if (w->op >= HCA_OP_CMP_SWAP)
		return atomic(q, r, w, local, &remote, v);
	if (w->op == HCA_OP_READ)
		rc = hca_dma_copy(local, &remote, done, w->bytes - done);
	else
		rc = hca_dma_copy(&remote, local, done, w->bytes - done);
	return rc ? copy_failed(q, v, rc) : 0;
}

static void put_received(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
			 const struct hca_rwqe *rw, uint64_t bytes)
{
	bool ud = q->type == IBV_QPT_UD;
	const struct hca_cqe c = {
		.kind = HCA_CQE_RESP, .op = w->op, .solicited = w->solicited, .idx = rw->idx,
		.slid = hca->is_eth ? 0 : hca_host_lid(q->host), .qpn = HCA_INDEX(qp, r),
		.uidx = r->geo.uidx, .src_qpn = HCA_INDEX(qp, q), .bytes = (uint32_t)bytes,
		.imm = w->op == HCA_OP_SEND ? 0 : w->imm,
		.has_grh = ud && (hca->is_eth || w->av.is_grh),
	};

	hca_cq_put(&hca->cq[r->rcq], &c);
}

/* A receive that cannot take the message completes with an error and fails its queue pair. */
static int receive_failed(struct hca_qp *q, struct hca_qp *r, const struct hca_rwqe *rw,
			  uint8_t theirs, uint8_t ours, struct hca_verdict *v)
{
	const struct hca_cqe c = {
		.kind = HCA_CQE_RESP_ERR, .status = theirs, .idx = rw->idx,
		.qpn = HCA_INDEX(qp, r), .uidx = r->geo.uidx,
	};

	hca_cq_put(&hca->cq[r->rcq], &c);
	hca_rq_take(r, rw);
	hca_qp_set_state(r, IBV_QPS_ERR);
	return q->type == IBV_QPT_RC ? fatal(v, ours) : 0;
}

/* Memory of a receive: 0, -EMSGSIZE, or -EACCES */
int hca_resp_scatter(struct hca_qp *r, const struct hca_rwqe *rw, uint64_t bytes,
		     struct hca_sgl *out)
{
	uint32_t pd = r->has_srq ? hca->srq[r->srq].pd : r->pd;

	out->pid = hca->proc[r->owner.proc].pid;
	out->n = 0;
	for (uint32_t i = 0; i < rw->nsge && bytes; i++) {
		const struct hca_sge *s = &rw->sge[i];
		uint64_t take = s->bytes < bytes ? s->bytes : bytes, at;

		if (hca_mr_translate(s->lkey, r->owner, pd, s->va, take,
				     IBV_ACCESS_LOCAL_WRITE, &at))
			return -EACCES;
		hca_sgl_add(out, at, take);
		bytes -= take;
	}
	return bytes ? -EMSGSIZE : 0;
}

static void make_grh(const struct hca_qp *q, const struct hca_qp *r, uint64_t bytes,
		     struct ibv_grh *g)
{
	memset(g, 0, sizeof(*g));
	g->version_tclass_flow = htobe32(6u << 28);
	g->paylen = htobe16((uint16_t)bytes);
	g->next_hdr = GRH_NEXT_IBA;
	g->hop_limit = GRH_HOPS;
	hca_host_gid(q->host, (int)hca->is_eth, 0, g->sgid.raw);
	hca_host_gid(r->host, (int)hca->is_eth, 0, g->dgid.raw);
}

/* A datagram's receive buffer begins with room for the global route header. */
static int copy_datagram(struct hca_qp *q, struct hca_qp *r, const struct hca_sgl *dst,
			 const struct hca_sgl *src, uint64_t bytes)
{
	uint8_t message[GRH_BYTES + UD_MTU];
	struct hca_sgl all = { .n = 1, .v = { { message, GRH_BYTES + bytes } } };
	struct hca_sgl body = { .n = 1, .v = { { message + GRH_BYTES, bytes } } };
	int rc;

	make_grh(q, r, bytes, (struct ibv_grh *)message);
	rc = hca_dma_copy(&body, src, 0, bytes);
	return rc ? rc : hca_dma_copy(dst, &all, 0, GRH_BYTES + bytes);
}

static bool qkey_ok(const struct hca_qp *q, const struct hca_qp *r, const struct hca_wqe *w)
{
	/* A key with the high bit set stands for the sender's own. */
	uint32_t key = w->av.qkey >> 31 ? q->attr.qkey : w->av.qkey;

	return q->type != IBV_QPT_UD || key == r->attr.qkey;
}

static int send(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		const struct hca_sgl *src, struct hca_verdict *v)
{
	bool ud = q->type == IBV_QPT_UD;
	uint64_t bytes = w->bytes + (ud ? GRH_BYTES : 0);
	struct hca_rwqe rw;
	struct hca_sgl dst;
	int rc;

	if (!qkey_ok(q, r, w))
		return 0;
	rc = hca_rq_peek(r, &rw);
	if (rc)
		return q->type != IBV_QPT_RC ? 0 :
		       rc == -EAGAIN ? not_ready(q, r, v) : not_there(q, v);
	rc = hca_resp_scatter(r, &rw, bytes, &dst);
	if (rc == -EMSGSIZE)
		return receive_failed(q, r, &rw, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR, v);
	if (rc)
		return receive_failed(q, r, &rw, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, v);
	rc = ud ? copy_datagram(q, r, &dst, src, w->bytes) :
		  hca_dma_copy(&dst, src, q->early_bytes, w->bytes - q->early_bytes);
	if (rc)
		return copy_failed(q, v, rc);
	hca_rq_take(r, &rw);
	put_received(q, r, w, &rw, bytes);
	return 0;
}

static int write_imm(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		     const struct hca_sgl *src, struct hca_verdict *v)
{
	struct hca_rwqe rw;
	int rc = hca_rq_peek(r, &rw);

	if (rc)
		return q->type != IBV_QPT_RC ? 0 :
		       rc == -EAGAIN ? not_ready(q, r, v) : not_there(q, v);
	rc = rdma(q, r, w, src, v);
	if (rc || r->state == IBV_QPS_ERR)
		return rc;
	hca_rq_take(r, &rw);
	put_received(q, r, w, &rw, w->bytes);
	return 0;
}

/* Errors of the requester alone: nothing of the request leaves its card. */
static int local_fault(struct hca_qp *q, const struct hca_wqe *w, struct hca_sgl *local,
		       struct hca_verdict *v)
{
	if (w->bad || w->op == HCA_OP_BAD)
		return fatal(v, IBV_WC_LOC_QP_OP_ERR);
	if (q->type == IBV_QPT_UD && w->op >= HCA_OP_WRITE)
		return fatal(v, IBV_WC_LOC_QP_OP_ERR);
	if (q->type == IBV_QPT_UC && w->op >= HCA_OP_READ)
		return fatal(v, IBV_WC_LOC_QP_OP_ERR);
	if (w->bytes > (q->type == IBV_QPT_UD ? UD_MTU : HCA_MAX_MSG_BYTES))
		return fatal(v, IBV_WC_LOC_LEN_ERR);
	if (hca_req_gather(q, w, local))
		return fatal(v, IBV_WC_LOC_PROT_ERR);
	return 0;
}

/* 1: nobody interferes. Else as hca_resp_execute(). */
static int disturb(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		   struct hca_verdict *v)
{
	bool is_reliable = q->type == IBV_QPT_RC;
	uint64_t value = 0;

	switch (hca_disturb_message(q, r, w->op, &value)) {
	case HCA_FAULT_DROP:
		return is_reliable ? not_there(q, v) : 0;
	case HCA_FAULT_RNR:
		return is_reliable ? not_ready(q, r, v) : 0;
	case HCA_FAULT_STATUS:
		return fatal(v, (uint8_t)value);
	case HCA_FAULT_DELAY:
		*v = (struct hca_verdict){ .nak = HCA_NAK_RETRY, .wait_ns = value };
		return -1;
	default:
		return 1;
	}
}

/* 0: done, or (unreliable) lost. -1: the verdict says what becomes of the request. */
int hca_resp_execute(struct hca_qp *q, const struct hca_wqe *w, struct hca_verdict *v)
{
	struct hca_sgl local;
	struct hca_qp *r;
	int rc;

	if (w->op == HCA_OP_NOP)
		return 0;
	if (local_fault(q, w, &local, v))
		return -1;
	r = hca_resp_find(q, w);
	if (!r)
		return q->type == IBV_QPT_RC ? not_there(q, v) : 0;
	rc = disturb(q, r, w, v);
	if (rc <= 0)
		return rc;
	hca_early_check(q, r);
	if (w->op <= HCA_OP_SEND_INV)
		rc = send(q, r, w, &local, v);
	else if (w->op == HCA_OP_WRITE_IMM)
		rc = write_imm(q, r, w, &local, v);
	else
		rc = rdma(q, r, w, &local, v);
	if (!rc)
		count(q, r, w);
	return rc;
}
