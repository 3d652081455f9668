/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * log.h - one line per change of state, to stderr or to syslog.
 *
 * Priorities are those of <syslog.h>. errno is preserved.
 */
#ifndef JSTD_LOG_H
#define JSTD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <syslog.h>

void jstd_log_open(bool to_syslog);

void jstd_log(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * For what others can cause as often as they like: a few lines in each period,
 * the rest counted and told with the first line of a later one.
 */
struct jstd_complaint {
	uint64_t since_ns;
	unsigned int said;
	unsigned int withheld;
};

void jstd_complain(struct jstd_complaint *complaint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Text from outside, safe to print: what is not printable ASCII as \xNN. Stops
 * at a NUL or after @n bytes; marks with "..." what did not fit. Returns @out.
 */
const char *jstd_quote(char *out, size_t out_bytes, const char *text, size_t n);

#endif
