/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * core.h - the policy on one page.
 *
 * Pure functions: no clock, no system call, no allocation, no globals. Time is
 * an argument. The daemon, the library and the simulator run the same objects.
 *
 * The words, each defined once:
 *
 *   app        one client process of the daemon; it has a class and a weight
 *   flow       one queue pair of an app
 *   class      latency, throughput or bandwidth (paper 4.2)
 *   message    what the application posted: one work request
 *   chunk      what the shaper posts to the card: a message or a piece of it
 *   lane       where chunks are posted
 *   token      permission for so many bytes and so many operations (4.3.4)
 *   balance    what an app may still spend of the tokens that it took
 *   MaxRate    what the card reaches, in bytes/s and in operations/s
 *   Rmin       the rate that throughput and bandwidth apps never go below (4.3.1)
 *   SafeUtil   the rate at which tokens are made now; Rmin <= SafeUtil <= MaxRate
 *   Target99   the 99th percentile of latency that the operator asks for
 */
#ifndef JST_CORE_H
#define JST_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- class.c: classes and weights ------------------------------------- */

enum jst_class {
	JST_CLASS_BANDWIDTH, /* the default: nothing was said */
	JST_CLASS_THROUGHPUT,
	JST_CLASS_LATENCY,
	JST_CLASSES
};

/* Weights are in thousandths: 1500 is one and a half shares. */
#define JST_WEIGHT_MILLI_MIN 100u
#define JST_WEIGHT_MILLI_DEFAULT 1000u
#define JST_WEIGHT_MILLI_MAX 100000u

/* "bandwidth", "throughput", "latency"; "?" for anything else. */
const char *jst_class_name(uint32_t class);

/* 0, or -EINVAL if @text is not one of the three names. */
int jst_class_parse(const char *text, enum jst_class *class);

/* "1", "0.25", "1.5": at most three decimals. 0, -EINVAL, or -ERANGE. */
int jst_weight_parse(const char *text, uint32_t *weight_milli);

/* ---- capacity.c: how fast tokens are made, and how large they are ----- */

/* What one card can do and what the operator chose for it. */
struct jst_card {
	uint64_t max_bytes_per_s;	/* MaxRate with tokens of token_bytes_large */
	uint64_t max_bytes_small_per_s; /* MaxRate with tokens of token_bytes_small */
	uint64_t max_ops_per_s;		/* MaxRate in operations */
	uint32_t token_bytes_large;	/* TokenBytes while no latency app is there */
	uint32_t token_bytes_small;	/* TokenBytes beside a latency app (5.2) */
	bool count_latency_once;	/* L counts as one app, however many (4.3.1) */
};

/* Who shares the card: the sums of weights by class. */
struct jst_population {
	uint64_t weight_milli[JST_CLASSES];
	uint32_t apps[JST_CLASSES];
};

/* The result: one token of {token_bytes, token_ops} every token_interval_ns. */
struct jst_rate {
	uint64_t safeutil_bytes_per_s;
	uint64_t safeutil_ops_per_s;
	uint64_t rmin_bytes_per_s;
	uint64_t rmin_ops_per_s;
	uint32_t token_bytes;
	uint32_t token_ops;
	uint64_t token_interval_ns;
};

/*
 * Rmin, SafeUtil and the token for this population. SafeUtil is MaxRate
 * without latency apps and Rmin with them. @card's fields must be positive.
 */
void jst_capacity(const struct jst_card *card, const struct jst_population *pop,
		  struct jst_rate *rate);

/* ---- bucket.c: what an app may spend ---------------------------------- */

struct jst_token {
	uint64_t due_ns; /* not to be used before: the token's slot in time */
	uint32_t bytes;
	uint32_t ops;
};

/*
 * A balance may go negative: a chunk is allowed while both resources are
 * positive, and its cost is paid in full. So a message that cannot be split
 * is paced by the debt that it leaves, and remainders are never lost.
 */
struct jst_balance {
	int64_t bytes;
	int64_t ops;
};

/* Adds @token; neither resource ends up above one token of the size in force. */
void jst_balance_add(struct jst_balance *balance, const struct jst_token *token,
		     uint32_t cap_bytes, uint32_t cap_ops);

/* Cuts the balance to one token, after tokens became smaller. */
void jst_balance_clamp(struct jst_balance *balance, uint32_t cap_bytes, uint32_t cap_ops);

bool jst_balance_allows(const struct jst_balance *balance);

void jst_balance_spend(struct jst_balance *balance, uint64_t bytes, uint64_t ops);

/*
 * How many tokens of {token_bytes, token_ops} it takes until @queued_bytes and
 * @queued_ops have been let through: 0 if the balance allows it all now.
 */
uint64_t jst_balance_short(const struct jst_balance *balance, uint64_t queued_bytes,
			   uint64_t queued_ops, uint32_t token_bytes, uint32_t token_ops);

/* ---- split.c: a chunk of a scattered message -------------------------- */

/* Same members as struct ibv_sge; the core does not know verbs. */
struct jst_segment {
	uint64_t addr;
	uint32_t length;
	uint32_t key;
};

/*
 * The segments of @in that hold bytes [offset, offset + length) of the message,
 * written to @out (room for @n). Returns their number; the range must lie
 * within the message.
 */
uint32_t jst_split(const struct jst_segment *in, uint32_t n, uint64_t offset, uint64_t length,
		   struct jst_segment *out);

/*
 * The length of the next chunk of a message of which @left bytes remain: at
 * most @chunk_bytes. 0 only for an empty message.
 */
uint64_t jst_chunk_length(uint64_t left, uint32_t chunk_bytes);

/* ---- sched.c: weighted round robin over hungry apps ------------------- */

#define JST_SCHED_APPS 1024u

/*
 * Deficit round robin with one token as the unit: an app of weight 1.5 gets
 * one, then two tokens, in turn. All O(1) but for a scan over a bitmap.
 */
struct jst_sched {
	uint64_t hungry[JST_SCHED_APPS / 64];
	uint32_t weight_milli[JST_SCHED_APPS];
	uint32_t credit_milli[JST_SCHED_APPS];
	uint32_t cursor;
};

void jst_sched_init(struct jst_sched *sched);
void jst_sched_join(struct jst_sched *sched, uint32_t app, uint32_t weight_milli);
void jst_sched_set_hungry(struct jst_sched *sched, uint32_t app, bool hungry);
bool jst_sched_is_hungry(const struct jst_sched *sched, uint32_t app);

/* The app that gets the next token, or -1 if none is hungry. */
int jst_sched_next(struct jst_sched *sched);

#endif
