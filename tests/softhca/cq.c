// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Completion queues: writing entries, arming, overrun, and waking those who poll. */
#include <errno.h>
#include <endian.h>
#include <string.h>

#include "wqe.h"

#define INDEX24 0xffffffu
#define FILL_BYTES 4096u

static struct hca_cq *find(uint32_t handle, struct hca_owner o)
{
	struct hca_cq *cq = &hca->cq[handle % HCA_MAX_CQS];

	return handle < HCA_MAX_CQS && cq->used && hca_owns(o, cq->owner) ? cq : NULL;
}

static pid_t pid_of(const struct hca_cq *cq)
{
	return hca->proc[cq->owner.proc].pid;
}

static uint32_t ceil_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* Every entry from the producer on is the card's, where the library does not see to that. */
static int disown(struct hca_cq *cq)
{
	uint64_t bytes = (uint64_t)cq->entries * cq->cqe_bytes;
	uint64_t lap = (uint64_t)(cq->pi & (cq->entries - 1)) * cq->cqe_bytes;
	uint8_t entries[FILL_BYTES];
	int rc = 0;

	if (!HCA_FE->cqe_empty)
		return 0;
	for (uint64_t at = 0, n; at < bytes && !rc; at += n) {
		uint64_t end = at < lap ? lap : bytes;

		n = end - at < FILL_BYTES ? end - at : FILL_BYTES;
		/* what lies before the producer's place belongs to its next lap */
		memset(entries, HCA_FE->cqe_empty(cq, cq->pi + (at < lap ? cq->entries : 0)), n);
		rc = hca_dma_write(pid_of(cq), cq->buf + at, entries, n);
	}
	return rc;
}

int hca_cq_create(struct hca_owner o, struct hca_ctl *c)
{
	const struct hca_ctl_cq *in = &c->u.cq;

	if (!in->cqe || in->cqe > HCA_MAX_CQE || (in->cqe_bytes != HCA_FE->cqe_bytes[0] &&
						  in->cqe_bytes != HCA_FE->cqe_bytes[1]))
		return -EINVAL;
	for (uint32_t i = 1; i < HCA_MAX_CQS; i++) {
		struct hca_cq *cq = &hca->cq[i];
		int rc;

		if (cq->used)
			continue;
		*cq = (struct hca_cq){
			.used = 1, .owner = o, .user = in->user, .buf = in->buf, .db = in->db,
			.cqe_bytes = in->cqe_bytes, .entries = ceil_pow2(in->cqe + 1),
			.chan = in->chan,
		};
		rc = disown(cq);
		if (rc) {
			cq->used = 0;
			return rc;
		}
		hca->proc[o.proc].cqs++;
		c->handle = i;
		return 0;
	}
	return -ENOMEM;
}

/* The consumer publishes 24 bits of its index: take it as at most one lap behind. */
static int refresh_ci(struct hca_cq *cq)
{
	uint32_t v;
	int rc = hca_dma_read(pid_of(cq), cq->db + HCA_FE->db_ci, &v, sizeof(v));

	if (!rc)
		cq->ci = cq->pi - ((cq->pi - be32toh(v)) & INDEX24);
	return rc;
}

static int write_entry(struct hca_cq *cq, const uint8_t *entry, uint32_t bytes, uint32_t offset)
{
	uint64_t at = cq->buf + (uint64_t)(cq->pi & (cq->entries - 1)) * cq->cqe_bytes;

	return hca_dma_publish(pid_of(cq), at + offset, entry, bytes);
}

int hca_cq_resize(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_cq *cq = find(c->handle, o);
	const struct hca_ctl_cq *in = &c->u.cq;
	uint32_t bytes, offset;
	uint8_t entry[64];
	int rc;

	if (!cq || !in->cqe || in->cqe > HCA_MAX_CQE)
		return -EINVAL;
	rc = refresh_ci(cq);
	if (rc)
		return rc;
	if (cq->pi - cq->ci > in->cqe)
		return -EINVAL;
	bytes = HCA_FE->cqe_resize(cq, cq->pi, entry, &offset);
	rc = write_entry(cq, entry, bytes, offset);
	if (rc)
		return rc;
	cq->pi++;
	cq->entries = ceil_pow2(in->cqe + 1);
	cq->buf = in->buf;
	cq->cqe_bytes = in->cqe_bytes;
	return disown(cq);
}

