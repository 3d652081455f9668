// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* fake_card.c - see fake_card.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <fcntl.h>

#include "fake_card.h"

/* ---- the card --------------------------------------------------------------- */

static struct fake_card *card_of_qp(struct ibv_qp *qp)
{
	return qp->qp_context;
}

static int post(struct fake_card *card, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	card->posts++;
	for (; wr; wr = wr->next) {
		struct fake_wr *slot = &card->queue[card->posted % FAKE_DEPTH];
		uint32_t bytes = 0;

		if (card->posted - card->retired >= card->depth) {
			*bad_wr = wr;
			return ENOMEM;
		}
		assert(wr->num_sge <= FAKE_SGES);
		slot->wr = *wr;
		for (int i = 0; i < wr->num_sge; i++) {
			slot->sges[i] = wr->sg_list[i];
			if (wr->send_flags & IBV_SEND_INLINE)
				memcpy(slot->inline_data + bytes,
				       (void *)(uintptr_t)wr->sg_list[i].addr,
				       wr->sg_list[i].length);
			bytes += wr->sg_list[i].length;
		}
		if (wr->send_flags & IBV_SEND_INLINE) {
			slot->sges[0] = (struct ibv_sge){ (uintptr_t)slot->inline_data, bytes, 0 };
			slot->wr.num_sge = bytes ? 1 : 0;
		}
		if (bytes > card->largest)
			card->largest = bytes;
		card->posted++;
	}
	return 0;
}

static int vendor_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct fake_card *card = card_of_qp(qp);
	int error;

	pthread_mutex_lock(&card->lock);
	error = post(card, wr, bad_wr);
	pthread_mutex_unlock(&card->lock);
	return error;
}

static int vendor_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake_card *card = cq->cq_context;
	int got = 0;

	pthread_mutex_lock(&card->lock);
	for (; got < n && card->cq_tail != card->cq_head; got++, card->cq_tail++) {
		wc[got] = card->cqes[card->cq_tail % FAKE_DEPTH];
		/* the driver's view of the queue: reserved holds the position */
		card->retired = wc[got].src_qp + 1;
	}
	pthread_mutex_unlock(&card->lock);
	return got;
}

static void move(const struct fake_wr *fake)
{
	uint8_t *remote = (uint8_t *)(uintptr_t)fake->wr.wr.rdma.remote_addr;

	if (fake->wr.opcode != IBV_WR_RDMA_WRITE && fake->wr.opcode != IBV_WR_RDMA_READ)
		return;
	for (int i = 0; i < fake->wr.num_sge; i++) {
		uint8_t *local = (uint8_t *)(uintptr_t)fake->sges[i].addr;

		if (fake->wr.opcode == IBV_WR_RDMA_WRITE)
			memcpy(remote, local, fake->sges[i].length);
		else
			memcpy(local, remote, fake->sges[i].length);
		remote += fake->sges[i].length;
	}
}

static void complete(struct fake_card *card, const struct fake_wr *fake, enum ibv_wc_status status)
{
	struct ibv_wc *wc = &card->cqes[card->cq_head++ % FAKE_DEPTH];

	assert(card->cq_head - card->cq_tail <= FAKE_DEPTH);
	memset(wc, 0xa5, sizeof(*wc));
	wc->wr_id = fake->wr.wr_id;
	wc->status = status;
	wc->qp_num = card->qp.qp_num;
	wc->src_qp = card->executed;
	if (status == IBV_WC_SUCCESS)
		wc->opcode = fake->wr.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ :
								   IBV_WC_RDMA_WRITE;
}

void fake_card_run(struct fake_card *card, uint32_t n)
{
	pthread_mutex_lock(&card->lock);
	for (; n && card->executed != card->posted; n--, card->executed++) {
		const struct fake_wr *fake = &card->queue[card->executed % FAKE_DEPTH];

		if (card->failed) {
			complete(card, fake, IBV_WC_WR_FLUSH_ERR);
		} else if (card->executed == card->fail_at) {
			card->failed = true;
			complete(card, fake, IBV_WC_REM_ACCESS_ERR);
		} else {
			move(fake);
			if (fake->wr.send_flags & IBV_SEND_SIGNALED)
				complete(card, fake, IBV_WC_SUCCESS);
		}
	}
	pthread_mutex_unlock(&card->lock);
}

uint32_t fake_card_posted(struct fake_card *card, uint32_t n)
{
	uint32_t posted = 0;

	for (int i = 0; i < 5000; i++) {
		pthread_mutex_lock(&card->lock);
		posted = card->posted;
		pthread_mutex_unlock(&card->lock);
		if (posted == n)
			break;
		usleep(1000);
	}
	return posted;
}

void fake_card_ready(struct fake_card *card)
{
	const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	jst_qp_modified(card->jqp, &attr, IBV_QP_STATE);
}

bool fake_card_refuses = true;

