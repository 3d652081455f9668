// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The mlx4 front end: what libmlx4 shares with ConnectX-3 where that differs from its
 * successors (names as in mlx4dv.h and the PRM). Every send entry takes one place of a
 * fixed size, there is no send doorbell record, and completions are half as large.
 */
#include <endian.h>
#include <string.h>
#include <infiniband/mlx4dv.h>

#include "wqe.h"

#define ARM_COMMAND_SOLICITED 1u
#define BF_PAGE 4096u
#define BF_BUFFER (HCA_MLX4_BF_BYTES / 2)
#define GRH_PRESENT 0x80u
#define OWNER_BIT 0x80u		/* of an entry's first byte, big endian */
#define VENDOR_ERROR 0x88
#define VENDOR_ERROR_FLUSH 0xf9
/* With the owner bit, and nothing a completion could be. The other is its counterpart. */
#define FILL_OWNED 0xcc
#define FILL_DISOWNED 0x4c

static void parse_datagram(const struct mlx4_wqe_datagram_seg *d, struct hca_av *out)
{
	out->qkey = be32toh(d->qkey);
	out->qpn = be32toh(d->dqpn) & 0xffffff;
	out->dlid = be16toh(d->av.dlid);
	out->is_grh = !!(d->av.g_slid & GRH_PRESENT);
	memcpy(out->gid, d->av.dgid, sizeof(out->gid));
}

static void sq_parse(const struct hca_qp *q, const uint8_t *e, uint32_t bytes,
		     struct hca_wqe *out)
{
	const struct mlx4_wqe_ctrl_seg *ctrl = (const void *)e;
	const uint8_t *p = e + sizeof(*ctrl), *end = e + bytes;
	uint32_t flags = be32toh(ctrl->srcrb_flags);

	memset(out, 0, offsetof(struct hca_wqe, sge));
	out->opcode = e[3] & MLX4_CQE_OPCODE_MASK;
	out->op = hca_op_of(out->opcode);
	out->blocks = 1;
	out->signalled = flags & MLX4_WQE_CTRL_CQ_UPDATE;
	out->solicited = flags & MLX4_WQE_CTRL_SOLICIT;
	out->imm = ctrl->imm;
	if (out->op == HCA_OP_BAD || out->op == HCA_OP_NOP)
		return;
	if (out->op >= HCA_OP_WRITE) {
		out->raddr = hca_get64(p);
		out->rkey = hca_get32(p + 8);
		p += sizeof(struct mlx4_wqe_raddr_seg);
	} else if (q->type == IBV_QPT_UD) {
		parse_datagram((const void *)p, &out->av);
		p += sizeof(struct mlx4_wqe_datagram_seg);
	}
	if (out->op >= HCA_OP_CMP_SWAP) {
		out->swap_add = hca_get64(p);
		out->compare = hca_get64(p + 8);
		p += sizeof(struct mlx4_wqe_atomic_seg);
	}
	if (p > end || bytes > 1u << q->geo.sq_shift)
		out->bad = true;
	else
		hca_parse_data(p, end, out);
}

/* Is the entry at @idx the card's? Its owner bit changes its meaning with every lap. */
static bool is_posted(const struct hca_qp *q, uint16_t idx)
{
	uint64_t at = q->geo.sq + ((uint64_t)(idx & (q->geo.sq_entries - 1)) << q->geo.sq_shift);
	uint8_t first = __atomic_load_n((const uint8_t *)(uintptr_t)at, __ATOMIC_ACQUIRE);

	return !(first & OWNER_BIT) == !(idx & q->geo.sq_entries);
}

static uint16_t sq_producer(const struct hca_qp *q)
{
	uint16_t pi = __atomic_load_n(&q->sq_pi, __ATOMIC_RELAXED);

	for (uint32_t n = 0; n < q->geo.sq_entries && is_posted(q, pi); n++)
		pi++;
	return pi;
}

static uint8_t resp_opcode(uint8_t op)
{
	switch (op) {
	case HCA_OP_SEND: return MLX4_RECV_OPCODE_SEND;
	case HCA_OP_SEND_IMM: return MLX4_RECV_OPCODE_SEND_IMM;
	case HCA_OP_SEND_INV: return MLX4_RECV_OPCODE_SEND_INVAL;
	default: return MLX4_RECV_OPCODE_RDMA_WRITE_IMM;
	}
}

