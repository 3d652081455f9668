// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Memory regions: keys, access rights, and the way from a virtual address to memory. */
#include <errno.h>

#include "hca.h"

#define KEY_INDEX(key) ((key) >> 8)

static uint32_t key_of(const struct hca_mr *m)
{
	return HCA_INDEX(mr, m) << 8 | m->variant;
}

static struct hca_mr *find(uint32_t handle, struct hca_owner o)
{
	struct hca_mr *m = &hca->mr[handle % HCA_MAX_MRS];

	return handle < HCA_MAX_MRS && m->used && hca_owns(o, m->owner) ? m : NULL;
}

static bool pd_ok(uint32_t pd, struct hca_owner o)
{
	return pd < HCA_MAX_PDS && hca->pd[pd].used && hca_owns(o, hca->pd[pd].owner);
}

static bool access_ok(uint32_t access)
{
	const uint32_t remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	return !(access & remote) || access & IBV_ACCESS_LOCAL_WRITE;
}

int hca_mr_reg(struct hca_owner o, struct hca_ctl *c)
{
	static uint32_t next = 1;	/* spreads reuse, so that stale keys stay stale longer */
	const struct hca_ctl_mr *in = &c->u.mr;

	if (!access_ok(in->access) || !pd_ok(in->pd, o))
		return -EINVAL;
	for (uint32_t n = 1; n < HCA_MAX_MRS; n++, next++) {
		uint32_t i = 1 + next % (HCA_MAX_MRS - 1);
		struct hca_mr *m = &hca->mr[i];

		if (m->used)
			continue;
		uint8_t variant = (uint8_t)(m->variant + 1);

		*m = (struct hca_mr){
			.used = 1, .variant = variant, .owner = o, .pd = in->pd,
			.access = in->access, .start = in->start, .va = in->va,
			.length = in->length,
		};
		hca->pd[m->pd].refs++;
		next++;
		c->handle = i;
		c->u.mr.key = key_of(m);
		return 0;
	}
	return -ENOMEM;
}

int hca_mr_rereg(struct hca_owner o, struct hca_ctl *c)
{
	const struct hca_ctl_mr *in = &c->u.mr;
	struct hca_mr *m = find(c->handle, o);

	if (!m || !in->flags || in->flags & ~7u)
		return -EINVAL;
	if (in->flags & IBV_REREG_MR_CHANGE_ACCESS && !access_ok(in->access))
		return -EINVAL;
	if (in->flags & IBV_REREG_MR_CHANGE_PD && !pd_ok(in->pd, o))
		return -EINVAL;
	if (in->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		m->start = in->start;
		m->va = in->va;
		m->length = in->length;
	}
	if (in->flags & IBV_REREG_MR_CHANGE_PD) {
		hca->pd[m->pd].refs--;
		m->pd = in->pd;
		hca->pd[m->pd].refs++;
	}
	if (in->flags & IBV_REREG_MR_CHANGE_ACCESS)
		m->access = in->access;
	c->u.mr.key = key_of(m);
	return 0;
}

int hca_mr_dereg(struct hca_owner o, struct hca_ctl *c)
{
	struct hca_mr *m = find(c->handle, o);

	if (!m)
		return -EINVAL;
	m->used = 0;
	hca->pd[m->pd].refs--;
	return 0;
}

/* 0 and the address in the owner's memory, or -EACCES. */
int hca_mr_translate(uint32_t key, struct hca_owner o, uint32_t pd, uint64_t va, uint64_t bytes,
		     uint32_t need, uint64_t *addr)
{
	const struct hca_mr *m = find(KEY_INDEX(key), o);

	if (!m || !KEY_INDEX(key) || m->variant != (key & 0xff) || m->pd != pd)
		return -EACCES;
	if (va < m->va || bytes > m->length || va - m->va > m->length - bytes)
		return -EACCES;
	if ((m->access & need) != need)
		return -EACCES;
	*addr = m->start + (va - m->va);
	return 0;
}
