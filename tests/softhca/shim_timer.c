// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Timers of a program on the virtual clock: alarm(), setitimer(), timerfd. A timerfd is a
 * real one that is armed only when its virtual time has come, so that whoever polls it need
 * know nothing.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "hca.h"
#include "shim.h"

#define MAX_TIMERS 64

struct timer { int fd; uint64_t due_ns, every_ns; };	/* fd -1: the alarm */

static struct timer timers[MAX_TIMERS];		/* due_ns 0: not in use */
static unsigned int alarms;

unsigned int vc_alarms(void)
{
	return alarms;
}

static uint64_t earliest(void)
{
	uint64_t due = VC_NEVER;

	for (int i = 0; i < MAX_TIMERS; i++)
		if (timers[i].due_ns && timers[i].due_ns < due)
			due = timers[i].due_ns;
	return due;
}

static int real_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	REAL(timerfd_settime);
	return real(fd, flags, new, old);
}

static void go_off(struct timer *t)
{
	const struct itimerspec at_once = { .it_value.tv_nsec = 1 };

	t->due_ns = t->every_ns ? t->due_ns + t->every_ns : 0;
	if (t->fd < 0) {
		alarms++;
		kill(getpid(), SIGALRM);
	} else {
		real_settime(t->fd, 0, &at_once, NULL);
	}
}

static void look(void)
{
	uint64_t now = vc_now_ns();

	for (int i = 0; i < MAX_TIMERS; i++)
		if (timers[i].due_ns && timers[i].due_ns <= now)
			go_off(&timers[i]);
}

void vc_timers_begin(void)
{
	vc_process_due = earliest;
	vc_on_resume = look;
}

static struct timer *find(int fd)
{
	struct timer *unused = NULL;

	for (int i = 0; i < MAX_TIMERS; i++) {
		if (timers[i].due_ns && timers[i].fd == fd)
			return &timers[i];
		if (!timers[i].due_ns && !unused)
			unused = &timers[i];
	}
	return unused;
}

static int set(int fd, uint64_t due_ns, uint64_t every_ns, uint64_t *left_ns)
{
	struct timer *t = find(fd);
	uint64_t now = vc_now_ns();

	if (!t)
		return -ENOMEM;
	*left_ns = t->due_ns > now ? t->due_ns - now : 0;
	*t = (struct timer){ fd, due_ns, every_ns };
	return 0;
}

void vc_timers_forget(int fd)
{
	for (int i = 0; i < MAX_TIMERS; i++)
		if (timers[i].due_ns && timers[i].fd == fd)
			timers[i].due_ns = 0;
}

/* ---- alarm and interval timer ---- */

unsigned int alarm(unsigned int seconds)
{
	uint64_t left_ns = 0;

	REAL(alarm);
	if (!vc_is_virtual())
		return real(seconds);
	set(-1, seconds ? vc_now_ns() + seconds * NS_PER_S : 0, 0, &left_ns);
	return (unsigned int)((left_ns + NS_PER_S - 1) / NS_PER_S);
}

static uint64_t tv_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * NS_PER_S + (uint64_t)tv->tv_usec * 1000;
}

int setitimer(__itimer_which_t which, const struct itimerval *new, struct itimerval *old)
{
	uint64_t first, left_ns = 0;

	REAL(setitimer);
	if (!vc_is_virtual() || which != ITIMER_REAL)
		return real(which, new, old);
	first = tv_ns(&new->it_value);
	set(-1, first ? vc_now_ns() + first : 0, tv_ns(&new->it_interval), &left_ns);
	if (old)
		*old = (struct itimerval){ .it_value = {
			(time_t)(left_ns / NS_PER_S), (suseconds_t)(left_ns % NS_PER_S / 1000) } };
	return 0;
}

/* ---- timerfd ---- */

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	const struct itimerspec off = { { 0, 0 }, { 0, 0 } };
	uint64_t due, left_ns = 0;

	if (!vc_is_virtual())
		return real_settime(fd, flags, new, old);
	if (real_settime(fd, 0, &off, NULL))
		return -1;
	due = hca_ns(&new->it_value);
	if (due)
		due = flags & TFD_TIMER_ABSTIME ? hca_absolute_ns(&new->it_value) : vc_now_ns() + due;
	if (set(fd, due, hca_ns(&new->it_interval), &left_ns)) {
		errno = ENOMEM;
		return -1;
	}
	if (old)
		*old = (struct itimerspec){ .it_value = hca_timespec(left_ns) };
	look();
	return 0;
}
