// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The transmit side of a card: processing units with greedy turns, and the arbiter behind them.
 *
 * Head-of-line blocking has its two causes here.  A small message waits for the bytes that are
 * committed to the wire (fifo_bytes), and, once every unit is on a turn, for whole turns of
 * turn_bytes each.
 */
#include "nic_state.h"

enum {
	READ_REQUEST_BYTES = 16,
	ATOMIC_REQUEST_BYTES = 28,
	NO_ROOM_RETRY_NS = 1000,
};

/* ---- ready list ---- */

static int staged_last(const struct nic_unit *unit, uint32_t source)
{
	uint32_t tail = (unit->head + unit->count - 1) % NIC_STAGE;

	return unit->count && unit->staged[tail].source == source;
}

/*
 * The idle unit to take a ready source.  Its packets leave in order, so it loses nothing where it
 * was the last to stage, and leaves the other units to others; else the one with least staged.
 */
static uint32_t idle_unit(const struct nic *nic, uint32_t port, uint32_t source)
{
	uint32_t best = NIC_NONE, best_bytes = 0;

	for (uint32_t u = 0; u < nic->p.units; u++) {
		const struct nic_unit *unit = &nic->port[port].unit[u];
		uint32_t timer = NIC_T_UNIT + port * NIC_UNITS + u;

		/* One whose timer runs is on its way to the ready list already. */
		if (unit->source != NIC_NONE || nic_timer_runs(&nic->heap, timer))
			continue;
		if (staged_last(unit, source))
			return u;
		if (best == NIC_NONE || unit->staged_bytes < best_bytes) {
			best = u;
			best_bytes = unit->staged_bytes;
		}
	}
	return best;
}

static void ready_append(struct nic *nic, uint32_t source)
{
	struct nic_source *s = &nic->source[source];
	struct nic_list *l = &nic->port[s->port].ready;

	s->state = NIC_SRC_READY;
	s->next = NIC_NONE;
	if (l->first == NIC_NONE)
		l->first = source;
	else
		nic->source[l->last].next = source;
	l->last = source;
}

void nic_source_ready(struct nic *nic, const struct nic_call *call, uint32_t source)
{
	uint32_t port = nic->source[source].port, unit = idle_unit(nic, port, source);

	ready_append(nic, source);
	if (unit != NIC_NONE)
		nic_unit_step(nic, call, port, unit);
}

/* ---- a unit ---- */

static int turn_begin(struct nic *nic, uint32_t port, struct nic_unit *unit)
{
	struct nic_list *l = &nic->port[port].ready;
	struct nic_source *s;

	if (l->first == NIC_NONE)
		return 0;
	s = &nic->source[l->first];
	if (unit->last_source != l->first)
		unit->before_bytes = unit->turn_bytes;
	unit->source = unit->last_source = l->first;
	unit->turn_bytes = unit->turn_ops = 0;
	unit->turn_is_small = 1;
	l->first = s->next;
	if (l->first == NIC_NONE)
		l->last = NIC_NONE;
	s->state = NIC_SRC_HELD;
	return 1;
}

static void turn_end(struct nic *nic, struct nic_unit *unit)
{
	ready_append(nic, unit->source);
	unit->source = NIC_NONE;
}

static void turn_end_without_work(struct nic *nic, struct nic_unit *unit)
{
	nic->source[unit->source].state = NIC_SRC_IDLE;
	unit->source = NIC_NONE;
}

/* The next work request is still being written by its poster's CPU. */
static void turn_end_until_posted(struct nic *nic, struct nic_unit *unit, uint64_t at_ps)
{
	nic->source[unit->source].state = NIC_SRC_COMING;
	nic_timer_start(&nic->heap, NIC_T_SOURCE + unit->source, at_ps);
	unit->source = NIC_NONE;
}

enum next { NEXT_NONE, NEXT_CUT, NEXT_WAIT };

