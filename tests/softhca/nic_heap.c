// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Timers of the contention model: a binary heap of numbers, each of which knows its slot. */
#include "nic_state.h"

void nic_heap_init(struct nic_heap *h)
{
	h->order = 0;
	h->count = 0;
	for (uint32_t i = 0; i < NIC_TIMERS; i++)
		h->timer[i].slot = NIC_NONE;
}

int nic_timer_runs(const struct nic_heap *h, uint32_t timer)
{
	return h->timer[timer].slot != NIC_NONE;
}

static int is_before(const struct nic_heap *h, uint32_t a, uint32_t b)
{
	const struct nic_timer *x = &h->timer[a], *y = &h->timer[b];

	return x->at_ps != y->at_ps ? x->at_ps < y->at_ps : x->order < y->order;
}

static void put(struct nic_heap *h, uint32_t slot, uint32_t timer)
{
	h->slot[slot] = timer;
	h->timer[timer].slot = slot;
}

static void sift_up(struct nic_heap *h, uint32_t slot, uint32_t timer)
{
	while (slot) {
		uint32_t parent = (slot - 1) / 2;

		if (!is_before(h, timer, h->slot[parent]))
			break;
		put(h, slot, h->slot[parent]);
		slot = parent;
	}
	put(h, slot, timer);
}

static void sift_down(struct nic_heap *h, uint32_t slot, uint32_t timer)
{
	for (;;) {
		uint32_t child = 2 * slot + 1;

		if (child >= h->count)
			break;
		if (child + 1 < h->count && is_before(h, h->slot[child + 1], h->slot[child]))
			child++;
		if (!is_before(h, h->slot[child], timer))
			break;
		put(h, slot, h->slot[child]);
		slot = child;
	}
	put(h, slot, timer);
}

void nic_timer_stop(struct nic_heap *h, uint32_t timer)
{
	uint32_t slot = h->timer[timer].slot, moved;

	if (slot == NIC_NONE)
		return;
	h->timer[timer].slot = NIC_NONE;
	h->count--;
	if (slot == h->count)
		return;
	moved = h->slot[h->count];
	if (slot && is_before(h, moved, h->slot[(slot - 1) / 2]))
		sift_up(h, slot, moved);
	else
		sift_down(h, slot, moved);
}

/* A timer that runs already is moved. */
void nic_timer_start(struct nic_heap *h, uint32_t timer, uint64_t at_ps)
{
	nic_timer_stop(h, timer);
	h->timer[timer].at_ps = at_ps;
	h->timer[timer].order = h->order++;
	sift_up(h, h->count++, timer);
}