void fake_card_open(struct fake_card *card, uint32_t max_send_wr, bool sq_sig_all)
{
	static unsigned int cards;
	const struct jst_vendor vendor = {
		.post_send = vendor_post_send,
		.poll_cq = vendor_poll_cq,
		.refuses_until_rts = fake_card_refuses,
	};
	struct ibv_qp_init_attr attr = {
		.send_cq = &card->cq,
		.cap = { .max_send_wr = max_send_wr, .max_send_sge = FAKE_SGES,
			 .max_inline_data = 256 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = sq_sig_all,
	};
	struct jst_qp_request request;

	memset(card, 0, sizeof(*card));
	snprintf(card->device.name, sizeof(card->device.name), "fake_%u", cards++);
	pthread_mutex_init(&card->lock, NULL);
	card->fail_at = UINT32_MAX;
	card->context.device = &card->device;
	card->cq.context = &card->context;
	card->cq.cq_context = card;
	card->cq.cqe = FAKE_DEPTH - 1;
	card->qp.context = &card->context;
	card->qp.qp_context = card;
	card->qp.qp_num = 0x100 + cards;
	card->qp.qp_type = IBV_QPT_RC;
	card->ctx = jst_ctx_open(&card->context, &vendor);
	if (!card->ctx)
		return;
	card->jcq = jst_cq_create(card->ctx, &card->cq, NULL);
	assert(jst_qp_prepare(card->ctx, card->jcq, &attr, 0, &request));
	assert(attr.cap.max_send_wr <= FAKE_DEPTH && !attr.sq_sig_all);
	card->depth = attr.cap.max_send_wr;
	card->jqp = jst_qp_create(card->ctx, card->jcq, &card->qp, NULL, &attr, &request);
	jst_qp_restore(&request, &attr);
	fake_card_ready(card);
	assert(attr.cap.max_send_wr == max_send_wr);
}

void fake_card_close(struct fake_card *card)
{
	if (!card->ctx)
		return;
	jst_qp_destroy(card->jqp);
	jst_cq_destroy(card->jcq);
	jst_ctx_close(card->ctx);
}

int fake_post(struct fake_card *card, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return jst_post_send(card->jqp, wr, bad_wr);
}

int fake_poll(struct fake_card *card, int n, struct ibv_wc *wc)
{
	return jst_poll_cq(card->jcq, n, wc);
}

/* ---- the daemon ------------------------------------------------------------- */

static int make_region(struct fake_daemon *daemon)
{
	int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert(fd >= 0 && !ftruncate(fd, sizeof(*daemon->region)));
	assert(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	daemon->region = mmap(NULL, sizeof(*daemon->region), PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);
	assert(daemon->region != MAP_FAILED);
	daemon->region->id.magic = JST_ABI_MAGIC;
	daemon->region->id.version = JST_ABI_VERSION;
	daemon->region->id.ring_tokens = JST_RING_TOKENS;
	atomic_store(&daemon->region->policy.chunk_bytes, daemon->chunk_bytes);
	atomic_store(&daemon->region->policy.token_ops, daemon->token_ops);
	daemon->ring = (struct jst_ring_producer){ .region = daemon->region };
	return fd;
}

static void *greet(void *arg)
{
	struct fake_daemon *daemon = arg;
	struct jst_msg_welcome welcome = {
		.header = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_WELCOME },
		.class = daemon->class,
		.weight_milli = JST_WEIGHT_MILLI_DEFAULT,
		.region_bytes = sizeof(struct jst_abi_region),
	};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = { &welcome, sizeof(welcome) };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int fd;

	daemon->client = accept(daemon->listener, NULL, NULL);
	assert(recv(daemon->client, &daemon->hello, sizeof(daemon->hello), 0) ==
	       sizeof(daemon->hello));
	fd = make_region(daemon);
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
					   .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	assert(sendmsg(daemon->client, &message, 0) == sizeof(welcome));
	close(fd);
	return NULL;
}

void fake_daemon_start(struct fake_daemon *daemon, enum jst_class class, uint32_t chunk_bytes,
		       uint32_t token_ops)
{
	static unsigned int daemons;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memset(daemon, 0, sizeof(*daemon));
	daemon->class = class;
	daemon->chunk_bytes = chunk_bytes;
	daemon->token_ops = token_ops;
	snprintf(daemon->path, sizeof(daemon->path), "/tmp/jst-fake-%d-%u.sock", getpid(),
		 daemons++);
	memcpy(address.sun_path, daemon->path, sizeof(address.sun_path));
	unlink(daemon->path);
	daemon->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert(!bind(daemon->listener, (struct sockaddr *)&address, sizeof(address)));
	assert(!listen(daemon->listener, 4));
	setenv("JUSTITIA_SOCKET", daemon->path, 1);
	assert(!pthread_create(&daemon->thread, NULL, greet, daemon));
}

void fake_daemon_die(struct fake_daemon *daemon)
{
	pthread_join(daemon->thread, NULL);
	close(daemon->client);
	close(daemon->listener);
	unlink(daemon->path);
}

uint32_t fake_daemon_feed(struct fake_daemon *daemon, uint32_t limit)
{
	const struct jst_token token = {
		.bytes = daemon->chunk_bytes,
		.ops = daemon->token_ops,
	};
	const struct jst_msg_header wake = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_WAKE };
	uint32_t fed = 0;

	while (fed < limit && jst_ring_wanted(&daemon->ring) && jst_ring_push(&daemon->ring, &token))
		fed++;
	atomic_thread_fence(memory_order_seq_cst);
	if (fed && atomic_load(&daemon->region->client.client_waits))
		send(daemon->client, &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
	return fed;
}
