// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The mlx5 front end: send and receive entries, completion entries, doorbell pages, in the
 * layouts that libmlx5 shares with ConnectX-4 and later (names as in mlx5dv.h and the PRM).
 */
#include <endian.h>
#include <string.h>
#include <infiniband/mlx5dv.h>

#include "wqe.h"

#define DS_BYTES 16u
#define DS_MASK 0x3fu
#define UAR_CQ_ARM 0x20u
#define UAR_SQ_FIRST 0x800u
#define UAR_SQ_STEP 0x100u
#define ARM_SOLICITED 1u	/* bit 24 of the arm word, with the sequence number cut off */
#define CQE_OPCODE_RESIZE 5
#define VENDOR_SYNDROME 0x88
#define VENDOR_SYNDROME_FLUSH 0xf9
#define CE_SIGNALLED(fm_ce_se) (((fm_ce_se) & 0xc) == MLX5_WQE_CTRL_CQ_UPDATE)

static uint32_t get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return be32toh(v);
}

static uint64_t get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return be64toh(v);
}

static uint32_t sq_entry_bytes(const uint8_t *head)
{
	return (get32(head + 4) & DS_MASK) * DS_BYTES;
}

static uint8_t op_of(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_NOP: return HCA_OP_NOP;
	case MLX5_OPCODE_SEND: return HCA_OP_SEND;
	case MLX5_OPCODE_SEND_IMM: return HCA_OP_SEND_IMM;
	case MLX5_OPCODE_SEND_INVAL: return HCA_OP_SEND_INV;
	case MLX5_OPCODE_RDMA_WRITE: return HCA_OP_WRITE;
	case MLX5_OPCODE_RDMA_WRITE_IMM: return HCA_OP_WRITE_IMM;
	case MLX5_OPCODE_RDMA_READ: return HCA_OP_READ;
	case MLX5_OPCODE_ATOMIC_CS: return HCA_OP_CMP_SWAP;
	case MLX5_OPCODE_ATOMIC_FA: return HCA_OP_FETCH_ADD;
	default: return HCA_OP_BAD;
	}
}

static void parse_av(const struct mlx5_wqe_av *a, struct hca_av *out)
{
	out->qkey = be32toh(a->key.qkey.qkey);
	out->qpn = be32toh(a->dqp_dct) & 0xffffff;
	out->dlid = be16toh(a->rlid);
	out->is_grh = be32toh(a->grh_gid_fl) >> 30 & 1;
	memcpy(out->gid, a->rgid, sizeof(out->gid));
}

/* Data and inline segments up to @end. */
static void parse_data(const uint8_t *p, const uint8_t *end, struct hca_wqe *w)
{
	while (p + DS_BYTES <= end && w->nsge < HCA_SGL_MAX - 2) {
		uint32_t bytes = get32(p);
		struct hca_sge *s = &w->sge[w->nsge];

		if (bytes & MLX5_INLINE_SEG) {
			bytes &= ~MLX5_INLINE_SEG;
			if (p + 4 + bytes > end) {
				w->bad = true;
				return;
			}
			*s = (struct hca_sge){ .bytes = bytes, .inl = p + 4 };
			w->is_inline = true;
			p += (bytes + 4 + DS_BYTES - 1) & ~(DS_BYTES - 1);
		} else {
			*s = (struct hca_sge){ .va = get64(p + 8), .bytes = bytes,
					       .lkey = get32(p + 4) };
			p += DS_BYTES;
		}
		w->nsge += bytes != 0;
		w->bytes += bytes;
	}
}

static void sq_parse(const struct hca_qp *q, const uint8_t *e, uint32_t bytes,
		     struct hca_wqe *out)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = (const void *)e;
	const uint8_t *p = e + sizeof(*ctrl), *end = e + bytes;

	memset(out, 0, offsetof(struct hca_wqe, sge));
	out->opcode = e[3];
	out->op = op_of(out->opcode);
	out->blocks = (uint8_t)((bytes + MLX5_SEND_WQE_BB - 1) / MLX5_SEND_WQE_BB);
	out->signalled = CE_SIGNALLED(ctrl->fm_ce_se);
	out->solicited = ctrl->fm_ce_se & MLX5_WQE_CTRL_SOLICITED;
	out->imm = ctrl->imm;
	if (out->op == HCA_OP_BAD || out->op == HCA_OP_NOP)
		return;
	if (out->op >= HCA_OP_WRITE) {
		out->raddr = get64(p);
		out->rkey = get32(p + 8);
		p += sizeof(struct mlx5_wqe_raddr_seg);
	} else if (q->type == IBV_QPT_UD) {
		parse_av((const void *)p, &out->av);
		p += sizeof(struct mlx5_wqe_av);
	}
	if (out->op >= HCA_OP_CMP_SWAP) {
		out->swap_add = get64(p);
		out->compare = get64(p + 8);
		p += sizeof(struct mlx5_wqe_atomic_seg);
	}
	if (p > end)
		out->bad = true;
	else
		parse_data(p, end, out);
}

static void rq_parse(const uint8_t *e, uint32_t bytes, uint32_t skip, struct hca_rwqe *out)
{
	const struct mlx5_wqe_srq_next_seg *next = (const void *)e;

	out->next = be16toh(next->next_wqe_index);
	out->nsge = 0;
	for (uint32_t at = skip; at + DS_BYTES <= bytes && out->nsge < HCA_SGL_MAX - 2;
	     at += DS_BYTES) {
		uint32_t len = get32(e + at), lkey = get32(e + at + 4);

		if (lkey == MLX5_INVALID_LKEY)
			break;
		if (len)
			out->sge[out->nsge++] = (struct hca_sge){
				.va = get64(e + at + 8), .bytes = len, .lkey = lkey };
	}
}

static uint8_t syndrome_of(uint8_t status)
{
	switch (status) {
	case IBV_WC_LOC_LEN_ERR: return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	case IBV_WC_LOC_QP_OP_ERR: return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	case IBV_WC_LOC_PROT_ERR: return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	case IBV_WC_WR_FLUSH_ERR: return MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
	case IBV_WC_LOC_ACCESS_ERR: return MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR;
	case IBV_WC_REM_INV_REQ_ERR: return MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR;
	case IBV_WC_REM_ACCESS_ERR: return MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
	case IBV_WC_REM_OP_ERR: return MLX5_CQE_SYNDROME_REMOTE_OP_ERR;
	case IBV_WC_REM_ABORT_ERR: return MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR;
	case IBV_WC_RETRY_EXC_ERR: return MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
	case IBV_WC_RNR_RETRY_EXC_ERR: return MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR;
	default: return MLX5_CQE_SYNDROME_BAD_RESP_ERR;
	}
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
	e->syndrome = syndrome_of(c->status);
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

const struct hca_fe hca_fe_mlx5 = {
	.sq_entry_bytes = sq_entry_bytes,
	.sq_parse = sq_parse,
	.rq_parse = rq_parse,
	.cqe_encode = cqe_encode,
	.cqe_resize = cqe_resize,
	.uar_store = uar_store,
	.db_rq = 0, .db_sq = 4, .db_ci = 0,
};