static enum next next_request(struct nic *nic, const struct nic_call *call, struct nic_unit *unit)
{
	uint32_t source = unit->source;
	struct nic_source *s = &nic->source[source];
	uint64_t post_ps = nic->p.post_ns * NIC_PS_PER_NS;
	struct nic_wr wr = { 0 };
	int is_taken;

	if (s->posted_ps + post_ps > nic->now_ps) {
		turn_end_until_posted(nic, unit, s->posted_ps + post_ps);
		return NEXT_NONE;
	}
	if (nic->free_message == NIC_NONE)
		return NEXT_WAIT;
	is_taken = call->ops->fetch(call->ctx, source, &wr);
	if (unit->source != source)	/* closed or rewound by the callback */
		return NEXT_NONE;
	if (!is_taken) {
		turn_end_without_work(nic, unit);
		return NEXT_NONE;
	}
	s->posted_ps += post_ps;
	s->cut = nic_message_new(nic, source, &wr);
	return NEXT_CUT;
}

static enum next next_response(struct nic *nic, struct nic_unit *unit)
{
	struct nic_source *s = &nic->source[unit->source];

	if (s->first == NIC_NONE) {
		turn_end_without_work(nic, unit);
		return NEXT_NONE;
	}
	s->cut = s->first;
	s->first = nic->message[s->cut].next_response;
	return NEXT_CUT;
}

/* Payload of the next packet of what the source is cutting. */
static uint32_t packet_bytes(const struct nic *nic, uint32_t source, int *is_last)
{
	const struct nic_source *s = &nic->source[source];
	const struct nic_message *m = &nic->message[s->cut];
	uint64_t left = m->bytes - s->cut_bytes;

	*is_last = 1;
	if (!nic_is_response(source) && m->kind == NIC_PULL)
		return READ_REQUEST_BYTES;
	if (m->kind == NIC_ATOMIC)
		return ATOMIC_REQUEST_BYTES;
	*is_last = left <= nic->p.mtu_bytes;
	return *is_last ? (uint32_t)left : nic->p.mtu_bytes;
}

static int needs_dma(const struct nic_message *m, uint32_t source)
{
	return nic_is_response(source) || (m->kind == NIC_PUSH && !m->is_inline);
}

static int has_room(const struct nic *nic, const struct nic_unit *unit, uint32_t bytes)
{
	return unit->count < nic->p.staging_packets &&
	       (!unit->staged_bytes || unit->staged_bytes + bytes <= nic->p.staging_bytes);
}

/* Issued at at_ps; takes over the source's reference with the last packet. */
static uint64_t stage(struct nic *nic, struct nic_unit *unit, uint32_t bytes, int is_last,
		      uint64_t at_ps)
{
	uint32_t source = unit->source;
	struct nic_source *s = &nic->source[source];
	struct nic_message *m = &nic->message[s->cut];
	struct nic_staged *st = &unit->staged[(unit->head + unit->count++) % NIC_STAGE];

	*st = (struct nic_staged){
		.ready_ps = at_ps, .message = s->cut, .source = source,
		.seq = s->staged_seq++, .bytes = bytes,
		.is_first = !s->cut_bytes, .is_last = (uint8_t)is_last,
	};
	if (needs_dma(m, source))
		st->ready_ps += nic->p.dma_ns * NIC_PS_PER_NS +
				nic_exponential_ps(nic, nic->p.dma_jitter_ns);
	unit->staged_bytes += bytes;
	unit->turn_bytes += bytes;
	if (bytes > nic->p.small_bytes)
		unit->turn_is_small = 0;
	s->cut_bytes += bytes;
	if (is_last)
		s->cut = NIC_NONE;
	else
		m->refs++;
	return st->ready_ps;
}

/*
 * Between requests.  Small ones, taken for small_bytes each, go on until they are even with the
 * payload of another source's turn before: a queue of them beside bulk is slowed, not starved.
 */
