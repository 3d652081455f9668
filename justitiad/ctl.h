/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* ctl.h - justitiactl: commands, and the document that they work on. */
#ifndef JSTD_CTL_H
#define JSTD_CTL_H

#include <json-c/json.h>
#include <stdbool.h>

struct jstd_ctl_options {
	const char *socket;
	bool json;
};

/* The daemon's status, or NULL after an error was printed. */
struct json_object *jstd_ctl_status_get(const char *socket_path);

/* Prints @status as a table for people. */
void jstd_ctl_status_print(struct json_object *status);

#endif
