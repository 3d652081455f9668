/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The contention model: the cards of all hosts and the switch between them, in virtual time.
 *
 * What is modelled, and in which file:
 *
 *   queue --ready list--> unit (P of them) --staging, W bytes--> transmit arbiter --FIFO, F bytes-->
 *                         nic_tx.c                                nic_tx.c
 *     wire --> switch (per input round robin, or one FIFO) --> wire --> receiver --> ack --> CQE
 *              nic_switch.c                                              nic.c
 *
 * A unit serves one queue greedily, up to B bytes or K work requests, before it takes the next
 * ready one; that is where big messages hurt small ones.  Small requests whose turn comes after
 * bulk may be more than K.  A READ is a small request one way; the responder's card then serves
 * the payload like one more queue of its own.
 *
 * Pure: time is an argument, nothing is allocated, and the state holds indices, never pointers,
 * so that it may lie in a segment which every process maps elsewhere.  Not thread safe: one
 * driver at a time.  Same parameters, seed and calls give the same events on every machine.
 *
 * Times at the interface are model nanoseconds; inside they are picoseconds, because a 16 B
 * packet lasts 7.3 ns on a 56 Gb/s link.
 */
#ifndef SOFTHCA_NIC_H
#define SOFTHCA_NIC_H

#include <stddef.h>
#include <stdint.h>

enum {
	NIC_PORTS = 64,
	NIC_QUEUES = 2048,
	NIC_UNITS = 4,		/* most processing units of one port */
	NIC_STAGE = 64,		/* most packets staged in one unit */
	NIC_HELD = 256,		/* most packets of one port between its arbiter and the switch's exit */
	NIC_PACKETS = NIC_PORTS * NIC_HELD,
	NIC_MESSAGES = 16384,
	NIC_SOURCES = 2 * NIC_QUEUES,	/* a queue's requests, then its responses to READs */
};

#define NIC_NEVER UINT64_MAX

/* Every number of the model.  All members from rate on are uint32_t: see nic_params_set(). */
struct nic_params {
	char name[16];
	uint32_t link_gbps;		/* nominal, for reports only */
	uint32_t rate_bytes_per_us;	/* R: what the wire carries, headers included */
	uint32_t mtu_bytes;		/* payload of a full packet */
	uint32_t overhead_bytes;	/* headers of every packet */
	uint32_t units;			/* P */
	uint32_t turn_bytes;		/* B: a unit's greed */
	uint32_t turn_ops;		/* K: the same, in work requests; small ones see nic_tx.c */
	uint32_t staging_bytes;		/* W: payload prefetched per unit, */
	uint32_t staging_packets;	/* and in so many packets at most */
	uint32_t fifo_bytes;		/* F: committed to the wire, not to be overtaken */
	uint32_t small_bytes;		/* a packet up to this payload is small, see nic_tx.c ... */
	uint32_t small_per_grant;	/* ... and so many of them share a grant of the arbiter */
	uint32_t wqe_ns;		/* unit time per work request, */
	uint32_t packet_ns;		/* per packet, */
	uint32_t switch_ns;		/* per turn */
	uint32_t bubble_ns;		/* wire time lost per work request that is not inline, */
					/* for a full first packet; for less in proportion */
	uint32_t dma_ns;		/* payload fetch; pipelined, so it delays and does not occupy */
	uint32_t dma_jitter_ns;		/* mean of an exponential addition to it */
	uint32_t fetch_ns;		/* WQE fetch when it did not come with the doorbell */
	uint32_t post_ns;		/* CPU time of a post, charged per work request of a queue */
	uint32_t doorbell_ns;		/* doorbell store to card, charged per doorbell */
	uint32_t hop_ns;		/* card to switch, or switch to card */
	uint32_t rx_packet_ns;		/* receiver's time per packet */
	uint32_t rx_ack_ns;		/* last packet processed until the ack leaves */
	uint32_t cqe_ns;		/* ack arrived until the CQE is visible, mean */
	uint32_t cqe_jitter_ns;		/* uniform spread to either side of it */
	uint32_t poll_ns;		/* application: CQE seen to next post (not charged here) */
	uint32_t wake_short_us;		/* application: event wake-up (not charged here) */
	uint32_t wake_long_us;		/* the same after a sleep of more than wake_deep_us */
	uint32_t wake_deep_us;
	uint32_t max_bytes_per_us;	/* MaxRate handed to the policy as this card's capability */
	uint32_t max_ops_per_ms;
	uint32_t switch_is_fifo;	/* 1: one FIFO per exit; 0: round robin over the entries */
	uint32_t xoff_bytes;		/* a port's bytes inside the switch that pause it ... */
	uint32_t xon_bytes;		/* ... and those at which it resumes */
};

