// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* traffic.c - random work requests, and what they do to a model of memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "side.h"
#include "traffic.h"

#define ATOMIC_BYTES 8u
#define HOT_WORDS 4u /* half of the atomics meet on these */
#define OPCODES 7u

static const enum ibv_wr_opcode all_opcodes[OPCODES] = {
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_CMP_AND_SWP,  IBV_WR_ATOMIC_FETCH_AND_ADD,
};

const char *t_opcode_name(enum ibv_wr_opcode opcode)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CMP_SWAP",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_ADD",
	};

	return opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : "?";
}

const char *t_op_text(const struct t_traffic *traffic, const struct t_op *op)
{
	static char text[256];

	snprintf(text, sizeof(text),
		 "%s of %u bytes in %u pieces%s%s%s, remote offset %u, wr_id 0x%llx "
		 "(operation %u of %u of this round, queue pair %u)",
		 t_opcode_name(op->opcode), op->bytes, op->local.segments,
		 op->flags & IBV_SEND_INLINE ? " inline" : "",
		 op->flags & IBV_SEND_FENCE ? " fenced" : "",
		 op->flags & IBV_SEND_SIGNALED ? " signalled" : "", op->remote_offset,
		 (unsigned long long)op->wr_id, (unsigned int)(op - traffic->op), traffic->ops,
		 traffic->qp);
	return text;
}

uint32_t t_traffic_area_bytes(uint32_t max_bytes)
{
	uint32_t guarded = max_bytes + max_bytes / 2 + 16384;

	return guarded & ~4095u;
}

void t_traffic_init(struct t_traffic *traffic, const struct t_traffic_options *options,
		    uint32_t qp)
{
	memset(traffic, 0, sizeof(*traffic));
	traffic->options = *options;
	traffic->qp = qp;
	traffic->area_bytes = t_traffic_area_bytes(options->max_bytes);
	t_random_init(&traffic->random, options->seed, qp);
	for (int area = 0; area < T_AREAS; area++) {
		traffic->model[area] = t_must(malloc(traffic->area_bytes), "malloc");
		t_random_fill(&traffic->random, traffic->model[area], traffic->area_bytes);
	}
	traffic->plain = t_must(malloc(options->max_bytes + ATOMIC_BYTES), "malloc");
}

void t_traffic_free(struct t_traffic *traffic)
{
	for (int area = 0; area < T_AREAS; area++)
		free(traffic->model[area]);
	free(traffic->plain);
}

/* ---- generate ---------------------------------------------------------- */

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool brings_back(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_READ || is_atomic(opcode);
}

static enum ibv_wr_opcode draw_opcode(struct t_traffic *traffic)
{
	enum ibv_wr_opcode opcode;

	do
		opcode = all_opcodes[t_random_next(&traffic->random) % OPCODES];
	while (!(traffic->options.ops & 1u << opcode));
	return opcode;
}

static void draw_atomic(struct t_traffic *traffic, struct t_op *op)
{
	uint64_t words = traffic->area_bytes / ATOMIC_BYTES, word, old;

	words = t_random_next(&traffic->random) & 1 ? HOT_WORDS : words;
	word = t_random_next(&traffic->random) % words;
	op->bytes = ATOMIC_BYTES;
	op->remote_offset = (uint32_t)(word * ATOMIC_BYTES);
	memcpy(&old, traffic->model[T_TARGET] + op->remote_offset, ATOMIC_BYTES);
	op->compare_add = t_random_next(&traffic->random);
	/* compare with what is there in half of the cases, so that both outcomes happen */
	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP && t_random_next(&traffic->random) & 1)
		op->compare_add = old;
	op->swap = t_random_next(&traffic->random);
	op->local.segments = 1;
	op->local.segment[0].length = ATOMIC_BYTES;
	op->local.segment[0].offset = (uint32_t)t_random_between(
		&traffic->random, 0, traffic->area_bytes / ATOMIC_BYTES - 1) * ATOMIC_BYTES;
}

static void draw_message(struct t_traffic *traffic, struct t_op *op)
{
	const struct t_traffic_options *options = &traffic->options;
	struct t_random *random = &traffic->random;

	op->bytes = t_random_size(random, options->max_bytes);
	if (op->opcode != IBV_WR_RDMA_READ && options->inline_bytes &&
	    t_random_percent(random, 25)) {
		op->bytes = (uint32_t)t_random_between(random, 0, options->inline_bytes);
		op->flags |= IBV_SEND_INLINE;
	}
	op->remote_offset =
		(uint32_t)t_random_between(random, 0, traffic->area_bytes - op->bytes);
	t_layout_random(&op->local, random, traffic->area_bytes, op->bytes, options->sge);
}

