/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * conf.h - what the operator decided: justitia.conf(5) as a plain struct.
 *
 * Everything in it was checked when it was read, against its own range and
 * against its neighbours, and is trusted from then on.
 */
#ifndef JSTD_CONF_H
#define JSTD_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/core.h"

#define JSTD_CONF_DEFAULT "/etc/justitia/justitia.conf"

/* Who a rule is about, and what it says of them. The first that fits decides. */
struct jstd_rule {
	char *name;
	char *executable; /* a glob for the whole path, or NULL: any */
	uid_t uid;
	uint32_t weight_milli;
	enum jst_class class;
	bool has_user;
	bool has_class;
	bool has_weight;
	bool deny;
};

struct jstd_conf {
	char *socket_path;
	struct jst_card card;
	uint64_t tick_ns;    /* the token clock looks at hunger this often */
	uint64_t horizon_ns; /* tokens are handed out at most so far ahead */
	uint32_t max_clients;
	bool realtime;
	bool has_admin_group;
	gid_t admin_gid;
	struct jstd_rule *rules;
	size_t n_rules;
};

/*
 * Reads the file at @path, or takes all defaults if it is NULL. 0, or a negative
 * errno; then @error says what is wrong and where, and @conf is untouched.
 */
int jstd_conf_load(struct jstd_conf *conf, const char *path, char *error, size_t error_bytes);
void jstd_conf_free(struct jstd_conf *conf);

#endif
