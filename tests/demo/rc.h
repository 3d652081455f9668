/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * rc.h - one reliable connection on one device: the verbs that the small
 * measuring programs share. All functions print what went wrong on stderr and
 * return 0 or a negative errno.
 */
#ifndef T_RC_H
#define T_RC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct t_rc_options {
	const char *device;   /* NULL: the first one */
	size_t buffer_bytes;
	uint32_t max_send_wr;
	uint32_t max_inline_bytes;
	int gid_index;	      /* -1: none, LIDs only */
	bool extended;	      /* a queue pair for ibv_wr_rdma_write() too */
};

/* What a peer has to know; sent as it is between processes of one machine. */
struct t_rc_address {
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
	uint32_t lid;
	union ibv_gid gid;
};

struct t_rc {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex; /* NULL unless asked for */
	void *buffer;
	int gid_index;
	bool owns_context; /* false: opened beside another */
	enum ibv_mtu mtu;
	struct t_rc_address self;
};

/* Opens the device and makes everything up to a queue pair in INIT. */
int t_rc_open(struct t_rc *rc, const struct t_rc_options *options);

/* A second queue pair on the device of @owner, with a CQ and a buffer of its own. */
int t_rc_open_beside(struct t_rc *rc, const struct t_rc *owner,
		     const struct t_rc_options *options);

/* INIT to RTS, towards @peer. */
int t_rc_connect(struct t_rc *rc, const struct t_rc_address *peer);

void t_rc_close(struct t_rc *rc);

#endif