static int is_turn_over(const struct nic *nic, const struct nic_unit *unit)
{
	if (unit->turn_ops < nic->p.turn_ops)
		return 0;
	return !unit->turn_is_small ||
	       (uint64_t)unit->turn_ops * nic->p.small_bytes >= unit->before_bytes;
}

/* Something to cut in unit->source, or nothing to do now (0). */
static int find_work(struct nic *nic, const struct nic_call *call, uint32_t port,
		     struct nic_unit *unit, uint64_t *at_ps)
{
	for (;;) {
		enum next next;

		if (unit->source == NIC_NONE) {
			if (!turn_begin(nic, port, unit))
				return 0;
			*at_ps += nic->p.switch_ns * NIC_PS_PER_NS;
		}
		if (nic->source[unit->source].cut != NIC_NONE)
			return 1;
		if (is_turn_over(nic, unit)) {
			turn_end(nic, unit);
			continue;
		}
		next = nic_is_response(unit->source) ? next_response(nic, unit) :
						       next_request(nic, call, unit);
		if (next == NEXT_CUT) {
			nic->source[unit->source].cut_bytes = 0;
			unit->turn_ops++;
			*at_ps += nic->p.wqe_ns * NIC_PS_PER_NS;
			return 1;
		}
		if (next == NEXT_WAIT) {
			*at_ps += NO_ROOM_RETRY_NS * NIC_PS_PER_NS;
			return -1;
		}
	}
}

/* One packet per step: what happens on other units in the meantime must be seen. */
void nic_unit_step(struct nic *nic, const struct nic_call *call, uint32_t port, uint32_t u)
{
	struct nic_unit *unit = &nic->port[port].unit[u];
	uint64_t at_ps = nic->now_ps;
	uint32_t bytes;
	int is_last, found;

	for (;;) {
		found = find_work(nic, call, port, unit, &at_ps);
		if (!found)
			return;
		if (found < 0)
			break;
		bytes = packet_bytes(nic, unit->source, &is_last);
		if (unit->turn_bytes && unit->turn_bytes + bytes > nic->p.turn_bytes) {
			turn_end(nic, unit);
			continue;
		}
		if (!has_room(nic, unit, bytes)) {
			unit->is_blocked = 1;
			return;
		}
		at_ps += nic->p.packet_ns * NIC_PS_PER_NS;
		nic_arbiter_kick(nic, port, stage(nic, unit, bytes, is_last, at_ps));
		break;
	}
	nic_timer_start(&nic->heap, NIC_T_UNIT + port * NIC_UNITS + u, at_ps);
}

/* ---- the arbiter ---- */

static uint64_t fifo_room_ps(const struct nic *nic, const struct nic_port *port)
{
	uint64_t depth_ps = nic_wire_ps(nic, nic->p.fifo_bytes);

	return port->tx_free_ps > depth_ps ? port->tx_free_ps - depth_ps : 0;
}

void nic_arbiter_kick(struct nic *nic, uint32_t port, uint64_t at_ps)
{
	uint64_t room_ps = fifo_room_ps(nic, &nic->port[port]);
	uint32_t timer = NIC_T_ARBITER + port;

	if (at_ps < room_ps)
		at_ps = room_ps;
	if (at_ps < nic->now_ps)
		at_ps = nic->now_ps;
	if (!nic_timer_runs(&nic->heap, timer) || nic->heap.timer[timer].at_ps > at_ps)
		nic_timer_start(&nic->heap, timer, at_ps);
}

static struct nic_staged *head(struct nic_unit *unit)
{
	return unit->count ? &unit->staged[unit->head] : NULL;
}

/* Packets of one source leave in order, though two units may have staged them. */
static int is_in_order(const struct nic *nic, const struct nic_staged *s)
{
	return s->seq == nic->source[s->source].granted_seq;
}

