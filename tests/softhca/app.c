// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "wqe.h"

#define CTL_CHECK_NS (200 * HCA_NS_PER_MS)	/* is the card process still there? */
#define NAP_NS HCA_NS_PER_MS			/* longest sleep in an empty poll */
#define APP_NICE (-10)
#define SPINNING_NS 100000			/* polls closer together than that are a spin */
#define RING_FULL_NS 20000
#define INLINE_SPINS 4000
#define INLINE_YIELD_EVERY 256

struct hca_proc *hca_me;

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t ctl_lock = PTHREAD_MUTEX_INITIALIZER;
static int bell_lock;	/* threads of this process take turns at the ring */

static uint32_t my_slot(void)
{
	return HCA_INDEX(proc, hca_me);
}

/* The child of a fork has no card until it opens the device itself. */
static void after_fork(void)
{
	hca_me = NULL;
	bell_lock = 0;
	pthread_mutex_init(&attach_lock, NULL);
	pthread_mutex_init(&ctl_lock, NULL);
}

/* A doorbell counts from the time it was rung at; a command is seen to at once. */
static void ring_card(uint64_t at_ns)
{
	__atomic_fetch_or(&hca->bell_map[my_slot() / 64], 1ull << my_slot() % 64,
			  __ATOMIC_SEQ_CST);
	if (vc_is_virtual())
		vc_wake_card(at_ns);
	else
		hca_card_poke();
}

static int find_host(const char *name, uint32_t *out)
{
	for (uint32_t i = 0; i < hca->hosts; i++)
		if (name && !strcmp(hca->host[i].name, name)) {
			*out = i;
			return 0;
		}
	fprintf(stderr, "softhca: SOFTHCA_HOST=%s is no host of this world; first is %s\n",
		name ? name : "(unset)", hca->host[0].name);
	return -ENODEV;
}

