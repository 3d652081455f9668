// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Shared receive queues, and fetching of receive entries from either kind of queue. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "wqe.h"

#define MAX_ENTRY 1024u
#define SRQ_SKIP 16u	/* the link to the next free entry */

static struct hca_srq *find(uint32_t handle, struct hca_owner o)
{
	struct hca_srq *s = &hca->srq[handle % HCA_MAX_SRQS];

	return handle < HCA_MAX_SRQS && s->used && hca_owns(o, s->owner) ? s : NULL;
}

int hca_srq_create(struct hca_owner o, struct hca_ctl *c)
{
	const struct hca_ctl_srq *in = &c->u.srq;

	if (in->max_wr > HCA_MAX_SRQ_WR || in->max_sge > HCA_MAX_SGE + 1)
		return -EINVAL;
	if (in->pd >= HCA_MAX_PDS || !hca->pd[in->pd].used ||
	    !hca_owns(o, hca->pd[in->pd].owner))
		return -EINVAL;
	for (uint32_t i = 1; i < HCA_MAX_SRQS; i++) {
		struct hca_srq *s = &hca->srq[i];

		if (s->used)
			continue;
		*s = (struct hca_srq){
			.used = 1, .owner = o, .user = in->user, .buf = in->buf, .db = in->db,
			.stride_shift = in->stride_shift, .max_wr = in->max_wr,
			.max_sge = in->max_sge, .limit = in->limit, .pd = in->pd,
		};
		hca->pd[s->pd].refs++;
		c->handle = i;
		return 0;
	}
	return -ENOMEM;
}

int hca_srq_modify(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_srq *s = find(c->handle, o);

	if (!s || c->u.srq.attr_mask & ~(uint32_t)IBV_SRQ_LIMIT)
		return -EINVAL;
	if (c->u.srq.attr_mask & IBV_SRQ_LIMIT) {
		if (c->u.srq.limit >= s->max_wr)
			return -EINVAL;
		s->limit = c->u.srq.limit;
	}
	return 0;
}

int hca_srq_query(struct hca_owner o, struct hca_ctl *c)
{
	const struct hca_srq *s = find(c->handle, o);

	if (!s)
		return -EINVAL;
	c->u.srq.max_wr = s->max_wr;
	c->u.srq.max_sge = s->max_sge;
	c->u.srq.limit = s->limit;
	return 0;
}

int hca_srq_destroy(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_srq *s = find(c->handle, o);

	if (!s)
		return -EINVAL;
	if (s->refs)
		return -EBUSY;
	s->used = 0;
	hca->pd[s->pd].refs--;
	return 0;
}

static int read_counter(pid_t pid, uint64_t db, uint16_t *out)
{
	uint32_t v;
	int rc = hca_dma_read(pid, db, &v, sizeof(v));

	if (!rc)
		*out = (uint16_t)be32toh(v);
	return rc;
}

static int srq_peek(struct hca_srq *s, struct hca_rwqe *out)
{
	pid_t pid = hca->proc[s->owner.proc].pid;
	uint8_t entry[MAX_ENTRY];
	uint32_t bytes = 1u << s->stride_shift;
	int rc = 0;

	if (s->taken == s->posted)
		rc = read_counter(pid, s->db, &s->posted);
	if (rc || s->taken == s->posted)
		return rc ? rc : -EAGAIN;
	rc = hca_dma_read(pid, s->buf + ((uint64_t)s->head << s->stride_shift), entry, bytes);
	if (rc)
		return rc;
	HCA_FE->rq_parse(entry, bytes, SRQ_SKIP, out);
	out->idx = s->head;
	return 0;
}

int hca_rq_peek(struct hca_qp *q, struct hca_rwqe *out)
{
	pid_t pid = hca->proc[q->owner.proc].pid;
	const struct hca_qp_geometry *g = &q->geo;
	uint8_t entry[MAX_ENTRY];
	uint32_t bytes = 1u << g->rq_shift;
	uint64_t slot;
	int rc = 0;

	if (q->has_srq)
		return srq_peek(&hca->srq[q->srq], out);
	if (!g->rq_entries)
		return -EAGAIN;
	if (q->rq_ci == q->rq_pi)
		rc = read_counter(pid, g->db + HCA_FE->db_rq, &q->rq_pi);
	if (rc || q->rq_ci == q->rq_pi)
		return rc ? rc : -EAGAIN;
	slot = q->rq_ci & (g->rq_entries - 1);
	rc = hca_dma_read(pid, g->rq + (slot << g->rq_shift), entry, bytes);
	if (rc)
		return rc;
	HCA_FE->rq_parse(entry, bytes, g->rq_skip, out);
	out->idx = q->rq_ci;
	return 0;
}

/* The limit is armed once: the event disarms it. */
static void check_limit(struct hca_srq *s)
{
	if (!s->limit)
		return;
	if (read_counter(hca->proc[s->owner.proc].pid, s->db, &s->posted))
		return;
	if ((uint16_t)(s->posted - s->taken) >= s->limit)
		return;
	s->limit = 0;
	hca_async_event(s->owner, s->user, IBV_EVENT_SRQ_LIMIT_REACHED);
}

void hca_rq_take(struct hca_qp *q, const struct hca_rwqe *w)
{
	struct hca_srq *s;

	if (!q->has_srq) {
		q->rq_ci++;
		return;
	}
	s = &hca->srq[q->srq];
	s->head = w->next;
	s->taken++;
	check_limit(s);
}
