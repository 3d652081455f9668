/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* rules.h - what an application wishes to be, and what the operator lets it be. */
#ifndef JSTD_RULES_H
#define JSTD_RULES_H

#include "abi.h"
#include "conf.h"
#include "peer.h"

struct jstd_verdict {
	enum jst_class class;
	uint32_t weight_milli;
	const struct jstd_rule *rule; /* the one that fitted, or NULL; lives as the conf does */
	bool denied;
	bool bad_class; /* the wish was not understood, and ignored */
	bool bad_weight;
};

/* The first rule that fits wins over the wish, the wish over the default. Pure. */
void jstd_rules_judge(const struct jstd_conf *conf, const struct jstd_peer *peer,
		      const struct jst_msg_hello *hello, struct jstd_verdict *verdict);

#endif
