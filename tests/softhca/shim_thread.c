// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Threads and what they wait for of each other, on the virtual clock. Whoever would block takes
 * its turn in the scheduler: who holds a lock may be asleep for a virtual hour.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"
#include "shim.h"

#define MAX_JOINABLE 1024

/* ---- threads ---- */

struct start { void *(*run)(void *); void *arg; int slot; };

static pthread_key_t end_key;
static pthread_t ended[MAX_JOINABLE];
static unsigned int ends;

static void at_end(void *unused)
{
	(void)unused;
	ended[ends++ % MAX_JOINABLE] = pthread_self();
	vc_wake(getpid(), VC_JOIN);
	vc_leave();
}

void vc_threads_begin(void)
{
	pthread_key_create(&end_key, at_end);
	pthread_atfork(NULL, NULL, vc_child);
	atexit(vc_leave);
}

static void *run_thread(void *data)
{
	struct start s = *(struct start *)data;

	free(data);
	vc_enter(s.slot);
	pthread_setspecific(end_key, &end_key);
	return s.run(s.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	struct start *s;
	int rc;

	REAL(pthread_create);
	if (!vc_takes_part())
		return real(thread, attr, run, arg);
	s = malloc(sizeof(*s));
	if (!s)
		return EAGAIN;
	*s = (struct start){ run, arg, vc_reserve() };
	if (s->slot < 0) {
		free(s);
		return EAGAIN;
	}
	rc = real(thread, attr, run_thread, s);
	if (rc) {
		vc_unreserve(s->slot);
		free(s);
	}
	return rc;
}

static bool has_ended(pthread_t thread)
{
	for (unsigned int i = 0; i < MAX_JOINABLE && i < ends; i++)
		if (pthread_equal(ended[i], thread))
			return true;
	return false;
}

int pthread_join(pthread_t thread, void **value)
{
	REAL(pthread_join);
	while (vc_takes_part() && !has_ended(thread))
		vc_wait(VC_JOIN, VC_NEVER);
	for (unsigned int i = 0; i < MAX_JOINABLE; i++)
		if (vc_is_virtual() && i < ends && pthread_equal(ended[i], thread))
			ended[i] = 0;	/* the next thread may get the same number */
	return real(thread, value);
}

int sched_yield(void)
{
	REAL(sched_yield);
	if (!vc_takes_part())
		return real();
	vc_wait(VC_BATON, vc_read_ns());
	return 0;
}

/* ---- locks ---- */

static unsigned int lock_waiters;

int pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc;

	REAL(pthread_mutex_lock);
	if (!vc_takes_part())
		return real(m);
	while ((rc = pthread_mutex_trylock(m)) == EBUSY) {
		lock_waiters++;
		vc_wait(VC_LOCK, VC_NEVER);
		lock_waiters--;
	}
	return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	int rc;

	REAL(pthread_mutex_unlock);
	rc = real(m);
	if (vc_takes_part() && lock_waiters)
		vc_wake(getpid(), VC_LOCK);
	return rc;
}

/* ---- conditions ---- */

/* Who waits, first comes first. Only who has the baton touches the list. */
struct waiter {
	struct waiter *next;
	pthread_cond_t *cond;
	bool signaled;
};

static struct waiter *waiters;

static void wait_in_line(struct waiter *w)
{
	struct waiter **at = &waiters;

	while (*at)
		at = &(*at)->next;
	*at = w;
}

static void leave_line(struct waiter *w)
{
	struct waiter **at = &waiters;

	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
}

static int cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t due_ns)
{
	struct waiter w = { .cond = c };

	wait_in_line(&w);
	pthread_mutex_unlock(m);
	while (!w.signaled && vc_now_ns() < due_ns)
		vc_wait(VC_COND, due_ns);
	leave_line(&w);
	pthread_mutex_lock(m);
	return w.signaled ? 0 : ETIMEDOUT;
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	REAL(pthread_cond_wait);
	return vc_takes_part() ? cond_wait_until(c, m, VC_NEVER) : real(c, m);
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
	REAL(pthread_cond_timedwait);
	return vc_takes_part() ? cond_wait_until(c, m, hca_absolute_ns(t)) : real(c, m, t);
}

int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t id,
			   const struct timespec *t)
{
	REAL(pthread_cond_clockwait);
	return vc_takes_part() ? cond_wait_until(c, m, hca_absolute_ns(t)) : real(c, m, id, t);
}

static void signal_waiters(const pthread_cond_t *c, bool all)
{
	bool any = false;

	for (struct waiter *w = waiters; w && (all || !any); w = w->next)
		if (w->cond == c && !w->signaled)
			w->signaled = any = true;
	if (any)
		vc_wake(getpid(), VC_COND);
}

int pthread_cond_signal(pthread_cond_t *c)
{
	REAL(pthread_cond_signal);
	if (vc_takes_part())
		signal_waiters(c, false);
	return real(c);
}

int pthread_cond_broadcast(pthread_cond_t *c)
{
	REAL(pthread_cond_broadcast);
	if (vc_takes_part())
		signal_waiters(c, true);
	return real(c);
}

/* ---- semaphores ---- */

static int sem_wait_until(sem_t *s, uint64_t due_ns)
{
	while (sem_trywait(s)) {
		if (errno != EAGAIN)
			return -1;
		if (vc_now_ns() >= due_ns) {
			errno = ETIMEDOUT;
			return -1;
		}
		vc_wait(VC_LOCK, due_ns);
	}
	return 0;
}

int sem_wait(sem_t *s)
{
	REAL(sem_wait);
	return vc_takes_part() ? sem_wait_until(s, VC_NEVER) : real(s);
}

int sem_timedwait(sem_t *s, const struct timespec *t)
{
	REAL(sem_timedwait);
	return vc_takes_part() ? sem_wait_until(s, hca_absolute_ns(t)) : real(s, t);
}

/* It may lie in memory that other programs share. */
int sem_post(sem_t *s)
{
	int rc;

	REAL(sem_post);
	rc = real(s);
	if (vc_takes_part())
		vc_wake(0, VC_LOCK);
	return rc;
}

/* ---- other programs ---- */

#define OUTSIDE(type, name, params, args)	\
	type name params			\
	{					\
		type rc;			\
						\
		REAL(name);			\
		vc_outside_begin();		\
		rc = real args;			\
		vc_outside_end();		\
		return rc;			\
	}

OUTSIDE(pid_t, wait, (int *status), (status))
OUTSIDE(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
OUTSIDE(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage))
OUTSIDE(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage),
	(pid, status, options, usage))
OUTSIDE(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
	(type, id, info, options))
OUTSIDE(int, sigwait, (const sigset_t *set, int *sig), (set, sig))
OUTSIDE(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info), (set, info))
OUTSIDE(int, pause, (void), ())
