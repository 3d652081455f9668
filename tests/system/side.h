/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * side.h - one side of a test between two processes: a device, completion
 * queues of either kind, queue pairs that are connected to the other side's,
 * and a unix socket to it.
 *
 * These are test programs: what goes wrong is said on stderr, and the program
 * exits with status 1 (a difference) or 2 (the set-up failed).
 */
#ifndef T_SIDE_H
#define T_SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define T_QPS 64u

struct t_side_options {
	const char *device; /* NULL: the first one */
	const char *socket; /* path of a unix socket; NULL: both sides in one process */
	bool server;
	int gid_index;	    /* -1: found by itself */
	uint32_t qps;
	uint32_t send_wr;
	uint32_t recv_wr;
	uint32_t sge;
	uint32_t inline_bytes;
	uint32_t cqe;	    /* 0: as many as there may be completions */
	bool extended_qp;   /* for ibv_wr_*() */
	bool extended_cq;   /* polled with ibv_start_poll() */
	bool events;	    /* with a completion channel */
	bool signal_all;
	uint8_t timeout;    /* as in ibv_qp_attr; 0 is infinite there, 14 here */
	uint8_t retry;
	uint8_t rnr_retry;
};

struct t_side {
	struct t_side_options options;
	struct ibv_context *context;
	struct ibv_port_attr port;
	int gid_index; /* -1: none */
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_cq_ex *send_cq_ex, *recv_cq_ex; /* NULL for the legacy kind */
	struct ibv_qp *qp[T_QPS];
	int fd;
};

/* A completion, whichever way it was polled. */
struct t_completion {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len;
	uint32_t imm; /* host order; 0 without IBV_WC_WITH_IMM */
	unsigned int flags;
	uint32_t qpn;
};

_Noreturn void t_die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The result if it is not NULL; else the end, with @what and errno. */
void *t_must(void *pointer, const char *what);
/* The end, with @what, if @error (an errno, positive or negative) is not 0. */
void t_ok(int error, const char *what);

uint64_t t_now_ns(void);

/* Device, PD, completion queues, and queue pairs in INIT. Connects the socket. */
void t_side_open(struct t_side *side, const struct t_side_options *options);
/* Brings all queue pairs to RTS, each towards the other side's of the same number. */
void t_side_connect(struct t_side *side);
void t_side_close(struct t_side *side);

/* Sends @bytes of @out and receives as many into @in: a barrier, too. */
void t_side_swap(struct t_side *side, const void *out, void *in, size_t bytes);

/* Is the socket still open on the other side? */
bool t_side_has_peer(const struct t_side *side);

/* One queue pair more (or anew), in INIT. */
struct ibv_qp *t_side_make_qp(struct t_side *side);
/* What the steps of connecting need, for programs that do them one by one. */
struct t_side_address {
	uint32_t qpn;
	uint32_t lid;
	union ibv_gid gid;
};
struct t_side_address t_side_address(const struct t_side *side, const struct ibv_qp *qp);
void t_side_to_init(struct t_side *side, struct ibv_qp *qp);
void t_side_to_rts(struct t_side *side, struct ibv_qp *qp, const struct t_side_address *peer);

/* Up to @most completions; 0 if there are none now. */
int t_side_poll(struct t_side *side, bool receives, struct t_completion *out, int most);

/* With events: arms both queues; the caller polls once more before it sleeps. */
void t_side_arm(struct t_side *side);
/* With events: sleeps until one comes, at most @milliseconds. False: none came. */
bool t_side_sleep(struct t_side *side, int milliseconds);

#endif
