// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * wr.c - the extended posting interface, ibv_wr_*, onto the same queue.
 *
 * Other posters wait from wr_start to wr_complete or wr_abort, as with the
 * vendor; polling does not. The first error is kept for wr_complete, and then nothing of
 * the batch is posted.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

void jst_wr_start(struct jst_qp *qp)
{
	pthread_mutex_lock(&qp->post_lock);
	qp->staged = 0;
	qp->staged_error = qp->ready ? 0 : EINVAL;
}

int jst_wr_complete(struct jst_qp *qp)
{
	int error = qp->staged_error;

	if (!error) {
		for (uint32_t i = 0; i < qp->staged; i++)
			jst_message_finish(qp, jst_qp_message(qp, qp->head + i));
		if (qp->staged)
			jst_shaper_admit(qp, qp->staged);
	}
	pthread_mutex_unlock(&qp->post_lock);
	return error;
}

void jst_wr_abort(struct jst_qp *qp)
{
	pthread_mutex_unlock(&qp->post_lock);
}

static struct ibv_send_wr *begin(struct jst_qp *qp, enum ibv_wr_opcode opcode)
{
	struct jst_message *message = jst_queue_slot(qp, qp->staged);

	if (!message) {
		qp->staged_error = ENOMEM;
		return NULL;
	}
	qp->staged++;
	message->wr.wr_id = qp->qp_ex->wr_id;
	message->wr.send_flags = qp->qp_ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	message->wr.opcode = opcode;
	return &message->wr;
}

/* The work request begun last, which the setters fill in. */
static struct jst_message *current(struct jst_qp *qp)
{
	if (qp->staged_error || !qp->staged)
		return NULL;
	return jst_qp_message(qp, qp->head + qp->staged - 1);
}

void jst_wr_send(struct jst_qp *qp)
{
	begin(qp, IBV_WR_SEND);
}

void jst_wr_send_imm(struct jst_qp *qp, __be32 imm_data)
{
	struct ibv_send_wr *wr = begin(qp, IBV_WR_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm_data;
}

void jst_wr_send_inv(struct jst_qp *qp, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = begin(qp, IBV_WR_SEND_WITH_INV);

	if (wr)
		wr->invalidate_rkey = invalidate_rkey;
}

static struct ibv_send_wr *begin_rdma(struct jst_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
				      uint64_t remote_addr)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	if (wr) {
		wr->wr.rdma.remote_addr = remote_addr;
		wr->wr.rdma.rkey = rkey;
	}
	return wr;
}

void jst_wr_rdma_write(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

void jst_wr_rdma_write_imm(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	struct ibv_send_wr *wr = begin_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wr)
		wr->imm_data = imm_data;
}

void jst_wr_rdma_read(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void begin_atomic(struct jst_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	if (wr) {
		wr->wr.atomic.remote_addr = remote_addr;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = compare_add;
		wr->wr.atomic.swap = swap;
	}
}

void jst_wr_atomic_cmp_swp(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr,
			   uint64_t compare, uint64_t swap)
{
	begin_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

void jst_wr_atomic_fetch_add(struct jst_qp *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	begin_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

void jst_wr_local_inv(struct jst_qp *qp, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = begin(qp, IBV_WR_LOCAL_INV);

	if (wr)
		wr->invalidate_rkey = invalidate_rkey;
}

void jst_wr_bind_mw(struct jst_qp *qp, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *bind_info)
{
	struct ibv_send_wr *wr = begin(qp, IBV_WR_BIND_MW);

	if (wr) {
		wr->bind_mw.mw = mw;
		wr->bind_mw.rkey = rkey;
		wr->bind_mw.bind_info = *bind_info;
	}
}

void jst_wr_set_ud_addr(struct jst_qp *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey)
{
	struct jst_message *message = current(qp);

	if (message) {
		message->wr.wr.ud.ah = ah;
		message->wr.wr.ud.remote_qpn = remote_qpn;
		message->wr.wr.ud.remote_qkey = remote_qkey;
	}
}

void jst_wr_set_sge(struct jst_qp *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct jst_message *message = current(qp);

	if (message) {
		message->wr.sg_list[0] = (struct ibv_sge){ addr, length, lkey };
		message->wr.num_sge = 1;
	}
}

void jst_wr_set_sge_list(struct jst_qp *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct jst_message *message = current(qp);

	if (!message)
		return;
	if (num_sge > qp->max_sge) {
		qp->staged_error = ENOMEM;
		return;
	}
	if (num_sge)
		memcpy(message->wr.sg_list, sg_list, num_sge * sizeof(*sg_list));
	message->wr.num_sge = (int)num_sge;
}

void jst_wr_set_inline_data_list(struct jst_qp *qp, size_t num_buf,
				 const struct ibv_data_buf *buf_list)
{
	struct jst_message *message = current(qp);
	uint8_t *to, *data;
	size_t bytes = 0;

	if (!message)
		return;
	for (size_t i = 0; i < num_buf; i++)
		bytes += buf_list[i].length;
	if (bytes > qp->max_inline) {
		qp->staged_error = ENOMEM;
		return;
	}
	to = data = qp->inlines + (size_t)(message - qp->messages) * qp->max_inline;
	for (size_t i = 0; i < num_buf; i++) {
		memcpy(to, buf_list[i].addr, buf_list[i].length);
		to += buf_list[i].length;
	}
	message->wr.send_flags |= IBV_SEND_INLINE;
	message->wr.sg_list[0] = (struct ibv_sge){ (uintptr_t)data, (uint32_t)bytes, 0 };
	message->wr.num_sge = bytes ? 1 : 0;
}

void jst_wr_set_inline_data(struct jst_qp *qp, const void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = (void *)(uintptr_t)addr, .length = length };

	jst_wr_set_inline_data_list(qp, 1, &buf);
}
