// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* rc.c - one reliable connection on one device. */
#include "rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 1
#define PSN 0x1234

static int failed(const char *what)
{
	int error = errno ? errno : EIO;

	fprintf(stderr, "%s: %s\n", what, strerror(error));
	return -error;
}

static int no_such_device(struct ibv_device **list, const char *name)
{
	fprintf(stderr, "no RDMA device '%s'; there are:%s", name ? name : "(any)",
		list && *list ? "" : " none");
	for (; list && *list; list++)
		fprintf(stderr, " %s", ibv_get_device_name(*list));
	fprintf(stderr, "\n");
	return -ENODEV;
}

static int open_device(struct t_rc *rc, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device **at = list;
	int ret = 0;

	while (at && *at && name && strcmp(ibv_get_device_name(*at), name))
		at++;
	if (!at || !*at) {
		ret = no_such_device(list, name);
	} else {
		rc->context = ibv_open_device(*at);
		if (!rc->context)
			ret = failed("opening the device");
		rc->owns_context = rc->context != NULL;
	}
	if (list)
		ibv_free_device_list(list);
	return ret;
}

static int make_buffer(struct t_rc *rc, size_t bytes)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	if (posix_memalign(&rc->buffer, 4096, bytes))
		return failed("allocating the buffer");
	memset(rc->buffer, 0, bytes);
	rc->mr = ibv_reg_mr(rc->pd, rc->buffer, bytes, access);
	return rc->mr ? 0 : failed("registering the buffer");
}

static int make_qp(struct t_rc *rc, const struct t_rc_options *options)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.cap = {
			.max_send_wr = options->max_send_wr,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = options->max_inline_bytes,
		},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = rc->pd,
	};

	if (options->extended) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	}
	rc->qp = ibv_create_qp_ex(rc->context, &attr);
	if (!rc->qp)
		return failed("creating the queue pair");
	rc->qp_ex = options->extended ? ibv_qp_to_qp_ex(rc->qp) : NULL;
	return 0;
}

static int qp_to_init(struct t_rc *rc)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	if (ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						 IBV_QP_ACCESS_FLAGS))
		return failed("taking the queue pair to INIT");
	return 0;
}

static int describe(struct t_rc *rc)
{
	struct ibv_port_attr port;

	if (ibv_query_port(rc->context, PORT, &port))
		return failed("querying the port");
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET && rc->gid_index < 0)
		rc->gid_index = 0;
	rc->mtu = port.active_mtu;
	rc->self = (struct t_rc_address){
		.remote_addr = (uintptr_t)rc->buffer,
		.rkey = rc->mr->rkey,
		.qpn = rc->qp->qp_num,
		.psn = PSN,
		.lid = port.lid,
	};
	if (rc->gid_index >= 0 && ibv_query_gid(rc->context, PORT, rc->gid_index, &rc->self.gid))
		return failed("querying the GID");
	return 0;
}

static int open_on_context(struct t_rc *rc, const struct t_rc_options *options)
{
	int ret;

	rc->gid_index = options->gid_index;
	rc->pd = ibv_alloc_pd(rc->context);
	if (!rc->pd)
		return failed("allocating the protection domain");
	rc->cq = ibv_create_cq(rc->context, (int)options->max_send_wr, NULL, NULL, 0);
	if (!rc->cq)
		return failed("creating the completion queue");
	ret = make_buffer(rc, options->buffer_bytes);
	if (!ret)
		ret = make_qp(rc, options);
	if (!ret)
		ret = qp_to_init(rc);
	return ret ? ret : describe(rc);
}

int t_rc_open(struct t_rc *rc, const struct t_rc_options *options)
{
	int ret;

	memset(rc, 0, sizeof(*rc));
	ret = open_device(rc, options->device);
	return ret ? ret : open_on_context(rc, options);
}

int t_rc_open_beside(struct t_rc *rc, const struct t_rc *owner, const struct t_rc_options *options)
{
	memset(rc, 0, sizeof(*rc));
	rc->context = owner->context;
	return open_on_context(rc, options);
}

static int qp_to_rtr(struct t_rc *rc, const struct t_rc_address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = rc->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = (uint16_t)peer->lid, .port_num = PORT },
	};

	if (rc->gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)rc->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	if (ibv_modify_qp(rc->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		return failed("taking the queue pair to RTR");
	return 0;
}

static int qp_to_rts(struct t_rc *rc)
{
	/* Timeout 4.096 us x 2^20 = 4 s: a slowed-down card must not look dead. */
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 20,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = PSN,
		.max_rd_atomic = 1,
	};

	if (ibv_modify_qp(rc->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return failed("taking the queue pair to RTS");
	return 0;
}

int t_rc_connect(struct t_rc *rc, const struct t_rc_address *peer)
{
	int ret = qp_to_rtr(rc, peer);

	return ret ? ret : qp_to_rts(rc);
}

void t_rc_close(struct t_rc *rc)
{
	if (rc->qp)
		ibv_destroy_qp(rc->qp);
	if (rc->mr)
		ibv_dereg_mr(rc->mr);
	if (rc->cq)
		ibv_destroy_cq(rc->cq);
	if (rc->pd)
		ibv_dealloc_pd(rc->pd);
	free(rc->buffer);
	if (rc->owns_context)
		ibv_close_device(rc->context);
	memset(rc, 0, sizeof(*rc));
}