static uint8_t owner(const struct hca_cq *cq, uint32_t pi)
{
	return pi & cq->entries ? MLX4_CQE_OWNER_MASK : 0;
}

static void encode_error(const struct hca_cqe *c, struct mlx4_err_cqe *e)
{
	e->vlan_my_qpn = htobe32(c->qpn);
	e->wqe_index = htobe16(c->idx);
	e->vendor_err = c->status == IBV_WC_WR_FLUSH_ERR ? VENDOR_ERROR_FLUSH : VENDOR_ERROR;
	e->syndrome = hca_syndrome_of(c->status);
	e->owner_sr_opcode = MLX4_CQE_OPCODE_ERROR;
}

static void encode_success(const struct hca_cqe *c, struct mlx4_cqe *e)
{
	bool is_send = c->kind == HCA_CQE_REQ;

	e->vlan_my_qpn = htobe32(c->qpn);
	e->byte_cnt = htobe32(c->bytes);
	e->wqe_index = htobe16(c->idx);
	e->owner_sr_opcode = is_send ? c->opcode : resp_opcode(c->op);
	if (is_send)
		return;
	e->immed_rss_invalid = c->imm;
	e->rlid = htobe16(c->slid);
	e->g_mlpath_rqpn = htobe32(c->src_qpn | (c->has_grh ? 1u << 31 : 0));
}

static uint32_t cqe_encode(const struct hca_cq *cq, uint32_t pi, const struct hca_cqe *c,
			   uint8_t *out, uint32_t *offset)
{
	bool is_send = c->kind == HCA_CQE_REQ || c->kind == HCA_CQE_REQ_ERR;
	struct mlx4_cqe e = { .owner_sr_opcode = 0 };

	if (c->kind == HCA_CQE_REQ_ERR || c->kind == HCA_CQE_RESP_ERR)
		encode_error(c, (struct mlx4_err_cqe *)&e);
	else
		encode_success(c, &e);
	e.owner_sr_opcode |= owner(cq, pi) | (is_send ? MLX4_CQE_IS_SEND_MASK : 0);
	memcpy(out, &e, sizeof(e));
	*offset = 0;
	return sizeof(e);
}

static uint32_t cqe_resize(const struct hca_cq *cq, uint32_t pi, uint8_t *out, uint32_t *offset)
{
	struct mlx4_cqe e = { .owner_sr_opcode = owner(cq, pi) | MLX4_CQE_OPCODE_RESIZE };

	memcpy(out, &e, sizeof(e));
	*offset = 0;
	return sizeof(e);
}

/* The kernel does this on behalf of the card: libmlx4 leaves all entries zero. */
static uint8_t cqe_empty(const struct hca_cq *cq, uint32_t pi)
{
	return owner(cq, pi) ? FILL_DISOWNED : FILL_OWNED;
}

/*
 * Four bytes with a queue pair's number, or an arm word with a CQ's and the index; on the
 * second page, copies of entries, each of which begins with its number. The entry is in the
 * queue too.
 */
static bool uar_store(uint32_t offset, uint64_t value, uint32_t bytes, struct hca_bell *out)
{
	uint32_t hi = be32toh((uint32_t)value), lo = be32toh((uint32_t)(value >> 32));

	if (offset == MLX4_SEND_DOORBELL && bytes >= 4) {
		out->kind = HCA_BELL_SQ;
		out->num = hi >> 8;
		return true;
	}
	if (offset >= BF_PAGE && offset % BF_BUFFER == 0 && bytes >= 8) {
		out->kind = HCA_BELL_SQ;
		out->num = lo >> 8;
		return true;
	}
	if (offset != MLX4_CQ_DOORBELL || bytes < 8)
		return false;
	out->kind = HCA_BELL_ARM;
	out->num = hi & 0xffffff;
	out->value = (lo & 0xffffff) | (hi >> 24 & 3 & ARM_COMMAND_SOLICITED) << 24;
	return true;
}

const struct hca_fe hca_fe_mlx4 = {
	.sq_entry_bytes = hca_sq_entry_bytes,
	.sq_parse = sq_parse,
	.rq_parse = hca_rq_parse,
	.cqe_encode = cqe_encode,
	.cqe_resize = cqe_resize,
	.uar_store = uar_store,
	.sq_producer = sq_producer,
	.cqe_empty = cqe_empty,
	.cqe_bytes = { sizeof(struct mlx4_cqe), sizeof(struct mlx4_cqe) },
	.db_rq = 0, .db_ci = 0,
};
