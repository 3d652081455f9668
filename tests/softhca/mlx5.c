// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The mlx5 front end: send and receive entries, completion entries, doorbell pages, in the
 * layouts that libmlx5 shares with ConnectX-4 and later (names as in mlx5dv.h and the PRM).
 */
#include <endian.h>
#include <string.h>
#include <infiniband/mlx5dv.h>

#include "wqe.h"

#define DB_SQ 4		/* producer index, in the doorbell record */
#define UAR_BYTES 4096u
#define UAR_CQ_ARM 0x20u
#define UAR_SQ_FIRST 0x800u
#define UAR_SQ_STEP 0x100u
#define ARM_SOLICITED 1u	/* bit 24 of the arm word, with the sequence number cut off */
#define CQE_OPCODE_RESIZE 5
#define VENDOR_SYNDROME 0x88
#define VENDOR_SYNDROME_FLUSH 0xf9
#define CE_SIGNALLED(fm_ce_se) (((fm_ce_se) & 0xc) == MLX5_WQE_CTRL_CQ_UPDATE)

static void parse_av(const struct mlx5_wqe_av *a, struct hca_av *out)
{
	out->qkey = be32toh(a->key.qkey.qkey);
	out->qpn = be32toh(a->dqp_dct) & 0xffffff;
	out->dlid = be16toh(a->rlid);
	out->is_grh = be32toh(a->grh_gid_fl) >> 30 & 1;
	memcpy(out->gid, a->rgid, sizeof(out->gid));
}

static void sq_parse(const struct hca_qp *q, const uint8_t *e, uint32_t bytes,
		     struct hca_wqe *out)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = (const void *)e;
	const uint8_t *p = e + sizeof(*ctrl), *end = e + bytes;

	memset(out, 0, offsetof(struct hca_wqe, sge));
	out->opcode = e[3];
	out->op = hca_op_of(out->opcode);
	out->blocks = (uint8_t)((bytes + MLX5_SEND_WQE_BB - 1) / MLX5_SEND_WQE_BB);
	out->signalled = CE_SIGNALLED(ctrl->fm_ce_se);
	out->solicited = ctrl->fm_ce_se & MLX5_WQE_CTRL_SOLICITED;
	out->imm = ctrl->imm;
	if (out->op == HCA_OP_BAD || out->op == HCA_OP_NOP)
		return;
	if (out->op >= HCA_OP_WRITE) {
		out->raddr = hca_get64(p);
		out->rkey = hca_get32(p + 8);
		p += sizeof(struct mlx5_wqe_raddr_seg);
	} else if (q->type == IBV_QPT_UD) {
		parse_av((const void *)p, &out->av);
		p += sizeof(struct mlx5_wqe_av);
	}
	if (out->op >= HCA_OP_CMP_SWAP) {
		out->swap_add = hca_get64(p);
		out->compare = hca_get64(p + 8);
		p += sizeof(struct mlx5_wqe_atomic_seg);
	}
	if (p > end)
		out->bad = true;
	else
		hca_parse_data(p, end, out);
}

static uint8_t resp_opcode(uint8_t op)
{
	switch (op) {
	case HCA_OP_SEND: return MLX5_CQE_RESP_SEND;
	case HCA_OP_SEND_IMM: return MLX5_CQE_RESP_SEND_IMM;
	case HCA_OP_SEND_INV: return MLX5_CQE_RESP_SEND_INV;
	default: return MLX5_CQE_RESP_WR_IMM;
	}
}

static uint8_t op_own(const struct hca_cq *cq, uint32_t pi, uint8_t opcode, bool solicited)
{
	return (uint8_t)(opcode << 4 | solicited << 1 | !!(pi & cq->entries));
}

static void encode_error(const struct hca_cqe *c, struct mlx5_err_cqe *e)
{
	e->srqn = htobe32(c->uidx);
	e->syndrome = hca_syndrome_of(c->status);
	e->vendor_err_synd = c->status == IBV_WC_WR_FLUSH_ERR ? VENDOR_SYNDROME_FLUSH :
								VENDOR_SYNDROME;
	e->s_wqe_opcode_qpn = htobe32((uint32_t)c->opcode << 24 | c->qpn);
	e->wqe_counter = htobe16(c->idx);
}

