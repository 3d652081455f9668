/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The emulated card: its words, and everything that lives in the shared segment.
 *
 *   host     one emulated machine with one card and one port; a number
 *   proc     an application process attached to the segment; a slot number
 *   driver   whoever runs the engine: the card process, or (inline) whoever rings
 *   engine   the objects below and the code that changes them; only the driver runs it
 *   requester / responder   the two ends of one work request, as in the verbs spec
 *
 * The segment is position independent: indices, never pointers. Addresses kept in it are
 * addresses inside the owning application and are reached through dma.h alone.
 */
#ifndef HCA_H
#define HCA_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "card.h"
#include "config.h"
#include "fault.h"
#include "nic.h"
#include "vclock.h"

#define HCA_MAGIC 0x6163686fu
#define HCA_VERSION 1
#define HCA_MAX_PROCS 256
#define HCA_PROC_WORDS (HCA_MAX_PROCS / 64)
#define HCA_MAX_QPS NIC_QUEUES
#define HCA_MAX_CQS 2048
#define HCA_MAX_MRS 8192
#define HCA_MAX_SRQS 512
#define HCA_MAX_PDS 2048
#define HCA_MAX_CHANS 2048
#define HCA_FIRST_QPN 0x40
#define HCA_RING_SLOTS 1024
#define HCA_MAX_CQE 4194303
#define HCA_MAX_WR 32768
#define HCA_MAX_SRQ_WR 32767
#define HCA_MAX_SGE 30
#define HCA_MAX_MSG_BYTES (1u << 30)
#define HCA_COMP_VECTORS 2

#define HCA_NS_PER_MS 1000000ull
#define HCA_NEVER UINT64_MAX

/* ---- what an application may write: its doorbell ring and its control mailbox ---- */

enum hca_bell_kind { HCA_BELL_SQ = 1, HCA_BELL_ARM };

struct hca_bell {
	uint64_t at_ns;		/* CLOCK_MONOTONIC, when the store happened */
	uint32_t kind;
	uint32_t num;		/* queue pair or completion queue */
	uint32_t value;		/* SQ: producer index; ARM: solicited << 24 | consumer index */
	uint32_t reserved;
};

enum hca_ctl_op {
	HCA_CTL_OPEN_CTX = 1, HCA_CTL_CLOSE_CTX,
	HCA_CTL_ALLOC_PD, HCA_CTL_DEALLOC_PD,
	HCA_CTL_REG_MR, HCA_CTL_REREG_MR, HCA_CTL_DEREG_MR,
	HCA_CTL_CREATE_CHAN, HCA_CTL_DESTROY_CHAN,
	HCA_CTL_CREATE_CQ, HCA_CTL_RESIZE_CQ, HCA_CTL_DESTROY_CQ,
	HCA_CTL_CREATE_SRQ, HCA_CTL_MODIFY_SRQ, HCA_CTL_QUERY_SRQ, HCA_CTL_DESTROY_SRQ,
	HCA_CTL_CREATE_QP, HCA_CTL_MODIFY_QP, HCA_CTL_QUERY_QP, HCA_CTL_DESTROY_QP,
};

struct hca_ctl_chan { int32_t fd; uint32_t is_async; uint64_t inode; };

struct hca_ctl_mr {
	uint64_t start, va, length;
	uint32_t pd, access, flags, key;
};

struct hca_ctl_cq {
	uint64_t user, buf, db;
	uint32_t cqe, cqe_bytes, chan;
};

struct hca_ctl_srq {
	uint64_t user, buf, db;
	uint32_t pd, max_wr, max_sge, limit, stride_shift, attr_mask;
};

/* Where a front end's queue pair lies in its application's memory. */
struct hca_qp_geometry {
	uint64_t sq, rq, db;
	uint32_t sq_entries, rq_entries;	/* powers of two or 0; SQ in basic blocks */
	uint32_t sq_shift, rq_shift;		/* log2 of the stride */
	uint32_t uidx;				/* what the CQE names the queue by */
	uint32_t rq_skip;			/* bytes of a receive WQE before its first segment */
};

