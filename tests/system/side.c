// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* side.c - device, queues, connection and socket of one side of a test. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "side.h"

#define PORT 1
#define READS_IN_FLIGHT 4
#define CONNECT_TRIES 2000
#define ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |            \
	 IBV_ACCESS_REMOTE_ATOMIC)

void t_die(int status, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

void *t_must(void *pointer, const char *what)
{
	if (!pointer)
		t_die(2, "%s: %s", what, strerror(errno));
	return pointer;
}

void t_ok(int error, const char *what)
{
	if (error)
		t_die(2, "%s: %s", what, strerror(error == -1 ? errno : abs(error)));
}

uint64_t t_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- socket ------------------------------------------------------------ */

static int listen_and_accept(const struct sockaddr_un *address)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd;
	struct pollfd ready = {.fd = listener, .events = POLLIN};

	t_ok(listener < 0 ? errno : 0, "socket");
	t_ok(bind(listener, (const void *)address, sizeof(*address)), address->sun_path);
	t_ok(listen(listener, 1), "listen");
	if (poll(&ready, 1, 20000) != 1)
		t_die(2, "nobody connected to %s", address->sun_path);
	fd = accept(listener, NULL, NULL);
	t_ok(fd < 0 ? errno : 0, "accept");
	close(listener);
	unlink(address->sun_path);
	return fd;
}

static int connect_patiently(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	t_ok(fd < 0 ? errno : 0, "socket");
	for (int i = 0; connect(fd, (const void *)address, sizeof(*address)); i++) {
		if (i == CONNECT_TRIES)
			t_die(2, "connect to %s: %s", address->sun_path, strerror(errno));
		usleep(10000);
	}
	return fd;
}

static int meet(const struct t_side_options *options)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(options->socket) >= sizeof(address.sun_path))
		t_die(2, "socket path '%s' is longer than %zu", options->socket,
		      sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, options->socket);
	return options->server ? listen_and_accept(&address) : connect_patiently(&address);
}

void t_side_swap(struct t_side *side, const void *out, void *in, size_t bytes)
{
	size_t done = 0;

	if (send(side->fd, out, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		t_die(2, "the other side is gone");
	while (done < bytes) {
		ssize_t got = recv(side->fd, (char *)in + done, bytes - done, 0);

		if (got <= 0)
			t_die(2, "the other side is gone");
		done += (size_t)got;
	}
}

bool t_side_has_peer(const struct t_side *side)
{
	char byte;

	return recv(side->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/* ---- device ------------------------------------------------------------ */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = t_must(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			break;
	if (!list[i])
		t_die(2, "no RDMA device '%s'", name ? name : "(any)");
	context = t_must(ibv_open_device(list[i]), "ibv_open_device");
	ibv_free_device_list(list);
	return context;
}

/* The first GID of RoCE v2, or the first one at all; -1 on InfiniBand. */
static int find_gid(const struct t_side *side)
{
	int first = -1;

	if (side->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return -1;
	for (int i = 0; i < side->port.gid_tbl_len; i++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(side->context, PORT, (uint32_t)i, &entry, 0))
			continue;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			return i;
		if (first < 0)
			first = i;
	}
	if (first < 0)
		t_die(2, "port 1 has no GID");
	return first;
}

static struct ibv_cq *make_cq(struct t_side *side, uint32_t cqe, struct ibv_cq_ex **extended)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = side->channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
	};

	*extended = NULL;
	if (!side->options.extended_cq)
		return t_must(ibv_create_cq(side->context, (int)cqe, NULL, side->channel, 0),
			      "ibv_create_cq");
	*extended = t_must(ibv_create_cq_ex(side->context, &attr), "ibv_create_cq_ex");
	return ibv_cq_ex_to_cq(*extended);
}

struct ibv_qp *t_side_make_qp(struct t_side *side)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = side->send_cq,
		.recv_cq = side->recv_cq,
		.cap = {
			.max_send_wr = side->options.send_wr,
			.max_recv_wr = side->options.recv_wr,
			.max_send_sge = side->options.sge,
			.max_recv_sge = side->options.sge,
			.max_inline_data = side->options.inline_bytes,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = side->options.signal_all,
		.pd = side->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	if (side->options.extended_qp) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				      IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
		return t_must(ibv_create_qp_ex(side->context, &attr), "ibv_create_qp_ex");
	}
	/* the plain call takes the first members of the same structure */
	return t_must(ibv_create_qp(side->pd, (struct ibv_qp_init_attr *)&attr), "ibv_create_qp");
}

void t_side_to_init(struct t_side *side, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = ACCESS,
	};

	(void)side;
	t_ok(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "queue pair to INIT");
}

struct t_side_address t_side_address(const struct t_side *side, const struct ibv_qp *qp)
{
	return (struct t_side_address){qp->qp_num, side->port.lid, side->gid};
}

static void to_rtr(struct t_side *side, struct ibv_qp *qp, const struct t_side_address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = side->port.active_mtu,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = READS_IN_FLIGHT,
		.min_rnr_timer = 1,
		.ah_attr = {.dlid = (uint16_t)peer->lid, .port_num = PORT},
	};

	if (side->gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)side->gid_index;
		attr.ah_attr.grh.hop_limit = 16;
	}
	t_ok(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER),
	     "queue pair to RTR");
}

void t_side_to_rts(struct t_side *side, struct ibv_qp *qp, const struct t_side_address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = side->options.timeout ? side->options.timeout : 14,
		.retry_cnt = side->options.retry ? side->options.retry : 7,
		.rnr_retry = side->options.rnr_retry ? side->options.rnr_retry : 7,
		.max_rd_atomic = READS_IN_FLIGHT,
	};

	to_rtr(side, qp, peer);
	t_ok(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "queue pair to RTS");
}

