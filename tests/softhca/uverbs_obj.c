// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Commands about completion queues, shared receive queues and queue pairs. */
#include <errno.h>
#include <string.h>

#include "uverbs.h"

#define SEGMENT 16u
#define SRQ_MIN_SHIFT 5

static int comp_channel(struct uv_file *f, int32_t fd, uint32_t *chan)
{
	const struct uv_file *c;

	*chan = 0;
	if (fd < 0)
		return 0;
	c = uv_file(fd);
	if (!c || c->kind != UV_COMP || c->ctx != f->ctx)
		return -EINVAL;
	*chan = c->chan;
	return 0;
}

/* The plain form is the extended one without flags. */
static void take_create_cq(const struct uv_io *io, struct ib_uverbs_ex_create_cq *in)
{
	struct ib_uverbs_create_cq plain;

	if (io->ex) {
		uv_get(in, sizeof(*in), io->in, io->in_bytes);
		return;
	}
	uv_get(&plain, sizeof(plain), io->in, io->in_bytes);
	*in = (struct ib_uverbs_ex_create_cq){
		.user_handle = plain.user_handle, .cqe = plain.cqe,
		.comp_vector = plain.comp_vector, .comp_channel = plain.comp_channel,
	};
}

int uv_create_cq(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_CREATE_CQ, .ctx = f->ctx };
	struct ib_uverbs_ex_create_cq_resp out = { .response_length = sizeof(out) };
	struct ib_uverbs_ex_create_cq in;
	int rc;

	take_create_cq(io, &in);
	if (in.comp_vector >= HCA_COMP_VECTORS)
		return -EINVAL;
	if (in.flags && !uv_driver()->has_timestamps)
		return -EOPNOTSUPP;
	c.u.cq.user = in.user_handle;
	c.u.cq.cqe = in.cqe;
	uv_driver()->cq(io, &c.u.cq);
	rc = comp_channel(f, in.comp_channel, &c.u.cq.chan);
	if (!rc)
		rc = hca_app_ctl(&c);
	if (!rc)
		rc = uv_obj_add(UV_OBJ_CQ, c.handle, in.user_handle, f->ctx, in.comp_channel,
				f->async_fd);
	if (rc)
		return rc;
	out.base.cq_handle = c.handle;
	out.base.cqe = in.cqe;
	uv_put(io->out, io->out_bytes, &out, io->ex ? sizeof(out) : sizeof(out.base));
	uv_driver()->cq_done(io, c.handle);
	return 0;
}

int uv_resize_cq(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_RESIZE_CQ, .ctx = f->ctx };
	struct ib_uverbs_resize_cq_resp out = { .cqe = 0 };
	struct ib_uverbs_resize_cq in;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	c.handle = in.cq_handle;
	c.u.cq.cqe = in.cqe;
	uv_driver()->resize(io, &c.u.cq);
	rc = hca_app_ctl(&c);
	if (rc)
		return rc;
	out.cqe = in.cqe;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

static int destroy(struct uv_file *f, uint32_t op, enum uv_obj_type type, uint32_t handle,
		   struct uv_reported *r)
{
	struct hca_ctl c = { .op = op, .ctx = f->ctx, .handle = handle };
	int rc = hca_app_ctl(&c);

	if (!rc)
		*r = uv_obj_del(type, handle);
	return rc;
}

