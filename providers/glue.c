// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * glue.c - a vendor's ops table, with Justitia's functions in some entries.
 *
 * The same for every driver. What differs lies in driver_justitia.h: the names
 * of the vendor's functions (DRV_*) and where our pointers are kept in its
 * structures (drv_ctx, drv_cq, drv_qp). An object whose pointer is NULL is
 * not shaped, and goes to the vendor's function.
 */
#include <errno.h>

#include "driver_justitia.h"
#include "glue.h"
#include "provider.h"

/* ---- queue pairs ----------------------------------------------------------- */

/* Both kinds of attributes begin with the same members. */
static_assert(offsetof(struct ibv_qp_init_attr, sq_sig_all) ==
		      offsetof(struct ibv_qp_init_attr_ex, sq_sig_all),
	      "ibv_qp_init_attr is the head of ibv_qp_init_attr_ex");

static struct jst_cq *send_cq(const struct ibv_qp_init_attr *attr)
{
	return attr->send_cq ? *drv_cq(attr->send_cq) : NULL;
}

#define WR(name, params, args)                                                                  \
	static void wr_##name params                                                            \
	{                                                                                       \
		jst_wr_##name args;                                                             \
	}
#define QP (*drv_qp(&ex->qp_base))

WR(start, (struct ibv_qp_ex *ex), (QP))
WR(abort, (struct ibv_qp_ex *ex), (QP))
WR(send, (struct ibv_qp_ex *ex), (QP))
WR(send_imm, (struct ibv_qp_ex *ex, __be32 imm), (QP, imm))
WR(send_inv, (struct ibv_qp_ex *ex, uint32_t rkey), (QP, rkey))
WR(rdma_write, (struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr), (QP, rkey, addr))
WR(rdma_write_imm, (struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm),
   (QP, rkey, addr, imm))
WR(rdma_read, (struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr), (QP, rkey, addr))
WR(atomic_cmp_swp,
   (struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap),
   (QP, rkey, addr, compare, swap))
WR(atomic_fetch_add, (struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add),
   (QP, rkey, addr, add))
WR(local_inv, (struct ibv_qp_ex *ex, uint32_t rkey), (QP, rkey))
WR(bind_mw,
   (struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info),
   (QP, mw, rkey, info))
WR(set_ud_addr, (struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey),
   (QP, ah, qpn, qkey))
WR(set_sge, (struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length),
   (QP, lkey, addr, length))
WR(set_sge_list, (struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list), (QP, n, list))
WR(set_inline_data, (struct ibv_qp_ex *ex, void *addr, size_t length), (QP, addr, length))
WR(set_inline_data_list, (struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list),
   (QP, n, list))

static int wr_complete(struct ibv_qp_ex *ex)
{
	return jst_wr_complete(QP);
}

/* Only what the application asked for exists; the vendor left the rest NULL. */
#define REPLACE(object, name, function)                                                         \
	do {                                                                                    \
		if ((object)->name)                                                             \
			(object)->name = function;                                              \
	} while (0)

static void replace_wr(struct ibv_qp_ex *ex)
{
	REPLACE(ex, wr_start, wr_start);
	REPLACE(ex, wr_complete, wr_complete);
	REPLACE(ex, wr_abort, wr_abort);
	REPLACE(ex, wr_send, wr_send);
	REPLACE(ex, wr_send_imm, wr_send_imm);
	REPLACE(ex, wr_send_inv, wr_send_inv);
	REPLACE(ex, wr_rdma_write, wr_rdma_write);
	REPLACE(ex, wr_rdma_write_imm, wr_rdma_write_imm);
	REPLACE(ex, wr_rdma_read, wr_rdma_read);
	REPLACE(ex, wr_atomic_cmp_swp, wr_atomic_cmp_swp);
	REPLACE(ex, wr_atomic_fetch_add, wr_atomic_fetch_add);
	REPLACE(ex, wr_local_inv, wr_local_inv);
	REPLACE(ex, wr_bind_mw, wr_bind_mw);
	REPLACE(ex, wr_set_ud_addr, wr_set_ud_addr);
	REPLACE(ex, wr_set_sge, wr_set_sge);
	REPLACE(ex, wr_set_sge_list, wr_set_sge_list);
	REPLACE(ex, wr_set_inline_data, wr_set_inline_data);
	REPLACE(ex, wr_set_inline_data_list, wr_set_inline_data_list);
}