void t_side_open(struct t_side *side, const struct t_side_options *options)
{
	uint32_t send_cqe = options->cqe ? options->cqe : options->qps * options->send_wr + 1;
	uint32_t recv_cqe = options->cqe ? options->cqe : options->qps * options->recv_wr + 1;

	*side = (struct t_side){.options = *options, .fd = -1};
	if (options->qps > T_QPS)
		t_die(2, "%u queue pairs are more than %u", options->qps, T_QPS);
	side->context = open_device(options->device);
	t_ok(ibv_query_port(side->context, PORT, &side->port), "ibv_query_port");
	side->gid_index = options->gid_index >= 0 ? options->gid_index : find_gid(side);
	if (side->gid_index >= 0)
		t_ok(ibv_query_gid(side->context, PORT, side->gid_index, &side->gid),
		     "ibv_query_gid");
	side->pd = t_must(ibv_alloc_pd(side->context), "ibv_alloc_pd");
	if (options->events)
		side->channel = t_must(ibv_create_comp_channel(side->context),
				       "ibv_create_comp_channel");
	side->send_cq = make_cq(side, send_cqe, &side->send_cq_ex);
	side->recv_cq = make_cq(side, recv_cqe, &side->recv_cq_ex);
	for (uint32_t i = 0; i < options->qps; i++) {
		side->qp[i] = t_side_make_qp(side);
		t_side_to_init(side, side->qp[i]);
	}
	if (options->socket)
		side->fd = meet(options);
}

void t_side_connect(struct t_side *side)
{
	struct t_side_address self[T_QPS] = {0}, peer[T_QPS];
	uint32_t qps = side->options.qps;

	for (uint32_t i = 0; i < qps; i++)
		self[i] = t_side_address(side, side->qp[i]);
	t_side_swap(side, self, peer, qps * sizeof(self[0]));
	for (uint32_t i = 0; i < qps; i++)
		t_side_to_rts(side, side->qp[i], &peer[i]);
}

void t_side_close(struct t_side *side)
{
	for (uint32_t i = 0; i < side->options.qps; i++)
		if (side->qp[i])
			t_ok(ibv_destroy_qp(side->qp[i]), "ibv_destroy_qp");
	t_ok(ibv_destroy_cq(side->send_cq), "ibv_destroy_cq");
	t_ok(ibv_destroy_cq(side->recv_cq), "ibv_destroy_cq");
	if (side->channel)
		t_ok(ibv_destroy_comp_channel(side->channel), "ibv_destroy_comp_channel");
	t_ok(ibv_dealloc_pd(side->pd), "ibv_dealloc_pd");
	t_ok(ibv_close_device(side->context), "ibv_close_device");
	if (side->fd >= 0)
		close(side->fd);
}

/* ---- completions ------------------------------------------------------- */

static int poll_legacy(struct ibv_cq *cq, struct t_completion *out, int most)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, most < 16 ? most : 16, wc);

	if (n < 0)
		t_die(1, "ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++)
		out[i] = (struct t_completion){
			.wr_id = wc[i].wr_id,
			.status = wc[i].status,
			.opcode = wc[i].opcode,
			.byte_len = wc[i].byte_len,
			.imm = wc[i].wc_flags & IBV_WC_WITH_IMM ? ntohl(wc[i].imm_data) : 0,
			.flags = wc[i].wc_flags,
			.qpn = wc[i].qp_num,
		};
	return n;
}

static struct t_completion read_extended(struct ibv_cq_ex *cq)
{
	struct t_completion one = {
		.wr_id = cq->wr_id,
		.status = cq->status,
		.qpn = ibv_wc_read_qp_num(cq),
	};

	/* of a failed request nothing else is defined */
	if (one.status != IBV_WC_SUCCESS)
		return one;
	one.opcode = ibv_wc_read_opcode(cq);
	one.flags = ibv_wc_read_wc_flags(cq);
	one.byte_len = ibv_wc_read_byte_len(cq);
	if (one.flags & IBV_WC_WITH_IMM)
		one.imm = ntohl(ibv_wc_read_imm_data(cq));
	return one;
}

static int poll_extended(struct ibv_cq_ex *cq, struct t_completion *out, int most)
{
	struct ibv_poll_cq_attr attr = {0};
	int error = ibv_start_poll(cq, &attr), n = 0;

	if (error == ENOENT)
		return 0;
	while (!error) {
		out[n++] = read_extended(cq);
		if (n == most)
			break;
		error = ibv_next_poll(cq);
	}
	if (error && error != ENOENT)
		t_die(1, "polling an extended CQ: %s", strerror(error));
	ibv_end_poll(cq);
	return n;
}

int t_side_poll(struct t_side *side, bool receives, struct t_completion *out, int most)
{
	struct ibv_cq_ex *extended = receives ? side->recv_cq_ex : side->send_cq_ex;

	if (extended)
		return poll_extended(extended, out, most);
	return poll_legacy(receives ? side->recv_cq : side->send_cq, out, most);
}

void t_side_arm(struct t_side *side)
{
	t_ok(ibv_req_notify_cq(side->send_cq, 0), "ibv_req_notify_cq");
	t_ok(ibv_req_notify_cq(side->recv_cq, 0), "ibv_req_notify_cq");
}

bool t_side_sleep(struct t_side *side, int milliseconds)
{
	struct pollfd ready = {.fd = side->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&ready, 1, milliseconds) != 1)
		return false;
	t_ok(ibv_get_cq_event(side->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}
