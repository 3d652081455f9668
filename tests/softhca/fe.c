// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * What the front ends have in common: ConnectX-3 and its successors agree on segments,
 * operation codes and syndromes (names as in mlx5dv.h and the PRM).
 */
#include <endian.h>
#include <string.h>
#include <infiniband/mlx5dv.h>

#include "wqe.h"

#define DS_BYTES 16u
#define DS_MASK 0x3fu

const struct hca_fe *const hca_fe[HCA_DEVICES] = {
	[HCA_MLX5] = &hca_fe_mlx5, [HCA_MLX4] = &hca_fe_mlx4,
};

uint32_t hca_get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return be32toh(v);
}

uint64_t hca_get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return be64toh(v);
}

uint32_t hca_sq_entry_bytes(const uint8_t *head)
{
	return (hca_get32(head + 4) & DS_MASK) * DS_BYTES;
}

uint8_t hca_op_of(uint8_t opcode)
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

/* Data and inline segments up to @end. */
void hca_parse_data(const uint8_t *p, const uint8_t *end, struct hca_wqe *w)
{
	while (p + DS_BYTES <= end && w->nsge < HCA_SGL_MAX - 2) {
		uint32_t bytes = hca_get32(p);
		struct hca_sge *s = &w->sge[w->nsge];

		if (bytes & MLX5_INLINE_SEG) {
			bytes &= ~MLX5_INLINE_SEG;
			if (p + 4 + bytes > end) {
				w->bad = true;
				return;
			}
			*s = (struct hca_sge){ .bytes = bytes, .inl = p + 4 };
			w->is_inline |= bytes != 0;
			p += (bytes + 4 + DS_BYTES - 1) & ~(DS_BYTES - 1);
		} else {
			*s = (struct hca_sge){ .va = hca_get64(p + 8), .bytes = bytes,
					       .lkey = hca_get32(p + 4) };
			p += DS_BYTES;
		}
		w->nsge += bytes != 0;
		w->bytes += bytes;
	}
}

void hca_rq_parse(const uint8_t *e, uint32_t bytes, uint32_t skip, struct hca_rwqe *out)
{
	const struct mlx5_wqe_srq_next_seg *next = (const void *)e;

	out->next = be16toh(next->next_wqe_index);
	out->nsge = 0;
	for (uint32_t at = skip; at + DS_BYTES <= bytes && out->nsge < HCA_SGL_MAX - 2;
	     at += DS_BYTES) {
		uint32_t len = hca_get32(e + at), lkey = hca_get32(e + at + 4);

		if (lkey == MLX5_INVALID_LKEY)
			break;
		if (len)
			out->sge[out->nsge++] = (struct hca_sge){
				.va = hca_get64(e + at + 8), .bytes = len, .lkey = lkey };
	}
}

uint8_t hca_syndrome_of(uint8_t status)
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