/* The vendor made @ibqp from a prepared @attr: shape it, or nothing is left of it. */
static struct ibv_qp *take_over(struct jst_ctx *ctx, struct ibv_qp *ibqp, struct ibv_qp_ex *ex,
				struct ibv_qp_init_attr *attr, struct jst_qp_request *request)
{
	struct jst_qp *qp;

	/* Vendors round up; the application is to get what it would have got. */
	request->max_send_wr = drv_rounded_send_wr(ibqp, request->max_send_wr);
	qp = jst_qp_create(ctx, send_cq(attr), ibqp, ex, attr, request);
	jst_qp_restore(request, attr);
	if (!qp) {
		DRV_destroy_qp(ibqp);
		errno = ENOMEM;
		return NULL;
	}
	*drv_qp(ibqp) = qp;
	if (ex)
		replace_wr(ex);
	return ibqp;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct jst_ctx *ctx = *drv_ctx(pd->context);
	const struct ibv_qp_init_attr wish = *attr;
	struct jst_qp_request request;
	struct ibv_qp *ibqp;

	if (!jst_qp_prepare(ctx, send_cq(attr), attr, 0, &request))
		return DRV_create_qp(pd, attr);
	ibqp = DRV_create_qp(pd, attr);
	if (ibqp)
		return take_over(ctx, ibqp, NULL, attr, &request);
	*attr = wish; /* the card may not have queues of that size: unshaped then */
	return DRV_create_qp(pd, attr);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr *head = (struct ibv_qp_init_attr *)attr;
	bool extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct jst_ctx *ctx = *drv_ctx(context);
	const struct ibv_qp_init_attr_ex wish = *attr;
	struct jst_qp_request request;
	struct ibv_qp *ibqp;

	if (!jst_qp_prepare(ctx, send_cq(head), head, extended ? attr->send_ops_flags : 0,
			    &request))
		return DRV_create_qp_ex(context, attr);
	ibqp = DRV_create_qp_ex(context, attr);
	if (ibqp)
		return take_over(ctx, ibqp, extended ? (struct ibv_qp_ex *)ibqp : NULL, head,
				 &request);
	*attr = wish;
	return DRV_create_qp_ex(context, attr);
}

static int destroy_qp(struct ibv_qp *ibqp)
{
	struct jst_qp *qp = *drv_qp(ibqp);
	int error;

	if (!qp)
		return DRV_destroy_qp(ibqp);
	jst_qp_pause(qp);
	error = DRV_destroy_qp(ibqp);
	if (error)
		jst_qp_resume(qp);
	else
		jst_qp_destroy(qp);
	return error;
}

static int modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct jst_qp *qp = *drv_qp(ibqp);
	bool resets = (attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	int error;

	if (qp && resets)
		jst_qp_pause(qp);
	error = DRV_modify_qp(ibqp, attr, attr_mask);
	if (qp && resets && error)
		jst_qp_resume(qp);
	if (!qp || error)
		return error;
	/* The vendor may choose among its own functions by state. */
	if (container_of(ibqp, struct verbs_qp, qp)->comp_mask & VERBS_QP_EX)
		replace_wr((struct ibv_qp_ex *)ibqp);
	jst_qp_modified(qp, attr, attr_mask);
	return 0;
}

static int query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		    struct ibv_qp_init_attr *init_attr)
{
	int error = DRV_query_qp(ibqp, attr, attr_mask, init_attr);

	if (!error && *drv_qp(ibqp))
		jst_qp_queried(*drv_qp(ibqp), attr, init_attr);
	return error;
}

