/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * bench.h - two connected queue pairs, A and B, of one process, and everything
 * that an application sees of them as lines of a transcript.
 */
#ifndef T_BENCH_H
#define T_BENCH_H

#include "side.h"

#define T_BENCH_BUFFER_BYTES (2u << 20)
#define T_BENCH_DEPTH 16u
#define T_BENCH_WRS 128u

struct t_bench {
	struct t_side side;
	bool extended;
	const char *only;
	uint8_t *memory;
	struct ibv_mr *local;  /* all of memory */
	struct ibv_mr *remote; /* of T_BENCH_BUFFER_BYTES from memory + T_BENCH_BUFFER_BYTES on */
	struct ibv_qp *a, *b;
	struct ibv_send_wr wr[T_BENCH_WRS];
	struct ibv_sge sge[T_BENCH_WRS];
	uint32_t n;
	uint32_t room; /* not 0: what is printed of posts is relative to it */
};

void t_bench_open(struct t_bench *bench);
void t_bench_close(struct t_bench *bench);

/* A and B, anew for every case. What is left of events is printed at the end. */
void t_bench_make_pair(struct t_bench *bench);
void t_bench_drop_pair(struct t_bench *bench);
void t_bench_to_rts(struct t_bench *bench);
void t_bench_set_state(struct ibv_qp *qp, enum ibv_qp_state state);
void t_bench_destroy(struct ibv_qp **qp);

/* Adds a signalled work request to the list; t_bench_post() posts the list to A. */
struct ibv_send_wr *t_bench_add(struct t_bench *bench, enum ibv_wr_opcode opcode, uint32_t bytes);
struct ibv_send_wr *t_bench_add_write(struct t_bench *bench, uint32_t bytes);
/* Prints what came of it. Returns the error. */
int t_bench_post(struct t_bench *bench);
void t_bench_post_receive(struct t_bench *bench, uint64_t wr_id, uint32_t bytes);

/* Prints @n completions of one queue, or says how many did not come. */
void t_bench_completions(struct t_bench *bench, bool receives, int n);
void t_bench_state(const char *name, struct ibv_qp *qp);

#endif
