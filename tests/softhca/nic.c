// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The contention model: queues, messages, time.  The path of a packet is in the other nic_*.c. */
#include <errno.h>
#include <string.h>

#include "nic_state.h"

/* ---- arithmetic ---- */

uint64_t nic_wire_ps(const struct nic *nic, uint64_t bytes)
{
	return bytes * 1000000 / nic->p.rate_bytes_per_us;
}

static uint64_t ns_up(uint64_t ps)
{
	return (ps + NIC_PS_PER_NS - 1) / NIC_PS_PER_NS;
}

/* xorshift64*; the upper half is the good one */
static uint32_t random_u32(struct nic *nic)
{
	uint64_t x = nic->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	nic->random = x;
	return (uint32_t)((x * 0x2545f4914f6cdd1dull) >> 32);
}

/*
 * Exponential variate by von Neumann's comparison method: no logarithm, so the same bits on
 * every machine.  A falling run of odd length accepts its first element as the fraction; each
 * rejected run adds one mean.
 */
uint64_t nic_exponential_ps(struct nic *nic, uint32_t mean_ns)
{
	uint64_t mean_ps = mean_ns * NIC_PS_PER_NS, whole = 0;

	if (!mean_ps)
		return 0;
	for (;;) {
		uint32_t first = random_u32(nic), last = first, next;
		unsigned int run = 1;

		while ((next = random_u32(nic)) < last) {
			last = next;
			run++;
		}
		if (run & 1)
			return whole + ((first * mean_ps) >> 32);
		whole += mean_ps;
	}
}

/* Ack arrived to CQE visible: cqe_ns, uniformly spread by cqe_jitter_ns to either side. */
static uint64_t cqe_delay_ps(struct nic *nic)
{
	uint64_t span_ps = 2 * nic->p.cqe_jitter_ns * NIC_PS_PER_NS;

	return (nic->p.cqe_ns - nic->p.cqe_jitter_ns) * NIC_PS_PER_NS +
	       ((random_u32(nic) * span_ps) >> 32);
}

/* ---- messages ---- */

void nic_message_unref(struct nic *nic, uint32_t message)
{
	struct nic_message *m = &nic->message[message];

	if (--m->refs)
		return;
	m->next = nic->free_message;
	nic->free_message = message;
}

/* Two references: one of the queue's list, one of the source that will cut it. */
uint32_t nic_message_new(struct nic *nic, uint32_t queue, const struct nic_wr *wr)
{
	struct nic_source *s = &nic->source[queue];
	uint32_t message = nic->free_message;
	struct nic_message *m = &nic->message[message];

	nic->free_message = m->next;
	*m = (struct nic_message){
		.cookie = wr->cookie, .bytes = wr->bytes, .queue = queue,
		.next = NIC_NONE, .next_response = NIC_NONE,
		.dst_port = wr->dst_port < nic->ports ? wr->dst_port : s->port,
		.generation = s->generation, .refs = 2, .kind = wr->kind, .is_inline = wr->is_inline,
		.wants_ack = wr->wants_ack || wr->kind != NIC_PUSH,
	};
	if (s->first == NIC_NONE)
		s->first = message;
	else
		nic->message[s->last].next = message;
	s->last = message;
	return message;
}

static void message_timer(struct nic *nic, uint32_t message, uint32_t base, uint64_t at_ps)
{
	nic->message[message].refs++;
	nic_timer_start(&nic->heap, base + message, at_ps);
}

void nic_message_due(struct nic *nic, uint32_t message, uint64_t at_ps)
{
	message_timer(nic, message, NIC_T_DONE, at_ps + cqe_delay_ps(nic));
}