int uv_destroy_cq(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_destroy_cq_resp out = { .comp_events_reported = 0 };
	struct ib_uverbs_destroy_cq in;
	struct uv_reported r;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	rc = destroy(f, HCA_CTL_DESTROY_CQ, UV_OBJ_CQ, in.cq_handle, &r);
	if (rc)
		return rc;
	out.comp_events_reported = r.comp;
	out.async_events_reported = r.async;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

/* Both forms have the same members up to the mask, but for the response pointer. */
static void take_create_qp(const struct uv_io *io, struct ib_uverbs_ex_create_qp *in)
{
	const size_t skip = io->ex ? 0 : offsetof(struct ib_uverbs_create_qp, user_handle);

	memset(in, 0, sizeof(*in));
	uv_get(in, io->ex ? sizeof(*in) : offsetof(struct ib_uverbs_ex_create_qp, comp_mask),
	       (const uint8_t *)io->in + skip, io->in_bytes - skip);
}

static bool caps_ok(const struct ib_uverbs_ex_create_qp *in)
{
	return in->max_send_wr <= HCA_MAX_WR && in->max_recv_wr <= HCA_MAX_WR &&
	       in->max_send_sge <= HCA_MAX_SGE && in->max_recv_sge <= HCA_MAX_SGE &&
	       !in->comp_mask;
}

static void answer_create_qp(const struct uv_io *io, const struct ib_uverbs_ex_create_qp *in,
			     const struct hca_qp_geometry *geo, uint32_t qpn)
{
	const struct ib_uverbs_ex_create_qp_resp out = {
		.base = {
			.qp_handle = qpn, .qpn = qpn, .max_send_wr = in->max_send_wr,
			.max_recv_wr = geo->rq_entries, .max_send_sge = in->max_send_sge,
			.max_recv_sge = in->max_recv_sge,
			.max_inline_data = in->max_inline_data,
		},
		.response_length = sizeof(out),
	};

	uv_put(io->out, io->out_bytes, &out, io->ex ? sizeof(out) : sizeof(out.base));
	if (uv_driver()->qp_done)
		uv_driver()->qp_done(io);
}

int uv_create_qp(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_CREATE_QP, .ctx = f->ctx };
	struct ib_uverbs_ex_create_qp in;
	int rc;

	take_create_qp(io, &in);
	if (!caps_ok(&in))
		return -EINVAL;
	if (in.create_flags || in.rwq_ind_tbl_handle || in.source_qpn)
		return -EOPNOTSUPP;
	c.u.qp = (struct hca_ctl_qp){
		.user = in.user_handle, .type = in.qp_type, .sig_all = in.sq_sig_all,
		.pd = in.pd_handle, .scq = in.send_cq_handle, .rcq = in.recv_cq_handle,
		.srq = in.srq_handle, .has_srq = in.is_srq,
		.cap = { in.max_send_wr, in.max_recv_wr, in.max_send_sge, in.max_recv_sge,
			 in.max_inline_data },
	};
	rc = uv_driver()->qp(io, &c.u.qp, &c.u.qp.geo);
	if (!rc)
		rc = hca_app_ctl(&c);
	if (!rc)
		rc = uv_obj_add(UV_OBJ_QP, c.handle, in.user_handle, f->ctx, -1, f->async_fd);
	if (rc)
		return rc;
	answer_create_qp(io, &in, &c.u.qp.geo, c.handle);
	return 0;
}

int uv_modify_qp(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_MODIFY_QP, .ctx = f->ctx };
	int rc;

	uv_get(&c.u.modify, sizeof(c.u.modify), io->in, io->in_bytes);
	rc = hca_app_ctl(&c);
	if (!rc && io->ex && uv_driver()->modify_done)
		uv_driver()->modify_done(io);
	return rc;
}

int uv_query_qp(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_QUERY_QP, .ctx = f->ctx };
	const struct ib_uverbs_modify_qp *a = &c.u.query.attr;
	const struct ib_uverbs_qp_cap *cap = &c.u.query.cap;
	struct ib_uverbs_query_qp_resp out;
	struct ib_uverbs_query_qp in;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	c.handle = in.qp_handle;
	rc = hca_app_ctl(&c);
	if (rc)
		return rc;
	out = (struct ib_uverbs_query_qp_resp){
		.dest = a->dest, .alt_dest = a->alt_dest, .max_send_wr = cap->max_send_wr,
		.max_recv_wr = hca->qp[in.qp_handle].geo.rq_entries,
		.max_send_sge = cap->max_send_sge, .max_recv_sge = cap->max_recv_sge,
		.max_inline_data = cap->max_inline_data, .qkey = a->qkey, .rq_psn = a->rq_psn,
		.sq_psn = a->sq_psn, .dest_qp_num = a->dest_qp_num,
		.qp_access_flags = a->qp_access_flags, .pkey_index = a->pkey_index,
		.alt_pkey_index = a->alt_pkey_index, .qp_state = (uint8_t)c.u.query.state,
		.cur_qp_state = (uint8_t)c.u.query.state, .path_mtu = a->path_mtu,
		.path_mig_state = a->path_mig_state,
		.sq_draining = (uint8_t)c.u.query.sq_draining,
		.max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer, .port_num = a->port_num,
		.timeout = a->timeout, .retry_cnt = a->retry_cnt, .rnr_retry = a->rnr_retry,
		.alt_port_num = a->alt_port_num, .alt_timeout = a->alt_timeout,
		.sq_sig_all = (uint8_t)c.u.query.sig_all,
	};
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

