/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * ring.h - the operations of the token ring, and who may reorder what.
 *
 * One producer (the daemon), one consumer (the client's shaper, under its own
 * lock). Each keeps its own position privately and only publishes it; what it
 * reads of the other side may be anything, so it is clamped. A client that
 * lies about its tail can lose its own tokens and nobody else's.
 */
#ifndef JST_RING_H
#define JST_RING_H

#include <stdbool.h>

#include "abi.h"
#include "core/core.h"

#define JST_RING_MASK (JST_RING_TOKENS - 1)

/*
 * Producer: one side of the ring, as the daemon keeps it.
 */
struct jst_ring_producer {
	struct jst_abi_region *region;
	uint32_t head;
};

/* Tokens not consumed yet, as far as the client's word goes: 0 to JST_RING_TOKENS. */
static inline uint32_t jst_ring_used(const struct jst_ring_producer *ring)
{
	/* acquire: the client has read the slots that it gives back */
	uint32_t tail = atomic_load_explicit(&ring->region->client.tail, memory_order_acquire);
	uint32_t used = ring->head - tail;

	return used > JST_RING_TOKENS ? JST_RING_TOKENS : used;
}

/* Tokens that the app has use for beyond those already in the ring. */
static inline uint32_t jst_ring_wanted(const struct jst_ring_producer *ring)
{
	uint32_t wanted =
		atomic_load_explicit(&ring->region->client.wanted, memory_order_seq_cst);
	uint32_t ahead = wanted - ring->head;
	uint32_t room = JST_RING_TOKENS - jst_ring_used(ring);

	if ((int32_t)ahead <= 0)
		return 0;
	return ahead < room ? ahead : room;
}

/* False if the ring is full; nothing is lost, the token stays the caller's. */
static inline bool jst_ring_push(struct jst_ring_producer *ring, const struct jst_token *token)
{
	struct jst_abi_token *slot = &ring->region->ring[ring->head & JST_RING_MASK];

	if (jst_ring_used(ring) == JST_RING_TOKENS)
		return false;
	slot->due_ns = token->due_ns;
	slot->bytes = token->bytes;
	slot->ops = token->ops;
	/* release: the slot is written before it is announced */
	atomic_store_explicit(&ring->region->daemon.head, ++ring->head, memory_order_release);
	return true;
}

/*
 * Is the client asleep for want of what was just pushed? Asked once after a
 * batch. seq_cst: announced, then looked; pairs with jst_ring_wait().
 */
static inline bool jst_ring_must_wake(const struct jst_ring_producer *ring)
{
	atomic_store_explicit(&ring->region->daemon.head, ring->head, memory_order_seq_cst);
	return atomic_load_explicit(&ring->region->client.client_waits, memory_order_seq_cst);
}

/*
 * Consumer: the other side, as the client keeps it.
 */
struct jst_ring_consumer {
	struct jst_abi_region *region;
	uint32_t tail;
};

/* The oldest token, left in place; false if there is none. */
static inline bool jst_ring_peek(const struct jst_ring_consumer *ring, struct jst_token *token)
{
	/* acquire: pairs with the release in jst_ring_push */
	uint32_t head = atomic_load_explicit(&ring->region->daemon.head, memory_order_acquire);
	const struct jst_abi_token *slot = &ring->region->ring[ring->tail & JST_RING_MASK];

	if (head == ring->tail)
		return false;
	token->due_ns = slot->due_ns;
	token->bytes = slot->bytes;
	token->ops = slot->ops;
	return true;
}

/* Tokens in the ring, due or not. */
static inline uint32_t jst_ring_tokens(const struct jst_ring_consumer *ring)
{
	uint32_t head = atomic_load_explicit(&ring->region->daemon.head, memory_order_acquire);
	uint32_t tokens = head - ring->tail;

	return tokens > JST_RING_TOKENS ? JST_RING_TOKENS : tokens;
}

/* Has the daemon already given all that is wanted up to this position? */
static inline bool jst_ring_covers(const struct jst_ring_consumer *ring, uint32_t wanted)
{
	uint32_t head = atomic_load_explicit(&ring->region->daemon.head, memory_order_acquire);

	return (int32_t)(wanted - head) <= 0;
}

/*
 * Says that the client is about to sleep for want of tokens, or no longer is.
 * True if there are tokens after all. seq_cst: said, then looked; one of the
 * two sides sees the other.
 */
static inline bool jst_ring_wait(const struct jst_ring_consumer *ring, bool waits)
{
	atomic_store_explicit(&ring->region->client.client_waits, waits, memory_order_seq_cst);
	return atomic_load_explicit(&ring->region->daemon.head, memory_order_seq_cst) !=
	       ring->tail;
}

/* Gives the slot of the token last peeked at back to the daemon. */
static inline void jst_ring_drop(struct jst_ring_consumer *ring)
{
	/* release: the slot was read before it is given back */
	atomic_store_explicit(&ring->region->client.tail, ++ring->tail, memory_order_release);
}

#endif