/* Takes the messages out of the queue's list which are to be forgotten. */
static void forget(struct nic *nic, uint32_t queue, int even_delivered)
{
	struct nic_source *s = &nic->source[queue];
	uint32_t message = s->first;

	s->first = s->last = NIC_NONE;
	while (message != NIC_NONE) {
		struct nic_message *m = &nic->message[message];
		uint32_t next = m->next;

		m->next = NIC_NONE;
		if (m->is_delivered && !even_delivered) {
			if (s->first == NIC_NONE)
				s->first = message;
			else
				nic->message[s->last].next = message;
			s->last = message;
		} else {
			m->is_dead = 1;
			nic_message_unref(nic, message);
		}
		message = next;
	}
}

/* Completions leave in the order of fetch: a READ holds back the WRITE behind it. */
static void complete_in_order(struct nic *nic, const struct nic_call *call, uint32_t queue)
{
	struct nic_source *s = &nic->source[queue];

	while (s->first != NIC_NONE && nic->message[s->first].is_done) {
		uint32_t message = s->first;
		struct nic_message *m = &nic->message[message];

		s->first = m->next;
		if (s->first == NIC_NONE)
			s->last = NIC_NONE;
		call->ops->complete(call->ctx, queue, m->cookie, ns_up(nic->now_ps));
		nic_message_unref(nic, message);
	}
}

static void on_done(struct nic *nic, const struct nic_call *call, uint32_t message)
{
	struct nic_message *m = &nic->message[message];
	uint32_t queue = m->queue;

	m->is_done = 1;
	if (!m->is_dead)
		complete_in_order(nic, call, queue);
	nic_message_unref(nic, message);
}

static void respond(struct nic *nic, const struct nic_call *call, uint32_t message)
{
	struct nic_message *m = &nic->message[message];
	uint32_t source = nic_source_of_responses(m->queue);
	struct nic_source *s = &nic->source[source];

	m->refs++;
	m->next_response = NIC_NONE;
	if (s->first == NIC_NONE)
		s->first = message;
	else
		nic->message[s->last].next_response = message;
	s->last = message;
	if (s->state != NIC_SRC_IDLE)
		return;
	s->port = m->dst_port;
	nic_source_ready(nic, call, source);
}

static void acknowledge(struct nic *nic, uint32_t message)
{
	const struct nic_params *p = &nic->p;
	uint64_t delay_ns = p->rx_ack_ns + 2ull * p->hop_ns;

	if (nic->message[message].kind == NIC_ATOMIC)
		delay_ns += p->dma_ns;
	/* Acks are small and the reverse path gives them way: delay, no contention. */
	nic_message_due(nic, message, nic->now_ps + delay_ns * NIC_PS_PER_NS +
			nic_wire_ps(nic, p->overhead_bytes));
}

static void unlink_message(struct nic *nic, uint32_t queue, uint32_t message)
{
	struct nic_source *s = &nic->source[queue];
	uint32_t before = NIC_NONE, at = s->first;

	while (at != message) {
		before = at;
		at = nic->message[at].next;
	}
	if (before == NIC_NONE)
		s->first = nic->message[at].next;
	else
		nic->message[before].next = nic->message[at].next;
	if (s->last == message)
		s->last = before;
}

static void on_deliver(struct nic *nic, const struct nic_call *call, uint32_t message)
{
	struct nic_message *m = &nic->message[message];
	uint32_t queue = m->queue;
	int rc;

	/* Without wants_ack it may have completed and left the list before its queue closed. */
	if (m->is_dead || m->generation != nic->source[queue].generation)
		goto out;
	rc = call->ops->deliver(call->ctx, queue, m->cookie, ns_up(nic->now_ps));
	m->is_delivered = 1;
	if (m->is_dead || !m->wants_ack)
		goto out;
	if (rc < 0) {
		m->is_dead = 1;
		unlink_message(nic, queue, message);
		nic_message_unref(nic, message);
		/* Those behind it may have been waiting for it only. */
		complete_in_order(nic, call, queue);
	} else if (m->kind == NIC_PULL) {
		respond(nic, call, message);
	} else {
		acknowledge(nic, message);
	}
out:
	nic_message_unref(nic, message);
}

/* ---- queues ---- */