struct hca_ctl_qp {
	uint64_t user;
	uint32_t type, sig_all, pd, scq, rcq, srq, has_srq, state;
	struct ib_uverbs_qp_cap cap;
	struct hca_qp_geometry geo;
};

struct hca_ctl_query {
	struct ib_uverbs_modify_qp attr;
	struct ib_uverbs_qp_cap cap;
	uint32_t state, sig_all, sq_draining;
};

struct hca_ctl {
	uint32_t op;		/* enum hca_ctl_op */
	int32_t rc;		/* 0 or negative errno */
	uint32_t handle;	/* in: the object; out: a new object's number */
	uint32_t ctx;		/* the device context the object belongs to */
	union {
		struct hca_ctl_chan chan;
		struct hca_ctl_mr mr;
		struct hca_ctl_cq cq;
		struct hca_ctl_srq srq;
		struct hca_ctl_qp qp;
		struct ib_uverbs_modify_qp modify;
		struct hca_ctl_query query;
	} u;
};

enum hca_ctl_state { HCA_CTL_IDLE, HCA_CTL_POSTED, HCA_CTL_DONE };

/*
 * An attached application. "app" and "driver" name the only writer of a field. A process
 * killed between any two of its writes leaves nothing half done: head and ctl_state are
 * written last, with release.
 */
struct hca_proc {
	int32_t pid;		/* app (0 -> pid by compare and swap); driver frees */
	uint32_t host;		/* app, before ready */
	uint32_t ready;		/* app, release: the slot may be served */
	uint32_t next_ctx;	/* driver */

	_Alignas(64) uint32_t bell_head;	/* app, release; the driver acquires */
	uint32_t ctl_state;			/* app: POSTED; driver: DONE (futex) */
	uint32_t sleepers;			/* app: threads asleep in an empty poll */
	_Alignas(64) uint32_t bell_tail;	/* driver, release */
	uint32_t wake_seq;			/* driver: one more per batch of CQEs (futex) */
	uint32_t cqs;				/* driver: how many CQs it has */

	_Alignas(64) struct hca_ctl ctl;
	_Alignas(64) struct hca_bell bell[HCA_RING_SLOTS];
};

/* ---- engine objects: the driver's alone ---- */

struct hca_owner { uint16_t proc, ctx; };

struct hca_pd { uint8_t used; struct hca_owner owner; uint32_t refs; };

/* An event file of an application: a FIFO, reached by the driver through /proc. */
struct hca_chan {
	uint8_t used, is_async;
	struct hca_owner owner;
	uint32_t gen, refs;
	int32_t fd;		/* in the application */
	uint64_t inode;		/* guards against a reused descriptor number */
};

struct hca_mr {
	uint8_t used, variant;	/* variant: low byte of the key, new for each registration */
	struct hca_owner owner;
	uint32_t pd, access;
	uint64_t start, va, length;
};

enum hca_arm { HCA_ARM_NONE, HCA_ARM_SOLICITED, HCA_ARM_ANY };

struct hca_cq {
	uint8_t used, arm, overrun;
	struct hca_owner owner;
	uint64_t user, buf, db;
	uint32_t cqe_bytes, entries;	/* entries: power of two */
	uint32_t pi, ci;		/* free running; ci as last seen */
	uint32_t solicited_pi;		/* one past the last solicited or failed entry */
	uint32_t told_pi;		/* entries before it have had their event */
	uint32_t chan, refs;
	uint32_t late_events;		/* that a rule holds back, */
	uint64_t late_ns;		/* until then */
};

struct hca_srq {
	uint8_t used;
	struct hca_owner owner;
	uint64_t user, buf, db;
	uint32_t stride_shift, max_wr, max_sge, limit, pd, refs;
	uint16_t taken, posted;		/* counters, as the doorbell record's */
	uint16_t head;			/* next entry in the linked list */
};

enum hca_nak { HCA_NAK_NONE, HCA_NAK_RNR, HCA_NAK_RETRY, HCA_NAK_FATAL };

