// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Reading send queues. The card process reads ahead: up to a window of entries for one
 * system call. What lies between the consumer and the producer does not change, so a window
 * is as good as the memory itself as long as queue and generation are the same.
 */
#include <errno.h>
#include <string.h>

#include "wqe.h"

#define WINDOW_BYTES 4096u
#define SLOTS 256u
#define WINDOWS 2	/* one follows fetching, the other delivery */

struct window {
	uint32_t qpn, gen;
	uint16_t first, blocks;
	uint8_t data[WINDOW_BYTES];
};

static struct window cache[WINDOWS][SLOTS];

static pid_t pid_of(const struct hca_qp *q)
{
	return hca->proc[q->owner.proc].pid;
}

static int load(const struct hca_qp *q, uint16_t idx, uint32_t blocks, uint8_t *to)
{
	uint32_t at = idx & (q->geo.sq_entries - 1), till_end = q->geo.sq_entries - at;
	uint32_t first = blocks < till_end ? blocks : till_end;
	int rc = hca_dma_read(pid_of(q), q->geo.sq + ((uint64_t)at << q->geo.sq_shift), to,
			      (size_t)first << q->geo.sq_shift);

	if (rc || first == blocks)
		return rc;
	return hca_dma_read(pid_of(q), q->geo.sq, to + ((size_t)first << q->geo.sq_shift),
			    (size_t)(blocks - first) << q->geo.sq_shift);
}

static bool holds(const struct window *w, const struct hca_qp *q, uint16_t idx, uint32_t blocks)
{
	return w->qpn == HCA_INDEX(qp, q) && w->gen == q->gen &&
	       (uint16_t)(idx - w->first) + blocks <= w->blocks;
}

static int fill(struct window *w, const struct hca_qp *q, uint16_t idx)
{
	uint32_t ready = (uint16_t)(q->sq_pi - idx);
	uint32_t most = WINDOW_BYTES >> q->geo.sq_shift;
	uint32_t blocks = ready < most ? ready : most;
	int rc;

	if (blocks > q->geo.sq_entries)
		blocks = q->geo.sq_entries;
	rc = load(q, idx, blocks, w->data);
	w->qpn = rc ? 0 : HCA_INDEX(qp, q);
	w->gen = q->gen;
	w->first = idx;
	w->blocks = (uint16_t)blocks;
	return rc;
}

static uint32_t blocks_of(const struct hca_qp *q, uint32_t bytes)
{
	return (bytes + (1u << q->geo.sq_shift) - 1) >> q->geo.sq_shift;
}

/* The window of a queue, with the whole entry at @idx in it. */
static int find_entry(struct hca_qp *q, uint16_t idx, int window, const uint8_t **entry,
		      uint32_t *bytes)
{
	struct window *w = &cache[window][HCA_INDEX(qp, q) % SLOTS];
	int rc = 0;

	/*
	 * Unless the card process alone is the driver, others move the queue on: nothing may be
	 * kept.
	 */
	if (hca->is_inline || !holds(w, q, idx, 1))
		rc = fill(w, q, idx);
	if (rc)
		return rc;
	*entry = w->data + ((size_t)(uint16_t)(idx - w->first) << q->geo.sq_shift);
	*bytes = HCA_FE->sq_entry_bytes(*entry);
	if (*bytes && !holds(w, q, idx, blocks_of(q, *bytes))) {
		rc = fill(w, q, idx);
		*entry = w->data;
	}
	if (!rc && (!*bytes || !holds(w, q, idx, blocks_of(q, *bytes))))
		*bytes = 0;
	return rc;
}

/* A nonsensical entry comes back as one bad block, to be completed with an error. */
int hca_sq_read(struct hca_qp *q, uint16_t idx, int window, struct hca_wqe *out)
{
	const uint8_t *entry;
	uint32_t bytes;
	int rc = find_entry(q, idx, window, &entry, &bytes);

	if (rc)
		return rc;
	if (bytes) {
		HCA_FE->sq_parse(q, entry, bytes, out);
	} else {
		memset(out, 0, offsetof(struct hca_wqe, sge));
		out->op = HCA_OP_BAD;
		out->blocks = 1;
	}
	out->idx = idx;
	return 0;
}