/* The unit to be granted, or NIC_NONE and the time at which to look again. */
static uint32_t pick(const struct nic *nic, struct nic_port *port, uint64_t *again_ps)
{
	*again_ps = NIC_NEVER;
	for (uint32_t i = 1; i <= nic->p.units; i++) {
		uint32_t u = (port->last_unit + i) % nic->p.units;
		const struct nic_staged *s = head(&port->unit[u]);

		if (!s || !is_in_order(nic, s))
			continue;
		if (s->ready_ps <= nic->now_ps)
			return u;
		if (s->ready_ps < *again_ps)
			*again_ps = s->ready_ps;
	}
	return NIC_NONE;
}

/* A short payload is one read of the bus, which hides behind the packet before it. */
static uint64_t bubble_ps(const struct nic *nic, uint32_t bytes)
{
	return nic->p.bubble_ns * NIC_PS_PER_NS * bytes / nic->p.mtu_bytes;
}

static void transmit(struct nic *nic, uint32_t p, const struct nic_staged *s)
{
	struct nic_port *port = &nic->port[p];
	const struct nic_message *m = &nic->message[s->message];
	uint64_t start_ps = port->tx_free_ps;

	if (s->is_first && needs_dma(m, s->source))
		start_ps += bubble_ps(nic, s->bytes);
	if (start_ps < nic->now_ps)
		start_ps = nic->now_ps;
	port->tx_free_ps = start_ps + nic_wire_ps(nic, s->bytes + nic->p.overhead_bytes);
	port->stats.tx_packets++;
	port->stats.tx_bytes += s->bytes;
	if (s->is_last && !m->wants_ack)
		nic_message_due(nic, s->message, port->tx_free_ps);
	nic_switch_send(nic, p, s, start_ps + nic->p.hop_ns * NIC_PS_PER_NS);
}

static void grant_head(struct nic *nic, uint32_t port, struct nic_unit *unit)
{
	struct nic_staged s = *head(unit);

	unit->head = (unit->head + 1) % NIC_STAGE;
	unit->count--;
	unit->staged_bytes -= s.bytes;
	nic->source[s.source].granted_seq++;
	if (nic->message[s.message].is_dead)
		nic_message_unref(nic, s.message);
	else
		transmit(nic, port, &s);
}

static void grant(struct nic *nic, uint32_t p, uint32_t u)
{
	struct nic_port *port = &nic->port[p];
	struct nic_unit *unit = &port->unit[u];
	uint32_t timer = NIC_T_UNIT + p * NIC_UNITS + u, n = 0;
	const struct nic_staged *s;
	int is_small;

	do {
		is_small = head(unit)->bytes <= nic->p.small_bytes;
		grant_head(nic, p, unit);
		s = head(unit);
	} while (is_small && ++n < nic->p.small_per_grant && s &&
		 s->bytes <= nic->p.small_bytes && s->ready_ps <= nic->now_ps &&
		 is_in_order(nic, s) && !port->is_paused);
	port->last_unit = u;
	if (unit->is_blocked) {
		unit->is_blocked = 0;
		nic_timer_start(&nic->heap, timer, nic->now_ps);
	}
}

static int has_staged(const struct nic *nic, const struct nic_port *port)
{
	for (uint32_t u = 0; u < nic->p.units; u++)
		if (port->unit[u].count)
			return 1;
	return 0;
}

void nic_arbiter_step(struct nic *nic, uint32_t p)
{
	struct nic_port *port = &nic->port[p];
	uint64_t again_ps;
	uint32_t u;

	for (;;) {
		if (port->is_paused)
			return;		/* the switch kicks when it resumes */
		again_ps = fifo_room_ps(nic, port);
		if (again_ps > nic->now_ps)
			break;
		u = pick(nic, port, &again_ps);
		if (u == NIC_NONE)
			break;
		grant(nic, p, u);
	}
	if (again_ps != NIC_NEVER && has_staged(nic, port))
		nic_arbiter_kick(nic, p, again_ps);
}
