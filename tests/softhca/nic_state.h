/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The contention model's state and what its files share.  Users see nic.h only.
 *
 * Words:
 *   source   what a unit serves: a queue's requests, or its responses to READs at the responder
 *   turn     a source's stay on a unit
 *   staged   fetched by a unit, not yet granted; granted = committed to the wire
 *   held     granted, not yet forwarded by the switch
 */
#ifndef SOFTHCA_NIC_STATE_H
#define SOFTHCA_NIC_STATE_H

#include <stdint.h>

#include "nic.h"

#define NIC_NONE UINT32_MAX

/*
 * Every thing that can wait has one timer, known by a fixed number, so that the heap can
 * never overflow and a timer can be moved or stopped without leaving a stale entry behind.
 */
enum {
	NIC_T_UNIT = 0,
	NIC_T_ARBITER = NIC_T_UNIT + NIC_PORTS * NIC_UNITS,
	NIC_T_EXIT = NIC_T_ARBITER + NIC_PORTS,
	NIC_T_SOURCE = NIC_T_EXIT + NIC_PORTS,
	NIC_T_PACKET = NIC_T_SOURCE + NIC_SOURCES,
	NIC_T_DELIVER = NIC_T_PACKET + NIC_PACKETS,
	NIC_T_DONE = NIC_T_DELIVER + NIC_MESSAGES,
	NIC_TIMERS = NIC_T_DONE + NIC_MESSAGES,
};

struct nic_timer {
	uint64_t at_ps;
	uint64_t order;		/* of starting: first started, first run among equals */
	uint32_t slot;		/* in the heap, NIC_NONE when stopped */
};

struct nic_heap {
	uint64_t order;
	uint32_t count;
	uint32_t slot[NIC_TIMERS];	/* timer numbers */
	struct nic_timer timer[NIC_TIMERS];
};

/* A work request from fetch to its last callback. */
struct nic_message {
	uint64_t cookie;
	uint64_t bytes;
	uint32_t queue;
	uint32_t next;		/* of the queue in fetch order; also the free list */
	uint32_t next_response;	/* of the responder's source */
	uint32_t dst_port;
	uint32_t generation;	/* of the queue */
	uint32_t refs;		/* packets under way, timers, being cut, being in the queue's list */
	uint8_t kind, is_inline, wants_ack;
	uint8_t is_dead;	/* forgotten: what is under way comes to nothing */
	uint8_t is_delivered, is_done;
};

enum nic_source_state {
	NIC_SRC_CLOSED,
	NIC_SRC_IDLE,		/* no work known */
	NIC_SRC_COMING,		/* work known from a later time; the timer runs */
	NIC_SRC_READY,		/* on its port's ready list */
	NIC_SRC_HELD,		/* on a unit */
};

struct nic_source {
	uint8_t state;
	uint32_t port;
	uint32_t generation;	/* one more with each close */
	uint32_t next;		/* ready list */
	uint32_t cut;		/* message being cut into packets */
	uint64_t cut_bytes;	/* of it, cut already */
	uint32_t staged_seq, granted_seq;	/* packets of one source leave in order */
	uint32_t first, last;	/* requests: in flight, in order; responses: to be sent */
	uint64_t posted_ps;	/* the poster's CPU is busy until then */
};

struct nic_packet {
	uint32_t message;
	uint32_t next;		/* switch queue; free list */
	uint32_t bytes;		/* payload */
	uint8_t src_port, dst_port;
	uint8_t is_last;
	uint8_t is_response;
};

struct nic_staged {
	uint64_t ready_ps;	/* payload is here */
	uint32_t message, source, seq;
	uint32_t bytes;
	uint8_t is_first, is_last;
};

struct nic_unit {
	uint32_t source;	/* on a turn, NIC_NONE when idle */
	uint32_t turn_bytes, turn_ops;
	uint32_t last_source;	/* of this turn or the last one */
	uint32_t before_bytes;	/* payload of the turn before, of another source */
	uint32_t staged_bytes;
	uint32_t head, count;	/* ring of staged packets */
	uint8_t turn_is_small;	/* no packet of it above small_bytes */
	uint8_t is_blocked;	/* waits for room in staging */
	struct nic_staged staged[NIC_STAGE];
};

struct nic_list {
	uint32_t first, last;
};

struct nic_port {
	struct nic_unit unit[NIC_UNITS];
	struct nic_list ready;
	uint32_t last_unit;	/* the arbiter's last grant */
	uint64_t tx_free_ps;	/* the committed FIFO has drained by then */
	uint32_t held_packets;
	uint32_t held_bytes;	/* with headers */
	uint8_t is_paused;
	/* its exit of the switch */
	uint64_t exit_free_ps;
	uint64_t waiting;	/* bit per entry with packets for this exit */
	uint32_t last_entry;
	struct nic_list entry[NIC_PORTS];	/* one FIFO: entry 0 only */
	/* its receiver */
	uint64_t rx_free_ps;
	struct nic_port_stats stats;
};

struct nic {
	struct nic_params p;
	uint64_t now_ps;
	uint64_t events;
	uint64_t random;
	uint32_t ports;
	uint32_t free_message, free_packet;
	struct nic_source source[NIC_SOURCES];
	struct nic_port port[NIC_PORTS];
	struct nic_message message[NIC_MESSAGES];
	struct nic_packet packet[NIC_PACKETS];
	struct nic_heap heap;
};

/* One callback set for the length of a nic_run(); never kept. */
struct nic_call {
	const struct nic_ops *ops;
	void *ctx;
};

#define NIC_PS_PER_NS 1000ull

/* nic_heap.c */
void nic_heap_init(struct nic_heap *h);
void nic_timer_start(struct nic_heap *h, uint32_t timer, uint64_t at_ps);
void nic_timer_stop(struct nic_heap *h, uint32_t timer);
int nic_timer_runs(const struct nic_heap *h, uint32_t timer);

/* nic_tx.c */
void nic_source_ready(struct nic *nic, const struct nic_call *call, uint32_t source);
void nic_unit_step(struct nic *nic, const struct nic_call *call, uint32_t port, uint32_t unit);
void nic_arbiter_kick(struct nic *nic, uint32_t port, uint64_t at_ps);
void nic_arbiter_step(struct nic *nic, uint32_t port);

/* nic_switch.c */
void nic_switch_send(struct nic *nic, uint32_t port, const struct nic_staged *s,
		     uint64_t head_ps);
void nic_switch_entry(struct nic *nic, uint32_t packet);
void nic_switch_exit(struct nic *nic, uint32_t port);

/* nic.c */
uint64_t nic_wire_ps(const struct nic *nic, uint64_t bytes);
uint64_t nic_exponential_ps(struct nic *nic, uint32_t mean_ns);
uint32_t nic_message_new(struct nic *nic, uint32_t queue, const struct nic_wr *wr);
void nic_message_unref(struct nic *nic, uint32_t message);
/* The requester's CQE of a message is due: its ack or last byte arrived at at_ps. */
void nic_message_due(struct nic *nic, uint32_t message, uint64_t at_ps);

static inline uint32_t nic_source_of_responses(uint32_t queue)
{
	return NIC_QUEUES + queue;
}

static inline int nic_is_response(uint32_t source)
{
	return source >= NIC_QUEUES;
}

#endif