static void encode_success(const struct hca_cqe *c, struct mlx5_cqe64 *e)
{
	e->srqn_uidx = htobe32(c->uidx);
	e->wqe_counter = htobe16(c->idx);
	e->byte_cnt = htobe32(c->bytes);
	e->timestamp = htobe64(hca_now_ns());
	e->sop_drop_qpn = htobe32((uint32_t)(c->kind == HCA_CQE_REQ ? c->opcode : 0) << 24 |
				  c->qpn);
	if (c->kind == HCA_CQE_REQ)
		return;
	e->imm_inval_pkey = c->imm;
	e->slid = htobe16(c->slid);
	e->flags_rqpn = htobe32(c->src_qpn | (c->has_grh ? 1u << 28 : 0));
}

/* A 128 byte entry has its CQE in the second half. */
static uint32_t cqe_offset(const struct hca_cq *cq)
{
	return cq->cqe_bytes - sizeof(struct mlx5_cqe64);
}

static uint32_t cqe_encode(const struct hca_cq *cq, uint32_t pi, const struct hca_cqe *c,
			   uint8_t *out, uint32_t *offset)
{
	static const uint8_t opcode[] = {
		[HCA_CQE_REQ] = MLX5_CQE_REQ, [HCA_CQE_REQ_ERR] = MLX5_CQE_REQ_ERR,
		[HCA_CQE_RESP_ERR] = MLX5_CQE_RESP_ERR,
	};
	struct mlx5_cqe64 e = { .op_own = 0 };
	uint8_t op = c->kind == HCA_CQE_RESP ? resp_opcode(c->op) : opcode[c->kind];

	if (c->kind == HCA_CQE_REQ_ERR || c->kind == HCA_CQE_RESP_ERR)
		encode_error(c, (struct mlx5_err_cqe *)&e);
	else
		encode_success(c, &e);
	e.op_own = op_own(cq, pi, op, c->solicited);
	memcpy(out, &e, sizeof(e));
	*offset = cqe_offset(cq);
	return sizeof(e);
}

static uint32_t cqe_resize(const struct hca_cq *cq, uint32_t pi, uint8_t *out, uint32_t *offset)
{
	struct mlx5_cqe64 e = { .op_own = op_own(cq, pi, CQE_OPCODE_RESIZE, false) };

	memcpy(out, &e, sizeof(e));
	*offset = cqe_offset(cq);
	return sizeof(e);
}

/* The store is the first eight bytes of a control segment, or an arm word and a CQ number. */
static bool uar_store(uint32_t offset, uint64_t value, uint32_t bytes, struct hca_bell *out)
{
	uint32_t hi = be32toh((uint32_t)value), lo = be32toh((uint32_t)(value >> 32));

	offset %= UAR_BYTES;	/* all pages are alike */
	if (bytes < 8)
		return false;
	if (offset == UAR_CQ_ARM) {
		out->kind = HCA_BELL_ARM;
		out->num = lo & 0xffffff;
		out->value = hi & (0xffffff | ARM_SOLICITED << 24);
		return true;
	}
	/* The rest of a BlueFlame copy lands between the steps. */
	if (offset < UAR_SQ_FIRST || offset % UAR_SQ_STEP)
		return false;
	out->kind = HCA_BELL_SQ;
	out->num = lo >> 8;
	return true;
}

/* The library writes it to the doorbell record just before the doorbell. */
static uint16_t sq_producer(const struct hca_qp *q)
{
	const uint32_t *db = (const uint32_t *)(uintptr_t)(q->geo.db + DB_SQ);

	return (uint16_t)be32toh(__atomic_load_n(db, __ATOMIC_ACQUIRE));
}

const struct hca_fe hca_fe_mlx5 = {
	.sq_entry_bytes = hca_sq_entry_bytes,
	.sq_parse = sq_parse,
	.rq_parse = hca_rq_parse,
	.cqe_encode = cqe_encode,
	.cqe_resize = cqe_resize,
	.uar_store = uar_store,
	.sq_producer = sq_producer,
	.cqe_bytes = { 64, 128 },
	.db_rq = 0, .db_ci = 0,
};
