// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* log.c - lines to stderr or syslog, and the counting of complaints. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"

#define LINE_BYTES 1024
#define COMPLAINTS_PER_PERIOD 5
#define PERIOD_NS 10000000000ull

static bool use_syslog;

static const char *const priority_names[] = {
	[LOG_EMERG] = "emergency", [LOG_ALERT] = "alert", [LOG_CRIT] = "critical",
	[LOG_ERR] = "error",	   [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
	[LOG_INFO] = "info",	   [LOG_DEBUG] = "debug",
};

void jstd_log_open(bool to_syslog)
{
	use_syslog = to_syslog;
	if (to_syslog)
		openlog("justitiad", LOG_PID, LOG_DAEMON);
}

static void emit(int priority, const char *line)
{
	if (use_syslog)
		syslog(priority, "%s", line);
	else
		fprintf(stderr, "justitiad: %s: %s\n", priority_names[priority & LOG_PRIMASK], line);
}

void jstd_log(int priority, const char *format, ...)
{
	int saved = errno;
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	emit(priority, line);
	errno = saved;
}

void jstd_complain(struct jstd_complaint *complaint, const char *format, ...)
{
	int saved = errno;
	uint64_t now_ns = jstd_now_ns();
	char line[LINE_BYTES];
	va_list args;

	if (!complaint->said || now_ns - complaint->since_ns >= PERIOD_NS) {
		complaint->since_ns = now_ns;
		complaint->said = 0;
	}
	if (complaint->said >= COMPLAINTS_PER_PERIOD) {
		complaint->withheld++;
		goto out;
	}
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (complaint->withheld)
		jstd_log(LOG_WARNING, "%s (and %u more like it before)", line, complaint->withheld);
	else
		jstd_log(LOG_WARNING, "%s", line);
	complaint->withheld = 0;
	complaint->said++;
out:
	errno = saved;
}

const char *jstd_quote(char *out, size_t out_bytes, const char *text, size_t n)
{
	static const char more[] = "...";
	size_t at = 0;

	for (size_t i = 0; i < n && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		if (at + sizeof("\\xff") + sizeof(more) > out_bytes) {
			memcpy(out + at, more, sizeof(more));
			return out;
		}
		if (c >= 0x20 && c < 0x7f && c != '\\')
			out[at++] = (char)c;
		else
			at += (size_t)sprintf(out + at, "\\x%02x", c);
	}
	out[at] = '\0';
	return out;
}
