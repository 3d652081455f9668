/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * internal.h - the objects inside the library, and who locks what.
 *
 * Locks, in the order in which they may be taken:
 *
 *   jst_progress_lock    objects stay while the progress thread is at work
 *   jst_qp.post_lock     one poster at a time; held from wr_start to wr_complete
 *   jst_cq.lock          the vendor's poll and what it polled
 *   jst_qp.lock          one queue pair's queue
 *   jst_app.lock         balance, token ring, the list of queue pairs with work
 *   jst_cq.stash_lock    completions held for the application
 *
 * The progress thread goes the other way, from the app to its queue pairs, and
 * therefore only tries their locks: whoever holds one is at work on that queue.
 */
#ifndef JST_INTERNAL_H
#define JST_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "abi.h"
#include "core/core.h"
#include "provider.h"
#include "ring.h"

#pragma GCC visibility push(hidden)

/* ---- client.c: this process's attachments to the daemon ----------------- */

/* Private until published: the region may go away with the daemon. */
struct jst_counters {
	uint64_t messages;
	uint64_t bytes;
	uint64_t chunks;
	uint64_t tokens;
	uint64_t paced_whole;
	uint64_t unpaced;
};

#define JST_BATCH_WRS 64
#define JST_BATCH_SGES 256

/* Work requests on their way to one vendor call. Used under jst_app.lock. */
struct jst_batch {
	uint32_t wrs;
	uint32_t sges;
	struct ibv_send_wr wr[JST_BATCH_WRS];
	struct ibv_sge sge[JST_BATCH_SGES];
	struct {
		uint32_t message;
		uint64_t done; /* of that message before this work request */
		uint32_t unsignaled;
	} undo[JST_BATCH_WRS];
};

struct jst_app {
	char device[64];
	struct jst_app *next;
	enum jst_class class;
	uint32_t weight_milli;
	bool stalled;	      /* the daemon is there, but gives nothing: nothing is paced */
	uint64_t starving_ns; /* progress thread: without tokens since; 0: not */
	bool orphan; /* in a forked child: the parent's; leave its locks alone */

	int socket; /* progress thread only, once attached; -1: no daemon */
	uint64_t retry_ns;

	pthread_mutex_t lock;
	struct jst_abi_region *region; /* NULL: no daemon, nothing is paced */
	struct jst_ring_consumer ring;
	uint32_t wanted; /* as published */
	struct jst_balance balance;
	uint64_t queued_bytes;
	uint64_t queued_ops;
	struct jst_qp *active; /* circular: queue pairs with work, whose turn it is first */
	_Atomic uint32_t actives;
	uint32_t flows;
	struct jst_counters counters;
	struct jst_batch batch;
};

/* The attachment for @device, made if need be; NULL if there is no daemon. */
struct jst_app *jst_app_get(const char *device);
/* The one that there is already, or NULL. */
struct jst_app *jst_app_find(const char *device);
/* All attachments, newest first; they are never freed. */
struct jst_app *jst_app_first(void);
/* Tells the daemon that something in the region changed. app->lock held. */
void jst_client_look(struct jst_app *app);
/* For the progress thread: what came from the daemon, or its end. */
void jst_client_read(struct jst_app *app, uint64_t now_ns);
void jst_client_reconnect(struct jst_app *app, uint64_t now_ns);

/* ---- progress.c: one thread per process ---------------------------------- */

extern pthread_mutex_t jst_progress_lock;
/* Starts the thread if it does not run; 0 or a negative errno. */
int jst_progress_start(void);
/* Wakes it if it sleeps. */
void jst_progress_kick(void);
/* In a forked child: there is no such thread. */
void jst_progress_forget(void);

/* ---- pacer.c: tokens into balance, balance into permission -------------- */

