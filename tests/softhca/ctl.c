// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Control commands: contexts, protection domains, dispatch, and the end of a process. */
#include <errno.h>
#include <string.h>

#include "hca.h"

/* A process may have several contexts; objects of one are strange to another. */
bool hca_owns(struct hca_owner o, struct hca_owner owner)
{
	return o.proc == owner.proc && o.ctx == owner.ctx;
}

static int open_ctx(struct hca_owner o, struct hca_ctl *c)
{
	c->handle = ++hca->proc[o.proc].next_ctx;
	return c->handle <= UINT16_MAX ? 0 : -EMFILE;
}

static int alloc_pd(struct hca_owner o, struct hca_ctl *c)
{
	for (uint32_t i = 1; i < HCA_MAX_PDS; i++) {
		if (hca->pd[i].used)
			continue;
		hca->pd[i] = (struct hca_pd){ .used = 1, .owner = o };
		c->handle = i;
		return 0;
	}
	return -ENOMEM;
}

static int dealloc_pd(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_pd *pd = &hca->pd[c->handle % HCA_MAX_PDS];

	if (c->handle >= HCA_MAX_PDS || !pd->used || !hca_owns(o, pd->owner))
		return -EINVAL;
	if (pd->refs)
		return -EBUSY;
	pd->used = 0;
	return 0;
}

static bool is_hit(struct hca_owner owner, uint32_t proc, uint32_t ctx)
{
	return owner.proc == proc && (!ctx || owner.ctx == ctx);
}

/* Everything of a context, or (0) of all contexts; queue pairs first: others refer to them. */
static void free_objects(uint32_t proc, uint32_t ctx)
{
	for (uint32_t i = 0; i < hca->qp_high; i++)
		if (hca->qp[i].used && is_hit(hca->qp[i].owner, proc, ctx))
			hca_qp_free(&hca->qp[i]);
	for (uint32_t i = 0; i < HCA_MAX_SRQS; i++)
		if (is_hit(hca->srq[i].owner, proc, ctx))
			hca->srq[i].used = 0;
	for (uint32_t i = 0; i < HCA_MAX_CQS; i++)
		if (hca->cq[i].used && is_hit(hca->cq[i].owner, proc, ctx)) {
			hca->cq[i].used = 0;
			hca->proc[proc].cqs--;
		}
	for (uint32_t i = 0; i < HCA_MAX_MRS; i++)
		if (is_hit(hca->mr[i].owner, proc, ctx))
			hca->mr[i].used = 0;
	for (uint32_t i = 0; i < HCA_MAX_PDS; i++)
		if (is_hit(hca->pd[i].owner, proc, ctx))
			hca->pd[i].used = 0;
	for (uint32_t i = 0; i < HCA_MAX_CHANS; i++)
		if (hca->chan[i].used && is_hit(hca->chan[i].owner, proc, ctx))
			hca_chan_free(&hca->chan[i]);
}

static int close_ctx(struct hca_owner o, struct hca_ctl *c)
{
	if (!c->ctx)
		return -EINVAL;
	free_objects(o.proc, c->ctx);
	return 0;
}

void hca_proc_free(uint32_t proc)
{
	struct hca_proc *p = &hca->proc[proc];

	free_objects(proc, 0);
	p->ready = 0;
	p->next_ctx = p->bell_head = p->bell_tail = 0;
	p->ctl_state = HCA_CTL_IDLE;
	p->sleepers = p->cqs = 0;
	__atomic_store_n(&p->pid, 0, __ATOMIC_RELEASE);
}

void hca_ctl_serve(uint32_t proc, struct hca_ctl *c)
{
	static int (*const serve[])(struct hca_owner, struct hca_ctl *) = {
		[HCA_CTL_OPEN_CTX] = open_ctx, [HCA_CTL_CLOSE_CTX] = close_ctx,
		[HCA_CTL_ALLOC_PD] = alloc_pd, [HCA_CTL_DEALLOC_PD] = dealloc_pd,
		[HCA_CTL_REG_MR] = hca_mr_reg, [HCA_CTL_REREG_MR] = hca_mr_rereg,
		[HCA_CTL_DEREG_MR] = hca_mr_dereg,
		[HCA_CTL_CREATE_CHAN] = hca_chan_create,
		[HCA_CTL_DESTROY_CHAN] = hca_chan_destroy,
		[HCA_CTL_CREATE_CQ] = hca_cq_create, [HCA_CTL_RESIZE_CQ] = hca_cq_resize,
		[HCA_CTL_DESTROY_CQ] = hca_cq_destroy,
		[HCA_CTL_CREATE_SRQ] = hca_srq_create, [HCA_CTL_MODIFY_SRQ] = hca_srq_modify,
		[HCA_CTL_QUERY_SRQ] = hca_srq_query, [HCA_CTL_DESTROY_SRQ] = hca_srq_destroy,
		[HCA_CTL_CREATE_QP] = hca_qp_create, [HCA_CTL_MODIFY_QP] = hca_qp_modify,
		[HCA_CTL_QUERY_QP] = hca_qp_query, [HCA_CTL_DESTROY_QP] = hca_qp_destroy,
	};
	struct hca_owner o = { .proc = (uint16_t)proc, .ctx = (uint16_t)c->ctx };

	if (c->op >= sizeof(serve) / sizeof(*serve) || !serve[c->op])
		c->rc = -EOPNOTSUPP;
	else
		c->rc = hca_disturb_command(proc, c->op);
	if (!c->rc)
		c->rc = serve[c->op](o, c);
}
