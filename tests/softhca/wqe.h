/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Between the transport and a front end: work requests and completions without any
 * vendor's layout. A front end parses its own entries into these and encodes from these.
 */
#ifndef HCA_WQE_H
#define HCA_WQE_H

#include "hca.h"
#include "dma.h"

enum hca_op {
	HCA_OP_NOP, HCA_OP_SEND, HCA_OP_SEND_IMM, HCA_OP_SEND_INV,
	HCA_OP_WRITE, HCA_OP_WRITE_IMM, HCA_OP_READ, HCA_OP_CMP_SWAP, HCA_OP_FETCH_ADD,
	HCA_OP_BAD,
};

struct hca_sge { uint64_t va; uint32_t bytes, lkey; const void *inl; };

/* Where a datagram goes. */
struct hca_av { uint32_t qpn, qkey; uint16_t dlid; uint8_t is_grh, gid[16]; };

struct hca_wqe {
	uint8_t op, opcode;		/* enum hca_op; the vendor's own code, for the CQE */
	uint8_t blocks;			/* basic blocks of the send queue it takes */
	bool signalled, solicited, is_inline, bad;
	uint16_t idx;
	uint32_t imm;			/* as it lies in the entry, big endian */
	uint64_t raddr, swap_add, compare;
	uint32_t rkey;
	uint64_t bytes;
	struct hca_av av;
	uint32_t nsge;
	struct hca_sge sge[HCA_SGL_MAX];
};

/* A receive entry as fetched. */
struct hca_rwqe {
	uint16_t idx, next;		/* next: shared queue only */
	uint32_t nsge;
	struct hca_sge sge[HCA_SGL_MAX];
};

enum hca_cqe_kind { HCA_CQE_REQ, HCA_CQE_RESP, HCA_CQE_REQ_ERR, HCA_CQE_RESP_ERR };

/* Completion statuses: numbers of the verbs' enum ibv_wc_status. */
struct hca_cqe {
	uint8_t kind, op, opcode, status, solicited;
	uint16_t idx, slid;
	uint32_t qpn, uidx, src_qpn, bytes, imm;
	uint8_t has_grh;
};

struct hca_fe {
	/* Bytes of the send entry that starts with these 16; 0 = not a valid entry. */
	uint32_t (*sq_entry_bytes)(const uint8_t *head);
	void (*sq_parse)(const struct hca_qp *q, const uint8_t *e, uint32_t bytes,
			 struct hca_wqe *out);
	void (*rq_parse)(const uint8_t *e, uint32_t bytes, uint32_t skip, struct hca_rwqe *out);
	/* Encoded entry for position pi; the last byte hands it over. Returns its size. */
	uint32_t (*cqe_encode)(const struct hca_cq *cq, uint32_t pi, const struct hca_cqe *c,
			       uint8_t *out, uint32_t *offset);
	/* An empty entry that tells the library where a resized queue goes on. */
	uint32_t (*cqe_resize)(const struct hca_cq *cq, uint32_t pi, uint8_t *out,
			       uint32_t *offset);
	/*
	 * Application side: a store to the doorbell pages, as if they lay one behind the other.
	 * false = nothing to tell the card.
	 */
	bool (*uar_store)(uint32_t offset, uint64_t value, uint32_t bytes, struct hca_bell *out);
	/* Application side, after such a store for a send queue: where its work ends now. */
	uint16_t (*sq_producer)(const struct hca_qp *q);
	/* What every byte of an entry is while the card still owes position pi; NULL = any. */
	uint8_t (*cqe_empty)(const struct hca_cq *cq, uint32_t pi);
	uint32_t cqe_bytes[2];		/* sizes of a completion entry */
	uint32_t db_rq, db_ci;		/* offsets inside the doorbell records */
};

extern const struct hca_fe hca_fe_mlx5, hca_fe_mlx4;
extern const struct hca_fe *const hca_fe[HCA_DEVICES];
#define HCA_FE (hca_fe[hca->device])	/* all cards of a world are of one kind */

#define HCA_MLX4_BF_BYTES 512u		/* two buffers that take turns */

/* fe.c: what front ends have in common */
uint32_t hca_get32(const void *p);
uint64_t hca_get64(const void *p);
uint32_t hca_sq_entry_bytes(const uint8_t *head);
uint8_t hca_op_of(uint8_t opcode);
void hca_parse_data(const uint8_t *p, const uint8_t *end, struct hca_wqe *w);
void hca_rq_parse(const uint8_t *e, uint32_t bytes, uint32_t skip, struct hca_rwqe *out);
uint8_t hca_syndrome_of(uint8_t status);

/* sq.c: entries of a queue, from wherever they lie */
int hca_sq_read(struct hca_qp *q, uint16_t idx, int window, struct hca_wqe *out);
int hca_rq_peek(struct hca_qp *q, struct hca_rwqe *out);	/* 0, -EAGAIN if none, -errno */
void hca_rq_take(struct hca_qp *q, const struct hca_rwqe *w);

/* requester.c: what the nic calls, and settling of refused requests */
extern const struct nic_ops hca_nic_ops;
void hca_req_settle(struct hca_qp *q);
void hca_req_run_now(struct hca_qp *q);
void hca_req_flush(struct hca_qp *q);

/* early.c */
void hca_early_note(struct hca_qp *q, const struct hca_wqe *w);
void hca_early_check(struct hca_qp *q, const struct hca_qp *r);
bool hca_early_copy(void);

/* responder.c */
struct hca_verdict { uint8_t nak, syndrome; uint64_t wait_ns; };
int hca_resp_execute(struct hca_qp *q, const struct hca_wqe *w, struct hca_verdict *v);
struct hca_qp *hca_resp_find(struct hca_qp *q, const struct hca_wqe *w);
int hca_resp_target(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		    struct hca_sgl *out);
int hca_resp_scatter(struct hca_qp *r, const struct hca_rwqe *rw, uint64_t bytes,
		     struct hca_sgl *out);
int hca_req_gather(struct hca_qp *q, const struct hca_wqe *w, struct hca_sgl *out);

#endif