static void ready_list_remove(struct nic *nic, uint32_t source)
{
	struct nic_list *l = &nic->port[nic->source[source].port].ready;
	uint32_t before = NIC_NONE, at = l->first;

	while (at != source) {
		before = at;
		at = nic->source[at].next;
	}
	if (before == NIC_NONE)
		l->first = nic->source[at].next;
	else
		nic->source[before].next = nic->source[at].next;
	if (l->last == source)
		l->last = before;
}

static void unit_release(struct nic *nic, uint32_t source)
{
	uint32_t port = nic->source[source].port;

	for (uint32_t u = 0; u < nic->p.units; u++) {
		struct nic_unit *unit = &nic->port[port].unit[u];
		uint32_t timer = NIC_T_UNIT + port * NIC_UNITS + u;

		if (unit->source != source)
			continue;
		unit->source = NIC_NONE;
		unit->is_blocked = 0;
		if (!nic_timer_runs(&nic->heap, timer))
			nic_timer_start(&nic->heap, timer, nic->now_ps);
	}
}

/* Whatever the source is doing, it stops and waits for a doorbell. */
static void source_stop(struct nic *nic, uint32_t source)
{
	struct nic_source *s = &nic->source[source];

	nic_timer_stop(&nic->heap, NIC_T_SOURCE + source);
	if (s->state == NIC_SRC_READY)
		ready_list_remove(nic, source);
	else if (s->state == NIC_SRC_HELD)
		unit_release(nic, source);
	if (s->cut != NIC_NONE)
		nic_message_unref(nic, s->cut);
	s->cut = NIC_NONE;
	s->state = NIC_SRC_IDLE;
}

static void source_init(struct nic_source *s, uint32_t port)
{
	s->state = NIC_SRC_IDLE;
	s->port = port;
	s->next = s->cut = s->first = s->last = NIC_NONE;
	s->posted_ps = 0;
	/* Sequence numbers live on: packets of a former queue may still be staged. */
}

int nic_queue_open(struct nic *nic, uint32_t queue, uint32_t port)
{
	if (queue >= NIC_QUEUES || port >= nic->ports)
		return -EINVAL;
	if (nic->source[queue].state != NIC_SRC_CLOSED)
		return -EBUSY;
	source_init(&nic->source[queue], port);
	source_init(&nic->source[nic_source_of_responses(queue)], port);
	return 0;
}

void nic_queue_close(struct nic *nic, uint32_t queue)
{
	uint32_t responses = nic_source_of_responses(queue);
	struct nic_source *r = &nic->source[responses];

	if (queue >= NIC_QUEUES || nic->source[queue].state == NIC_SRC_CLOSED)
		return;
	source_stop(nic, queue);
	source_stop(nic, responses);
	while (r->first != NIC_NONE) {
		uint32_t message = r->first;

		r->first = nic->message[message].next_response;
		nic_message_unref(nic, message);
	}
	forget(nic, queue, 1);
	nic->source[queue].generation++;
	nic->source[queue].state = r->state = NIC_SRC_CLOSED;
}

void nic_queue_rewind(struct nic *nic, uint32_t queue)
{
	if (queue >= NIC_QUEUES || nic->source[queue].state == NIC_SRC_CLOSED)
		return;
	source_stop(nic, queue);
	forget(nic, queue, 0);
}

void nic_doorbell(struct nic *nic, uint32_t queue, uint64_t now_ns, int with_wqe)
{
	struct nic_source *s = &nic->source[queue];
	uint64_t at_ps = now_ns * NIC_PS_PER_NS;

	if (queue >= NIC_QUEUES || s->state == NIC_SRC_CLOSED)
		return;
	if (at_ps < nic->now_ps)
		at_ps = nic->now_ps;
	if (s->state == NIC_SRC_IDLE && s->posted_ps < at_ps)
		s->posted_ps = at_ps;
	s->posted_ps += nic->p.doorbell_ns * NIC_PS_PER_NS;
	if (s->state != NIC_SRC_IDLE)
		return;
	s->state = NIC_SRC_COMING;
	at_ps = s->posted_ps + nic->p.post_ns * NIC_PS_PER_NS;
	if (!with_wqe)
		at_ps += nic->p.fetch_ns * NIC_PS_PER_NS;
	nic_timer_start(&nic->heap, NIC_T_SOURCE + queue, at_ps);
}