int uv_destroy_qp(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_destroy_qp_resp out;
	struct ib_uverbs_destroy_qp in;
	struct uv_reported r;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	rc = destroy(f, HCA_CTL_DESTROY_QP, UV_OBJ_QP, in.qp_handle, &r);
	if (rc)
		return rc;
	out.events_reported = r.async;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

/* A link to the next entry and as many segments, rounded up to a power of two. */
uint32_t uv_srq_stride_shift(uint32_t max_sge)
{
	uint32_t shift = SRQ_MIN_SHIFT;

	while (1u << shift < SEGMENT + max_sge * SEGMENT)
		shift++;
	return shift;
}

int uv_create_srq(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_CREATE_SRQ, .ctx = f->ctx };
	struct ib_uverbs_create_srq_resp out;
	struct ib_uverbs_create_srq in;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	c.u.srq = (struct hca_ctl_srq){
		.user = in.user_handle, .pd = in.pd_handle, .max_wr = in.max_wr,
		.max_sge = in.max_sge, .limit = in.srq_limit,
	};
	uv_driver()->srq(io, &c.u.srq);
	rc = hca_app_ctl(&c);
	if (!rc)
		rc = uv_obj_add(UV_OBJ_SRQ, c.handle, in.user_handle, f->ctx, -1, f->async_fd);
	if (rc)
		return rc;
	out = (struct ib_uverbs_create_srq_resp){ .srq_handle = c.handle,
						  .max_wr = c.u.srq.max_wr,
						  .max_sge = in.max_sge, .srqn = c.handle };
	/* The number follows in the driver part too, which begins where srqn lies. */
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	uv_driver()->srq_done(io, c.handle);
	return 0;
}

int uv_modify_srq(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_MODIFY_SRQ, .ctx = f->ctx };
	struct ib_uverbs_modify_srq in;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	c.handle = in.srq_handle;
	c.u.srq.attr_mask = in.attr_mask;
	c.u.srq.limit = in.srq_limit;
	return hca_app_ctl(&c);
}

int uv_query_srq(struct uv_file *f, struct uv_io *io)
{
	struct hca_ctl c = { .op = HCA_CTL_QUERY_SRQ, .ctx = f->ctx };
	struct ib_uverbs_query_srq_resp out = { .reserved = 0 };
	struct ib_uverbs_query_srq in;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	c.handle = in.srq_handle;
	rc = hca_app_ctl(&c);
	if (rc)
		return rc;
	out.max_wr = c.u.srq.max_wr;
	out.max_sge = c.u.srq.max_sge;
	out.srq_limit = c.u.srq.limit;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}

int uv_destroy_srq(struct uv_file *f, struct uv_io *io)
{
	struct ib_uverbs_destroy_srq_resp out;
	struct ib_uverbs_destroy_srq in;
	struct uv_reported r;
	int rc;

	uv_get(&in, sizeof(in), io->in, io->in_bytes);
	rc = destroy(f, HCA_CTL_DESTROY_SRQ, UV_OBJ_SRQ, in.srq_handle, &r);
	if (rc)
		return rc;
	out.events_reported = r.async;
	uv_put(io->out, io->out_bytes, &out, sizeof(out));
	return 0;
}
