/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One virtual clock for a whole world: a discrete-event scheduler of threads.
 *
 *   baton    what a thread must hold to run: of all threads of all programs of the world one
 *            does. It runs until it waits, and then passes the baton to the one that is due first.
 *   due      the virtual time at which a waiting thread runs again, unless it is woken
 *            before. Time only ever moves to the due time of who gets the baton.
 *   local    a thread's own time: each look at the clock costs it a little, so that loops
 *            that wait on the clock end. It is never behind the world's.
 *   parked   nobody has the baton: all wait for something from outside, or beyond the hold.
 *   hold     a time that the clock does not pass; programs that stand on it wait.
 *   outside  in a call of the kernel's that blocks for reasons of its own: without the baton.
 *
 * Equal due times go by rank, applications before the card, so that it sees all doorbells of
 * an instant together; then by who began to wait first. So a run is determined by its seed.
 */
#ifndef SOFTHCA_VCLOCK_H
#define SOFTHCA_VCLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#define VC_THREADS 1024
#define VC_NEVER UINT64_MAX
#define VC_START_NS 1000000000ull		/* CLOCK_MONOTONIC when a world begins */
#define VC_EPOCH_NS 1767225600000000000ull	/* CLOCK_REALTIME then: 2026-01-01 00:00 UTC */
#define VC_READ_NS 10				/* what a look at the clock costs */
#define VC_AHEAD_NS 200				/* how far a thread's time may be ahead */
#define VC_TSC_MHZ 2000
#define VC_NAP_PART 8
#define VC_NAP_MIN_NS 1000
#define VC_NAP_MAX_NS 1000000
/* Wakes a thread out of the kernel; makes one that spins say so. */
#define VC_SIGNAL (SIGRTMAX - 3)
#define VC_SPIN_SIGNAL (SIGRTMAX - 4)

enum vc_state { VC_FREE, VC_RUNS, VC_WAITS, VC_OUTSIDE };

/* What a thread waits for; who can end that wakes all that wait for it. */
enum vc_why { VC_BATON, VC_TIME, VC_CARD, VC_POLL, VC_CTL, VC_FDS, VC_LOCK, VC_COND, VC_JOIN, VC_SPIN };

struct vc_thread {
	int32_t pid, tid;
	uint8_t state;		/* enum vc_state */
	uint8_t why;		/* enum vc_why */
	uint8_t rank;		/* 0 application, 1 card */
	uint8_t in_kernel;	/* waits in ppoll(), not on the futex */
	uint8_t woken;
	uint8_t is_ready;	/* the kernel let it out: due when the baton goes on */
	uint32_t grant;		/* futex: 1 = has the baton */
	uint64_t due_ns, seq;
	uint64_t local_ns;
};

struct vclock {
	uint32_t is_virtual;
	uint32_t lock;		/* 0 or the holder's thread id (futex) */
	int32_t holder;		/* of the baton; -1 = parked */
	uint32_t high;		/* one past the highest slot ever used */
	uint32_t parks;		/* how often it became parked (futex) */
	uint32_t switches;	/* how often the baton went on */
	uint64_t now_ns, hold_ns, seq;
	struct vc_thread thread[VC_THREADS];
};

/* Who of @vc is due first and not beyond the hold; -1 = nobody. Pure. */
int vc_pick(const struct vclock *vc);

/* ---- for those who take part ---- */

extern struct vclock *vc_clock;		/* NULL: this process does not take part */
extern void (*vc_on_resume)(void);	/* after each wait: timers of the process */
extern __thread volatile unsigned int vc_signals;	/* VC_SIGNALs that this thread has had */
extern unsigned int vc_spinners;		/* threads of this process in VC_SPIN */
extern uint64_t (*vc_process_due)(void);	/* no wait goes beyond */

static inline bool vc_is_virtual(void)
{
	return vc_clock != NULL;
}

int vc_join(struct vclock *vc, uint8_t rank);	/* this thread; returns with the baton */
void vc_leave(void);				/* this thread ends */
int vc_reserve(void);				/* a slot for a thread to be made; -1 = none */
void vc_unreserve(int slot);
void vc_enter(int slot);			/* that thread begins; returns with the baton */
void vc_child(void);				/* of a fork: a slot of its own, with the baton */
bool vc_takes_part(void);			/* this thread does */

uint64_t vc_now_ns(void);			/* local time */
uint64_t vc_world_ns(void);			/* the world's */
uint64_t vc_read_ns(void);			/* the same, and the look costs time */

/* Waits to be woken, at most until @due_ns. true = was woken. */
bool vc_wait(enum vc_why why, uint64_t due_ns);
/* The same in the kernel, also until one of @fds is ready. -EINTR: a signal handler ran. */
int vc_wait_fds(struct pollfd *fds, nfds_t n, uint64_t due_ns);
/* All of process @pid (0: of all processes) that wait for @why are due now. */
void vc_wake(pid_t pid, enum vc_why why);
void vc_wake_card(uint64_t at_ns);
/*
 * How long who has looked in vain since @since_ns sleeps before it looks again, if nobody wakes
 * it: a part of that time, so that what else it may be watching is late by no more.
 */
uint64_t vc_nap_ns(uint64_t since_ns, uint64_t now_ns);
void vc_outside_begin(void);
void vc_outside_end(void);

/* shim_timer.c, shim_thread.c: before the process takes part */
void vc_timers_begin(void);
void vc_timers_forget(int fd);			/* it is closed */
void vc_threads_begin(void);

/* ---- for those who look on in real time: keeper and launcher ---- */

void vc_init(struct vclock *vc, bool hold);
bool vc_forget_dead(struct vclock *vc);		/* threads of dead processes; true = there were */
void vc_poke(struct vclock *vc);		/* the card is due now */
uint64_t vc_run_until(struct vclock *vc, uint64_t hold_ns);	/* waits until parked; the time */
void vc_set_hold(struct vclock *vc, uint64_t hold_ns);

#endif
