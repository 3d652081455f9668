// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The virtual clock: who has the baton, who gets it next, and how they wait. See vclock.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vclock.h"

#define LOCK_SPINS 200
#define GRANT_SPINS 100		/* some microseconds: often the baton is back by then */
#define LOOK_S 1		/* a wake-up that was lost costs no more than that */

struct vclock *vc_clock;
void (*vc_on_resume)(void);
uint64_t (*vc_process_due)(void);
unsigned int vc_spinners;
__thread volatile unsigned int vc_signals;

static __thread int my_slot = -1;

static struct vc_thread *me(void)
{
	return &vc_clock->thread[my_slot];
}

bool vc_takes_part(void)
{
	return vc_clock && my_slot >= 0;
}

/* ---- futexes, and a lock that outlives its holder ---- */

static int futex_wait(uint32_t *word, uint32_t seen)
{
	const struct timespec t = { .tv_sec = LOOK_S };

	return syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0) ? -errno : 0;
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Killed counts, also while its parent has not asked for its status. Threads too. */
static bool is_gone(int32_t tid)
{
	char path[32], text[256], *state;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = 0;
	state = strrchr(text, ')');
	return n <= 0 || (state && state[1] && strchr("ZX", state[2]));
}

static void lock(struct vclock *vc)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid), seen = 0;

	for (unsigned int i = 0;; i++) {
		seen = 0;
		if (__atomic_compare_exchange_n(&vc->lock, &seen, self, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		if (i < LOCK_SPINS) {
			__builtin_ia32_pause();
			continue;
		}
		/* Held for less than a microsecond, but its holder may have been killed. */
		syscall(SYS_sched_yield);
		if (i % LOCK_SPINS == 0 && is_gone((int32_t)seen))
			__atomic_compare_exchange_n(&vc->lock, &seen, 0, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

static void unlock(struct vclock *vc)
{
	__atomic_store_n(&vc->lock, 0, __ATOMIC_RELEASE);
}

/* ---- who is next ---- */

static bool is_before(const struct vclock *vc, const struct vc_thread *a,
		      const struct vc_thread *b)
{
	/* Past times are all the same: now. */
	uint64_t at = a->due_ns > vc->now_ns ? a->due_ns : vc->now_ns;
	uint64_t bt = b->due_ns > vc->now_ns ? b->due_ns : vc->now_ns;

	if (at != bt)
		return at < bt;
	if (a->rank != b->rank)
		return a->rank < b->rank;
	return a->seq < b->seq;
}

int vc_pick(const struct vclock *vc)
{
	const struct vc_thread *best = NULL;

	for (uint32_t i = 0; i < vc->high; i++) {
		const struct vc_thread *t = &vc->thread[i];

		if (t->state == VC_WAITS && t->due_ns != VC_NEVER &&
		    (!best || is_before(vc, t, best)))
			best = t;
	}
	if (!best || (best->due_ns > vc->now_ns && best->due_ns > vc->hold_ns))
		return -1;
	return (int)(best - vc->thread);
}

static void rouse(struct vc_thread *t)
{
	if (t->in_kernel)
		syscall(SYS_tgkill, t->pid, t->tid, VC_SIGNAL);
	else
		futex_wake(&t->grant);
}

/*
 * Those whom the kernel let out are due now. Who wrote to them, if one of the world, has made
 * them due already, in an order of its own: when the kernel did so decides nothing.
 */
static void take_ready(struct vclock *vc)
{
	for (uint32_t i = 0; i < vc->high; i++) {
		struct vc_thread *t = &vc->thread[i];

		if (!t->is_ready)
			continue;
		t->is_ready = 0;
		if (t->state == VC_WAITS && t->due_ns > vc->now_ns) {
			t->due_ns = vc->now_ns;
			t->seq = ++vc->seq;
		}
	}
}

/* Gives the baton on; the lock is held before and not after. */
static void pass_on(struct vclock *vc)
{
	struct vc_thread *t;
	int next;

	take_ready(vc);
	next = vc_pick(vc);
	t = next < 0 ? NULL : &vc->thread[next];

	vc->holder = next;
	vc->switches++;
	if (!t) {
		/* Held, the clock stands where it was told to. */
		if (vc->hold_ns != VC_NEVER && vc->now_ns < vc->hold_ns)
			vc->now_ns = vc->hold_ns;
		vc->parks++;
		unlock(vc);
		futex_wake(&vc->parks);
		return;
	}
	if (t->due_ns > vc->now_ns)
		vc->now_ns = t->due_ns;
	t->state = VC_RUNS;
	__atomic_store_n(&t->grant, 1, __ATOMIC_RELEASE);
	unlock(vc);
	if (next != my_slot)
		rouse(t);
}

/* ---- waiting ---- */

static bool has_grant(struct vc_thread *t)
{
	return __atomic_load_n(&t->grant, __ATOMIC_ACQUIRE);
}

static void await_grant(struct vc_thread *t)
{
	for (int i = 0; i < GRANT_SPINS; i++) {
		if (has_grant(t))
			break;
		__builtin_ia32_pause();
	}
	while (!has_grant(t))
		futex_wait(&t->grant, 0);
	t->grant = 0;
	t->in_kernel = 0;
	if (t->local_ns < vc_clock->now_ns)
		t->local_ns = vc_clock->now_ns;
}

static void begin_wait(struct vc_thread *t, enum vc_why why, uint64_t due_ns)
{
	t->state = VC_WAITS;
	t->why = why;
	t->due_ns = due_ns;
	t->seq = ++vc_clock->seq;
	t->woken = 0;
	t->is_ready = 0;
}

/* What this thread did may be what others of its program watch the memory for. */
static void tell_spinners(enum vc_why why)
{
	if (vc_spinners > (why == VC_SPIN))
		vc_wake(getpid(), VC_SPIN);
}

static uint64_t with_timers(uint64_t due_ns)
{
	uint64_t timers = vc_process_due ? vc_process_due() : VC_NEVER;

	return timers < due_ns ? timers : due_ns;
}

static void resumed(void)
{
	if (vc_on_resume)
		vc_on_resume();
}

bool vc_wait(enum vc_why why, uint64_t due_ns)
{
	struct vc_thread *t = me();

	tell_spinners(why);
	lock(vc_clock);
	begin_wait(t, why, with_timers(due_ns));
	pass_on(vc_clock);
	await_grant(t);
	resumed();
	return t->woken;
}

/* Something from outside: this thread is due now, whoever has the baton. */
static void come_in(struct vc_thread *t)
{
	lock(vc_clock);
	if (t->state == VC_OUTSIDE)
		begin_wait(t, VC_BATON, vc_clock->now_ns);
	if (t->state == VC_WAITS) {
		t->is_ready = 1;
		t->in_kernel = 0;
		if (vc_clock->holder < 0) {
			pass_on(vc_clock);
			await_grant(t);
			return;
		}
	}
	unlock(vc_clock);
	await_grant(t);
}

int vc_wait_fds(struct pollfd *fds, nfds_t n, uint64_t due_ns)
{
	struct vc_thread *t = me();
	unsigned int signals;
	int rc, error;
	sigset_t mask;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	sigdelset(&mask, VC_SIGNAL);
	lock(vc_clock);
	begin_wait(t, VC_FDS, with_timers(due_ns));
	t->in_kernel = 1;
	pass_on(vc_clock);
	/* The signal that says "you are next" is blocked but in here. */
	do {
		signals = vc_signals;
		rc = (int)syscall(SYS_ppoll, fds, n, NULL, &mask, _NSIG / 8);
		error = errno;
		/* One that came late, for a wait that had ended without it, ends no other. */
	} while (rc < 0 && error == EINTR && signals != vc_signals && !has_grant(t));
	if (has_grant(t)) {
		await_grant(t);
		rc = 0;
	} else {
		come_in(t);
		rc = rc < 0 && error == EINTR ? -EINTR : 0;
	}
	resumed();
	return rc;
}

void vc_outside_begin(void)
{
	if (!vc_takes_part())
		return;
	lock(vc_clock);
	me()->state = VC_OUTSIDE;
	pass_on(vc_clock);
}

void vc_outside_end(void)
{
	if (!vc_takes_part())
		return;
	come_in(me());
	resumed();
}

/* ---- waking: by who has the baton ---- */

static void make_due(struct vclock *vc, struct vc_thread *t, uint64_t at_ns)
{
	if (t->state != VC_WAITS || t->due_ns <= at_ns)
		return;
	t->due_ns = at_ns;
	t->seq = ++vc->seq;
	t->woken = 1;
}

void vc_wake(pid_t pid, enum vc_why why)
{
	struct vclock *vc = vc_clock;

	if (!vc)
		return;
	lock(vc);
	for (uint32_t i = 0; i < vc->high; i++)
		if (vc->thread[i].why == why && (!pid || vc->thread[i].pid == pid))
			make_due(vc, &vc->thread[i], vc->now_ns);
	unlock(vc);
}

static void make_card_due(struct vclock *vc, uint64_t at_ns)
{
	for (uint32_t i = 0; i < vc->high; i++)
		if (vc->thread[i].rank)
			make_due(vc, &vc->thread[i], at_ns);
}

void vc_wake_card(uint64_t at_ns)
{
	lock(vc_clock);
	make_card_due(vc_clock, at_ns);
	unlock(vc_clock);
}

uint64_t vc_nap_ns(uint64_t since_ns, uint64_t now_ns)
{
	uint64_t nap_ns = (now_ns - since_ns) / VC_NAP_PART;

	if (nap_ns < VC_NAP_MIN_NS)
		return VC_NAP_MIN_NS;
	return nap_ns < VC_NAP_MAX_NS ? nap_ns : VC_NAP_MAX_NS;
}

/* ---- time ---- */

uint64_t vc_now_ns(void)
{
	return my_slot < 0 ? vc_world_ns() : me()->local_ns;
}

uint64_t vc_world_ns(void)
{
	return __atomic_load_n(&vc_clock->now_ns, __ATOMIC_RELAXED);
}

uint64_t vc_read_ns(void)
{
	struct vc_thread *t;

	if (my_slot < 0)
		return vc_now_ns();
	t = me();
	t->local_ns += VC_READ_NS;
	/* Who waits by looking at the clock lets the others catch up, if the clock can move. */
	while (t->local_ns > vc_world_ns() + VC_AHEAD_NS && vc_world_ns() < vc_clock->hold_ns)
		vc_wait(VC_TIME, t->local_ns);
	return t->local_ns;
}

/* ---- coming and going ---- */

static int claim(struct vclock *vc, pid_t pid, pid_t tid, uint8_t rank)
{
	int slot = -1;

	for (int i = 0; i < VC_THREADS; i++) {
		struct vc_thread *t = &vc->thread[i];

		/* A program that executes another one stays the thread that it is. */
		if (t->state != VC_FREE && tid && t->tid == tid)
			slot = i;
		else if (slot < 0 && t->state == VC_FREE)
			slot = i;
		if (slot == i && t->state != VC_FREE)
			break;
	}
	if (slot < 0)
		return -1;
	if ((uint32_t)slot >= vc->high)
		vc->high = (uint32_t)slot + 1;
	if (vc->holder == slot)
		return slot;
	vc->thread[slot] = (struct vc_thread){
		.pid = pid, .tid = tid, .rank = rank, .state = VC_OUTSIDE,
		.local_ns = vc->now_ns,
	};
	return slot;
}

int vc_join(struct vclock *vc, uint8_t rank)
{
	int slot;

	lock(vc);
	slot = claim(vc, getpid(), (pid_t)syscall(SYS_gettid), rank);
	unlock(vc);
	if (slot < 0)
		return -EUSERS;
	vc_clock = vc;
	my_slot = slot;
	if (vc->holder != slot)
		come_in(me());
	return 0;
}

int vc_reserve(void)
{
	struct vclock *vc = vc_clock;
	int slot;

	lock(vc);
	slot = claim(vc, getpid(), 0, 0);
	/* It is due from now on: its turn comes before time moves. */
	if (slot >= 0) {
		vc->thread[slot].local_ns = vc_now_ns();
		begin_wait(&vc->thread[slot], VC_BATON, vc->now_ns);
	}
	unlock(vc);
	return slot;
}

void vc_unreserve(int slot)
{
	vc_clock->thread[slot].state = VC_FREE;
}

void vc_enter(int slot)
{
	my_slot = slot;
	me()->tid = (int32_t)syscall(SYS_gettid);
	await_grant(me());
}

void vc_leave(void)
{
	int slot = my_slot;
	struct vclock *vc = vc_clock;

	if (!vc_takes_part())
		return;
	my_slot = -1;
	lock(vc);
	vc->thread[slot].state = VC_FREE;
	pass_on(vc);
}

void vc_child(void)
{
	struct vclock *vc = vc_clock;

	if (!vc)
		return;
	my_slot = -1;
	vc_clock = NULL;
	vc_join(vc, 0);
}

/* ---- onlookers ---- */

void vc_init(struct vclock *vc, bool hold)
{
	memset(vc, 0, sizeof(*vc));
	vc->is_virtual = 1;
	vc->holder = -1;
	vc->now_ns = VC_START_NS;
	vc->hold_ns = hold ? VC_START_NS : VC_NEVER;
}

/* A parked world may have somebody to run now. The lock is held before and not after. */
static void unpark(struct vclock *vc)
{
	if (vc->holder < 0)
		pass_on(vc);
	else
		unlock(vc);
}

bool vc_forget_dead(struct vclock *vc)
{
	bool any = false;

	lock(vc);
	for (uint32_t i = 0; i < vc->high; i++) {
		struct vc_thread *t = &vc->thread[i];

		if (t->state == VC_FREE || !is_gone(t->pid))
			continue;
		t->state = VC_FREE;
		any = true;
		if (vc->holder == (int)i)
			vc->holder = -1;
	}
	if (any)
		unpark(vc);
	else
		unlock(vc);
	return any;
}

void vc_poke(struct vclock *vc)
{
	lock(vc);
	make_card_due(vc, vc->now_ns);
	unpark(vc);
}

void vc_set_hold(struct vclock *vc, uint64_t hold_ns)
{
	lock(vc);
	vc->hold_ns = hold_ns > vc->now_ns ? hold_ns : vc->now_ns;
	unpark(vc);
}

uint64_t vc_run_until(struct vclock *vc, uint64_t hold_ns)
{
	vc_set_hold(vc, hold_ns);
	for (;;) {
		uint32_t seen = __atomic_load_n(&vc->parks, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&vc->holder, __ATOMIC_ACQUIRE) < 0)
			return vc->now_ns;
		futex_wait(&vc->parks, seen);
	}
}