struct hca_qp {
	uint8_t used, type, state, sig_all, has_srq;
	uint8_t stalled;	/* waits for timer_ns before it may send again */
	uint8_t in_nic;		/* the contention model knows the queue */
	uint8_t last_wqe_told, sqd_notify;
	uint8_t rnr_tries, retry_tries;
	uint8_t is_delayed;	/* a rule has held up the oldest request already */
	struct hca_owner owner;
	uint32_t gen, host, peer_host;
	uint64_t user;
	uint32_t pd, scq, rcq, srq;
	struct ib_uverbs_qp_cap cap;
	struct hca_qp_geometry geo;
	struct ib_uverbs_modify_qp attr;	/* attributes as last set */

	/* Send queue, in basic blocks: ci <= dv <= fetch <= pi. */
	uint16_t sq_pi, sq_fetch, sq_dv, sq_ci;
	uint16_t rq_pi, rq_ci;
	/* One refused request at a time; it settles once everything before it completed. */
	uint8_t nak, nak_syndrome, nak_opcode, nak_blocks;
	uint16_t nak_idx;
	uint64_t nak_wait_ns;
	uint64_t timer_ns;			/* wall time; 0 = off */
	uint64_t early_bytes;			/* of the oldest long message, already moved */
	uint32_t early_gen;			/* to this generation of the far end */
	uint64_t tx_bytes, tx_msgs, rx_bytes, rx_msgs;
};

struct hca_host {
	char name[HCA_NAME_LEN];
	uint8_t port_down, is_dead;
	uint64_t thaw_ns;	/* its programs are stopped until then; 0 = not */
	uint64_t tx_bytes, tx_msgs, rx_bytes, rx_msgs;
};

struct hca_seg {
	uint32_t magic, version;
	uint64_t bytes;
	int32_t card_pid;
	uint32_t up;			/* release by the card: the segment may be used */
	uint32_t is_inline, has_model, is_eth, hosts, slowdown;
	uint32_t device;		/* enum hca_device_kind */
	char model[HCA_NAME_LEN];
	uint32_t link_gbps;
	uint64_t seed, t0_ns;		/* CLOCK_MONOTONIC at model time 0 */

	_Alignas(64) uint32_t bell;	/* futex: the card sleeps on it */
	uint32_t card_idle;		/* card: 1 while it means to sleep */
	uint64_t timers_ns;		/* earliest timer_ns of any queue pair, HCA_NEVER if none */
	uint32_t err_qps;		/* queue pairs in the error state */
	uint32_t qp_high;		/* one past the highest ever used */
	uint64_t bell_map[HCA_PROC_WORDS];	/* apps set, the card clears: look at this slot */
	uint64_t dirty_map[HCA_PROC_WORDS];	/* driver: CQEs written since the last wake */

	struct vclock vc;
	pthread_mutex_t lock;		/* inline driver: robust, process shared */
	struct hca_faults faults;	/* driver: in force */
	struct hca_faults mail;		/* launcher: to come into force */
	uint32_t mail_state;		/* launcher, release: posted; card, release: taken (futex) */
	uint64_t disturb_ns;		/* driver: the card has a fault to see to */
	struct hca_host host[HCA_MAX_HOSTS];
	struct hca_pd pd[HCA_MAX_PDS];
	struct hca_chan chan[HCA_MAX_CHANS];
	struct hca_mr mr[HCA_MAX_MRS];
	struct hca_cq cq[HCA_MAX_CQS];
	struct hca_srq srq[HCA_MAX_SRQS];
	struct hca_qp qp[HCA_MAX_QPS];
	struct nic nic;
	struct hca_proc proc[HCA_MAX_PROCS];
};

extern struct hca_seg *hca;	/* this process's mapping, NULL before it attached */
extern pid_t hca_self;		/* this process, as its slot knows it */

#define HCA_INDEX(table, obj) ((uint32_t)((obj) - hca->table))

/* segment.c */
int hca_seg_create(const char *world_dir, struct hca_seg **out);
int hca_seg_map(const char *world_dir, bool writable, struct hca_seg **out);
uint64_t hca_now_ns(void);
uint64_t hca_model_ns(uint64_t wall_ns);
uint64_t hca_wall_ns(uint64_t model_ns);
void hca_lock(void);
void hca_unlock(void);
int hca_futex_wait(uint32_t *word, uint32_t seen, uint64_t until_ns);
void hca_futex_wake(uint32_t *word);
void hca_card_poke(void);
bool hca_bell_push(struct hca_proc *p, const struct hca_bell *b);
bool hca_bell_pop(struct hca_proc *p, struct hca_bell *out);