/* All under app->lock. */
void jst_pacer_refill(struct jst_app *app, uint64_t now_ns);
bool jst_pacer_allows(const struct jst_app *app);
uint32_t jst_pacer_chunk_bytes(const struct jst_app *app);
void jst_pacer_spend(struct jst_app *app, uint64_t bytes, uint64_t ops);
void jst_pacer_refund(struct jst_app *app, uint64_t bytes, uint64_t ops);
/* Tokens became smaller: so does what was saved up. */
void jst_pacer_clamp(struct jst_app *app);
/* Tells the daemon how many tokens there is use for; and the statistics. */
void jst_pacer_publish(struct jst_app *app);
/*
 * Without tokens at @now_ns: when to give up waiting for them, which is done
 * if that time has come. The daemon may have been stopped.
 */
uint64_t jst_pacer_starve(struct jst_app *app, uint64_t now_ns);
/* When the next token falls due, UINT64_MAX if none has been given. */
uint64_t jst_pacer_due_ns(const struct jst_app *app);
void jst_pacer_flows(struct jst_app *app, int change);
uint64_t jst_now_ns(void);

/* ---- context.c ----------------------------------------------------------- */

struct jst_ctx {
	struct ibv_context *context;
	struct jst_vendor vendor;
	struct jst_app *app;
};

/* ---- queue.c: the work requests of one queue pair ------------------------ */

/*
 * One work request of the application. It keeps its slot until a completion
 * tells that the card is done with it. 16-byte aligned: see jst_qp_tag().
 */
struct jst_message {
	struct ibv_send_wr wr; /* sg_list points at this slot's own list */
	uint64_t bytes;
	uint64_t done;	   /* bytes handed to the card */
	uint32_t hw_first; /* hw_posted when its first chunk was posted */
	bool signaled;
	bool split;   /* may go out in chunks */
	bool started; /* its first chunk was posted */
	bool failed;  /* its one error completion was seen */
};

/* A work request at the card that will complete with success visibly to us. */
struct jst_signal {
	uint32_t hw;	  /* its position among all that were posted */
	uint32_t message; /* position of its message */
	bool last;	  /* the whole message is done */
	bool visible;	  /* the application asked for this completion */
};

struct jst_qp {
	struct jst_ctx *ctx;
	struct ibv_qp *ibqp;
	uint32_t qp_num; /* outlives ibqp */
	struct jst_cq *cq;
	struct jst_qp_request request;
	uint32_t max_sge;
	uint32_t max_inline;

	pthread_mutex_t post_lock;
	pthread_mutex_t lock;
	bool ready; /* in RTS since the last reset, if the vendor minds: posting is possible */
	bool paused; /* being reset or destroyed: nothing is posted */
	/* the card flushes: queued work follows at once, unpaced; atomic for posters */
	_Atomic bool failed;

	/* messages: tail <= cursor <= head, running freely, masked on use */
	uint32_t mask;
	uint32_t limit;	 /* what the application may have outstanding */
	uint32_t head;	 /* next free slot; written under both locks */
	uint32_t cursor; /* the first one not wholly handed to the card */
	/* the first one not known to be complete; release, posters acquire its slot */
	_Atomic uint32_t tail;
	struct jst_message *messages;
	struct ibv_sge *sges;	/* max_sge per slot */
	uint8_t *inlines;	/* max_inline per slot */

	/* the card's send queue */
	uint32_t hw_limit;
	uint32_t hw_posted;
	uint32_t hw_done;
	uint32_t hw_unsignaled; /* since the last signaled one */
	uint32_t signal_head, signal_tail;
	struct jst_signal *signals; /* hw_limit of them, rounded up to signal_mask + 1 */
	uint32_t signal_mask;

	/* under app->lock */
	struct jst_qp *next_active, *prev_active;
	bool is_active;
	bool wants_room; /* it is the card that its work waits for, not a token */

	/* ibv_wr_*: staged between wr_start and wr_complete, under post_lock */
	struct ibv_qp_ex *qp_ex;
	uint32_t staged;
	int staged_error;
};

