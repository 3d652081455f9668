/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * traffic.h - random work requests, and a model of what they do to memory.
 *
 * Both sides generate the same operations from the same seed, one round after
 * another, and apply them to a model in order. One side of a queue pair is
 * active (it posts them), the other passive. Four areas belong to it:
 *
 *   active:  SOURCE (what is sent or written; filled anew every round)
 *            RESULT (where reads and atomics put what they bring)
 *   passive: TARGET (where writes, reads and atomics go)
 *            RECEIVE (where sends arrive)
 *
 * At the end of a round every byte of the areas in memory must be as in the model.
 */
#ifndef T_TRAFFIC_H
#define T_TRAFFIC_H

#include <infiniband/verbs.h>

#include "random.h"

enum t_area { T_SOURCE, T_RESULT, T_TARGET, T_RECEIVE, T_AREAS };

struct t_traffic_options {
	uint64_t seed;
	uint32_t max_bytes;
	uint32_t sge;
	uint32_t inline_bytes;	  /* messages up to this may go inline; 0: none */
	unsigned int unsignaled;  /* per cent */
	uint32_t signal_distance; /* at least every so many is signalled */
	uint32_t ops;		  /* bits 1 << enum ibv_wr_opcode */
};

struct t_op {
	enum ibv_wr_opcode opcode;
	unsigned int flags; /* enum ibv_send_flags */
	uint32_t bytes;
	uint32_t remote_offset;	/* in TARGET */
	uint64_t wr_id;
	uint64_t compare_add;
	uint64_t swap;
	uint32_t imm;		/* host order */
	struct t_layout local;	/* in SOURCE or RESULT */
	/* the receive that it consumes */
	bool receives;
	uint64_t recv_wr_id;
	struct t_layout recv;	/* in RECEIVE */
};

#define T_OPS_MOST 512u

struct t_traffic {
	struct t_traffic_options options;
	struct t_random random;
	uint32_t qp;
	uint64_t generated;
	uint32_t area_bytes;
	uint8_t *model[T_AREAS];
	uint8_t *plain; /* a message in one piece, while it is applied */
	struct t_op op[T_OPS_MOST];
	uint32_t ops;
};

/* Bytes of one area for messages up to @max_bytes, with room for gaps and guards. */
uint32_t t_traffic_area_bytes(uint32_t max_bytes);

void t_traffic_init(struct t_traffic *traffic, const struct t_traffic_options *options,
		    uint32_t qp);
void t_traffic_free(struct t_traffic *traffic);

/* The next @ops operations; the model is then as memory must be afterwards. */
void t_traffic_round(struct t_traffic *traffic, uint32_t ops);

/* "WRITE of 70000 bytes in 3 pieces to offset 12, op 4711 of queue pair 2" */
const char *t_op_text(const struct t_traffic *traffic, const struct t_op *op);

/* The name after IBV_WR_. */
const char *t_opcode_name(enum ibv_wr_opcode opcode);

#endif