static void draw_receive(struct t_traffic *traffic, struct t_op *op)
{
	struct t_random *random = &traffic->random;
	uint32_t bytes = op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : op->bytes;
	uint32_t spare = traffic->area_bytes - bytes, more = 0;

	/* as large as the message, or larger */
	if (t_random_next(random) & 1)
		more = (uint32_t)t_random_between(random, 0, spare < 8192 ? spare : 8192);
	op->receives = true;
	op->recv_wr_id = t_random_next(random);
	t_layout_random(&op->recv, random, traffic->area_bytes, bytes + more,
			traffic->options.sge);
}

static void draw(struct t_traffic *traffic, struct t_op *op, uint32_t since_signal, bool last)
{
	const struct t_traffic_options *options = &traffic->options;

	memset(op, 0, sizeof(*op));
	op->opcode = draw_opcode(traffic);
	op->wr_id = (t_random_next(&traffic->random) & ~0xfffffull) | (traffic->generated++ & 0xfffff);
	op->imm = (uint32_t)t_random_next(&traffic->random);
	if (last || since_signal + 1 >= options->signal_distance ||
	    !t_random_percent(&traffic->random, options->unsignaled))
		op->flags |= IBV_SEND_SIGNALED;
	if (t_random_percent(&traffic->random, 20))
		op->flags |= IBV_SEND_SOLICITED;
	if (t_random_percent(&traffic->random, 5))
		op->flags |= IBV_SEND_FENCE;
	if (is_atomic(op->opcode))
		draw_atomic(traffic, op);
	else
		draw_message(traffic, op);
	if (op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
	    op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		draw_receive(traffic, op);
}

/* ---- apply ------------------------------------------------------------- */

static void apply_atomic(struct t_traffic *traffic, const struct t_op *op)
{
	uint8_t *target = traffic->model[T_TARGET] + op->remote_offset;
	uint64_t old, new;

	memcpy(&old, target, ATOMIC_BYTES);
	new = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + op->compare_add
	      : old == op->compare_add			? op->swap
							: old;
	memcpy(target, &new, ATOMIC_BYTES);
	t_layout_scatter(&op->local, traffic->model[T_RESULT], (uint8_t *)&old, ATOMIC_BYTES);
}

static void apply(struct t_traffic *traffic, const struct t_op *op)
{
	uint8_t *target = traffic->model[T_TARGET] + op->remote_offset;

	if (is_atomic(op->opcode)) {
		apply_atomic(traffic, op);
		return;
	}
	if (op->opcode == IBV_WR_RDMA_READ) {
		t_layout_scatter(&op->local, traffic->model[T_RESULT], target, op->bytes);
		return;
	}
	t_layout_gather(&op->local, traffic->model[T_SOURCE], traffic->plain);
	if (op->opcode == IBV_WR_RDMA_WRITE || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		memcpy(target, traffic->plain, op->bytes);
	else
		t_layout_scatter(&op->recv, traffic->model[T_RECEIVE], traffic->plain, op->bytes);
}

/* ---- order ------------------------------------------------------------- */

static bool overlap(const struct t_op *a, const struct t_op *b)
{
	return a->remote_offset < b->remote_offset + b->bytes &&
	       b->remote_offset < a->remote_offset + a->bytes;
}

/*
 * A read and a later write of the same bytes are ordered only by a fence
 * (verbs: ordering of work requests), so one is set where they would meet.
 */
static void fence_where_needed(struct t_traffic *traffic, uint32_t index)
{
	struct t_op *op = &traffic->op[index];

	if (op->opcode != IBV_WR_RDMA_WRITE && op->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		return;
	while (index--) {
		const struct t_op *before = &traffic->op[index];

		if (brings_back(before->opcode) && overlap(before, op))
			op->flags |= IBV_SEND_FENCE;
		if (before->flags & IBV_SEND_FENCE)
			break;
	}
}

void t_traffic_round(struct t_traffic *traffic, uint32_t ops)
{
	uint32_t since_signal = 0;

	traffic->ops = ops;
	t_random_fill(&traffic->random, traffic->model[T_SOURCE], traffic->area_bytes);
	for (uint32_t i = 0; i < ops; i++) {
		struct t_op *op = &traffic->op[i];

		draw(traffic, op, since_signal, i + 1 == ops);
		since_signal = op->flags & IBV_SEND_SIGNALED ? 0 : since_signal + 1;
		fence_where_needed(traffic, i);
		apply(traffic, op);
	}
}
