/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * abi.h - every byte that an application process and the daemon share.
 *
 * The two meet on a unix seqpacket socket. The client says JST_HELLO; the
 * daemon answers JST_WELCOME and, if it takes the client, passes one sealed
 * memfd with SCM_RIGHTS: the region. From then on the socket carries nothing
 * but nudges, which may be lost when it is full, because everything that they
 * point at lies in the region:
 *
 *   JST_LOOK  client to daemon: `wanted` or `flows` changed while you slept
 *   JST_WAKE  daemon to client: there are tokens, or the policy changed
 *
 * When the socket closes, the client is gone, or the daemon is.
 *
 * Each side validates what the other wrote, once, into private memory. One
 * writer per field. The daemon never reads back what it wrote.
 */
#ifndef JST_ABI_H
#define JST_ABI_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define JST_ABI_MAGIC 0x4a535431u /* "JST1" */
#define JST_ABI_VERSION 1u

#define JST_SOCKET_DEFAULT "/run/justitia/justitia.sock"

/* ---- messages ---------------------------------------------------------- */

enum jst_msg_type {
	JST_HELLO = 1,
	JST_WELCOME = 2,
	JST_LOOK = 3,
	JST_WAKE = 4,
	JST_STATUS = 5, /* justitiactl: answered with one JSON document, then closed */
};

struct jst_msg_header {
	uint32_t magic;	  /* JST_ABI_MAGIC */
	uint16_t version; /* JST_ABI_VERSION */
	uint16_t type;	  /* enum jst_msg_type */
};

#define JST_TEXT_BYTES 32

/*
 * The wishes are text as the application's environment had them, so that the
 * daemon parses, and complains, in one place. Empty: no wish. Not necessarily
 * terminated.
 */
struct jst_msg_hello {
	struct jst_msg_header header;
	char class[JST_TEXT_BYTES];	/* JUSTITIA_CLASS */
	char weight[JST_TEXT_BYTES];	/* JUSTITIA_WEIGHT */
	char device[64];		/* ibverbs device name, "mlx5_0" */
	uint8_t reserved[32];
};

struct jst_msg_welcome {
	struct jst_msg_header header;
	int32_t error;		/* 0, or a negative errno: no region follows */
	uint32_t class;		/* enum jst_class */
	uint32_t weight_milli;
	uint32_t region_bytes;
	uint8_t reserved[32];
};

static_assert(sizeof(struct jst_msg_header) == 8, "ABI");
static_assert(sizeof(struct jst_msg_hello) == 168, "ABI");
static_assert(sizeof(struct jst_msg_welcome) == 56, "ABI");

/* ---- the region -------------------------------------------------------- */

#define JST_CACHE_LINE 64
#define JST_RING_TOKENS 1024u /* a power of two */

/*
 * A token lies between `tail` and `head`; both run freely and are masked on
 * use. Its slot must not be used before due_ns (CLOCK_MONOTONIC).
 */
struct jst_abi_token {
	uint64_t due_ns;
	uint32_t bytes;
	uint32_t ops;
};

struct jst_abi_region {
	/* W: daemon, before the region is handed over. */
	struct {
		uint32_t magic;
		uint32_t version;
		uint32_t region_bytes;
		uint32_t ring_tokens;
		uint64_t client_id;
		uint32_t class;
		uint32_t weight_milli;
		uint8_t reserved[32];
	} id;

	/*
	 * W: daemon. R: client, for every chunk anew.
	 * chunk_bytes/token_ops: relaxed; each stands alone, and is also the cap
	 * of the balance in its resource.
	 */
	struct {
		_Atomic uint32_t chunk_bytes; /* TokenBytes */
		_Atomic uint32_t token_ops;   /* TokenOps */
		/* relaxed: a token is void so long after its slot, if there is a later one */
		_Atomic uint64_t token_life_ns;
		uint8_t reserved[48];
	} policy;

	/* W: daemon. */
	struct {
		/* release after the token was written; pairs with the client's acquire */
		_Atomic uint32_t head;
		/*
		 * 1: asleep, send JST_LOOK. seq_cst store, then a look at
		 * `wanted` and `flows`; pairs with the client's store to those
		 * and its look here. One of the two sees the other.
		 */
		_Atomic uint32_t daemon_waits;
		uint8_t reserved[56];
	} daemon;

	/* W: client. The daemon clamps what it reads. */
	struct {
		/* release when the slot was read; pairs with the daemon's acquire */
		_Atomic uint32_t tail;
		/* seq_cst: the ring position up to which the app has use for tokens */
		_Atomic uint32_t wanted;
		/* seq_cst: queue pairs that are shaped, or would be (latency class) */
		_Atomic uint32_t flows;
		/* seq_cst: 1: asleep without tokens, send JST_WAKE; pairs with `head` */
		_Atomic uint32_t client_waits;
		/* relaxed: work requests posted to the card; it moves while the app is at work */
		_Atomic uint32_t posted;
		/* relaxed: tokens spent, those let go not counted */
		_Atomic uint32_t used;
		uint8_t reserved[40];
	} client;

	/* W: client, relaxed. Statistics: shown, never trusted. */
	struct {
		_Atomic uint64_t messages;	  /* work requests taken from the app */
		_Atomic uint64_t bytes;		  /* bytes posted to the card */
		_Atomic uint64_t chunks;	  /* work requests posted to the card */
		_Atomic uint64_t queued_bytes;	  /* waiting for tokens now */
		_Atomic uint64_t tokens;	  /* tokens taken */
		_Atomic uint64_t paced_whole;	  /* messages over a chunk, not split */
		_Atomic uint64_t unpaced;	  /* messages let through without tokens */
		uint8_t reserved[8];
	} stats;

	struct jst_abi_token ring[JST_RING_TOKENS];
};

#define JST_ABI_LINE(member, line)                                                              \
	static_assert(offsetof(struct jst_abi_region, member) == (line) * JST_CACHE_LINE,       \
		      "different writers, different cache lines")
JST_ABI_LINE(id, 0);
JST_ABI_LINE(policy, 1);
JST_ABI_LINE(daemon, 2);
JST_ABI_LINE(client, 3);
JST_ABI_LINE(stats, 4);
JST_ABI_LINE(ring, 5);
static_assert(sizeof(struct jst_abi_token) == 16, "ABI");
static_assert(sizeof(struct jst_abi_region) == 5 * JST_CACHE_LINE + JST_RING_TOKENS * 16, "ABI");
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

#endif
