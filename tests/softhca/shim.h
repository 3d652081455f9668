/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the interposers share: the functions that they stand in front of. */
#ifndef SOFTHCA_SHIM_H
#define SOFTHCA_SHIM_H

#include <stdint.h>
#include <time.h>

#include "vclock.h"

#define NS_PER_S 1000000000ull

static inline uint64_t hca_ns(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NS_PER_S + (uint64_t)ts->tv_nsec;
}

static inline struct timespec hca_timespec(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
}

/*
 * A point in time on the world's clock. Whether it was meant on the clock of the day need not
 * be known: times of the day are large numbers.
 */
static inline uint64_t hca_absolute_ns(const struct timespec *ts)
{
	uint64_t ns = hca_ns(ts);

	return ns >= VC_EPOCH_NS ? ns - VC_EPOCH_NS + VC_START_NS : ns;
}

/* The next definition of @name behind this library; ends the program if there is none. */
void *hca_find_real(const char *name);

#define REAL(name) \
	static __typeof__(&name) real; \
	if (!real) \
		real = (__typeof__(&name))hca_find_real(#name)

/* trap.c: a signal that is not ours, to the handler that the application has for it */
struct sigaction;
void hca_pass_on(const struct sigaction *theirs, int sig, void *info, void *context);

/* shim_spin.c, shim_tsc.c */
void hca_spin_begin(void);
void hca_tsc_begin(void);

/* shim_io.c: before a call that may block on @fd, and after one that may wake others. */
void vc_before(int fd, short events);
void vc_after(int fd);

/* shim_timer.c: timers of this process that are due raise their signals. */
unsigned int vc_alarms(void);	/* how many have */

#endif
