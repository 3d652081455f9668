// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The switch and the receivers.  Cut-through: a packet may leave while it arrives, both sides
 * running at the same rate, so an idle switch adds its hop delay only.  Lossless: a port whose
 * bytes inside reach xoff_bytes is paused as a whole, as InfiniBand credits or PFC would do it.
 */
#include "nic_state.h"

static void hold(struct nic *nic, struct nic_port *port, uint32_t bytes)
{
	port->held_packets++;
	port->held_bytes += bytes;
	if (port->held_bytes > port->stats.held_peak_bytes)
		port->stats.held_peak_bytes = port->held_bytes;
	if (port->held_bytes >= nic->p.xoff_bytes || port->held_packets >= NIC_HELD) {
		port->is_paused = 1;
		port->stats.pauses++;
	}
}

static void release(struct nic *nic, uint32_t p, uint32_t bytes)
{
	struct nic_port *port = &nic->port[p];

	port->held_packets--;
	port->held_bytes -= bytes;
	if (!port->is_paused || port->held_bytes > nic->p.xon_bytes ||
	    port->held_packets > NIC_HELD / 2)
		return;
	port->is_paused = 0;
	nic_arbiter_kick(nic, p, nic->now_ps);
}

/* A granted packet; takes over its reference to the message. */
void nic_switch_send(struct nic *nic, uint32_t port, const struct nic_staged *s,
		     uint64_t head_ps)
{
	const struct nic_message *m = &nic->message[s->message];
	uint32_t packet = nic->free_packet;
	struct nic_packet *k = &nic->packet[packet];
	int is_response = nic_is_response(s->source);

	nic->free_packet = k->next;
	*k = (struct nic_packet){
		.message = s->message, .next = NIC_NONE, .bytes = s->bytes,
		.src_port = (uint8_t)port,
		.dst_port = (uint8_t)(is_response ? nic->source[m->queue].port : m->dst_port),
		.is_last = s->is_last, .is_response = (uint8_t)is_response,
	};
	hold(nic, &nic->port[port], s->bytes + nic->p.overhead_bytes);
	nic_timer_start(&nic->heap, NIC_T_PACKET + packet, head_ps);
}

/* The packet's head has reached the switch. */
void nic_switch_entry(struct nic *nic, uint32_t packet)
{
	struct nic_packet *k = &nic->packet[packet];
	struct nic_port *out = &nic->port[k->dst_port];
	uint32_t entry = nic->p.switch_is_fifo ? 0 : k->src_port;
	struct nic_list *l = &out->entry[entry];

	if (l->first == NIC_NONE)
		l->first = packet;
	else
		nic->packet[l->last].next = packet;
	l->last = packet;
	out->waiting |= 1ull << entry;
	if (!nic_timer_runs(&nic->heap, NIC_T_EXIT + k->dst_port))
		nic_switch_exit(nic, k->dst_port);
}

/* First entry with packets after the last one served. */
static uint32_t next_entry(const struct nic_port *out)
{
	uint64_t after = out->last_entry < 63 ? ~0ull << (out->last_entry + 1) : 0;
	uint64_t bits = out->waiting & after;

	return (uint32_t)__builtin_ctzll(bits ? bits : out->waiting);
}

static uint32_t take(struct nic *nic, struct nic_port *out)
{
	uint32_t entry = next_entry(out);
	struct nic_list *l = &out->entry[entry];
	uint32_t packet = l->first;

	out->last_entry = entry;
	l->first = nic->packet[packet].next;
	if (l->first == NIC_NONE)
		out->waiting &= ~(1ull << entry);
	return packet;
}

/* The tail of the packet reaches the card at tail_ps. */
static void receive(struct nic *nic, struct nic_port *in, const struct nic_packet *k,
		    uint64_t tail_ps)
{
	struct nic_message *m = &nic->message[k->message];

	if (in->rx_free_ps < tail_ps)
		in->rx_free_ps = tail_ps;
	in->rx_free_ps += nic->p.rx_packet_ns * NIC_PS_PER_NS;
	in->stats.rx_packets++;
	in->stats.rx_bytes += k->bytes;
	if (!k->is_last || m->is_dead)
		return;
	if (k->is_response) {
		nic_message_due(nic, k->message, in->rx_free_ps);
		return;
	}
	m->refs++;
	nic_timer_start(&nic->heap, NIC_T_DELIVER + k->message, in->rx_free_ps);
}

void nic_switch_exit(struct nic *nic, uint32_t p)
{
	struct nic_port *out = &nic->port[p];
	uint32_t packet, bytes;
	struct nic_packet *k;

	if (out->exit_free_ps <= nic->now_ps && out->waiting) {
		packet = take(nic, out);
		k = &nic->packet[packet];
		bytes = k->bytes + nic->p.overhead_bytes;
		out->exit_free_ps = nic->now_ps + nic_wire_ps(nic, bytes);
		receive(nic, out, k, out->exit_free_ps + nic->p.hop_ns * NIC_PS_PER_NS);
		release(nic, k->src_port, bytes);
		nic_message_unref(nic, k->message);
		k->next = nic->free_packet;
		nic->free_packet = packet;
	}
	if (out->waiting)
		nic_timer_start(&nic->heap, NIC_T_EXIT + p, out->exit_free_ps);
}