int hca_cq_destroy(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_cq *cq = find(c->handle, o);

	if (!cq)
		return -EINVAL;
	if (cq->refs)
		return -EBUSY;
	cq->used = 0;
	hca->proc[cq->owner.proc].cqs--;
	return 0;
}

void hca_cq_tell(const struct hca_cq *cq)
{
	struct ib_uverbs_comp_event_desc e = { .cq_handle = cq->user };

	hca_chan_post(cq->chan, &e, sizeof(e));
}

static void fire(struct hca_cq *cq)
{
	cq->arm = HCA_ARM_NONE;
	cq->told_pi = cq->pi;
	if (!hca_disturb_event(cq))
		hca_cq_tell(cq);
}

/*
 * Are there entries that the consumer had not seen when it armed, and has not been told of?
 * An entry already told of does not count twice: who arms before polling has it still ahead.
 */
static bool has_news(const struct hca_cq *cq, uint32_t ci_24)
{
	uint32_t pi = cq->arm == HCA_ARM_SOLICITED ? cq->solicited_pi : cq->pi;
	uint32_t ahead = (pi - ci_24) & INDEX24;

	return ahead && ahead <= INDEX24 / 2 && (int32_t)(pi - cq->told_pi) > 0;
}

void hca_cq_armed(struct hca_cq *cq, uint32_t value)
{
	cq->arm = value >> 24 ? HCA_ARM_SOLICITED : HCA_ARM_ANY;
	if (has_news(cq, value & INDEX24))
		fire(cq);
}

static bool has_room(struct hca_cq *cq)
{
	if (cq->pi - cq->ci < cq->entries)
		return true;
	if (refresh_ci(cq))
		return false;
	return cq->pi - cq->ci < cq->entries;
}

int hca_cq_put(struct hca_cq *cq, const struct hca_cqe *c)
{
	bool loud = c->solicited || c->kind == HCA_CQE_REQ_ERR || c->kind == HCA_CQE_RESP_ERR;
	uint32_t bytes, offset;
	uint8_t entry[64];
	int rc;

	if (cq->overrun || hca_disturb_completion(cq, c->qpn) || !has_room(cq)) {
		if (!cq->overrun)
			hca_async_event(cq->owner, cq->user, IBV_EVENT_CQ_ERR);
		cq->overrun = 1;
		return -EOVERFLOW;
	}
	bytes = HCA_FE->cqe_encode(cq, cq->pi, c, entry, &offset);
	rc = write_entry(cq, entry, bytes, offset);
	if (rc)
		return rc;
	cq->pi++;
	if (loud)
		cq->solicited_pi = cq->pi;
	hca->dirty_map[cq->owner.proc / 64] |= 1ull << cq->owner.proc % 64;
	if (cq->arm == HCA_ARM_ANY || (cq->arm == HCA_ARM_SOLICITED && loud))
		fire(cq);
	return 0;
}

/* Sleepers count themselves before they look at wake_seq for the last time. */
static void wake(struct hca_proc *p)
{
	__atomic_fetch_add(&p->wake_seq, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST))
		hca_futex_wake(&p->wake_seq);
	vc_wake(p->pid, VC_POLL);
}

void hca_wake_pollers(void)
{
	for (uint32_t w = 0; w < HCA_PROC_WORDS; w++) {
		uint64_t map = hca->dirty_map[w];

		hca->dirty_map[w] = 0;
		for (; map; map &= map - 1)
			wake(&hca->proc[w * 64 + (uint32_t)__builtin_ctzll(map)]);
	}
}
