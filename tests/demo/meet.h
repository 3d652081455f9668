/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * meet.h - the TCP connection on this machine by which two processes set up a
 * measurement. All functions print what went wrong on stderr.
 */
#ifndef T_MEET_H
#define T_MEET_H

#include <stddef.h>
#include <stdint.h>

/* Waits for one peer on 127.0.0.1, or goes to @host. A socket or a negative errno. */
int t_meet(const char *host, uint16_t port);

/* @bytes each way. 0 or a negative errno. */
int t_meet_exchange(int fd, const void *self, void *peer, size_t bytes);

/* One byte each way: both are past the step named @step. 0 or a negative errno. */
int t_meet_barrier(int fd, const char *step);

#endif
