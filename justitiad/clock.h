/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* clock.h - the one place where the daemon asks what time it is. */
#ifndef JSTD_CLOCK_H
#define JSTD_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, as in the tokens' due_ns. */
static inline uint64_t jstd_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

#endif
