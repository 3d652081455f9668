/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * fake_card.h - a vendor's driver and a daemon, small enough to see through.
 *
 * The card executes work requests in order when told to, within this process's
 * memory; it signals, fails and flushes as the verbs specification says. The
 * daemon is a thread that greets one client; its tokens are pushed by the test.
 */
#ifndef FAKE_CARD_H
#define FAKE_CARD_H

#include <pthread.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "abi.h"
#include "provider.h"
#include "ring.h"

#define FAKE_DEPTH 4096
#define FAKE_SGES 8

struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sges[FAKE_SGES];
	uint8_t inline_data[256];
};

struct fake_card {
	pthread_mutex_t lock; /* the card works beside the process's threads */
	struct ibv_device device;
	struct ibv_context context;
	struct ibv_cq cq;
	struct ibv_qp qp;

	struct fake_wr queue[FAKE_DEPTH];
	uint32_t posted, executed, retired, depth;
	uint32_t posts;	      /* calls: doorbells */
	uint32_t largest;     /* bytes of the largest work request seen */
	uint32_t fail_at;     /* position that fails; UINT32_MAX: none */
	bool failed;
	struct ibv_wc cqes[FAKE_DEPTH];
	uint32_t cq_head, cq_tail;

	struct jst_ctx *ctx;
	struct jst_cq *jcq;
	struct jst_qp *jqp;
};

struct fake_daemon {
	char path[108];
	int listener, client;
	pthread_t thread;
	enum jst_class class;
	uint32_t chunk_bytes, token_ops;
	struct jst_msg_hello hello;
	struct jst_abi_region *region;
	struct jst_ring_producer ring;
};

/* Listens at a fresh path, which JUSTITIA_SOCKET then names. */
void fake_daemon_start(struct fake_daemon *daemon, enum jst_class class, uint32_t chunk_bytes,
		       uint32_t token_ops);
/* Closes the socket, as a daemon that dies. */
void fake_daemon_die(struct fake_daemon *daemon);
/* Pushes what is wanted, due at once, at most @limit tokens; returns how many. */
uint32_t fake_daemon_feed(struct fake_daemon *daemon, uint32_t limit);

/* Does its post_send fail before RTS? For cards opened from now on; true at first. */
extern bool fake_card_refuses;

/* Each card has a device name of its own: attachments live as long as the process. */
void fake_card_open(struct fake_card *card, uint32_t max_send_wr, bool sq_sig_all);
/* The queue pair goes to RTS; open does so too. */
void fake_card_ready(struct fake_card *card);
void fake_card_close(struct fake_card *card);
/* Executes up to @n work requests. */
void fake_card_run(struct fake_card *card, uint32_t n);
/* Work requests posted so far; waits up to five seconds until they are @n. */
uint32_t fake_card_posted(struct fake_card *card, uint32_t n);
int fake_post(struct fake_card *card, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int fake_poll(struct fake_card *card, int n, struct ibv_wc *wc);

#endif
