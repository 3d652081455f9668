// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Moving long messages ahead of time. A message of megabytes, copied when its last byte is
 * due, would hold up everybody else's events for as long as the copy takes; so while
 * nothing is due, pieces of those already on the wire are moved. The last piece is left
 * for delivery: who watches the last byte sees it when it is due and not before.
 */
#include "wqe.h"

#define EXEC_WINDOW 1
#define PIECE_BYTES (64u << 10)
#define WORDS (HCA_MAX_QPS / 64)

static uint64_t candidates[WORDS];

void hca_early_note(struct hca_qp *q, const struct hca_wqe *w)
{
	uint32_t i = HCA_INDEX(qp, q);

	if (w->bytes > 2 * PIECE_BYTES)
		candidates[i / 64] |= 1ull << i % 64;
}

/* The oldest request not yet delivered, if it is long and can go ahead. */
static bool next_long(struct hca_qp *q, struct hca_wqe *w)
{
	if (!q->used || q->state != IBV_QPS_RTS || q->nak || q->stalled ||
	    q->sq_dv == q->sq_fetch)
		return false;
	if (hca_sq_read(q, q->sq_dv, EXEC_WINDOW, w))
		return false;
	return w->bytes <= HCA_MAX_MSG_BYTES && w->bytes - q->early_bytes > 2 * PIECE_BYTES;
}

/*
 * Where the far end of it lies. The receive at the head of a queue pair's own queue is the
 * one that its next message takes; that of a shared queue may go to somebody else.
 */
static int far_end(struct hca_qp *q, struct hca_qp *r, const struct hca_wqe *w,
		   struct hca_sgl *out)
{
	struct hca_rwqe rw;

	if (w->op == HCA_OP_WRITE || w->op == HCA_OP_READ)
		return hca_resp_target(q, r, w, out);
	if (w->op < HCA_OP_SEND || w->op > HCA_OP_SEND_INV || r->has_srq ||
	    hca_rq_peek(r, &rw))
		return -1;
	return hca_resp_scatter(r, &rw, w->bytes, out);
}

/* What went to a queue pair that has been reset or replaced since does not count. */
void hca_early_check(struct hca_qp *q, const struct hca_qp *r)
{
	if (q->early_gen != r->gen)
		q->early_bytes = 0;
	q->early_gen = r->gen;
}

static bool copy_piece(struct hca_qp *q, const struct hca_wqe *w)
{
	struct hca_sgl local, remote;
	struct hca_qp *r;
	int rc;

	r = hca_resp_find(q, w);
	if (!r || hca_req_gather(q, w, &local) || far_end(q, r, w, &remote))
		return false;	/* delivery finds out what is wrong */
	hca_early_check(q, r);
	rc = w->op == HCA_OP_READ ? hca_dma_copy(&local, &remote, q->early_bytes, PIECE_BYTES) :
				    hca_dma_copy(&remote, &local, q->early_bytes, PIECE_BYTES);
	if (rc)
		return false;
	q->early_bytes += PIECE_BYTES;
	return true;
}

/* One piece of one message; false = there is none. */
bool hca_early_copy(void)
{
	static uint32_t cursor;
	struct hca_wqe w;

	for (uint32_t n = 0; n < WORDS; n++, cursor++) {
		uint32_t word = cursor % WORDS;
		uint64_t map = candidates[word];

		for (; map; map &= map - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(map);
			struct hca_qp *q = &hca->qp[word * 64 + bit];

			if (next_long(q, &w) && copy_piece(q, &w))
				return true;
			if (q->sq_dv == q->sq_fetch || !q->used)
				candidates[word] &= ~(1ull << bit);
		}
	}
	return false;
}
