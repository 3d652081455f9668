// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Which rule applies to what happens. */
#include "fault.h"
#include "wqe.h"

#define MILLION 1000000u

/* A splitmix64 step: neighbours in the input are strangers in the output. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static bool has_luck(const struct hca_faults *f, const struct hca_fault_rule *r)
{
	uint64_t rule = (uint64_t)(r - f->rule) + 1;

	return mix(mix(f->seed ^ rule << 48) ^ r->seen) % MILLION < r->per_million;
}

/* Only these wait for a receive of the other side. */
static bool takes_receive(uint32_t op)
{
	return (op >= HCA_OP_SEND && op <= HCA_OP_SEND_INV) || op == HCA_OP_WRITE_IMM;
}

static bool fits(const struct hca_fault_rule *r, const struct hca_fault_case *c)
{
	if (r->on != c->on || (r->host >= 0 && (uint32_t)r->host != c->host))
		return false;
	if ((r->op >= 0 && (uint32_t)r->op != c->op) || (r->qp && r->qp != c->qp))
		return false;
	return r->act != HCA_FAULT_RNR || takes_receive(c->op);
}

static bool would_act(const struct hca_faults *f, const struct hca_fault_rule *r)
{
	if (r->times && r->acted >= r->times)
		return false;
	if (r->every ? r->seen < r->nth || (r->seen - r->nth) % r->every :
		       r->nth && r->seen != r->nth)
		return false;
	return has_luck(f, r);
}

const struct hca_fault_rule *hca_fault_match(struct hca_faults *f, const struct hca_fault_case *c)
{
	struct hca_fault_rule *found = NULL;

	for (uint32_t i = 0; i < f->rules; i++) {
		struct hca_fault_rule *r = &f->rule[i];

		if (!fits(r, c))
			continue;
		r->seen++;
		if (!found && would_act(f, r))
			found = r;
	}
	if (found)
		found->acted++;
	return found;
}

const struct hca_fault_rule *hca_fault_due(struct hca_faults *f, uint64_t now_ns,
					   uint64_t *next_ns)
{
	struct hca_fault_rule *first = NULL;

	*next_ns = HCA_FAULT_NEVER;
	for (uint32_t i = 0; i < f->rules; i++) {
		struct hca_fault_rule *r = &f->rule[i];

		if (r->on == HCA_FAULT_AT && !r->seen && (!first || r->at_ns < first->at_ns))
			first = r;
	}
	if (!first)
		return NULL;
	if (f->begin_ns + first->at_ns > now_ns) {
		*next_ns = f->begin_ns + first->at_ns;
		return NULL;
	}
	first->seen = first->acted = 1;
	return first;
}