static int claim_slot(uint32_t host)
{
	for (uint32_t i = 0; i < HCA_MAX_PROCS; i++) {
		struct hca_proc *p = &hca->proc[i];
		int32_t none = 0;

		if (!__atomic_compare_exchange_n(&p->pid, &none, (int32_t)hca_self, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		p->host = host;
		__atomic_store_n(&p->ready, 1, __ATOMIC_RELEASE);
		hca_me = p;
		ring_card(0);
		return 0;
	}
	fprintf(stderr, "softhca: all %d process slots are taken\n", HCA_MAX_PROCS);
	return -EUSERS;
}

/*
 * An emulated host has its cores to itself: other work of the machine should not delay its
 * applications when they wake. Without the privilege, or with a wish of their own: not.
 */
static void raise_priority(void)
{
	if (!getpriority(PRIO_PROCESS, 0))
		setpriority(PRIO_PROCESS, 0, APP_NICE);
}

static int attach(void)
{
	static bool fork_watched;
	char dir[HCA_PATH_LEN];
	uint32_t host;
	int rc = 0;

	if (!hca) {
		rc = hca_world_dir(NULL, dir, sizeof(dir));
		if (!rc)
			rc = hca_seg_map(dir, true, &hca);
		if (rc) {
			fprintf(stderr, "softhca: no world at %s: %s\n", dir, strerror(-rc));
			return -ENODEV;
		}
	}
	rc = find_host(getenv("SOFTHCA_HOST"), &host);
	if (rc)
		return rc;
	if (!fork_watched)
		pthread_atfork(NULL, NULL, after_fork);
	fork_watched = true;
	hca_self = getpid();
	/* The card reads and writes this process's memory as a real one would by DMA. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (!hca->is_inline && !vc_is_virtual())
		raise_priority();
	return claim_slot(host);
}

int hca_app_attach(void)
{
	int rc = 0;

	pthread_mutex_lock(&attach_lock);
	if (!hca_me)
		rc = attach();
	pthread_mutex_unlock(&attach_lock);
	return rc;
}

static bool card_is_gone(void)
{
	return !__atomic_load_n(&hca->up, __ATOMIC_ACQUIRE) ||
	       (kill(hca->card_pid, 0) && errno == ESRCH);
}

static int ask_card(struct hca_ctl *c)
{
	hca_me->ctl = *c;
	__atomic_store_n(&hca_me->ctl_state, HCA_CTL_POSTED, __ATOMIC_RELEASE);
	ring_card(0);
	while (vc_takes_part() &&
	       __atomic_load_n(&hca_me->ctl_state, __ATOMIC_ACQUIRE) != HCA_CTL_DONE)
		vc_wait(VC_CTL, VC_NEVER);
	while (__atomic_load_n(&hca_me->ctl_state, __ATOMIC_ACQUIRE) != HCA_CTL_DONE)
		if (hca_futex_wait(&hca_me->ctl_state, HCA_CTL_POSTED,
				   hca_now_ns() + CTL_CHECK_NS) == -ETIMEDOUT &&
		    card_is_gone())
			return -EIO;
	*c = hca_me->ctl;
	return c->rc;
}

static int ask_inline(struct hca_ctl *c)
{
	hca_lock();
	hca_ctl_serve(my_slot(), c);
	hca_wake_pollers();
	hca_unlock();
	return c->rc;
}

int hca_app_ctl(struct hca_ctl *c)
{
	int rc;

	if (!hca_me)
		return -EIO;
	pthread_mutex_lock(&ctl_lock);
	rc = hca->is_inline ? ask_inline(c) : ask_card(c);
	pthread_mutex_unlock(&ctl_lock);
	return rc;
}

static void push_bell(const struct hca_bell *b)
{
	while (__atomic_exchange_n(&bell_lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
	while (!hca_bell_push(hca_me, b) && !card_is_gone()) {
		const struct timespec t = { .tv_nsec = RING_FULL_NS };

		ring_card(b->at_ns);
		nanosleep(&t, NULL);
	}
	__atomic_store_n(&bell_lock, 0, __ATOMIC_RELEASE);
	ring_card(b->at_ns);
}

static void run_inline(const struct hca_bell *b)
{
	hca_lock();
	if (b)
		hca_engine_bell(my_slot(), b);
	hca_engine_step(hca_now_ns());
	hca_unlock();
}

/* The doorbell does not carry the producer index. */
static bool add_producer(struct hca_bell *b)
{
	const struct hca_qp *q = &hca->qp[b->num % HCA_MAX_QPS];

	if (b->num >= HCA_MAX_QPS || !q->used || q->owner.proc != my_slot())
		return false;
	b->value = HCA_FE->sq_producer(q);
	return true;
}

void hca_app_uar_store(uint32_t offset, uint64_t value, uint32_t bytes)
{
	struct hca_bell b = { .at_ns = hca_now_ns() };

	if (!hca_me || !HCA_FE->uar_store(offset, value, bytes, &b))
		return;
	if (b.kind == HCA_BELL_SQ && !add_producer(&b))
		return;
	if (hca->is_inline)
		run_inline(&b);
	else
		push_bell(&b);
}

struct idle { uint32_t seen, empties; uint64_t last_ns, since_ns; };

static void nap(uint32_t seen)
{
	/* Counted before the futex compares: who bumps wake_seq later sees a sleeper. */
	__atomic_fetch_add(&hca_me->sleepers, 1, __ATOMIC_SEQ_CST);
	hca_futex_wait(&hca_me->wake_seq, seen, hca_now_ns() + NAP_NS);
	__atomic_fetch_sub(&hca_me->sleepers, 1, __ATOMIC_SEQ_CST);
}

static bool idle_virtual(struct idle *i)
{
	uint64_t now = vc_now_ns();

	if (!i->since_ns)
		i->since_ns = now;
	vc_wait(VC_POLL, now + vc_nap_ns(i->since_ns, now));
	return true;
}

static bool idle_inline(struct idle *i)
{
	uint64_t timer = __atomic_load_n(&hca->timers_ns, __ATOMIC_RELAXED);

	if (timer != HCA_NEVER && timer <= hca_now_ns()) {
		run_inline(NULL);
		return true;
	}
	if (i->empties > INLINE_SPINS) {
		nap(i->seen);
		i->last_ns = hca_now_ns();
		return true;
	}
	if (!(i->empties % INLINE_YIELD_EVERY))
		sched_yield();
	return false;
}

/* Who looks now and then between other work is not made to wait. */
static bool is_spinning(struct idle *i)
{
	uint64_t now = hca_now_ns();

	if (now - i->last_ns > SPINNING_NS)
		i->empties = 0;
	i->last_ns = now;
	i->empties++;
	return i->empties > 1;
}

/*
 * Nobody needs to poll a card that tells when it has something: an empty poll sleeps, else
 * a few polling applications would keep the card itself from a core. Not before every
 * completion queue has had its turn since the last news, for the news may be in another.
 */
bool hca_app_idle(void)
{
	static __thread struct idle idle;
	uint32_t seq;

	if (!hca_me)
		return false;
	seq = __atomic_load_n(&hca_me->wake_seq, __ATOMIC_ACQUIRE);
	if (seq != idle.seen) {
		idle.seen = seq;
		idle.empties = 0;
		idle.since_ns = 0;
		return true;
	}
	if (vc_takes_part())
		return ++idle.empties > hca_me->cqs && idle_virtual(&idle);
	if (!is_spinning(&idle))
		return false;
	if (hca->is_inline)
		return idle_inline(&idle);
	if (idle.empties <= hca_me->cqs)
		return false;
	nap(seq);
	idle.last_ns = hca_now_ns();
	return true;
}