static int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct jst_qp *qp = *drv_qp(ibqp);

	return qp ? jst_post_send(qp, wr, bad_wr) : DRV_post_send(ibqp, wr, bad_wr);
}

/* ---- completion queues ------------------------------------------------------ */

#define CQ (*drv_cq(ibv_cq_ex_to_cq(ex)))

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return jst_start_poll(CQ, attr);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return jst_next_poll(CQ);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	jst_end_poll(CQ);
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return jst_read_byte_len(CQ);
}

static bool shape_cq(struct jst_ctx *ctx, struct ibv_cq *ibcq, struct ibv_cq_ex *ex)
{
	struct jst_cq *cq = jst_cq_create(ctx, ibcq, ex);

	*drv_cq(ibcq) = cq;
	if (!cq) {
		DRV_destroy_cq(ibcq);
		errno = ENOMEM;
	}
	return cq != NULL;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe,
				struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *ibcq = NULL;

	if (cqe > 0 && cqe <= INT_MAX - JST_CQ_SLACK)
		ibcq = DRV_create_cq(context, cqe + JST_CQ_SLACK, channel, comp_vector);
	if (!ibcq) /* unshaped: its queue pairs will find no jst_cq */
		return DRV_create_cq(context, cqe, channel, comp_vector);
	return shape_cq(*drv_ctx(context), ibcq, NULL) ? ibcq : NULL;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
				      struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex ours = *attr;
	struct ibv_cq_ex *ex = NULL;

	ours.cqe += JST_CQ_SLACK;
	ours.wc_flags |= JST_CQ_EX_FLAGS;
	if (attr->cqe && ours.cqe > attr->cqe)
		ex = DRV_create_cq_ex(context, &ours);
	if (!ex)
		return DRV_create_cq_ex(context, attr);
	if (!shape_cq(*drv_ctx(context), ibv_cq_ex_to_cq(ex), ex))
		return NULL;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_byte_len = read_byte_len;
	return ex;
}

static int destroy_cq(struct ibv_cq *ibcq)
{
	struct jst_cq *cq = *drv_cq(ibcq);
	int error = DRV_destroy_cq(ibcq);

	if (!error && cq)
		jst_cq_destroy(cq);
	return error;
}

static int resize_cq(struct ibv_cq *ibcq, int cqe)
{
	if (*drv_cq(ibcq) && cqe > 0 && cqe <= INT_MAX - JST_CQ_SLACK)
		cqe += JST_CQ_SLACK;
	return DRV_resize_cq(ibcq, cqe);
}

static int poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct jst_cq *cq = *drv_cq(ibcq);

	return cq ? jst_poll_cq(cq, num_entries, wc) : drv_poll_cq(ibcq)(ibcq, num_entries, wc);
}

/* ---- the context ------------------------------------------------------------ */

static const struct verbs_context_ops shaping_ops = {
	.create_cq = create_cq,
	.create_cq_ex = create_cq_ex,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.destroy_cq = destroy_cq,
	.destroy_qp = destroy_qp,
	.modify_qp = modify_qp,
	.poll_cq = poll_cq,
	.post_send = post_send,
	.query_qp = query_qp,
	.resize_cq = resize_cq,
};

void jst_glue_open(struct verbs_context *vctx)
{
	struct ibv_context *context = &vctx->context;
	const struct jst_vendor vendor = {
		.post_send = context->ops.post_send,
		.poll_cq = context->ops.poll_cq,
		.refuses_until_rts = DRV_REFUSES_UNTIL_RTS,
	};
	struct jst_ctx *ctx = jst_ctx_open(context, &vendor);

	*drv_ctx(context) = ctx;
	if (ctx)
		verbs_set_ops(vctx, &shaping_ops);
}

void jst_glue_close(struct ibv_context *context)
{
	jst_ctx_close(*drv_ctx(context));
}