/* chan.c */
void hca_chan_post(uint32_t chan, const void *event, size_t bytes);
void hca_async_event(struct hca_owner owner, uint64_t element, uint32_t type);
int hca_chan_make(void);		/* application side: a new event FIFO, or -errno */
int hca_chan_create(struct hca_owner o, struct hca_ctl *c);
int hca_chan_destroy(struct hca_owner o, struct hca_ctl *c);
void hca_chan_free(struct hca_chan *ch);

/* ctl.c */
void hca_ctl_serve(uint32_t proc, struct hca_ctl *c);
bool hca_owns(struct hca_owner o, struct hca_owner owner);
void hca_proc_free(uint32_t proc);

/* mr.c */
int hca_mr_reg(struct hca_owner o, struct hca_ctl *c);
int hca_mr_rereg(struct hca_owner o, struct hca_ctl *c);
int hca_mr_dereg(struct hca_owner o, struct hca_ctl *c);
int hca_mr_translate(uint32_t key, struct hca_owner o, uint32_t pd, uint64_t va, uint64_t bytes,
		     uint32_t need, uint64_t *addr);

/* cq.c */
struct hca_cqe;
int hca_cq_create(struct hca_owner o, struct hca_ctl *c);
int hca_cq_resize(struct hca_owner o, struct hca_ctl *c);
int hca_cq_destroy(struct hca_owner o, struct hca_ctl *c);
int hca_cq_put(struct hca_cq *cq, const struct hca_cqe *c);
void hca_cq_armed(struct hca_cq *cq, uint32_t value);
void hca_cq_tell(const struct hca_cq *cq);	/* sends the event */
void hca_wake_pollers(void);

/* srq.c */
int hca_srq_create(struct hca_owner o, struct hca_ctl *c);
int hca_srq_modify(struct hca_owner o, struct hca_ctl *c);
int hca_srq_query(struct hca_owner o, struct hca_ctl *c);
int hca_srq_destroy(struct hca_owner o, struct hca_ctl *c);

/* qp.c */
int hca_qp_create(struct hca_owner o, struct hca_ctl *c);
int hca_qp_modify(struct hca_owner o, struct hca_ctl *c);
int hca_qp_query(struct hca_owner o, struct hca_ctl *c);
int hca_qp_destroy(struct hca_owner o, struct hca_ctl *c);
void hca_qp_free(struct hca_qp *q);
void hca_qp_set_state(struct hca_qp *q, uint8_t state);
void hca_qp_check_drained(struct hca_qp *q);
int hca_host_of_ah(const struct ib_uverbs_qp_dest *d);
int hca_host_of_gid(const uint8_t gid[16]);

/* disturb.c: faults on demand, at the seams of the engine */
int hca_disturb_command(uint32_t proc, uint32_t op);
uint8_t hca_disturb_message(struct hca_qp *q, const struct hca_qp *r, uint32_t op,
			    uint64_t *value);		/* enum hca_fault_act */
bool hca_disturb_completion(const struct hca_cq *cq, uint32_t qpn);
bool hca_disturb_event(struct hca_cq *cq);
void hca_disturb_begin(const char *world_dir, const struct hca_config *cfg);	/* card */
uint64_t hca_disturb_step(uint64_t now_ns);	/* card: returns when to look again */
bool hca_disturb_has_news(void);
void hca_disturb_end(void);

/* keeper.c */
int hca_keeper_begin(const volatile sig_atomic_t *stop);
bool hca_keeper_found_dead(void);	/* since asked last */

/* engine.c */
extern bool hca_is_card;
void hca_engine_bell(uint32_t proc, const struct hca_bell *b);
void hca_engine_kick(struct hca_qp *q, uint64_t at_ns);
void hca_engine_timer(struct hca_qp *q, uint64_t at_ns);
uint64_t hca_engine_step(uint64_t now_ns);	/* returns the wall time of the next event */
void hca_engine_tick(void);			/* slow: receives posted to failed queues */

#endif