/* nic_params.c: presets "ib56", "roce40", "ib100"; 0 or -ENOENT */
int nic_params_preset(struct nic_params *p, const char *name);
/* One override.  0; -ENOENT unknown key; -EINVAL not a number; -ERANGE.  min/max may be NULL. */
int nic_params_set(struct nic_params *p, const char *key, const char *value,
		   uint32_t *min, uint32_t *max);
/* Walks the keys: the i-th key and its value, or NULL after the last. */
const char *nic_params_get(const struct nic_params *p, size_t i, uint32_t *value);
/* Relations between members that no single key can check; 0 or -EINVAL with a reason. */
int nic_params_check(const struct nic_params *p, const char **reason);

enum nic_kind {
	NIC_PUSH,	/* SEND, WRITE: the payload travels with the request */
	NIC_PULL,	/* READ: the payload travels with the response */
	NIC_ATOMIC,
};

struct nic_wr {
	uint64_t cookie;	/* the transport's name for it, unique among those in flight */
	uint64_t bytes;		/* payload; of the response for NIC_PULL; ignored for NIC_ATOMIC */
	uint32_t dst_port;
	uint8_t kind;		/* enum nic_kind */
	uint8_t is_inline;	/* payload is in the WQE */
	uint8_t wants_ack;	/* 0 (UC, UD): complete once the last byte has left the card */
};

/*
 * What the model calls.  Any of the three may call nic_doorbell(), nic_queue_rewind() and
 * nic_queue_close() for any queue; none may call nic_run().
 */
struct nic_ops {
	/* Takes the queue's next work request: 1 taken, 0 none now (ring the doorbell later). */
	int (*fetch)(void *ctx, uint32_t queue, struct nic_wr *out);
	/*
	 * The last byte (of the request, for READ and atomics) reached the responder; the
	 * transport executes it now.  0: the response or ack travels back and complete follows.
	 * < 0: a NAK or a drop, and the model forgets this cookie.  A request without
	 * wants_ack completes on its own, before or after this, whatever is returned.
	 */
	int (*deliver)(void *ctx, uint32_t queue, uint64_t cookie, uint64_t now_ns);
	/* The requester's CQE becomes visible.  Called for every request that is not forgotten,
	 * signalled or not, in the order of fetch. */
	void (*complete)(void *ctx, uint32_t queue, uint64_t cookie, uint64_t now_ns);
};

struct nic;

/* ports <= NIC_PORTS; params are copied; 0 or -EINVAL */
int nic_init(struct nic *nic, const struct nic_params *params, uint32_t ports, uint64_t seed);
/* 0; -EINVAL when the queue or port is out of range; -EBUSY when open already */
int nic_queue_open(struct nic *nic, uint32_t queue, uint32_t port);
/* Forgets whatever is in flight, and the queue: no further callback for it. */
void nic_queue_close(struct nic *nic, uint32_t queue);
/*
 * Go-back-N after a NAK: requests which have not been delivered are forgotten, and so is the one
 * being delivered when called from deliver with a NAK to follow.  Those delivered before
 * still complete, once each.  A later doorbell makes the queue fetch again.
 */
void nic_queue_rewind(struct nic *nic, uint32_t queue);
/*
 * The queue has work since now_ns.  A time before the model's own counts as the model's.
 * with_wqe: the WQE came along (BlueFlame), so there is nothing to fetch first.
 */
void nic_doorbell(struct nic *nic, uint32_t queue, uint64_t now_ns, int with_wqe);
/* Time of the next event, NIC_NEVER if there is none.  May be in the past: run it then. */
uint64_t nic_next_ns(const struct nic *nic);
/* Runs all events up to and including now_ns, in time order; the callbacks get event times. */
void nic_run(struct nic *nic, const struct nic_ops *ops, void *ctx, uint64_t now_ns);

/* Per port, since nic_init(); payload bytes, requests and responses alike. */
struct nic_port_stats {
	uint64_t tx_bytes;
	uint64_t tx_packets;
	uint64_t rx_bytes;
	uint64_t rx_packets;
	uint64_t pauses;	/* how often the switch stopped this port */
	uint64_t held_peak_bytes;
};

void nic_port_stats(const struct nic *nic, uint32_t port, struct nic_port_stats *out);
/* Events run since nic_init(). */
uint64_t nic_events(const struct nic *nic);

#include "nic_state.h"	/* struct nic itself, for sizeof only */

#endif