/* ---- life and time ---- */

static void free_lists_init(struct nic *nic)
{
	for (uint32_t i = 0; i < NIC_MESSAGES; i++)
		nic->message[i].next = i + 1 < NIC_MESSAGES ? i + 1 : NIC_NONE;
	for (uint32_t i = 0; i < NIC_PACKETS; i++)
		nic->packet[i].next = i + 1 < NIC_PACKETS ? i + 1 : NIC_NONE;
}

static void port_init(struct nic_port *port)
{
	port->ready = (struct nic_list){ NIC_NONE, NIC_NONE };
	for (uint32_t u = 0; u < NIC_UNITS; u++)
		port->unit[u].source = port->unit[u].last_source = NIC_NONE;
	for (uint32_t e = 0; e < NIC_PORTS; e++)
		port->entry[e] = (struct nic_list){ NIC_NONE, NIC_NONE };
}

int nic_init(struct nic *nic, const struct nic_params *params, uint32_t ports, uint64_t seed)
{
	const char *reason;

	if (!ports || ports > NIC_PORTS || nic_params_check(params, &reason))
		return -EINVAL;
	memset(nic, 0, sizeof(*nic));
	nic->p = *params;
	nic->ports = ports;
	/* xorshift must not start at 0, and neighbouring seeds must not start alike */
	nic->random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	if (!nic->random)
		nic->random = 1;
	for (int i = 0; i < 16; i++)
		random_u32(nic);
	nic_heap_init(&nic->heap);
	free_lists_init(nic);
	for (uint32_t p = 0; p < NIC_PORTS; p++)
		port_init(&nic->port[p]);
	return 0;
}

static void dispatch(struct nic *nic, const struct nic_call *call, uint32_t timer)
{
	if (timer >= NIC_T_DONE)
		on_done(nic, call, timer - NIC_T_DONE);
	else if (timer >= NIC_T_DELIVER)
		on_deliver(nic, call, timer - NIC_T_DELIVER);
	else if (timer >= NIC_T_PACKET)
		nic_switch_entry(nic, timer - NIC_T_PACKET);
	else if (timer >= NIC_T_SOURCE)
		nic_source_ready(nic, call, timer - NIC_T_SOURCE);
	else if (timer >= NIC_T_EXIT)
		nic_switch_exit(nic, timer - NIC_T_EXIT);
	else if (timer >= NIC_T_ARBITER)
		nic_arbiter_step(nic, timer - NIC_T_ARBITER);
	else
		nic_unit_step(nic, call, timer / NIC_UNITS, timer % NIC_UNITS);
}

uint64_t nic_next_ns(const struct nic *nic)
{
	if (!nic->heap.count)
		return NIC_NEVER;
	return ns_up(nic->heap.timer[nic->heap.slot[0]].at_ps);
}

void nic_run(struct nic *nic, const struct nic_ops *ops, void *ctx, uint64_t now_ns)
{
	struct nic_call call = { ops, ctx };

	/* The clock stays at the last event: a doorbell rung before now_ns may yet be told. */
	while (nic->heap.count) {
		uint32_t timer = nic->heap.slot[0];
		uint64_t at_ps = nic->heap.timer[timer].at_ps;

		if (ns_up(at_ps) > now_ns)
			return;
		nic_timer_stop(&nic->heap, timer);
		nic->now_ps = at_ps;
		nic->events++;
		dispatch(nic, &call, timer);
	}
}

void nic_port_stats(const struct nic *nic, uint32_t port, struct nic_port_stats *out)
{
	*out = nic->port[port].stats;
}

uint64_t nic_events(const struct nic *nic)
{
	return nic->events;
}