static inline struct jst_message *jst_qp_message(const struct jst_qp *qp, uint32_t position)
{
	return &qp->messages[position & qp->mask];
}

static inline bool jst_qp_has_work(const struct jst_qp *qp)
{
	return qp->cursor != qp->head;
}

static inline uint32_t jst_qp_room(const struct jst_qp *qp)
{
	return qp->hw_limit - (qp->hw_posted - qp->hw_done);
}

/*
 * The wr_id of everything that we post: the address of the message's slot.
 * An error completion does not tell a send from a receive, so the address is
 * checked before it is believed.
 */
static inline uint64_t jst_qp_tag(const struct jst_message *message)
{
	return (uint64_t)(uintptr_t)message;
}

bool jst_qp_from_tag(const struct jst_qp *qp, uint64_t wr_id, uint32_t *position);

/*
 * A free slot for a new message at position head + staged, or NULL: queue full.
 * This and the next two under post_lock alone.
 */
struct jst_message *jst_queue_slot(struct jst_qp *qp, uint32_t staged);
/* 0, or a positive errno. Copies @wr into the next slot; not yet visible. */
int jst_queue_stage(struct jst_qp *qp, const struct ibv_send_wr *wr, uint32_t staged);
/* Works out what a message filled in by hand needs: bytes, splitting, signal. */
void jst_message_finish(struct jst_qp *qp, struct jst_message *message);
/* Joins or leaves the list of queue pairs with work. app->lock held. */
void jst_queue_settle(struct jst_qp *qp);
/* Forgets everything: reset, destroy. */
void jst_queue_clear(struct jst_qp *qp);

/* ---- shaper.c: from the queue to the card -------------------------------- */

/* Makes @staged messages part of the queue, and posts what may go. post_lock held. */
void jst_shaper_admit(struct jst_qp *qp, uint32_t staged);
/* Posts what may be posted now. qp->lock held. */
void jst_shaper_run(struct jst_qp *qp);
/*
 * Turns for the queue pairs of @app with work, as long as anything can be
 * posted. No lock held. @wait: false gives up if somebody else is at it.
 */
void jst_shaper_run_all(struct jst_app *app, bool wait);

/* ---- lane_own.c: chunks on the application's own queue pair -------------- */

/*
 * Posts up to JST_BATCH_WRS chunks from qp's cursor on. Returns how many; 0
 * when nothing may be posted now. qp->lock and app->lock held.
 */
uint32_t jst_lane_own_post(struct jst_qp *qp);

/* ---- complete.c: completions back to the application --------------------- */

struct jst_cq {
	struct jst_ctx *ctx;
	struct ibv_cq *ibcq;
	struct ibv_cq_ex *cq_ex; /* NULL: legacy interface */

	/* extended interface: held from start_poll to end_poll */
	pthread_mutex_t lock;
	struct jst_qp **qps; /* those that send to this CQ: open addressing by number */
	uint32_t qps_mask;
	uint32_t qps_used;

	_Atomic uint32_t hidden; /* completions of our own that may be on their way */

	pthread_mutex_t stash_lock;
	_Atomic uint32_t stashed;
	uint32_t stash_room, stash_first;
	struct ibv_wc *stash;

	/* extended interface: the vendor's, and the corrected length */
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
	void (*end_poll)(struct ibv_cq_ex *cq);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *cq);
	bool byte_len_known;
	uint32_t byte_len;
};

int jst_cq_add(struct jst_cq *cq, struct jst_qp *qp);
void jst_cq_remove(struct jst_cq *cq, struct jst_qp *qp);
/* Drops held completions of a queue pair: reset, destroy. */
void jst_cq_forget(struct jst_cq *cq, uint32_t qp_num);
/* Polls for the queue's sake and holds what is the application's. No lock held. */
void jst_cq_drain(struct jst_cq *cq);
/* Holds a completion that the card does not know of. */
void jst_cq_hold(struct jst_cq *cq, const struct ibv_wc *wc);

#pragma GCC visibility pop

#endif
